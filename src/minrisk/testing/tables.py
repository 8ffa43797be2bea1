"""Made-up segments with known values, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from minrisk.types import Cells, FloatArray, Folded, Problem, Segment
from minrisk.utilities.table import Table


def random_table(rows: int, columns: int, rng: np.random.Generator, rank: int = 2) -> FloatArray:
    """Values like a metric's: row quality, column severity, something low-rank, a little noise: (rows, columns)."""
    quality, severity = rng.normal(size=(rows, 1)), rng.normal(size=(1, columns))
    shared = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns)) / np.sqrt(rank)
    return np.asarray(60 + 8 * quality + 8 * severity + 4 * shared + rng.normal(size=(rows, columns)))


def random_segments(
    count: int, rng: np.random.Generator, size: int = 24, distinct: int = 16, separate: bool = False
) -> tuple[list[Segment], dict[str, FloatArray]]:
    """Segments of `size` hypotheses, `distinct` of them different, and a table for each: equal texts, equal values."""
    segments, tables = [], {}
    for number in range(count):
        rows = np.concatenate((np.arange(distinct), rng.integers(distinct, size=size - distinct)))
        rng.shuffle(rows)
        columns = np.concatenate((np.arange(distinct), rng.integers(distinct, size=3))) if separate else rows
        table = random_table(distinct, distinct, rng)
        if not separate:
            np.fill_diagonal(table, 100.0)
        name = f"segment {number}"
        segments.append(
            Segment(
                id=name,
                hypotheses=[f"text {row}" for row in rows],
                pseudo_references=[f"reference {column}" for column in columns] if separate else None,
                logprobs=[-1.0 - row for row in rows],
                pseudo_reference_logprobs=[-0.3 * column for column in columns] if separate else None,
                scores=[float(row % 7) for row in rows],
            )
        )
        tables[name] = table[np.ix_(rows, columns)]
    return segments, tables


@dataclass(frozen=True, eq=False)
class recorded(Table):  # noqa: N801
    """A table that notes what it is asked: `asked` holds (segment id, rows, columns), `folded` (id, rows, groups)."""

    name: ClassVar[str] = "recorded"
    asked: list[tuple[str, Sequence[int], Sequence[int]]] = field(default_factory=list, repr=False)
    folded: list[tuple[str, Sequence[int], int]] = field(default_factory=list, repr=False)

    def answer(self, problem: Problem, cells: Cells) -> FloatArray:
        """As `Table`, noting the cells."""
        self.asked.append((problem.id, cells.rows.tolist(), cells.columns.tolist()))
        return super().answer(problem, cells)

    def answer_folded(self, problem: Problem, folded: Folded) -> FloatArray:
        """As `Table`, noting how many values were asked for."""
        self.folded.append((problem.id, folded.rows.tolist(), len(folded.weights)))
        return super().answer_folded(problem, folded)
