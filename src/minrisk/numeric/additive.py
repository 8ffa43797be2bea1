"""The additive model: a row effect plus a column effect."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minrisk.numeric.sparse import Completion, Observed, check_at_least, check_count
from minrisk.types import FloatArray


class Effects(NamedTuple):
    """A matrix of the form intercept + rows[:, None] + columns[None, :]."""

    intercept: float
    rows: FloatArray
    columns: FloatArray
    iterations: int
    converged: bool

    @property
    def matrix(self) -> FloatArray:
        """(N, K)."""
        return np.asarray(self.intercept + self.rows[:, None] + self.columns[None, :])


def additive(
    observed: Observed,
    rng: np.random.Generator,  # noqa: ARG001 -- nothing here is random
    *,
    row_regularization: float = 3.0,
    column_regularization: float = 3.0,
    iterations: int = 1000,
    tolerance: float = 1e-8,
) -> Completion:
    """An intercept, a row and a column effect for every cell, the effects shrunk towards zero.

        min over c, a, b of  sum over observed (i, j) of w_ij (m_ij - c - a_i - b_j)^2
                             + row_reg |a|^2 + column_reg |b|^2

    The three are solved for in turn until none moves by more than `tolerance` times the values' standard deviation.
    """
    check_at_least("row_regularization", row_regularization, 0.0)
    check_at_least("column_regularization", column_regularization, 0.0)
    check_count("iterations", iterations, 1)
    effects = fitted_effects(observed, row_regularization, column_regularization, iterations, tolerance)
    matrix = effects.matrix
    residual = observed.values - matrix[observed.rows, observed.columns]
    objective = float(observed.weights @ np.square(residual)) + penalty(
        effects, row_regularization, column_regularization
    )
    return Completion(matrix, objective, effects.iterations, effects.converged)


def penalty(effects: Effects, row_regularization: float, column_regularization: float) -> float:
    """What the size of the effects adds to the objective."""
    rows, columns = np.square(effects.rows).sum(), np.square(effects.columns).sum()
    return float(row_regularization * rows + column_regularization * columns)


def fitted_effects(
    observed: Observed,
    row_regularization: float,
    column_regularization: float,
    iterations: int,
    tolerance: float,
    start: Effects | None = None,
) -> Effects:
    """The effects that `additive` comes to."""
    weights, values, (count, width) = observed.weights, observed.values, observed.shape
    total = float(weights.sum())
    row_room = np.bincount(observed.rows, weights, count) + row_regularization
    column_room = np.bincount(observed.columns, weights, width) + column_regularization
    # A row without cells, unregularised: 0 / 1 instead of 0 / 0.
    row_room, column_room = np.where(row_room > 0, row_room, 1.0), np.where(column_room > 0, column_room, 1.0)
    intercept, rows, columns = float(weights @ values) / total, np.zeros(count), np.zeros(width)
    if start is not None:
        intercept, rows, columns = start[:3]
    limit = tolerance * float(np.std(values))
    for iteration in range(1, iterations + 1):
        before = intercept, rows, columns
        rest = values - columns[observed.columns]
        rows = np.bincount(observed.rows, weights * (rest - intercept), count) / row_room
        rest = values - rows[observed.rows]
        columns = np.bincount(observed.columns, weights * (rest - intercept), width) / column_room
        intercept = float(weights @ (rest - columns[observed.columns])) / total
        moved = max(abs(intercept - before[0]), np.abs(rows - before[1]).max(), np.abs(columns - before[2]).max())
        if moved <= limit:
            return Effects(intercept, rows, columns, iteration, True)
    return Effects(intercept, rows, columns, iterations, False)
