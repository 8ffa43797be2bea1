"""PMBR after each of several numbers of iterations, from one run of the alternation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minrisk.methods.pmbr import DEVIATIONS, LEAST_WEIGHT, Pmbr
from minrisk.numeric.als import _ROUNDING, factorized, spectral_factors
from minrisk.numeric.estimation import expected_utilities
from minrisk.numeric.sparse import Observed, observe
from minrisk.seeding import stream
from minrisk.types import Cells, FloatArray, Problem

TOLERANCE = 1e-4
"""What `als` comes to rest at."""


def als_path(
    observed: Observed, rng: np.random.Generator, rank: int, regularization: float, iterations: Sequence[int]
) -> list[FloatArray]:
    """What `als` fits in each of the ascending numbers of iterations: (N, K) each, to the last bit.

    An iteration depends on what came before through the column factors alone, so the alternation can be stopped, looked
    at and taken up again. Once it rests, all higher numbers of iterations give the same.
    """
    columns = spectral_factors(observed, rng, rank)
    floor = _ROUNDING * float(observed.weights @ np.square(observed.values))
    fits: list[FloatArray] = []
    done, previous, rests = 0, np.inf, False
    fit = np.zeros(observed.shape)
    for wanted in iterations:
        while done < wanted and not rests:
            # The first stretch runs as a whole; after it, one at a time, with the same test for rest as within one.
            stretch = iterations[0] if done == 0 else 1
            step = factorized(observed, columns, regularization, stretch, TOLERANCE)
            done += stretch
            rests = step.converged or previous - step.objective <= max(TOLERANCE * step.objective, floor)
            previous, columns = step.objective, step.columns
            fit = step.rows.T @ step.columns
        fits.append(fit)
    return fits


def values_along_path(
    method: Pmbr, problem: Problem, matrix: FloatArray, seed: int, iterations: Sequence[int]
) -> list[FloatArray]:
    """The values (N,) that PMBR comes to in each number of iterations, cells of the (N, N) matrix being its calls."""
    rng = stream(seed, problem.stream, "plan")
    cells = method._draw(problem, rng)
    values = matrix[cells.rows, cells.columns]
    along = _Along.of(method)
    if method.paper:
        observed = observe(values, cells.rows, cells.columns, problem.shape)
        fits = als_path(observed, rng, along.rank or 1, along.regularization or 1.0, iterations)
        return [expected_utilities(fit, problem.column_weights) for fit in fits]
    found = []
    guesses: list[FloatArray] = []
    for place in range(len(iterations)):
        at = _Along.of(method, guesses, place, tuple(iterations))
        found.append(expected_utilities(at._safe(problem, cells, values, rng), problem.column_weights))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Along(Pmbr):
    """PMBR whose standardised completions are those along a path: computed at its first stop, looked up at the others.

    guesses  filled with the completions of all stops
    """

    guesses: list[FloatArray] | None = None
    place: int = 0
    stops: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, method: Pmbr, guesses: list[FloatArray] | None = None, place: int = 0, stops: tuple[int, ...] = ()
    ) -> _Along:
        """Another PMBR, at one stop of its path."""
        return cls(
            rank=method.rank,
            regularization=method.regularization,
            design=method.design,
            fit_weights=method.fit_weights,
            paper=method.paper,
            guesses=guesses,
            place=place,
            stops=stops,
        )

    def _standardised(self, problem: Problem, cells: Cells, values: FloatArray, rng: np.random.Generator) -> FloatArray:
        assert self.guesses is not None
        if not self.guesses:
            mean, spread = float(values.mean()), float(values.std())
            if spread <= 1e-12 * max(abs(mean), spread):
                self.guesses.extend([np.full(problem.shape, mean)] * len(self.stops))
                return self.guesses[0]
            spread *= DEVIATIONS
            weights = problem.column_weights[cells.columns] if self.fit_weights else np.ones(len(values))
            weights = np.maximum(weights / weights.mean(), LEAST_WEIGHT)
            observed = observe((values - mean) / spread, cells.rows, cells.columns, problem.shape, weights)
            fits = als_path(observed, rng, self.rank or 1, self.regularization or 1.0, self.stops)
            self.guesses.extend(mean + spread * fit for fit in fits)
        return self.guesses[self.place]
