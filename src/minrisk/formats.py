"""Samples in: JSON Lines, flat text, Parquet, gzipped or not. Decisions out: whole or not at all."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any, Literal, cast

from minrisk.errors import InputError, MissingExtraError
from minrisk.types import Decision, Segment

Format = Literal["jsonl", "text", "parquet"]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """How flat text files hold segments: N lines each, and other files beside them with lines to match."""

    num_candidates: int | None = None
    sources: str | None = None
    references: str | None = None
    logprobs: str | None = None
    pseudo_references: str | None = None
    num_pseudo_references: int | None = None


def read_segments(
    path: str | Path,
    format: Format | None = None,
    layout: TextLayout | None = None,
    on_open: Callable[[Input], None] | None = None,
) -> Iterator[Segment]:
    """The segments of a file, one at a time; "-" is standard input. Errors name the file and the line.

    format   "jsonl", "text" or "parquet"; by default what the name ends in, JSON Lines if that tells nothing
    layout   for flat text: how many lines make a segment, and the files that go with them
    on_open  is given the `Input`, to follow how much of it has been read
    """
    layout = layout or TextLayout()
    format = format or _format_of(str(path), layout)
    if format != "text" and layout != TextLayout():
        raise InputError(f"{path}: `num_candidates`, `sources` and the like go with flat text, not with {format}")
    readers: dict[str, Callable[[Input], Iterator[Segment]]] = {
        "jsonl": _read_jsonl,
        "text": partial(_read_text, layout),
        "parquet": _read_parquet,
    }
    empty = True
    with Input(path) as source:
        if on_open is not None:
            on_open(source)
        for segment in readers[format](source):
            empty = False
            yield segment
    if empty:
        raise InputError(f"{source.name}: no segments; the file is empty")


class Input:
    """A file opened for reading: bytes as they are or gzipped, by lines, with its share read so far."""

    def __init__(self, path: str | Path) -> None:
        self.name = "standard input" if str(path) == "-" else str(path)
        try:
            self._raw: IO[bytes] = sys.stdin.buffer if str(path) == "-" else open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error
        self._size = os.fstat(self._raw.fileno()).st_size if str(path) != "-" else 0
        peekable = self._raw if isinstance(self._raw, io.BufferedReader) else io.BufferedReader(cast(Any, self._raw))
        self.file: IO[bytes] = peekable
        try:
            if peekable.peek(2)[:2] == b"\x1f\x8b":
                self.file = cast(IO[bytes], gzip.GzipFile(fileobj=peekable))
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *_: object) -> None:
        if self._raw is not sys.stdin.buffer:
            self._raw.close()

    @property
    def share(self) -> float | None:
        """How much has been read, 0 to 1; None where that cannot be known."""
        return self._raw.tell() / self._size if self._size else None

    def lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines without their ends; only LF and CRLF end a line: texts may hold any other character."""
        number = 0
        try:
            for number, line in enumerate(self.file, 1):
                yield number, self._decoded(line.removesuffix(b"\n").removesuffix(b"\r"), number)
        except (OSError, EOFError) as error:
            raise InputError(f"{self.name}: damaged after line {number}: {error}") from error

    def _decoded(self, line: bytes, number: int) -> str:
        if number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError(f"{self.name}: is UTF-16; save it as UTF-8")
        try:
            return (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name}, line {number}: not UTF-8 at byte {error.start + 1}") from error


def _format_of(path: str, layout: TextLayout) -> Format:
    suffixes = Path(path.removesuffix(".gz")).suffixes[-1:]
    if suffixes == [".parquet"]:
        return "parquet"
    return "text" if suffixes == [".txt"] or layout.num_candidates is not None else "jsonl"


def _read_jsonl(source: Input) -> Iterator[Segment]:
    for number, line in source.lines():
        if not line.strip():
            continue
        try:
            record = json.loads(line, strict=False)
        except json.JSONDecodeError as error:
            place = f"{source.name}, line {number}"
            raise InputError(f"{place}: not JSON: {error.msg} at character {error.pos + 1}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{source.name}, line {number}: not JSON: {error}") from error
        yield _placed(record, f"{source.name}, line {number}")


def _read_parquet(source: Input) -> Iterator[Segment]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError("reading Parquet", "parquet") from error
    try:
        # Parquet is read from its end, so a pipe has to be held in memory.
        file = parquet.ParquetFile(source.file if source.share is not None else io.BytesIO(source.file.read()))
        row = 0
        for batch in file.iter_batches(batch_size=64):
            for record in batch.to_pylist():
                row += 1
                yield _placed(record, f"{source.name}, row {row}")
    except arrow.ArrowException as error:
        raise InputError(f"{source.name}: not Parquet: {error}") from error


def _read_text(layout: TextLayout, source: Input) -> Iterator[Segment]:
    size = layout.num_candidates
    if size is None or size < 1:
        raise InputError(f"{source.name}: flat text needs the number of lines of a segment (--num-candidates N)")
    if (layout.pseudo_references is None) != (layout.num_pseudo_references is None):
        raise InputError("a file of pseudo-references and --num-pseudo-references go together")
    with ExitStack() as stack:
        beside = partial(_opened_beside, stack)
        given: dict[str, Iterator[Any]] = {"hypotheses": _groups(source, size)}
        if layout.sources is not None:
            given["source"] = _singles(beside(layout.sources))
        if layout.references is not None:
            given["reference"] = _singles(beside(layout.references))
        if layout.logprobs is not None:
            given["logprobs"] = _numbers(beside(layout.logprobs), size)
        if layout.pseudo_references is not None:
            given["pseudo_references"] = _groups(beside(layout.pseudo_references), layout.num_pseudo_references or 1)
        for position, values in enumerate(zip_longest(*given.values())):
            record = dict(zip(given, values, strict=True))
            short = next((name for name, value in record.items() if value is None), None)
            if short is not None:
                raise InputError(
                    f"{source.name}: the files do not match: no {short} for segment {position + 1} "
                    f"({size} lines of hypotheses make a segment)"
                )
            yield Segment.of(record)


def _opened_beside(stack: ExitStack, path: str) -> Input:
    return stack.enter_context(Input(path))


def _groups(source: Input, size: int) -> Iterator[list[str]]:
    lines = source.lines()
    while group := list(islice(lines, size)):
        if len(group) < size:
            raise InputError(
                f"{source.name}, line {group[-1][0]}: the last segment has {len(group)} lines, "
                f"{size} were expected: is the number of lines of a segment right?"
            )
        yield [line for _, line in group]


def _singles(source: Input) -> Iterator[str]:
    return (line for _, line in source.lines())


def _numbers(source: Input, size: int) -> Iterator[list[float]]:
    for position, group in enumerate(_groups(source, size)):
        try:
            yield [float(line) for line in group]
        except ValueError as error:
            raise InputError(f"{source.name}, segment {position + 1}: {error}") from error


def _placed(record: Any, place: str) -> Segment:
    try:
        return Segment.of(record)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def record_of(decision: Decision, nbest: int = 0) -> dict[str, Any]:
    """A decision as a line of output."""
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
            for choice in decision.nbest(nbest)
        ]
    return record


def write_jsonl(records: Iterable[dict[str, Any]], file: IO[bytes]) -> None:
    """One JSON object a line, UTF-8; a lone surrogate is written as its JSON escape."""
    for record in records:
        file.write(json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n")


def write_text(texts: Iterable[str], file: IO[bytes]) -> None:
    r"""One text a line; a line break inside of a text is written as `\n`, so that lines and segments stay in step."""
    for text in texts:
        line = text.replace("\r", "\\r").replace("\n", "\\n")
        file.write(line.encode("utf-8", "surrogatepass") + b"\n")


@contextmanager
def open_output(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name when all is written, and not at all otherwise; "-" is standard output."""
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with _opened(target, "wb") as device:
            yield device
        return
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with _opened(unfinished, "xb") as raw:
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


def _opened(path: Path, mode: str) -> IO[bytes]:
    try:
        return cast(IO[bytes], open(path, mode))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def _number(value: float) -> float | None:
    return None if value != value else value
