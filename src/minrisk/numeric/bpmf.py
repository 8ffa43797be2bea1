"""Bayesian probabilistic matrix factorization (Salakhutdinov and Mnih 2008), by Gibbs sampling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minrisk.numeric.als import factorized, random_factors
from minrisk.numeric.ridge import Groups, both_sides, sample_side, work_space
from minrisk.numeric.sparse import Completion, Observed, check_count, check_positive
from minrisk.types import FloatArray

_STRENGTH = 2.0
"""How many vectors the prior mean of the factors, zero, counts for (beta_0 of the paper)."""

_NOISE = 0.1
"""Prior guess of the noise's share of the variance; it counts for two cells."""


class Belief(NamedTuple):
    """Mean (rank,) and precision (rank, rank) of one side's factors."""

    mean: FloatArray
    precision: FloatArray


def bpmf(
    observed: Observed,
    rng: np.random.Generator,
    *,
    rank: int = 10,
    iterations: int = 200,
    burn_in: int = 50,
    tolerance: float = 0.1,
) -> Completion:
    """The posterior mean of a product of two factors, and its uncertainty.

    Model, on standardised values:  m_ij ~ N(x_i . y_j, 1 / (w_ij precision)),  x_i ~ N(mean_X, precision_X^-1)  and
    likewise y_j, with Gauss-Wishart priors on the means and precisions and a gamma prior on the noise.
    Of `iterations` sweeps the first `burn_in` are left out. It counts as converged if the means of the two halves of
    the rest differ, root mean square, by at most `tolerance` standard deviations of the values.
    `uncertainty` is that of an unobserved value, noise included; the objective is the mean squared error of the fit.
    """
    check_count("rank", rank, 1)
    check_count("burn_in", burn_in, 0)
    check_count("iterations", iterations, burn_in + 2)
    check_positive("tolerance", tolerance)
    mean = float(np.average(observed.values, weights=observed.weights))
    deviation = float(np.std(observed.values))
    if deviation == 0.0:
        zeros = np.zeros(observed.shape)
        return Completion(zeros + observed.values[0], 0.0, 0, True, zeros)
    # Rounded, because a long chain makes much of the last digit, in which u and 100 u differ.
    standard = np.round((observed.values - mean) / deviation, 6)
    # A chain on reversed values is another chain: always run the one whose first value is above the mean.
    direction = float(np.sign(standard[np.flatnonzero(standard)[0]]))
    sampler = _Sampler(observed.with_values(direction * standard), rng, rank)
    halves = np.zeros((2, *observed.shape))
    squares = np.zeros(observed.shape)
    noise = error = 0.0
    kept = iterations - burn_in
    for sweep in range(-burn_in, kept):
        product, variance, squared_error = sampler.sweep()
        if sweep >= 0:
            halves[2 * sweep // kept] += product
            squares += np.square(product)
            noise += variance / kept
            error += squared_error / kept
    sizes = np.bincount(2 * np.arange(kept) // kept)
    first, second = halves / sizes[:, None, None]
    average = (halves[0] + halves[1]) / kept
    spread = np.sqrt(np.maximum(squares / kept - np.square(average), 0.0) + noise)
    at_rest = float(np.sqrt(np.mean(np.square(first - second)))) <= tolerance
    matrix = mean + direction * deviation * average
    return Completion(matrix, error * deviation**2, iterations, at_rest, deviation * spread)


class _Sampler:
    """The state of the chain, started from a fit by alternating least squares."""

    def __init__(self, observed: Observed, rng: np.random.Generator, rank: int) -> None:
        self._observed = observed
        self._rng = rng
        self._sides = both_sides(observed)
        self._work = work_space(rank)
        start = factorized(observed, random_factors(rng, rank, observed.shape[1]), 1.0, 10, 0.0)
        self._rows, self._columns = start.rows, start.columns
        self._variance = _NOISE

    def sweep(self) -> tuple[FloatArray, float, float]:
        """One draw of everything: the product (N, K), the noise's variance, and the mean squared error."""
        by_row, by_column = self._sides
        row_belief = _drawn_belief(self._rows, self._rng)
        self._rows = self._drawn(by_row, self._columns, row_belief, self._observed.shape[0])
        column_belief = _drawn_belief(self._columns, self._rng)
        self._columns = self._drawn(by_column, self._rows, column_belief, self._observed.shape[1])
        product = self._rows.T @ self._columns
        residual = self._observed.values - product[self._observed.rows, self._observed.columns]
        squared = np.square(residual)
        shape = 1.0 + len(squared) / 2
        rate = _NOISE + float(self._observed.weights @ squared) / 2
        self._variance = rate / self._rng.standard_gamma(shape)
        return product, self._variance, float(squared.mean())

    def _drawn(self, groups: Groups, fixed: FloatArray, belief: Belief, size: int) -> FloatArray:
        """Factors (rank, size) drawn given those of the other side; from the belief alone where there is no cell."""
        normal = self._rng.standard_normal((len(fixed), size))
        lower = np.linalg.cholesky(belief.precision)
        drawn = np.ascontiguousarray(belief.mean[:, None] + np.linalg.solve(lower.T, normal))
        members = groups.members[groups.members >= 0]
        drawn[:, members] = np.sqrt(self._variance) * normal[:, members]
        prior = (self._variance * belief.precision)[np.tril_indices(len(fixed))]
        shift = self._variance * (belief.precision @ belief.mean)
        sample_side(groups, fixed, drawn, prior, shift, self._work)
        return drawn


def _drawn_belief(factors: FloatArray, rng: np.random.Generator) -> Belief:
    """Mean and precision of factors (rank, N), drawn from their Gauss-Wishart posterior."""
    rank, size = factors.shape
    average = factors.mean(axis=1)
    centred = factors - average[:, None]
    scatter = np.eye(rank) + centred @ centred.T
    scatter += _STRENGTH * size / (_STRENGTH + size) * np.outer(average, average)
    precision = _wishart(np.linalg.inv(scatter), rank + size, rng)
    lower = np.linalg.cholesky((_STRENGTH + size) * precision)
    mean = size / (_STRENGTH + size) * average + np.linalg.solve(lower.T, rng.standard_normal(rank))
    return Belief(mean, precision)


def _wishart(scale: FloatArray, degrees: int, rng: np.random.Generator) -> FloatArray:
    """A draw from the Wishart distribution, by Bartlett's decomposition."""
    rank = len(scale)
    lower = np.tril(rng.standard_normal((rank, rank)), -1)
    np.fill_diagonal(lower, np.sqrt(rng.chisquare(degrees - np.arange(rank))))
    root = np.linalg.cholesky((scale + scale.T) / 2) @ lower
    return root @ root.T
