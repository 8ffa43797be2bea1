"""Choosing several candidates that go well together. Pure functions; higher is better, and more similar."""

from __future__ import annotations

import numpy as np

from minrisk.types import FloatArray, IntArray


def diverse(
    quality: FloatArray, similarity: FloatArray, size: int, penalty: float, steps: int, rng: np.random.Generator
) -> IntArray:
    """`size` candidates with the highest mean quality less `penalty` x mean similarity among them; best first.

    quality     (N,)
    similarity  (N, N)

    Greedy, then `steps` times: one member at random gives its place to the best outsider, unless that is worse. The
    similarity of every candidate to the members is kept as a sum, so that a step costs N.
    """
    alike = (similarity + similarity.T) / 2
    np.fill_diagonal(alike, 0.0)
    size = min(size, len(quality))
    # Twice the similarity to the members over k (k - 1) is what one more member of k costs.
    share = 2 * penalty / (size * max(1, size - 1))
    members = np.zeros(len(quality), dtype=np.bool_)
    crowding = np.zeros(len(quality))

    def move(candidate: int, sign: int) -> None:
        members[candidate] = sign > 0
        crowding[:] += sign * alike[candidate]

    def best_outsider() -> int:
        return int(np.argmax(np.where(members, -np.inf, quality / size - share * crowding)))

    for _ in range(size):
        move(best_outsider(), 1)
    for _ in range(steps):
        leaving = int(rng.choice(np.flatnonzero(members)))
        move(leaving, -1)
        entering = best_outsider()
        gains = quality[[entering, leaving]] / size - share * crowding[[entering, leaving]]
        move(entering if gains[0] > gains[1] else leaving, 1)
    chosen = np.flatnonzero(members)
    return chosen[np.argsort(-quality[chosen], kind="stable")]


def medoids(similarity: FloatArray, weights: FloatArray, size: int) -> IntArray:
    """`size` candidates such that the texts are most similar to the nearest of them; the one that helps most first.

    similarity  (N, N), of candidate (row) to text (column)
    weights     (N,) of the texts

    Greedy, then the best swap of a medoid for another candidate as long as one helps (k-medoids).
    """
    size = min(size, len(weights))
    nearest = np.full(len(weights), -np.inf)
    chosen: list[int] = []
    for _ in range(size):
        gains = np.maximum(similarity, nearest) @ weights
        gains[chosen] = -np.inf
        chosen.append(int(np.argmax(gains)))
        nearest = np.maximum(nearest, similarity[chosen[-1]])
    for _ in range(100 * size):
        value = float(nearest @ weights)
        swap, place, candidate = max(
            (_best_swap(similarity, weights, chosen, place) for place in range(size)), key=lambda found: found[0]
        )
        if swap <= value * (1 + 1e-12 * np.sign(value)):
            break
        chosen[place] = candidate
        nearest = similarity[chosen].max(axis=0)
    return np.array(chosen, dtype=np.int64)


def _best_swap(similarity: FloatArray, weights: FloatArray, chosen: list[int], place: int) -> tuple[float, int, int]:
    """The value, the place and the candidate of the best replacement of one medoid."""
    others = [row for number, row in enumerate(chosen) if number != place]
    covered = similarity[others].max(axis=0) if others else np.full(len(weights), -np.inf)
    gains = np.maximum(similarity, covered) @ weights
    gains[chosen] = -np.inf
    candidate = int(np.argmax(gains))
    return float(gains[candidate]), place, candidate
