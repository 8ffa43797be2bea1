"""N x K: all candidates against a random subset of the pseudo-references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.numeric.estimation import sampled_values
from minrisk.numeric.sampling import block, draw
from minrisk.types import Estimate, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Score all candidates against K random pseudo-references, as many as the budget allows (NxK).

    Eikema and Aziz 2022, "Sampling-Based Approximations to Minimum Bayes Risk Decoding for Neural Machine Translation".
    Frequent texts are drawn in proportion to their weight. A budget below one column scores part of one.
    """

    kind: ClassVar[str] = "sampling"

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        rows = problem.shape[0]
        count = max(1, problem.budget // rows)
        drawn, stands_for = draw(problem.column_weights, count, rng)
        scored = draw(problem.row_weights, min(problem.budget, rows), rng)[0]
        cells = block(problem, scored, drawn)
        values = yield cells
        return Estimate(values=sampled_values(problem, cells, values, stands_for))
