"""What methods that drop candidates round by round share. Pure functions; higher is better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minrisk.numeric.estimation import is_self_pair, sampled_values, self_pair_values
from minrisk.types import TIE, BoolArray, Cells, FloatArray, IntArray, Problem


class Tally:
    """The cells scored so far, with their values."""

    def __init__(self) -> None:
        self._cells: list[Cells] = []
        self._values: list[FloatArray] = []

    def add(self, cells: Cells, values: FloatArray) -> None:
        """Note the values of a round."""
        self._cells.append(cells)
        self._values.append(values)

    @property
    def cells(self) -> Cells:
        """All cells so far."""
        return Cells(_joined([cells.rows for cells in self._cells]), _joined([cells.columns for cells in self._cells]))

    @property
    def values(self) -> FloatArray:
        """Their values."""
        return np.concatenate(self._values) if self._values else np.empty(0)

    def among(self, rows: IntArray) -> tuple[Cells, FloatArray]:
        """The cells of some rows, with their values."""
        cells, values = self.cells, self.values
        held = np.isin(cells.rows, rows)
        return Cells(cells.rows[held], cells.columns[held]), values[held]


def survivors_first(values: FloatArray, rounds: IntArray) -> FloatArray:
    """A preference that ranks by rounds survived, then by value; NaN where there is no value: (N,)."""
    order = np.lexsort((np.nan_to_num(values, nan=-np.inf), rounds))
    ordered, level = values[order], rounds[order]
    # Equal candidates stay equal, so that the earliest of them wins.
    precision = TIE * np.nanmax(np.abs(values), initial=0.0)
    rises = np.ones(len(values), dtype=np.bool_)
    rises[1:] = (level[1:] != level[:-1]) | ~(np.diff(ordered) <= precision)
    preference = np.empty(len(values))
    preference[order] = np.cumsum(rises)
    return np.where(np.isnan(values), np.nan, preference)


def staged(stages: Sequence[FloatArray]) -> FloatArray:
    """A preference by the last of several judgements that knows a candidate: each stage (N,), NaN where it does not."""
    latest, stage = stages[0].copy(), np.zeros(len(stages[0]), dtype=np.int64)
    for number, values in enumerate(stages[1:], 1):
        known = ~np.isnan(values)
        latest[known], stage[known] = values[known], number
    return survivors_first(latest, stage)


def bootstrap_wins(
    problem: Problem,
    rows: IntArray,
    columns: IntArray,
    tally: Tally,
    column_weights: FloatArray,
    draws: int,
    rng: np.random.Generator,
) -> tuple[int, FloatArray]:
    """The leader among `rows`, and how often each of them is at least as good as it in resampled columns.

    rows            candidates that have all of `columns` scored (but self-pairs that are known)
    column_weights  (K,) how much each column stands for
    Returns the leader's place in `rows` and the shares (len(rows),).

    Resampling r columns is a multinomial count for each, so B resamplings are one product with a (r, B) matrix. Where a
    candidate meets its own text, it has the value that its other cells predict; its self-pair counts with its weight.
    """
    cells, values = tally.among(rows)
    judged = ~is_self_pair(problem, cells)
    matrix = np.full(problem.shape, np.nan)
    matrix[cells.rows[judged], cells.columns[judged]] = values[judged]
    block = matrix[np.ix_(rows, columns)]
    column_means = np.nan_to_num(_nanmean(block, 0))
    row_effects = np.nan_to_num(_nanmean(block - column_means, 1))
    block = np.where(np.isnan(block), row_effects[:, None] + column_means, block)
    shares = column_weights[columns] / column_weights[columns].sum()
    counts = rng.multinomial(len(columns), shares, size=draws).T / len(columns)
    weight = np.where(problem.twins[rows] >= 0, problem.column_weights[problem.twins[rows]], 0.0)
    own = self_pair_values(problem, tally.cells, tally.values)[rows]
    means = block @ shares
    own = np.where(np.isnan(own), means, own)
    leader = int(np.argmax(means * (1 - weight) + own * weight))
    resampled = (block @ counts) * (1 - weight)[:, None] + (own * weight)[:, None]
    return leader, np.asarray((resampled >= resampled[leader]).mean(axis=1))


def value_all(problem: Problem, tally: Tally, stands_for: FloatArray) -> FloatArray:
    """Expected utility of every candidate from all cells so far: (N,)."""
    return sampled_values(problem, tally.cells, tally.values, stands_for)


def _nanmean(block: FloatArray, axis: int) -> FloatArray:
    known: BoolArray = ~np.isnan(block)
    count = known.sum(axis=axis)
    total = np.where(known, block, 0.0).sum(axis=axis)
    return np.asarray(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))


def _joined(parts: Sequence[IntArray]) -> IntArray:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
