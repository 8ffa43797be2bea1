"""Samples on their way to a file: each is safe as soon as it is made, and a run that was stopped goes on.

While a run is under way its lines stand in OUT.partial; OUT appears when all is there. Another run of the same command
finds what is done and continues.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from minrisk.errors import InputError
from minrisk.formats import open_output, write_jsonl
from minrisk.generation.sources import Source


class Journal:
    """Lines of OUT.partial: the settings, then `{"position", "record"}` or `{"position", "received"}`, in any order."""

    def __init__(self, path: str | Path, settings: Mapping[str, object], restart: bool = False) -> None:
        self.path = Path(os.path.realpath(path))
        self.partial = self.path.with_name(f"{self.path.name}.partial")
        self._settings = dict(settings)
        self._offsets: dict[int, int] = {}
        self._received: dict[int, list[Any]] = {}
        if restart:
            self.partial.unlink(missing_ok=True)
        try:
            self._file: IO[bytes] = open(self.partial, "a+b")  # noqa: SIM115
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        empty = not self._offsets and not self._received
        self._file.close()
        if kind is not None and empty:
            self.partial.unlink(missing_ok=True)

    def __len__(self) -> int:
        """Records that are done."""
        return len(self._offsets)

    def __contains__(self, position: int) -> bool:
        return position in self._offsets

    def _read(self) -> None:
        """Take in what an earlier run has left; a last line that was cut off in the middle is dropped."""
        self._file.seek(0)
        offset, header = 0, None
        for line in self._file:
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                entry = None
            if entry is None:
                break
            if header is None:
                header = entry
                self._check(header)
            elif "record" in entry:
                self._offsets[entry["position"]] = offset
            else:
                self._received.setdefault(entry["position"], []).extend(entry["received"])
            offset += len(line)
        self._file.truncate(offset)
        if header is None:
            self._append({"settings": self._settings})

    def _check(self, header: Any) -> None:
        before = header.get("settings") if isinstance(header, dict) else None
        if not isinstance(before, dict):
            raise InputError(f"{self.partial}: is not what an unfinished run leaves; move it, or use --restart")
        wanted = json.loads(json.dumps(self._settings))
        differing = sorted(key for key in before.keys() | wanted if before.get(key) != wanted.get(key))
        if differing:
            raise InputError(
                f"{self.partial}: an unfinished run with other settings ({', '.join(differing)}); "
                "finish it with those, or begin again with --restart"
            )

    def _append(self, entry: Mapping[str, Any]) -> int:
        offset = self._file.seek(0, os.SEEK_END)
        write_jsonl([dict(entry)], self._file)
        self._file.flush()
        return offset

    def add(self, position: int, record: Mapping[str, Any]) -> None:
        """Keep a record that is done."""
        self._offsets[position] = self._append({"position": position, "record": record})
        self._received.pop(position, None)

    def receive(self, position: int, received: list[Any]) -> None:
        """Keep a part of what a record is made from."""
        self._append({"position": position, "received": received})
        self._received.setdefault(position, []).extend(received)

    def received(self, position: int) -> list[Any]:
        """The parts that have been kept of a record that is not done."""
        return list(self._received.get(position, []))

    def record(self, position: int) -> dict[str, Any]:
        """A record that is done."""
        self._file.seek(self._offsets[position])
        found: dict[str, Any] = json.loads(self._file.readline())["record"]
        return found

    def missing(self, sources: Iterable[Source]) -> Iterator[tuple[int, Source]]:
        """The sources that are not done, with their positions; those that are must be the same as before."""
        for position, source in enumerate(sources):
            if position not in self:
                yield position, source
                continue
            done = self.record(position)
            if (done.get("id"), done["source"]) != (source.id, source.text):
                raise InputError(
                    f"{self.partial}: an unfinished run over other sources (the one at line {position + 1} differs); "
                    "finish it with those, or begin again with --restart"
                )

    def finish(self, count: int) -> None:
        """Write `count` records to OUT in order, and drop the partial file."""
        with open_output(self.path) as file:
            write_jsonl((self.record(position) for position in range(count)), file)
        self._file.close()
        self.partial.unlink(missing_ok=True)
