"""A random sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.types import Estimate, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Random:
    """A random sample, frequent texts more often: no call."""

    kind: ClassVar[str] = "reference-free"

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        preference = np.log(rng.random(problem.shape[0])) / np.maximum(problem.row_weights, 1e-300)
        return Estimate(values=np.full(problem.shape[0], np.nan), preference=preference)
        yield
