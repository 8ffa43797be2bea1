"""Alternating least squares: the paper's Algorithm 1."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from minrisk.numeric.ridge import both_sides, solve_side, work_space
from minrisk.numeric.sparse import Completion, Observed, check_count, check_positive
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
    check_count("rank", rank, 1)
    check_count("iterations", iterations, 1)
    check_positive("regularization", regularization)
    start = spectral_factors(observed, rng, rank)
    fit = factorized(observed, start, regularization, iterations, tolerance)
    return Completion(fit.rows.T @ fit.columns, fit.objective, fit.iterations, fit.converged)


def random_factors(rng: np.random.Generator, rank: int, size: int) -> FloatArray:
    """(rank, size) normal numbers such that the vectors are of about unit length, like the values once scaled."""
    return np.asarray(rng.standard_normal((rank, size)) / np.sqrt(rank))


def spectral_factors(observed: Observed, rng: np.random.Generator, rank: int) -> FloatArray:
    """Near the leading right singular vectors of the cells, others zero: (rank, K), random beyond the matrix's rank.

    Their lengths are the roots of the singular values of the whole matrix: X and Y are then equally large in every
    direction, as they are in the end. A start that is not so takes hundreds of iterations to get there.
    """
    start = random_factors(rng, rank, observed.shape[1])
    shared = min(rank, *observed.shape)
    vectors = np.ascontiguousarray(start[:shared].T)
    cells = observed.rows, observed.columns, observed.weights * observed.values
    for _ in range(_ROUNDS):
        images = _multiplied(*cells, vectors, observed.shape[0])
        vectors = _multiplied(cells[1], cells[0], cells[2], images, observed.shape[1])
        vectors = np.ascontiguousarray(np.linalg.qr(vectors)[0])
    share = observed.weights.sum() / (observed.shape[0] * observed.shape[1])
    singular = np.linalg.norm(_multiplied(*cells, vectors, observed.shape[0]), axis=0) / share
    start[:shared] = (np.sqrt(singular) * vectors).T
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
    """The sparse matrix of the cells times vectors (K, rank): (count, rank)."""
    images = np.zeros((count, vectors.shape[1]))
    for cell in range(len(values)):
        value, image, vector = values[cell], images[rows[cell]], vectors[columns[cell]]
        for i in range(len(image)):
            image[i] += value * vector[i]
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
