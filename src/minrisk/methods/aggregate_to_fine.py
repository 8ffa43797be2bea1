"""Aggregate to fine: the average pseudo-reference chooses who is judged against all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.methods.refining import refine
from minrisk.numeric.sampling import draw
from minrisk.types import TARGET, Folded, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateToFine:
    """One call a candidate against the average pseudo-reference, then every pair of the best candidates.

    Vamvas and Sennrich 2024, "Linear-time Minimum Bayes Risk Decoding with Reference Aggregation".

    coarse  another utility for the first step, such as chrf, whose calls are free; by default the utility itself
    keep    candidates of the second step; by default as many as can meet every pseudo-reference

    With the utility itself the first step costs a call a candidate, so that a full budget leaves the last candidates
    unjudged.
    """

    kind: ClassVar[str] = "adaptive"
    coarse: Any = None
    keep: int | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise InputError(f"`keep` of method 'aggregate_to_fine' must be at least 1, got {self.keep}")

    @property
    def auxiliaries(self) -> Mapping[str, Any]:
        """The cheap utility, if there is one."""
        return {} if self.coarse is None else {"coarse": self.coarse}

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        rows = np.arange(problem.shape[0])
        role = TARGET if self.coarse is None else "coarse"
        if role == TARGET and problem.budget < len(rows):
            rows = draw(problem.row_weights, problem.budget, rng)[0]
        coarse = np.full(problem.shape[0], np.nan)
        coarse[rows] = yield Folded(rows, problem.column_weights[None, :], role)
        left = problem.budget - (len(rows) if role == TARGET else 0)
        return (yield from refine(problem, [coarse], self.keep, left, rng))
