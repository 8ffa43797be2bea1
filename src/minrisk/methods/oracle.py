"""The human reference as the judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.numeric.sampling import draw
from minrisk.types import Cells, Estimate, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """The best against the human `reference`: what no method can beat, for experiments."""

    kind: ClassVar[str] = "exact"
    against_reference: ClassVar[bool] = True

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        rows = np.arange(problem.shape[0])
        values = np.full(len(rows), np.nan)
        rows = rows if problem.budget >= len(rows) else draw(problem.row_weights, problem.budget, rng)[0]
        values[rows] = yield Cells(rows, np.zeros_like(rows))
        return Estimate(values=values)
