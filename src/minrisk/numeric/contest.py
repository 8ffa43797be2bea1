"""Who may still win, and what to score next to find out. Pure functions; higher is better."""

from __future__ import annotations

import numpy as np

from minrisk.types import BoolArray, FloatArray, IntArray

OWN = 0.5
"""Variance of what a column has of its own, beside that of what its coordinates share with others'."""
PLANNED = 64
"""Columns put in order one by one; the rest follows by weight."""


def column_order(weights: FloatArray, coordinates: FloatArray) -> IntArray:
    """All columns, those first that together tell the most of the weighted mean over all: (K,).

    weights  (K,); coordinates (K, d) such that columns near each other judge alike
    A value of column j is z_j theta + e_j. Each pick takes the most of the variance of sum_j w_j (z_j theta + e_j) that
    is left: a heavy column, or one that stands for many.
    """
    count = min(len(weights), PLANNED)
    covariance = np.eye(coordinates.shape[1])
    target = weights @ coordinates
    left = np.ones(len(weights), dtype=np.bool_)
    picked = np.empty(count, dtype=np.int64)
    for turn in range(count):
        shared = coordinates @ covariance
        variance = np.einsum("jd,jd->j", shared, coordinates) + OWN
        gain = np.square(shared @ target + weights * OWN) / variance
        # Rounding must not decide between equals.
        gain = np.where(left, np.round(gain / gain.max(), 9), -1.0)
        column = int(np.argmax(gain))
        picked[turn] = column
        left[column] = False
        covariance -= np.outer(shared[column], shared[column]) / variance[column]
        target = target - weights[column] * coordinates[column]
    rest = np.flatnonzero(left)
    return np.concatenate((picked, rest[np.argsort(-weights[rest], kind="stable")]))


def draws_of(means: FloatArray, common: FloatArray, own: FloatArray, normals: FloatArray) -> FloatArray:
    """Values that all rows may have, drawn together: (N, D). See `Model.sums` for the arguments.

    normals  (at least N + q, D) standard normal numbers; the same ones round by round make rounds comparable
    """
    rows, width = common.shape
    return np.asarray(means[:, None] + common @ normals[rows : rows + width] + np.sqrt(own)[:, None] * normals[:rows])


def chances(draws: FloatArray) -> FloatArray:
    """How often each row is the best: (N,)."""
    return np.asarray(np.bincount(np.argmax(draws, axis=0), minlength=len(draws)) / draws.shape[1])


def survivors(preference: FloatArray, count: float) -> FloatArray:
    """Equal shares for the best `count`, none for others: (N,)."""
    shares = np.zeros(len(preference))
    shares[np.argsort(-preference, kind="stable")[: max(1, round(count))]] = 1.0
    return np.asarray(shares / shares.sum())


def harmonic(preference: FloatArray) -> FloatArray:
    """Shares that fall as 1 / rank: (N,)."""
    shares = np.empty(len(preference))
    shares[np.argsort(-preference, kind="stable")] = 1.0 / np.arange(1, len(preference) + 1)
    return np.asarray(shares / shares.sum())


def topped_up(have: FloatArray, most: FloatArray, shares: FloatArray, count: int) -> IntArray:
    """How many cells each row gets of `count`, so that what it has then is in proportion to its share: (N,).

    have  (N,) what it has already, which is not taken away; most (N,) how many more it can take
    """
    count = int(min(count, most.sum()))
    exact = np.zeros(len(have))
    due = np.flatnonzero((shares > 0) & (most > 0))
    if len(due):
        # What all rows get together grows linearly with the level, but where one begins or ceases to get cells.
        have, limit, share = have[due], most[due], shares[due]
        bends = np.unique(np.concatenate((have / share, (have + limit) / share)))
        sums = np.clip(bends[:, None] * share - have, 0.0, limit).sum(axis=1)
        exact[due] = np.clip(np.interp(count, sums, bends) * share - have, 0.0, limit)
    whole = np.floor(exact + 1e-9)
    # What is left goes to the largest remainders, then to the largest shares.
    order = np.lexsort((-shares, -np.round(exact - whole, 9)))
    order = np.concatenate([order] * 2)
    left = count - int(whole.sum())
    for row in order:
        if left <= 0:
            break
        if whole[row] < most[row]:
            whole[row] += 1
            left -= 1
    return whole.astype(np.int64)


def next_cells(open_cells: BoolArray, order: IntArray, wanted: IntArray) -> tuple[IntArray, IntArray]:
    """The first `wanted` (N,) open cells (N, K) of each row, columns taken in this order: rows and columns."""
    given = np.flatnonzero(wanted)
    ordered = open_cells[np.ix_(given, order)]
    rows, places = np.nonzero(ordered & (np.cumsum(ordered, axis=1, dtype=np.int32) <= wanted[given, None]))
    return given[rows], order[places]
