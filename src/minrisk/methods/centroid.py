"""Centroids: pseudo-references folded by similarity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.numeric.folding import group_weights, nearest_groups
from minrisk.numeric.sampling import draw
from minrisk.types import TARGET, Encodings, Estimate, Folded, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Centroid:
    """Cluster the pseudo-references and score against the centre of each cluster (CBMBR).

    Deguchi et al. 2024, "Centroid-Based Efficient Minimum Bayes Risk Decoding".

    clusters    how many; as many as the budget allows at most
    iterations  of k-means
    by_mass     weigh a cluster by its share of the samples; without it all count the same, as in the paper
    encoder     another utility whose encodings are clustered; by default the utility's own

    Needs a utility that can fold pseudo-references. As with `aggregate`, self-pairs steer, and a full budget is not
    full MBR.
    """

    kind: ClassVar[str] = "sampling"
    clusters: int = 8
    iterations: int = 5
    by_mass: bool = True
    encoder: Any = None

    def __post_init__(self) -> None:
        for name in ("clusters", "iterations"):
            if getattr(self, name) < 1:
                raise InputError(f"`{name}` of method 'centroid' must be at least 1, got {getattr(self, name)}")

    @property
    def auxiliaries(self) -> Mapping[str, Any]:
        """The encoder, if it is not the utility."""
        return {} if self.encoder is None else {"encoder": self.encoder}

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        points = yield Encodings(TARGET if self.encoder is None else "encoder")
        rows = np.arange(problem.shape[0])
        if problem.budget < len(rows):
            rows = draw(problem.row_weights, problem.budget, rng)[0]
        count = min(self.clusters, problem.budget // len(rows), problem.shape[1])
        groups = nearest_groups(points, problem.column_weights, count, self.iterations, rng)
        weights, masses = group_weights(groups, problem.column_weights)
        folded = (yield Folded(rows, weights)).reshape(len(rows), len(weights))
        values = np.full(problem.shape[0], np.nan)
        values[rows] = folded @ (masses if self.by_mass else np.full(len(masses), 1 / len(masses)))
        return Estimate(values=values)
