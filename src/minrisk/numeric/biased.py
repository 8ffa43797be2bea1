"""Row effects, column effects and a low-rank rest, each with a shrinkage of its own."""

from __future__ import annotations

import numpy as np

from minrisk.numeric.additive import fitted_effects, penalty
from minrisk.numeric.als import factorized, random_factors
from minrisk.numeric.sparse import Completion, Observed, check_at_least, check_count, check_positive


def biased(
    observed: Observed,
    rng: np.random.Generator,
    *,
    rank: int = 10,
    regularization: float = 1.0,
    row_regularization: float = 1.0,
    column_regularization: float = 1.0,
    iterations: int = 50,
    tolerance: float = 1e-4,
) -> Completion:
    """The additive model plus a product of two factors.

        min of  sum over observed (i, j) of w_ij (m_ij - c - a_i - b_j - x_i . y_j)^2
                + row_reg |a|^2 + column_reg |b|^2 + reg (|X|^2 + |Y|^2)

    One iteration fits the effects to what the factors leave, then the factors, by a step of ALS, to what the effects
    leave. `regularization` is in units of the values' standard deviation, so that it means the same at any offset.
    It ends once an iteration lowers the objective by at most `tolerance` times what it has come to.
    """
    check_count("rank", rank, 1)
    check_count("iterations", iterations, 1)
    check_positive("regularization", regularization)
    check_at_least("row_regularization", row_regularization, 0.0)
    check_at_least("column_regularization", column_regularization, 0.0)
    cells = observed.rows, observed.columns
    deviation = float(np.std(observed.values))
    if deviation == 0.0:
        return Completion(np.full(observed.shape, observed.values[0]), 0.0, 0, True)
    ridge = regularization * deviation
    columns = random_factors(rng, rank, observed.shape[1]) * np.sqrt(deviation)
    product = np.zeros(observed.shape)
    effects, previous = None, np.inf
    for iteration in range(1, iterations + 1):
        rest = observed.with_values(observed.values - product[cells])
        effects = fitted_effects(rest, row_regularization, column_regularization, 5, 0.0, effects)
        additive = effects.matrix
        rest = observed.with_values(observed.values - additive[cells])
        factors = factorized(rest, columns, ridge, 1, 0.0)
        columns = factors.columns
        product = factors.rows.T @ columns
        objective = factors.objective + penalty(effects, row_regularization, column_regularization)
        if previous - objective <= tolerance * objective:
            return Completion(additive + product, objective, iteration, True)
        previous = objective
    return Completion(additive + product, objective, iterations, False)
