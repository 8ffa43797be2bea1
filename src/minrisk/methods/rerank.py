"""Quality estimation instead of comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.methods.given import GIVEN, given_scores
from minrisk.numeric.sampling import draw
from minrisk.types import Cells, Estimate, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank:
    """The best by quality estimation, without references: by a quality utility, or by scores given (QE reranking).

    Fernandes et al. 2022, "Quality-Aware Decoding for Neural Machine Translation".

    by  "scores" or "logprobs" of the segment, a quality utility by name, or nothing: the utility itself is one
    """

    kind: ClassVar[str] = "reference-free"
    by: Any = None

    @property
    def auxiliaries(self) -> Mapping[str, Any]:
        """The quality utility, if it is not the utility itself."""
        return {} if self.by is None or self.by in GIVEN else {"quality": self.by}

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        unknown = np.full(problem.shape[0], np.nan)
        if self.by in GIVEN:
            return Estimate(values=unknown, preference=given_scores(problem, self.by))
        rows = np.arange(problem.shape[0])
        if self.by is not None:
            return Estimate(values=unknown, preference=(yield Cells(rows, np.zeros_like(rows), "quality")))
        if problem.shape[1] != 1:
            raise InputError(
                "method 'rerank' needs a quality utility, or `by`: scores, logprobs or the name of a quality utility"
            )
        rows = rows if problem.budget >= len(rows) else draw(problem.row_weights, problem.budget, rng)[0]
        unknown[rows] = yield Cells(rows, np.zeros_like(rows))
        return Estimate(values=unknown)
