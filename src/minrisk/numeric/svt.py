"""Singular value thresholding (Cai, Candes and Shen 2010)."""

from __future__ import annotations

import numpy as np

from minrisk.numeric.sparse import Completion, Observed, check_count, check_positive
from minrisk.numeric.spectral import shrunk


def svt(
    observed: Observed,
    rng: np.random.Generator,  # noqa: ARG001 -- nothing here is random
    *,
    threshold: float = 5.0,
    step: float = 1.2,
    iterations: int = 200,
    tolerance: float = 0.2,
) -> Completion:
    """The matrix X of least  t |X|_* + |X|^2 / 2  among those that agree with the observed cells.

    Uzawa's iteration X = shrunk(Y, t), Y += s w (m - X) on the observed cells, where t is `threshold` times
    root(N K) times the values' root mean square, and s is `step` times N K / C.
    It ends once the observed cells are met to within `tolerance` of their norm: a loose tolerance is what keeps noise
    out of the fit. A step that increases the residual is taken back and halved.
    """
    check_positive("threshold", threshold)
    check_positive("step", step)
    check_count("iterations", iterations, 1)
    cells = observed.rows, observed.columns
    weights = observed.weights / observed.weights.max()
    norm = float(np.linalg.norm(observed.values))
    if norm == 0.0:
        return Completion(np.zeros(observed.shape), 0.0, 0, True)
    size = observed.shape[0] * observed.shape[1]
    limit = threshold * np.sqrt(size / len(observed)) * norm
    pace = step * size / len(observed)
    # Until |Y| reaches the threshold X is zero and every step the same: take them at once.
    first = np.zeros(observed.shape)
    first[cells] = weights * observed.values
    dual = first * pace * np.ceil(limit / (pace * np.linalg.norm(first, 2)))
    previous, last = np.inf, dual
    for iteration in range(1, iterations + 1):
        matrix, nuclear = shrunk(dual, limit)
        residual = observed.values - matrix[cells]
        error = float(np.linalg.norm(residual))
        if error <= tolerance * norm or iteration == iterations:
            break
        if error > previous and pace > 1.0:  # steps up to 1 cannot overshoot
            pace, dual = max(pace / 2, 1.0), last
            previous = np.inf
            continue
        previous, last = error, dual
        dual = dual.copy()
        dual[cells] += pace * weights * residual
    objective = limit * nuclear + float(np.square(matrix).sum()) / 2
    return Completion(matrix, objective, iteration, error <= tolerance * norm)
