"""Maximum-margin matrix factorization on graded values (Srebro, Rennie and Jaakkola 2005; Rennie and Srebro 2005)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minrisk.numeric.als import random_factors
from minrisk.numeric.minimize import minimized
from minrisk.numeric.sparse import Completion, Observed, check_count, check_positive
from minrisk.types import FloatArray, IntArray


class Grades(NamedTuple):
    """Observed values as grades 0 ... R - 1.

    edges   (R - 1,) values between neighbouring grades, ascending
    ends    mean value of the lowest and of the highest grade
    signs   (C, R - 1) +1 where the value lies above the edge, else -1
    """

    edges: FloatArray
    ends: tuple[float, float]
    signs: FloatArray


def mmmf(
    observed: Observed,
    rng: np.random.Generator,
    *,
    rank: int = 10,
    regularization: float = 8.0,
    grades: int = 20,
    iterations: int = 300,
    tolerance: float = 1e-4,
) -> Completion:
    """A product of two factors that lies on the right side of the thresholds between grades, with a margin.

        min over X, Y, t of  sum over observed (i, j) and grades r of w_ij h(s_ijr (x_i . y_j - t_r))
                             + regularization (|X|^2 + |Y|^2) / 2

    The values are cut at their quantiles into `grades` grades; s is +1 where m_ij is above grade r, else -1; h is the
    smooth hinge; the thresholds t are the same for all rows. Between thresholds, values are interpolated.
    It ends once an iteration of the minimiser lowers the objective by at most `tolerance` times what it has come to.
    """
    check_count("rank", rank, 1)
    check_count("grades", grades, 2)
    check_count("iterations", iterations, 1)
    check_positive("regularization", regularization)
    graded = _graded(observed.values, grades)
    if not len(graded.edges):
        return Completion(np.full(observed.shape, observed.values[0]), 0.0, 0, True)
    model = _Model(observed, graded.signs, rank, regularization)
    thresholds = np.linspace(-1.0, 1.0, len(graded.edges) + 2)[1:-1]
    columns = random_factors(rng, rank, observed.shape[1])
    # Rows start from zero, where the sign of the data decides where they go: u and -u take mirrored paths.
    start = np.concatenate((np.zeros(rank * observed.shape[0]), columns.ravel(), thresholds))
    solution, objective, done, converged = minimized(model.objective, start, iterations, tolerance)
    rows, columns, thresholds = model.parts(solution)
    knots = np.maximum.accumulate(thresholds)
    knots = np.concatenate(([knots[0] - 1.0], knots, [knots[-1] + 1.0]))
    values = np.concatenate((graded.ends[:1], graded.edges, graded.ends[1:]))
    return Completion(np.interp(rows.T @ columns, knots, values), objective, done, converged)


def _graded(values: FloatArray, grades: int) -> Grades:
    """Edges halfway between observed values, as near to the quantiles as values that differ allow."""
    ordered = np.sort(values)
    positions = np.arange(1, grades) * len(values) / grades
    low, high = np.floor(positions).astype(np.int64), np.ceil(positions).astype(np.int64)
    inside = (low > 0) & (high < len(values))
    low, high = low[inside], high[inside]
    # Rounded down and up, so that the values with their signs reversed are cut at the same places.
    edges = (ordered[low - 1] + ordered[low] + ordered[high - 1] + ordered[high]) / 4
    edges = np.unique(edges[(edges > ordered[0]) & (edges < ordered[-1])])
    if not len(edges) and ordered[0] < ordered[-1]:
        edges = np.array([(ordered[0] + ordered[-1]) / 2])
    if not len(edges):
        return Grades(edges, (values[0], values[0]), np.empty((len(values), 0)))
    ends = float(values[values < edges[0]].mean()), float(values[values > edges[-1]].mean())
    return Grades(edges, ends, np.where(values[:, None] > edges, 1.0, -1.0))


class _Model:
    """The objective and its gradient over all parameters in one vector: rows, columns, thresholds."""

    def __init__(self, observed: Observed, signs: FloatArray, rank: int, regularization: float) -> None:
        self._observed = observed
        self._signs = signs
        self._rank = rank
        self._regularization = regularization

    def parts(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(rank, N), (rank, K) and (R - 1,)."""
        count, width = self._observed.shape
        rows, columns, thresholds = np.split(parameters, [self._rank * count, self._rank * (count + width)])
        return rows.reshape(self._rank, count), columns.reshape(self._rank, width), thresholds

    def objective(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """The value and the gradient."""
        observed = self._observed
        rows, columns, thresholds = self.parts(parameters)
        of_row, of_column = rows[:, observed.rows], columns[:, observed.columns]
        scores = np.einsum("rc,rc->c", of_row, of_column)
        margins = self._signs * (scores[:, None] - thresholds)
        short = np.maximum(1.0 - margins, 0.0)
        # The smooth hinge: 1/2 - z below 0, (1 - z)^2 / 2 up to 1, then 0; its slope is -min(short, 1).
        slopes = np.minimum(short, 1.0)
        losses = observed.weights @ (slopes * (short - slopes / 2)).sum(axis=1)
        pulls = observed.weights[:, None] * -slopes * self._signs
        pull = pulls.sum(axis=1)
        row_gradient = _summed(of_column * pull, observed.row_starts)
        column_gradient = _summed((of_row * pull)[:, observed.by_column], observed.column_starts)
        gradient = np.concatenate(
            (
                (row_gradient + self._regularization * rows).ravel(),
                (column_gradient + self._regularization * columns).ravel(),
                -pulls.sum(axis=0),
            )
        )
        size = float(np.square(rows).sum() + np.square(columns).sum())
        return float(losses) + self._regularization * size / 2, gradient


def _summed(cells: FloatArray, starts: IntArray) -> FloatArray:
    """(rank, C) summed over the cells of each row: (rank, N)."""
    sums = np.zeros((len(cells), cells.shape[1] + 1))
    np.cumsum(cells, axis=1, out=sums[:, 1:])
    return np.asarray(sums[:, starts[1:]] - sums[:, starts[:-1]])
