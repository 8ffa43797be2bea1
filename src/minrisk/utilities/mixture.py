"""Several utilities as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.types import FloatArray
from minrisk.utilities.base import Sources, Utility


@dataclass(frozen=True)
class Mixture(Utility):
    """A weighted sum of utilities: `0.7*chrf + 0.3*bleu(lowercase=true)`; lower-is-better ones count with a minus."""

    name: ClassVar[str] = "mixture"
    parts: Sequence[Utility]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        if not self.parts or len(self.parts) != len(self.weights):
            raise InputError(
                f"a mixture needs a weight for each utility, got {len(self.parts)} and {len(self.weights)}"
            )
        if not all(0 < weight < math.inf for weight in self.weights):
            raise InputError(f"the weights of a mixture must be above zero and finite, got {list(self.weights)}")

    @property
    def needs_source(self) -> bool:  # type: ignore[override]
        """Whether any part does."""
        return any(part.needs_source for part in self.parts)

    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        return self.mixed(part.score(candidates, pseudo_references, sources) for part in self.parts)

    def matrix(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], source: str | None = None
    ) -> FloatArray:
        return self.mixed(part.matrix(candidates, pseudo_references, source) for part in self.parts)

    def aggregate(
        self,
        candidates: Sequence[str],
        pseudo_references: Sequence[str],
        weights: FloatArray,
        source: str | None = None,
    ) -> FloatArray:
        return self.mixed(part.aggregate(candidates, pseudo_references, weights, source) for part in self.parts)

    def self_values(self, texts: Sequence[str]) -> FloatArray | None:
        known = [values for part in self.parts if (values := part.self_values(texts)) is not None]
        return self.mixed(known) if len(known) == len(self.parts) else None

    def mixed(self, values: Iterable[FloatArray]) -> FloatArray:
        """The weighted sum of the parts' values, higher being better."""
        signs = (
            weight if part.higher_is_better else -weight for part, weight in zip(self.parts, self.weights, strict=True)
        )
        return np.asarray(sum(sign * value for sign, value in zip(signs, values, strict=True)))

    def signature(self) -> str:
        parts = (f"{weight}*{part.signature()}" for part, weight in zip(self.parts, self.weights, strict=True))
        return f"{self.name}({'+'.join(parts)})"
