"""S x S: a random subset of the samples as candidates and pseudo-references."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.numeric.estimation import sampled_values
from minrisk.numeric.sampling import block, draw
from minrisk.types import Estimate, IntArray, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """Full MBR among S random samples, S^2 being the budget (SxS).

    A baseline of Trabelsi et al. 2024. Nothing is known about the candidates that are not drawn. With separate
    pseudo-references, both lists shrink by the same factor.
    """

    kind: ClassVar[str] = "sampling"

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        row_count, column_count = _sides(problem)
        columns, stands_for = draw(problem.column_weights, column_count, rng)
        rows = _rows_of(problem, columns)
        if len(rows) != row_count:
            rows = draw(problem.row_weights, row_count, rng)[0]
        cells = block(problem, rows, columns)
        values = yield cells
        return Estimate(values=sampled_values(problem, cells, values, stands_for))


def _sides(problem: Problem) -> tuple[int, int]:
    """Rows and columns of the sub-matrix: both sides shrink by the same factor, within the budget."""
    rows, columns = problem.shape
    if rows == columns:
        side = math.isqrt(problem.budget)
        return side, side
    row_count = max(1, int(rows * math.sqrt(problem.budget / problem.size)))
    return row_count, min(columns, problem.budget // row_count)


def _rows_of(problem: Problem, columns: IntArray) -> IntArray:
    """The candidates whose own texts are in these columns."""
    return np.flatnonzero(np.isin(problem.twins, columns))
