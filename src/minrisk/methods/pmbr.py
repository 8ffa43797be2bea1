"""PMBR: random cells, the rest of the matrix completed."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError, unknown_name
from minrisk.numeric import designs
from minrisk.numeric.completion import ALGORITHMS, completion
from minrisk.numeric.estimation import expected_utilities, filled, is_self_pair, self_pair_values
from minrisk.numeric.sparse import observe
from minrisk.types import Cells, Estimate, FloatArray, Plan, Problem

DEVIATIONS = 16.0
"""For ALS, values are deviations from their mean in units of this many standard deviations.

The paper's metric lies between 0 and 1 and varies by a few hundredths; its regularization of 0.1 to 0.2 means something
there, and next to nothing for values of unit variance. The number is measured: see docs/methods.md.
"""
LEAST_WEIGHT = 1e-6
"""Of a cell in the fit, beside a mean of one: a cell that was paid for is never left out altogether."""
DESIGNS = ("uniform", "balanced", "weighted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pmbr:
    """Score random cells and complete the low-rank matrix by alternating least squares (PMBR).

    Trabelsi et al. 2024, "Efficient Minimum Bayes Risk Decoding using Low-Rank Matrix Completion Algorithms".

    rank, regularization, iterations  of the completion; the paper searches 5-15, 0.1-0.2 and 10-30 for ALS. "None" is
                the algorithm's own: 10, 0.1 and 30 for ALS
    completion  the algorithm: als, soft-impute, svt, bpmf, mmmf, biased or additive
    design      which cells: uniform (the paper's), balanced (as many in each row and column), or weighted (as many in
                each row, and in a column as its text is frequent)
    mirrored    let a cell (i, j) inform the fit of (j, i) too, as far as the cells show the utility to be symmetric
    fit_weights  weigh each cell of the fit by its column, and not only the means; worse on what we measured
    paper       the literal published procedure: raw values, self-pairs like any other cell, means of the
                reconstruction. Its outcome depends on the metric's scale, and a full budget is not full MBR.

    Unless `paper`, values are standardised, self-pairs stay out of the fit, scored cells keep their values, and a
    candidate without any is not chosen.
    """

    kind: ClassVar[str] = "sampling"
    rank: int | None = None
    regularization: float | None = None
    iterations: int | None = None
    completion: str = "als"
    design: str = "uniform"
    mirrored: bool = False
    fit_weights: bool = False
    paper: bool = False

    def __post_init__(self) -> None:
        if self.design not in DESIGNS:
            raise unknown_name("design", self.design, DESIGNS)
        if self.completion not in ALGORITHMS:
            raise unknown_name("completion", self.completion, ALGORITHMS)
        parameters = inspect.signature(ALGORITHMS[self.completion]).parameters
        for name in ("rank", "regularization", "iterations"):
            value = getattr(self, name)
            if value is None:
                object.__setattr__(self, name, parameters[name].default if name in parameters else None)
            elif name not in parameters:
                raise InputError(f"completion {self.completion!r} of method 'pmbr' has no `{name}`")
            elif not value > 0:
                raise InputError(f"`{name}` of method 'pmbr' must be above zero, got {value}")

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        cells = self._draw(problem, rng)
        values = yield cells
        matrix = self._literal(problem, cells, values, rng) if self.paper else self._safe(problem, cells, values, rng)
        return Estimate(values=expected_utilities(matrix, problem.column_weights), matrix=matrix)

    def _draw(self, problem: Problem, rng: np.random.Generator) -> Cells:
        """Cells without replacement; not the self-pairs that need no call, unless as in the paper."""
        known = np.flatnonzero(~np.isnan(problem.self_values) & (not self.paper))
        free = known * problem.shape[1] + problem.twins[known]
        count = min(problem.budget, problem.size - len(free))
        if self.design == "uniform":
            return Cells(*designs.uniform(problem.shape, count, rng, free))
        # Columns without weight are looked at too, but only when the others have been.
        least = np.finfo(np.float64).tiny
        weights = np.maximum(problem.column_weights, least) if self.design == "weighted" else None
        return Cells(*designs.balanced(problem.shape, count, rng, free, None, weights))

    def _literal(self, problem: Problem, cells: Cells, values: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The reconstruction of raw values."""
        observed = observe(values, cells.rows, cells.columns, problem.shape)
        return completion(observed, self.completion, rng, scaled=False, keep_observed=False, **self._options()).matrix

    def _safe(self, problem: Problem, cells: Cells, values: FloatArray, rng: np.random.Generator) -> FloatArray:
        """What is known and what the completion makes of it: (N, K); rows without evidence are NaN."""
        matrix = filled(problem, cells, values)
        missing = np.isnan(matrix)
        judged = ~is_self_pair(problem, cells)
        if not missing.any():
            return matrix
        if judged.any():
            guess = self._standardised(problem, Cells(cells.rows[judged], cells.columns[judged]), values[judged], rng)
            matrix[missing] = guess[missing]
        own = self_pair_values(problem, cells, values)
        twins = np.flatnonzero(~np.isnan(own))
        matrix[twins, problem.twins[twins]] = own[twins]
        matrix[np.bincount(cells.rows[judged], minlength=problem.shape[0]) == 0] = np.nan
        return matrix

    def _standardised(self, problem: Problem, cells: Cells, values: FloatArray, rng: np.random.Generator) -> FloatArray:
        mean, spread = float(values.mean()), float(values.std())
        if spread <= 1e-12 * max(abs(mean), spread):
            return np.full(problem.shape, mean)
        spread *= DEVIATIONS if self.completion == "als" else 1.0
        weights = problem.column_weights[cells.columns] if self.fit_weights else np.ones(len(values))
        weights = np.maximum(weights / weights.mean(), LEAST_WEIGHT)
        observed = observe((values - mean) / spread, cells.rows, cells.columns, problem.shape, weights)
        mirrored = self.mirrored and np.array_equal(problem.twins, np.arange(problem.shape[1]))
        fitted = completion(observed, self.completion, rng, scaled=False, mirrored=mirrored, **self._options())
        return np.asarray(mean + spread * fitted.matrix)

    def _options(self) -> dict[str, Any]:
        names = ("rank", "regularization", "iterations")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}
