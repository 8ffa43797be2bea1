"""Full MBR: every cell is scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.numeric.estimation import expected_utilities
from minrisk.numeric.sampling import every_cell
from minrisk.types import Estimate, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """Score every cell and take the row means: exact, and the yardstick of all others (FMBR)."""

    kind: ClassVar[str] = "exact"

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        if problem.budget < problem.size:
            raise InputError(
                f"method 'full' scores all {problem.size} cells, and the budget allows {problem.budget}: "
                "leave the budget out, or name a method that samples, such as 'pmbr'"
            )
        matrix = (yield every_cell(problem.shape)).reshape(problem.shape)
        return Estimate(values=expected_utilities(matrix, problem.column_weights), matrix=matrix)
