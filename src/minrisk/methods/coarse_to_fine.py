"""Coarse to fine: a cheap utility chooses whom the expensive one judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.methods.refining import refine
from minrisk.numeric.estimation import expected_utilities
from minrisk.numeric.sampling import every_cell
from minrisk.types import Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class CoarseToFine:
    """Full MBR with a cheap utility, then the expensive one for the best candidates.

    Eikema and Aziz 2022, "Sampling-Based Approximations to Minimum Bayes Risk Decoding for Neural Machine Translation".

    coarse  the cheap utility; its cells are no calls
    keep    candidates that the expensive utility judges; by default as many as can meet every pseudo-reference
    """

    kind: ClassVar[str] = "adaptive"
    coarse: Any = "chrf"
    keep: int | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise InputError(f"`keep` of method 'coarse_to_fine' must be at least 1, got {self.keep}")

    @property
    def auxiliaries(self) -> Mapping[str, Any]:
        """The cheap utility."""
        return {"coarse": self.coarse}

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        matrix = (yield every_cell(problem.shape, "coarse")).reshape(problem.shape)
        coarse = expected_utilities(matrix, problem.column_weights)
        return (yield from refine(problem, [coarse], self.keep, problem.budget, rng))
