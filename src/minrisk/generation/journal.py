"""Samples on their way to a file: each is safe as soon as it is made, and a run that was stopped goes on.

While a run is under way its lines stand in OUT.partial; OUT appears when all is there. Another run of the same command
finds what is done and continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from minrisk.errors import InputError
from minrisk.formats import open_output, write_jsonl
from minrisk.generation.sources import Source
from minrisk.unfinished import Unfinished


class Journal(Unfinished):
    """Lines of OUT.partial: the settings, then `{"position", "record"}` or `{"position", "received"}`, in any order."""

    def __init__(self, path: str | Path, settings: Mapping[str, object], restart: bool = False) -> None:
        self._offsets: dict[int, int] = {}
        self._received: dict[int, list[Any]] = {}
        super().__init__(path, settings, restart)

    @property
    def empty(self) -> bool:
        return not self._offsets and not self._received

    def __len__(self) -> int:
        """Records that are done."""
        return len(self._offsets)

    def __contains__(self, position: int) -> bool:
        return position in self._offsets

    def take(self, entry: Mapping[str, Any], offset: int, /) -> None:
        if "record" in entry:
            self._offsets[entry["position"]] = offset
        else:
            self._received.setdefault(entry["position"], []).extend(entry["received"])

    def add(self, position: int, record: Mapping[str, Any]) -> None:
        """Keep a record that is done."""
        self._offsets[position] = self.append({"position": position, "record": record})
        self._received.pop(position, None)

    def receive(self, position: int, received: list[Any]) -> None:
        """Keep a part of what a record is made from."""
        self.append({"position": position, "received": received})
        self._received.setdefault(position, []).extend(received)

    def received(self, position: int) -> list[Any]:
        """The parts that have been kept of a record that is not done."""
        return list(self._received.get(position, []))

    def record(self, position: int) -> dict[str, Any]:
        """A record that is done."""
        found: dict[str, Any] = self.entry(self._offsets[position])["record"]
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
        self.drop()
