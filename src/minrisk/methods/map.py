"""The most probable sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.methods.given import given_scores
from minrisk.types import Estimate, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """The most probable sample, by the `logprobs` given: no call (MAP among the samples).

    by_length  divide by the number of words
    """

    kind: ClassVar[str] = "reference-free"
    by_length: bool = False

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        preference = given_scores(problem, "logprobs")
        if self.by_length:
            preference = preference / np.array([max(1, len(text.split(" "))) for text in problem.candidates])
        return Estimate(values=np.full(problem.shape[0], np.nan), preference=preference)
        yield
