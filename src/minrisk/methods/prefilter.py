"""A pre-filter before any other method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError, unknown_name
from minrisk.methods.given import GIVEN, given_scores
from minrisk.methods.nested import auxiliaries_of, inner, inner_plan, restricted
from minrisk.types import Cells, Plan, Problem, Within

REFERENCES = ("all", "kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefilter:
    """Keep the best candidates by scores given or by quality estimation, and run another method on them.

    Fernandes et al. 2022, "Quality-Aware Decoding for Neural Machine Translation" (two-stage reranking).

    by          "scores" or "logprobs" of the segment, or a quality utility by name
    keep        candidates
    method      what chooses among them: a name, or name(option=value); default: full, or pmbr on a budget
    references  compare with all pseudo-references, or with those kept only
    """

    kind: ClassVar[str] = "adaptive"
    by: Any = "scores"
    keep: int = 16
    method: Any = None
    references: str = "all"

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise InputError(f"`keep` of method 'prefilter' must be at least 1, got {self.keep}")
        if self.references not in REFERENCES:
            raise unknown_name("references", self.references, REFERENCES)
        object.__setattr__(self, "method", inner(self.method))

    @property
    def auxiliaries(self) -> Mapping[str, Any]:
        """The quality utility, and what the inner method uses."""
        own = {} if self.by in GIVEN else {"quality": self.by}
        return own | dict(auxiliaries_of(self.method))

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        rows = np.arange(problem.shape[0])
        if self.by in GIVEN:
            first = given_scores(problem, self.by)
        else:
            first = yield Cells(rows, np.zeros_like(rows), "quality")
        kept = np.sort(np.argsort(-first, kind="stable")[: self.keep])
        columns = np.arange(problem.shape[1])
        if self.references == "kept":
            columns = np.unique(problem.twins[kept][problem.twins[kept] >= 0])
        if not len(columns):
            raise InputError("no pseudo-reference is among the candidates kept")
        yield Within(kept, columns)
        estimate = yield from inner_plan(self.method, restricted(problem, kept, columns), rng)
        values, preference = np.full((2, len(rows)), np.nan)
        values[kept] = estimate.values
        preference[kept] = estimate.values if estimate.preference is None else estimate.preference
        return replace(estimate, values=values, preference=preference, matrix=None, uncertainty=None)
