"""Groups of pseudo-references to be folded into one each."""

from __future__ import annotations

import numpy as np

from minrisk.types import FloatArray, IntArray


def random_groups(weights: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """A group for each of K columns at random, `count` groups of about equally many columns with weight: (K,)."""
    order = rng.permutation(len(weights))
    order = order[np.argsort(weights[order] <= 0, kind="stable")]
    groups = np.empty(len(weights), dtype=np.int64)
    groups[order] = np.arange(len(weights)) % count
    return groups


def group_weights(groups: IntArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The shares of the columns within each group that has any weight, and the groups' masses: (G, K) and (G,)."""
    masses = np.bincount(groups, weights=weights)
    held = np.flatnonzero(masses > 0)
    shares = np.where(groups == held[:, None], weights, 0.0) / masses[held, None]
    return shares, masses[held] / masses.sum()


def nearest_groups(
    points: FloatArray, weights: FloatArray, count: int, turns: int, rng: np.random.Generator
) -> IntArray:
    """k-means with k-means++ starts: the cluster of each of K weighted points (K, d).

    A start is drawn with probability proportional to weight times squared distance from the starts before it. Ends when
    assignments repeat, or after `turns`; a cluster that loses its points keeps its centre.
    """
    centres = points[[int(rng.choice(len(points), p=weights / weights.sum()))]]
    while len(centres) < count:
        chances = weights * _squared_distances(points, centres).min(axis=1)
        if chances.sum() <= 0:
            break
        centres = np.vstack((centres, points[int(rng.choice(len(points), p=chances / chances.sum()))]))
    groups = _squared_distances(points, centres).argmin(axis=1)
    for _ in range(turns):
        for group in range(len(centres)):
            mass = weights * (groups == group)
            if mass.sum() > 0:
                centres[group] = mass @ points / mass.sum()
        before, groups = groups, _squared_distances(points, centres).argmin(axis=1)
        if (groups == before).all():
            break
    return np.asarray(groups, dtype=np.int64)


def _squared_distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    """(K, G); never below zero, whatever the rounding."""
    squares = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(squares, 0.0))
