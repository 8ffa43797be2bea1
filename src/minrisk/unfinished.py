"""The file of a run that is under way, OUT.partial: what is done is safe in it, and the same command goes on.

Each line is a JSON object; the first holds the settings of the run. OUT appears when all is done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from minrisk.errors import InputError, MinriskError
from minrisk.formats import json_line, replaceable
from minrisk.types import Segment

try:
    import fcntl
except ImportError:  # Windows: two runs of the same command are not kept apart there.
    fcntl = None  # type: ignore[assignment]


class Unfinished:
    """OUT.partial, of one run at a time: its lines are taken in again when it is opened, and appended to."""

    def __init__(self, path: str | Path, settings: Mapping[str, object], restart: bool = False) -> None:
        replaceable(path)  # It says so where no file can be.
        self.path = Path(os.path.realpath(path))
        self.partial = self.path.with_name(f"{self.path.name}.partial")
        with contextlib.ExitStack() as stack:
            try:
                # Written without a buffer, and read through one of another file, so that neither moves the other.
                self._out: IO[bytes] = stack.enter_context(open(self.partial, "ab", buffering=0))
                self._file: IO[bytes] = stack.enter_context(open(self.partial, "rb"))
            except OSError as error:
                raise InputError(f"{path}: cannot be written: {error.strerror}") from error
            self._lock()
            if restart:
                self._out.truncate(0)
            self._read(json.loads(json.dumps(settings)))
            self._close = stack.pop_all().close

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is not None and self.empty:
            self.drop()
        self._close()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to go on from."""
        return True

    def take(self, entry: Mapping[str, Any], offset: int, /) -> None:
        """Note a line that an earlier run has left."""

    def _lock(self) -> None:
        if fcntl is not None:
            try:
                fcntl.flock(self._out, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(f"{self.partial}: another run is writing it; wait for its end") from error

    def _read(self, settings: dict[str, Any]) -> None:
        """Take in what an earlier run has left; a last line that was cut off in the middle is dropped."""
        self._file.seek(0)
        offset, begun = 0, False
        for line in self._file:
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                entry = None
            if entry is None:
                break
            if begun:
                self.take(entry, offset)
            else:
                self._check(entry, settings)
                begun = True
            offset += len(line)
        if offset or self._file.seek(0, os.SEEK_END) == 0:
            self._out.truncate(offset)
        else:
            self._check(None, settings)
        if not begun:
            self.append({"settings": settings})

    def _check(self, header: Any, settings: dict[str, Any]) -> None:
        before = header.get("settings") if isinstance(header, dict) else None
        if not isinstance(before, dict):
            raise InputError(f"{self.partial}: is not what an unfinished run leaves; move it, or use --restart")
        differing = sorted(key for key in before.keys() | settings if before.get(key) != settings.get(key))
        if differing:
            raise InputError(
                f"{self.partial}: an unfinished run with other settings ({', '.join(differing)}); "
                "finish it with those, or begin again with --restart"
            )

    def append(self, entry: Mapping[str, Any]) -> int:
        """Add a line, whole or not at all; where it begins."""
        offset = os.fstat(self._out.fileno()).st_size
        data = json_line(entry)
        try:
            while data:
                data = data[self._out.write(data) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._out.truncate(offset)
            raise MinriskError(f"{self.partial}: cannot be written: {error.strerror}") from error
        return offset

    def entry(self, offset: int) -> Any:
        """The line that begins there."""
        self._file.seek(offset)
        return json.loads(self._file.readline())

    def drop(self) -> None:
        """Take the file away: nothing in it is needed any more."""
        self.partial.unlink(missing_ok=True)


class Decisions(Unfinished):
    """Records of decisions, in order, each with what tells its segment."""

    def __init__(self, path: str | Path, settings: Mapping[str, object], restart: bool = False) -> None:
        self.done = 0
        self._begin: int | None = None
        self._waiting: deque[str] = deque()
        super().__init__(path, settings, restart)

    @property
    def empty(self) -> bool:
        return self.done == 0

    def take(self, _: Mapping[str, Any], offset: int, /) -> None:
        self.done += 1
        self._begin = offset if self._begin is None else self._begin

    def missing(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """The segments that are not decided; those that are must be the same as before."""
        for segment in undecided(segments, self.told()):
            self.expect(telling(segment))
            yield segment

    def told(self) -> Iterator[str]:
        """What tells each segment that is decided, in order."""
        return (entry.get("segment", "") for entry in self._entries())

    def expect(self, told: str) -> None:
        """The record of the segment that this tells is to come."""
        self._waiting.append(told)

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep the record of the next segment that was missing."""
        offset = self.append({"segment": self._waiting.popleft(), "record": record})
        self._begin = offset if self._begin is None else self._begin
        self.done += 1

    def records(self) -> Iterator[dict[str, Any]]:
        """All records, in order."""
        for entry in self._entries():
            yield entry["record"]

    def _entries(self) -> Iterator[dict[str, Any]]:
        if self._begin is not None:
            self._file.seek(self._begin)
            for line in self._file:
                yield json.loads(line)


def undecided(segments: Iterable[Segment], told: Iterable[str]) -> Iterator[Segment]:
    """The segments after those that are told; these must be the first ones, in order."""
    source = iter(segments)
    for position, before in enumerate(told, 1):
        segment = next(source, None)
        if segment is None or telling(segment) != before:
            raise InputError(
                f"OUT.partial is of an unfinished run over other samples (segment {position} differs); "
                "finish it with those, or begin again with --restart"
            )
    return source


def telling(segment: Segment) -> str:
    """What tells a segment from any other."""
    return hashlib.blake2b(repr(segment).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
