"""Reference aggregation: many pseudo-references folded into few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.numeric.folding import group_weights, random_groups
from minrisk.numeric.sampling import draw
from minrisk.types import Estimate, Folded, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Score against the average pseudo-reference: one call a candidate (reference aggregation).

    DeNero et al. 2009, "Fast Consensus Decoding over Translation Forests"; Vamvas and Sennrich 2024, "Linear-time
    Minimum Bayes Risk Decoding with Reference Aggregation".

    groups  average in this many random groups, and average the values; as many as the budget allows at most

    Needs a utility that can fold pseudo-references (expected n-gram counts, mean embeddings). The value against an
    average is not the average value, but for a table of values, and the average holds the candidate itself: a full
    budget is full MBR only with as many groups as there are pseudo-references, and self-pairs do steer.
    """

    kind: ClassVar[str] = "sampling"
    groups: int = 1

    def __post_init__(self) -> None:
        if self.groups < 1:
            raise InputError(f"`groups` of method 'aggregate' must be at least 1, got {self.groups}")

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        rows = np.arange(problem.shape[0])
        if problem.budget < len(rows):
            rows = draw(problem.row_weights, problem.budget, rng)[0]
        count = min(self.groups, problem.budget // len(rows), problem.shape[1])
        groups = random_groups(problem.column_weights, count, rng)
        weights, masses = group_weights(groups, problem.column_weights)
        folded = (yield Folded(rows, weights)).reshape(len(rows), len(weights))
        values = np.full(problem.shape[0], np.nan)
        values[rows] = folded @ masses
        return Estimate(values=values)
