"""Rewards and expected utility together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError, unknown_name
from minrisk.methods.given import GIVEN, given_scores
from minrisk.methods.nested import auxiliaries_of, inner, inner_plan
from minrisk.types import Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class MbrBon:
    """The highest reward + beta x expected utility: best-of-N that stays near the samples (MBR-BoN).

    Jinnai et al. 2024, "Regularized Best-of-N Sampling with Minimum Bayes Risk Objective for Language Model Alignment".

    beta    weight of the expected utility, on the metric's own scale: the choice depends on that scale
    by      the rewards: "scores" or "logprobs" of the segment
    method  how expected utilities are estimated: a name, or name(option=value); default: full, or pmbr on a budget
    """

    kind: ClassVar[str] = "exact"
    beta: float = 1.0
    by: str = "scores"
    method: Any = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.beta):
            raise InputError(f"`beta` of method 'mbr_bon' must be finite, got {self.beta}")
        if self.by not in GIVEN:
            raise unknown_name("rewards", self.by, GIVEN)
        object.__setattr__(self, "method", inner(self.method))

    @property
    def auxiliaries(self) -> Mapping[str, Any]:
        """What the inner method uses."""
        return auxiliaries_of(self.method)

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        rewards = given_scores(problem, self.by)
        estimate = yield from inner_plan(self.method, problem, rng)
        return replace(estimate, preference=rewards + self.beta * estimate.values)
