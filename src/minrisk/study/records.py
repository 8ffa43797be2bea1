"""Records of a simulation: one row for each segment, trial, method and budget, written once.

A folder: `study.json` says what was run; `records/N128/00007.00250.npz` holds a shard, up to 50 trials of a segment,
with arrays (trials, runs), a run being a method on a budget:

    choice       the sample of the pool that was chosen
    calls        cells scored
    rank         place of full MBR's choice in the method's ranking, from 1
    expected     expected utility of the choice among the trial's samples, on the metric's own scale
    regret       by how much that falls short of full MBR's
    score.NAME   held-out score of the choice against the human reference

and `seconds`, the processor time that the shard took.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minrisk.errors import InputError
from minrisk.study.files import made_folder, read_arrays, read_json, write_arrays, write_json
from minrisk.types import FloatArray

BLOCK = 50


@dataclass(frozen=True, slots=True)
class Shard:
    """Some trials of one segment at one size."""

    size: int
    segment: int
    first: int
    last: int

    @property
    def cost(self) -> int:
        """About how long it takes, beside others: trials grow dearer with size, from a base of about 64."""
        return (self.last - self.first) * (64 + self.size)


@dataclass(frozen=True, slots=True)
class Records:
    """The records in a folder."""

    folder: Path
    about: dict[str, Any]

    @classmethod
    def create(cls, folder: str | Path, about: dict[str, Any]) -> Records:
        """A new folder, or one that holds records of the same study."""
        target = made_folder(folder)
        path = target / "study.json"
        if path.exists():
            found = read_json(path, "the description of a study")
            for part in ("signature", "runs", "metrics"):
                if found.get(part) != _plain(about[part]):
                    raise InputError(f"{target}: holds another study ({_difference(found, about, part)}); name another")
        write_json(path, about | {"complete": False})
        return cls(target, about)

    @classmethod
    def open(cls, folder: str | Path) -> Records:
        """The records of a study that has been run to its end."""
        about = read_json(Path(folder) / "study.json", "the description of a study (see `minrisk study simulate`)")
        if not about.get("complete"):
            raise InputError(f"{folder}: the study is not complete; run `minrisk study simulate` again to go on")
        return cls(Path(folder), about)

    def finish(self, sizes: tuple[int, ...], segments: list[int], trials: int) -> None:
        """Note what is complete."""
        self.about.update(sizes=list(sizes), segments=segments, trials=trials, complete=True)
        write_json(self.folder / "study.json", self.about)

    def has(self, shard: Shard) -> bool:
        """Whether the trials of a shard are there."""
        path = self._path(shard)
        return path.exists() and len(read_arrays(path, ["choice"])["choice"]) == shard.last - shard.first

    def write(self, shard: Shard, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        """Write one shard, whole."""
        path = self._path(shard)
        made_folder(path.parent)
        write_arrays(path, arrays)

    @property
    def runs(self) -> list[tuple[str, str]]:
        """The (method, budget) of each column."""
        return [(str(method), str(budget)) for method, budget in self.about["runs"]]

    @property
    def methods(self) -> list[str]:
        """In the order given; full MBR first."""
        return list(dict.fromkeys(method for method, _ in self.runs))

    @property
    def budgets(self) -> list[str]:
        """In the order given."""
        return [str(budget) for budget in self.about["budgets"]]

    @property
    def sizes(self) -> list[int]:
        """Samples drawn."""
        return [int(size) for size in self.about["sizes"]]

    @property
    def measures(self) -> list[str]:
        """What each choice is told by: its expected utility and the held-out metrics."""
        return ["expected", *(f"score.{metric}" for metric in self.about["metrics"])]

    def of_segments(self, size: int, names: list[str]) -> Iterator[dict[str, FloatArray]]:
        """Named arrays of each segment in turn: (trials, runs)."""
        trials = int(self.about["trials"])
        for segment in self.about["segments"]:
            shards = [read_arrays(path, names) for path in self._paths(size, segment, trials)]
            yield {
                name: np.concatenate([shard[name] for shard in shards])[:trials].astype(np.float64) for name in names
            }

    @property
    def seconds(self) -> float:
        """Processor time of all that was run, whatever interrupted it."""
        trials = int(self.about["trials"])
        paths = [
            path
            for size in self.sizes
            for segment in self.about["segments"]
            for path in self._paths(size, segment, trials)
        ]
        return float(sum(read_arrays(path, ["seconds"])["seconds"] for path in paths))

    def rows(self) -> Iterator[str]:
        """All records as CSV, a line at a time, for other tools."""
        names = ["choice", "calls", "rank", "regret", *self.measures]
        line = io.StringIO()
        writer = csv.writer(line, lineterminator="\n")
        writer.writerow(["size", "segment", "trial", "method", "budget", *names])
        for size in self.sizes:
            for segment, arrays in zip(self.about["segments"], self.of_segments(size, names), strict=True):
                for trial in range(int(self.about["trials"])):
                    for run, (method, budget) in enumerate(self.runs):
                        values = [f"{arrays[name][trial, run]:.7g}" for name in names]
                        writer.writerow([size, segment, trial, method, budget, *values])
                yield line.getvalue()
                line.seek(0)
                line.truncate()

    def _paths(self, size: int, segment: int, trials: int) -> list[Path]:
        """The shards of a segment."""
        return [self._path(Shard(size, segment, first, trials)) for first in range(0, trials, BLOCK)]

    def _path(self, shard: Shard) -> Path:
        return self.folder / "records" / f"N{shard.size}" / f"{shard.segment:05}.{shard.first:05}.npz"


def _plain(value: Any) -> Any:
    """As it comes back from JSON."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _difference(found: dict[str, Any], about: dict[str, Any], part: str) -> str:
    old, new = found.get(part), _plain(about[part])
    if isinstance(old, dict) and isinstance(new, dict):
        key = next(key for key in new if old.get(key) != new[key])
        return f"{key}: {old.get(key)}, now {new[key]}"
    return f"{part}: {old}, now {new}"
