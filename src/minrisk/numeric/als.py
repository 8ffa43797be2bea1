"""Alternating least squares: the paper's Algorithm 1."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from minrisk.numeric.ridge import both_sides, solve_side, work_space
from minrisk.numeric.sparse import Completion, Observed, check_at_least, check_positive
from minrisk.types import FloatArray

_ROUNDING = 1e-14
"""Share of the values' sum of squares below which a change of the objective is rounding."""

_ROUNDS = 3
"""Power iterations of the start."""


class Factors(NamedTuple):
    """The fit is rows.T @ columns: (rank, N) and (rank, K)."""

    rows: FloatArray
    columns: FloatArray
    objective: float
    iterations: int
    converged: bool


def als(
    observed: Observed,
    rng: np.random.Generator,
    *,
    rank: int = 10,
    regularization: float = 0.1,
    iterations: int = 30,
    tolerance: float = 1e-4,
) -> Completion:
    """Two factors of the given rank, solved for in turn.

        min over X, Y of  sum over observed (i, j) of w_ij (m_ij - x_i . y_j)^2 + regularization (|X|^2 + |Y|^2)

    One iteration solves every x_i given Y, then every y_j given X, at a cost proportional to C rank^2 + (N + K) rank^3.
    It ends after `iterations`, or once one lowers the objective by at most `tolerance` times what it has come to.
    Y starts near the leading singular vectors of the cells, from which far fewer low-rank matrices are missed than from
    random numbers. A row or column without cells gets the factor zero.
    """
    check_at_least("rank", rank, 1)
    check_at_least("iterations", iterations, 1)
    check_positive("regularization", regularization)
    start = spectral_factors(observed, rng, rank)
    fit = factorized(observed, start, regularization, iterations, tolerance)
    return Completion(fit.rows.T @ fit.columns, fit.objective, fit.iterations, fit.converged)


def random_factors(rng: np.random.Generator, rank: int, size: int) -> FloatArray:
    """(rank, size) normal numbers such that the vectors are of about unit length, like the values once scaled."""
    return np.asarray(rng.standard_normal((rank, size)) / np.sqrt(rank))


def spectral_factors(observed: Observed, rng: np.random.Generator, rank: int) -> FloatArray:
    """`random_factors` drawn towards the leading right singular vectors of the cells, others zero: (rank, K)."""
    start = random_factors(rng, rank, observed.shape[1])
    shared = min(rank, *observed.shape)
    vectors = start[:shared]
    values = observed.weights * observed.values
    for _ in range(_ROUNDS):
        images = _multiplied(observed.rows, observed.columns, values, vectors, observed.shape[0])
        vectors = _multiplied(observed.columns, observed.rows, values, images, observed.shape[1])
        vectors = np.ascontiguousarray(np.linalg.qr(vectors.T)[0].T)
    start[:shared] = vectors * np.sqrt(observed.shape[1] / rank)
    return start


def factorized(
    observed: Observed, columns: FloatArray, regularization: float, iterations: int, tolerance: float
) -> Factors:
    """The factors that `als` comes to from the column factors (rank, K)."""
    by_row, by_column = both_sides(observed)
    rows = np.zeros((len(columns), observed.shape[0]))
    fitted = np.ascontiguousarray(np.where(np.diff(observed.column_starts) > 0, columns, 0.0))
    floor = _ROUNDING * float(observed.weights @ np.square(observed.values))
    objective, done, converged = _alternate(
        by_row, by_column, rows, fitted, regularization, iterations, tolerance, floor
    )
    return Factors(rows, fitted, objective, done, converged)


@numba.njit(cache=True, nogil=True)
def _multiplied(rows: Any, columns: Any, values: Any, vectors: Any, count: int) -> Any:
    """The sparse matrix of the cells times vectors (rank, K): (rank, count)."""
    images = np.zeros((len(vectors), count))
    for i in range(len(vectors)):
        for cell in range(len(values)):
            images[i, rows[cell]] += values[cell] * vectors[i, columns[cell]]
    return images


@numba.njit(cache=True, nogil=True)
def _alternate(
    by_row: Any,
    by_column: Any,
    rows: Any,
    columns: Any,
    regularization: float,
    iterations: int,
    tolerance: float,
    floor: float,
) -> tuple[float, int, bool]:
    """Alternate in place; the final objective, the iterations done, and whether the objective came to rest."""
    work = work_space(len(rows))
    previous = np.inf
    for iteration in range(iterations):
        solve_side(by_row, columns, rows, regularization, work)
        objective = solve_side(by_column, rows, columns, regularization, work)
        for factor in rows.flat:
            objective += regularization * factor * factor
        if previous - objective <= max(tolerance * objective, floor):
            return objective, iteration + 1, True
        previous = objective
    return previous, iterations, False
