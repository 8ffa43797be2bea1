"""Soft-impute (Mazumder, Hastie and Tibshirani 2010)."""

from __future__ import annotations

import numpy as np

from minrisk.numeric.sparse import Completion, Observed, check_count, check_positive
from minrisk.numeric.spectral import shrunk
from minrisk.types import FloatArray


def soft_impute(
    observed: Observed,
    rng: np.random.Generator,  # noqa: ARG001 -- nothing here is random
    *,
    regularization: float = 0.1,
    iterations: int = 300,
    tolerance: float = 1e-3,
) -> Completion:
    """The matrix Z of least  sum over observed (i, j) of w_ij (m_ij - z_ij)^2 / 2 + l |Z|_*.

    Fill the gaps with Z, shrink the singular values by l, repeat, with Nesterov's momentum. `regularization` is l as a
    share of the largest singular value of the observed cells, where Z becomes zero. It is approached by halves from
    there, each fit starting from the one before. Weights are taken relative to the largest.
    It ends once an iteration at the last l moves Z by at most `tolerance` of its norm.
    """
    check_positive("regularization", regularization)
    check_count("iterations", iterations, 1)
    weights = observed.weights / observed.weights.max()
    start = np.zeros(observed.shape)
    start[observed.rows, observed.columns] = weights * observed.values
    largest = float(np.linalg.norm(start, 2))
    matrix, done, converged, nuclear = np.zeros(observed.shape), 0, True, 0.0
    level = max(0.5, regularization)
    while largest > 0.0:
        last = level <= regularization
        left = iterations - done if last else min(10, iterations - done)
        matrix, nuclear, used, converged = _settled(observed, weights, matrix, level * largest, left, tolerance)
        done += used
        if last or done >= iterations:
            converged = converged and last
            break
        level = max(level / 2, regularization)
    residual = observed.values - matrix[observed.rows, observed.columns]
    objective = float(weights @ np.square(residual)) / 2 + regularization * largest * nuclear
    return Completion(matrix, objective, done, converged)


def _settled(
    observed: Observed, weights: FloatArray, matrix: FloatArray, limit: float, iterations: int, tolerance: float
) -> tuple[FloatArray, float, int, bool]:
    """The fit, its nuclear norm, the iterations done and whether they came to rest, for one level of shrinkage."""
    cells = observed.rows, observed.columns
    nuclear, momentum, ahead = 0.0, 1.0, matrix
    for iteration in range(1, iterations + 1):
        filled = ahead.copy()
        filled[cells] += weights * (observed.values - ahead[cells])
        following, nuclear = shrunk(filled, limit)
        step = following - matrix
        if float(np.vdot(ahead - following, step)) > 0.0:  # past the bottom
            momentum = 1.0
        grown = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = following + (momentum - 1.0) / grown * step
        matrix, momentum = following, grown
        if float(np.linalg.norm(step)) <= tolerance * float(np.linalg.norm(matrix)):
            return matrix, nuclear, iteration, True
    return matrix, nuclear, iterations, False
