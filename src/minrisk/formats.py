"""Samples in: JSON Lines, flat text, Parquet, gzipped or not. Decisions out: whole or not at all."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any, Literal, cast, get_args

from minrisk.errors import InputError, MissingExtraError, unknown_name
from minrisk.types import Choice, Decision, Segment

Format = Literal["jsonl", "text", "parquet"]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
NOT_READ = {
    b"\x28\xb5\x2f\xfd": ("compressed with Zstandard", "zstdcat"),
    b"BZh91AY&SY": ("compressed with bzip2", "bzcat"),
    b"\xfd7zXZ": ("compressed with xz", "xzcat"),
    b"PK\x03\x04": ("a zip archive", "unzip -p"),
}
ROWS_PER_GROUP = 4096
DAMAGE = (OSError, EOFError, zlib.error)
"""What reading a file may raise, gzip's three ways included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """How flat text files hold segments: N lines each, and other files beside them with lines to match."""

    num_candidates: int | None = None
    sources: str | None = None
    references: str | None = None
    logprobs: str | None = None
    pseudo_references: str | None = None
    num_pseudo_references: int | None = None

    @property
    def files(self) -> list[str]:
        """The files beside the one with the hypotheses."""
        given = (self.sources, self.references, self.logprobs, self.pseudo_references)
        return [path for path in given if path is not None]


def read_segments(
    path: str | Path,
    format: Format | None = None,
    layout: TextLayout | None = None,
    on_open: Callable[[Input], None] | None = None,
    stream: io.BufferedReader | None = None,
) -> Iterator[Segment]:
    """The segments of a file, one at a time; "-" is standard input. Errors name the file and the line.

    format   "jsonl", "text" or "parquet"; by default what name and content tell, JSON Lines if they tell nothing
    layout   for flat text: how many lines make a segment, and the files that go with them
    on_open  is given the `Input`, to follow how much of it has been read
    stream   what to read if it is not a file of this machine that the path names; it must be able to seek
    """
    layout = layout or TextLayout()
    if format is not None and format not in get_args(Format):
        raise unknown_name("format", format, get_args(Format))
    if [str(path), *layout.files].count("-") > 1:
        raise InputError("standard input (-) can be read only once")
    readers: dict[Format, Callable[[Input], Iterator[Segment]]] = {
        "jsonl": _read_jsonl,
        "text": partial(_read_text, layout),
        "parquet": _read_parquet,
    }
    with Input(path, stream) as source:
        format = format or _format_of(source, layout)
        if format != "text" and layout != TextLayout():
            raise InputError(
                f"{source.name}: is read as {format}; `num_candidates`, `sources` and the like go with flat text"
            )
        if on_open is not None:
            on_open(source)
        segment = None
        for segment in readers[format](source):
            yield segment
    if segment is None:
        raise InputError(f"{source.name}: no segments; the file is empty")


class Input:
    """A file opened for reading: bytes as they are or gzipped, by lines, with its share read so far."""

    def __init__(self, path: str | Path, stream: io.BufferedReader | None = None) -> None:
        standard = str(path) == "-"
        self.name = "standard input" if standard else str(path)
        if standard and sys.stdin is None:
            raise InputError("standard input: is closed")
        try:
            self._raw = cast(io.BufferedReader, stream or (sys.stdin.buffer if standard else open(path, "rb")))  # noqa: SIM115
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error
        self._owned = not (standard or stream)
        self._share: float | None = None
        try:
            self._size = _size(self._raw) if stream is None else stream.seek(0, os.SEEK_END) - stream.seek(0)
            self.start = bytes(self._raw.peek(16)[:16])
            self._check_start()
        except OSError as error:
            self.__exit__()
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error
        except InputError:
            self.__exit__()
            raise
        packed = self.start.startswith(GZIP)
        self.file = cast(IO[bytes], gzip.GzipFile(fileobj=self._raw) if packed else self._raw)

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *_: object) -> None:
        if self._owned:
            self._raw.close()

    def _check_start(self) -> None:
        for magic, (what, tool) in NOT_READ.items():
            if self.start.startswith(magic):
                raise InputError(f"{self.name}: is {what}; unpack it, as in: {tool} {self.name} | minrisk decode -")
        if self.start.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(f"{self.name}: is UTF-16; save it as UTF-8")

    @property
    def seekable(self) -> bool:
        """Whether this is a file proper, not a pipe."""
        return self._size > 0

    @property
    def share(self) -> float | None:
        """How much has been read, 0 to 1; None where that cannot be known."""
        if self._share is not None or not self._size:
            return self._share
        return 1.0 if self._raw.closed else min(1.0, self._raw.tell() / self._size)

    @share.setter
    def share(self, share: float) -> None:
        self._share = share

    def lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines without their ends; only LF and CRLF end a line: texts may hold any other character."""
        number = 0
        try:
            for number, line in enumerate(self.file, 1):
                yield number, self._decoded(line.removesuffix(b"\n").removesuffix(b"\r"), number)
        except DAMAGE as error:
            raise InputError(f"{self.name}: damaged after line {number}: {error}") from error

    def _decoded(self, line: bytes, number: int) -> str:
        try:
            return (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name}, line {number}: not UTF-8 at byte {error.start + 1}") from error


def _size(file: io.BufferedReader) -> int:
    """Bytes of a regular file; 0 of anything else, such as a pipe."""
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _format_of(source: Input, layout: TextLayout) -> Format:
    suffix = Path(source.name.lower().removesuffix(".gz")).suffix
    if suffix == ".parquet" or source.start.startswith(PARQUET):
        return "parquet"
    if suffix in (".jsonl", ".json", ".ndjson"):
        return "jsonl"
    return "text" if suffix == ".txt" or layout.num_candidates is not None else "jsonl"


def _read_jsonl(source: Input) -> Iterator[Segment]:
    first = True
    for number, line in source.lines():
        if not line.strip():
            continue
        place = f"{source.name}, line {number}"
        hint = _hint(line) if first else ""
        first = False
        try:
            record = json.loads(line, strict=False)
        except json.JSONDecodeError as error:
            raise InputError(f"{place}: not JSON: {error.msg} at character {error.pos + 1}{hint}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{place}: not JSON that can be read: {error}") from error
        yield _placed(record, place, hint)


def _hint(line: str) -> str:
    """What the first line of a file says that is no JSON Lines."""
    if line.lstrip().startswith("["):
        return "; JSON Lines holds one object a line, and `jq -c '.[]' FILE` turns an array into that"
    if line.strip() == "{":
        return "; JSON Lines holds one object a line, and `jq -c . FILE` writes indented JSON so"
    if not line.lstrip().startswith("{"):
        return "; if this is flat text, say how many lines make a segment (--num-candidates N)"
    return ""


def _read_parquet(source: Input) -> Iterator[Segment]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError("reading Parquet", "parquet") from error
    row = 0
    try:
        # Parquet is read from its end, so a pipe has to be held in memory.
        file = parquet.ParquetFile(source.file if source.seekable else io.BytesIO(source.file.read()))
        # Other columns may be of any size, and of types that Python has not.
        known = [field.name for field in fields(Segment) if field.name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=64, columns=known if "hypotheses" in known else None):
            for record in batch.to_pylist():
                row += 1
                source.share = row / file.metadata.num_rows
                yield _placed(record, f"{source.name}, row {row}")
    except UnicodeDecodeError as error:
        raise InputError(f"{source.name}, after row {row}: not UTF-8: {error.reason}") from error
    except (arrow.ArrowException, *DAMAGE) as error:
        what = f"damaged after row {row}" if row else "not Parquet"
        raise InputError(f"{source.name}: {what}: {' '.join(str(error).split())}") from error


def _read_text(layout: TextLayout, source: Input) -> Iterator[Segment]:
    size = layout.num_candidates
    if size is None or size < 1:
        raise InputError(
            f"{source.name}: flat text needs the number of lines that make a segment, at least 1 (--num-candidates N)"
        )
    if (layout.pseudo_references is None) != (layout.num_pseudo_references is None):
        raise InputError(
            "a file of pseudo-references and the number of its lines that make a segment go together "
            "(--pseudo-references FILE --num-pseudo-references K)"
        )
    with ExitStack() as stack:
        given: dict[str, tuple[Input, int]] = {"hypotheses": (source, size)}
        for name, path, count in (
            ("source", layout.sources, 1),
            ("reference", layout.references, 1),
            ("logprobs", layout.logprobs, size),
            ("pseudo_references", layout.pseudo_references, layout.num_pseudo_references or 1),
        ):
            if path is not None:
                given[name] = stack.enter_context(Input(path)), count
        groups = (_groups(file, count) for file, count in given.values())
        for position, values in enumerate(zip_longest(*groups)):
            record: dict[str, Any] = dict(zip(given, values, strict=True))
            short = next((given[name][0].name for name in record if record[name] is None), None)
            if short is not None:
                longer = next(given[name][0].name for name in record if record[name] is not None)
                raise InputError(
                    f"the files do not match: {short} ends after {position} segments, {longer} goes on "
                    f"({size} lines of {source.name} make a segment)"
                )
            for name in record.keys() & {"source", "reference"}:
                record[name] = record[name][0]
            if "logprobs" in record:
                record["logprobs"] = _numbers(record["logprobs"], given["logprobs"][0].name, position * size)
            yield _placed(record, f"{source.name}, line {position * size + 1}")


def _groups(source: Input, size: int) -> Iterator[list[str]]:
    lines = source.lines()
    while group := list(islice(lines, size)):
        if len(group) < size:
            raise InputError(
                f"{source.name}, line {group[-1][0]}: the last segment has {len(group)} lines, "
                f"{size} were expected: is the number of lines of a segment right?"
            )
        yield [line for _, line in group]


def _numbers(lines: list[str], name: str, before: int) -> list[float]:
    numbers = []
    for number, line in enumerate(lines, before + 1):
        try:
            numbers.append(float(line))
        except ValueError as error:
            raise InputError(f"{name}, line {number}: {error}") from error
    return numbers


def _placed(record: Any, place: str, hint: str = "") -> Segment:
    try:
        return Segment.of(record)
    except InputError as error:
        raise InputError(f"{place}: {error}{'' if isinstance(record, dict) else hint}") from error
    except (OverflowError, RecursionError, TypeError) as error:
        raise InputError(f"{place}: is no segment: {error}") from error


def record_of(decision: Decision, nbest: int | Sequence[Choice] = 0) -> dict[str, Any]:
    """A decision as a line of output, with the `nbest` best texts or those given."""
    record: dict[str, Any] = {
        "id": decision.id,
        "selected": decision.text,
        "index": decision.index,
        "utility": _number(decision.utility),
        "calls": decision.calls,
        "cells": decision.cells,
    }
    if nbest:
        record["nbest"] = [
            {"text": choice.text, "index": choice.index, "utility": _number(choice.utility)}
            for choice in (decision.nbest(nbest) if isinstance(nbest, int) else nbest)
        ]
    return record


def write_jsonl(records: Iterable[dict[str, Any]], file: IO[bytes]) -> None:
    """One JSON object a line, UTF-8."""
    for record in records:
        file.write(json_line(record))


def json_line(record: Mapping[str, Any]) -> bytes:
    """An object as a line of JSON; a lone surrogate is written as its JSON escape."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"


def write_text(texts: Iterable[str], file: IO[bytes]) -> None:
    r"""One text a line; a line break inside of a text is written as `\n`, so that lines and segments stay in step."""
    for text in texts:
        line = text.replace("\r", "\\r").replace("\n", "\\n")
        file.write(line.encode("utf-8", "surrogatepass") + b"\n")


def decisions_table(records: Iterable[dict[str, Any]], nbest: bool) -> Any:
    """Records as a table of Arrow."""
    try:
        import pyarrow as arrow
    except ImportError as error:
        raise MissingExtraError("writing Parquet", "parquet") from error
    number, text = arrow.int64(), arrow.string()
    choices = arrow.list_(arrow.struct([("text", text), ("index", number), ("utility", arrow.float64())]))
    columns = [("id", text), ("selected", text), ("index", number), ("utility", arrow.float64())]
    columns += [("calls", number), ("cells", number), *([("nbest", choices)] if nbest else [])]
    try:
        return arrow.Table.from_pylist(list(records), schema=arrow.schema(columns))
    except UnicodeEncodeError as error:
        raise InputError(f"Parquet cannot hold a lone surrogate, as in {error.object[:40]!r}; write .jsonl") from error


def write_parquet(records: Iterable[dict[str, Any]], file: IO[bytes], nbest: bool) -> None:
    """Rows with a column for each name."""
    source = iter(records)
    first = decisions_table(islice(source, ROWS_PER_GROUP), nbest)
    from pyarrow.parquet import ParquetWriter

    with ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        while (table := decisions_table(islice(source, ROWS_PER_GROUP), nbest)).num_rows:
            writer.write_table(table)


@contextmanager
def open_output(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name when all is written, and not at all otherwise; "-" is standard output."""
    if str(path) == "-":
        if sys.stdout is None:
            raise InputError("standard output: is closed")
        output = sys.stdout.buffer
        yield output
        output.flush()
        return
    if not replaceable(path):
        with _opened(Path(path), "wb", path) as device:
            yield device
        return
    target = Path(os.path.realpath(path))
    unfinished = target.with_name(f".{target.name[:40]}.{os.urandom(4).hex()}.partial")
    raw = _opened(unfinished, "xb", path)
    try:
        with raw:
            if target.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def replaceable(path: str | Path) -> bool:
    """Whether this is a regular file or none yet; not a device, nor a pipe such as /dev/stdout or `>(...)` may be."""
    if not str(path):
        raise InputError("the output needs a name, got an empty one")
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def _opened(path: Path, mode: str, given: str | Path) -> IO[bytes]:
    try:
        return cast(IO[bytes], open(path, mode))
    except OSError as error:
        raise InputError(f"{given}: cannot be written: {error.strerror}") from error


def _number(value: float) -> float | None:
    return None if value != value else value
