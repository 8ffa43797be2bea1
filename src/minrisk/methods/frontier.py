"""Frontier: a model of the whole matrix says which cells to score next, and when enough are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.numeric.estimation import expected_utilities
from minrisk.numeric.features import features_of, nothing
from minrisk.numeric.sampling import every_cell
from minrisk.numeric.search import Search
from minrisk.types import Estimate, Plan, Problem

FIRST = 0.3
"""Share of the calls that the first round takes, when all candidates are still in question."""
SMALL = 256
"""Cells that are scored all at once where the method may stop by itself: there is little to save."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """Score in a few rounds the cells that decide who wins, by a model of the whole matrix (ours).

    docs/frontier.md has the mathematics and the measurements.

    surrogate   a cheap utility whose whole matrix tells beforehand which texts are alike; its cells are no calls. None:
                the model has the scored cells alone
    rounds      at most so many, so that batches are large
    confidence  stop when the choice loses at most `tolerance` with this probability; None: spend the budget
    tolerance   as a share of what the best candidate gains over the average one
    """

    kind: ClassVar[str] = "adaptive"
    surrogate: Any | None = "chrf"
    rounds: int = 8
    confidence: float | None = None
    tolerance: float = 0.02

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise InputError(f"`rounds` of method 'frontier' must be at least 1, got {self.rounds}")
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise InputError(f"`confidence` of method 'frontier' must lie between 0 and 1, got {self.confidence}")
        if not 0 <= self.tolerance < math.inf:
            raise InputError(f"`tolerance` of method 'frontier' must not be negative, got {self.tolerance}")

    @property
    def auxiliaries(self) -> Mapping[str, Any]:
        """The cheap utility."""
        return {} if self.surrogate is None else {"surrogate": self.surrogate}

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        if problem.budget >= problem.size and (self.confidence is None or problem.size <= SMALL):
            matrix = (yield every_cell(problem.shape)).reshape(problem.shape)
            return Estimate(values=expected_utilities(matrix, problem.column_weights), matrix=matrix)
        features = nothing(*problem.shape)
        if self.surrogate is not None:
            surrogate = (yield every_cell(problem.shape, "surrogate")).reshape(problem.shape)
            features = features_of(surrogate, problem.column_weights, problem.twins)
        totals, spent = self._totals(problem), 0
        search = Search(problem, features, len(totals), rng)
        for total in totals:
            cells = search.next(total - spent)
            if not len(cells):
                break
            search.tell(cells, (yield cells))
            spent += len(cells)
            if self.confidence is not None and search.doubt(self.tolerance) <= 1 - self.confidence:
                break
        return search.estimate()

    def _totals(self, problem: Problem) -> list[int]:
        """Calls after each round."""
        budget = problem.budget
        if self.confidence is None:
            rounds = min(self.rounds, max(1, budget // 4))
            first = max(1, round(FIRST * budget)) if rounds > 1 else budget
            later = np.linspace(first, budget, rounds)
        else:
            # Each round as much larger as the last one, from a cell a candidate to all.
            later = np.geomspace(min(max(problem.shape[0], 32), budget), budget, self.rounds)
        return [int(total) for total in np.rint(later)]
