"""Designs: which cells of an (N, K) matrix to score.

Every design takes (shape, count, rng, forbidden) and returns the rows and columns of exactly `count` distinct cells,
sorted by flat index i * K + j. `forbidden` holds cells that must never be drawn, such as self-pairs: a boolean (N, K)
array, or flat indices.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike

from minrisk.errors import InputError
from minrisk.types import FloatArray, IntArray

Drawn = tuple[IntArray, IntArray]

_ROUNDING = 1e-9


def uniform(shape: tuple[int, int], count: int, rng: np.random.Generator, forbidden: ArrayLike | None = None) -> Drawn:
    """Every set of `count` allowed cells is equally likely: the paper's design."""
    barred = _barred(shape, count, forbidden)
    places = np.sort(rng.choice(shape[0] * shape[1] - len(barred), size=count, replace=False))
    # The k-th allowed cell comes after as many barred ones as have at most k allowed cells before them.
    return _cells(shape, places + np.searchsorted(barred - np.arange(len(barred)), places, side="right"))


def weighted(
    shape: tuple[int, int],
    count: int,
    rng: np.random.Generator,
    forbidden: ArrayLike | None = None,
    row_weights: ArrayLike | None = None,
    column_weights: ArrayLike | None = None,
) -> Drawn:
    """Cells drawn one after the other in proportion to row weight times column weight; weight 0 is never drawn."""
    barred = _barred(shape, count, forbidden)
    weights = np.outer(_weights(row_weights, shape[0], "row"), _weights(column_weights, shape[1], "column"))
    weights.flat[barred] = 0.0
    possible = int(np.count_nonzero(weights))
    if possible < count:
        raise InputError(f"`count` is {count}, but only {possible} allowed cells have a weight above zero")
    # Exponential clocks ticking at the cells' weights: the first `count` to ring are such a draw.
    with np.errstate(divide="ignore"):
        times = rng.standard_exponential(weights.size) / weights.ravel()
    first = np.argpartition(times, count - 1)[:count] if count else np.empty(0, dtype=np.int64)
    return _cells(shape, np.sort(first))


def balanced(
    shape: tuple[int, int],
    count: int,
    rng: np.random.Generator,
    forbidden: ArrayLike | None = None,
    row_weights: ArrayLike | None = None,
    column_weights: ArrayLike | None = None,
) -> Drawn:
    """Random cells such that all rows have equally many, and all columns too, to within one.

    With weights, the numbers are proportional to them, to within one. Rows and columns with too few allowed cells get
    all of those. Where that leaves no design, rows keep their numbers and columns come as near as happens.
    """
    barred = _barred(shape, count, forbidden)
    allowed = np.ones(shape, dtype=np.bool_)
    allowed.flat[barred] = False
    row_room, column_room = allowed.sum(axis=1), allowed.sum(axis=0)
    row_shares = _shares(count, row_room, _weights(row_weights, shape[0], "row"), rng)
    column_shares = _shares(count, column_room, _weights(column_weights, shape[1], "column"), rng)
    dense = 2 * count > allowed.sum()
    if dense:  # then the cells left out are the sparse, easier design
        row_shares, column_shares = row_room - row_shares, column_room - column_shares
    rows = np.repeat(np.arange(shape[0]), row_shares)
    columns = rng.permutation(np.repeat(np.arange(shape[1]), column_shares))
    order = rng.permutation(len(rows))
    chosen = np.zeros(shape, dtype=np.bool_)
    _place(rows[order], columns[order], column_shares, allowed, chosen)
    return _cells(shape, np.flatnonzero(allowed & ~chosen if dense else chosen))


def _shares(count: int, room: IntArray, weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """`count` dealt out in proportion to weight over places with limited room, rounded up or down at random."""
    possible = int(room[weights > 0].sum())
    if possible < count:
        raise InputError(f"`count` is {count}, but only {possible} allowed cells have a weight above zero")
    exact = np.zeros(len(room))
    full = weights == 0.0
    while not full.all():
        exact[~full] = weights[~full] * (count - exact[full].sum()) / weights[~full].sum()
        over = ~full & (exact >= room)
        if not over.any():
            break
        exact[over] = room[over]
        full |= over
    # Systematic sampling: a comb with teeth one apart hits every fraction with just its probability.
    shares = np.floor(exact + _ROUNDING).astype(np.int64)
    order = rng.permutation(len(room))
    heights = np.concatenate(([0.0], np.cumsum((exact - shares)[order])))
    heights[-1] = count - shares.sum()
    shares[order] += np.diff(np.floor(heights + rng.random())).astype(np.int64)
    return shares


@numba.njit(cache=True, nogil=True)
def _place(rows: Any, columns: Any, missing: Any, allowed: Any, chosen: Any) -> None:
    """Choose a cell in every one of `rows`, if possible in the column beside it, moving earlier cells out of the way.

    missing  (K,) how many cells each column still lacks
    """
    for c in range(len(rows)):
        row, column = rows[c], columns[c]
        if allowed[row, column] and not chosen[row, column] and missing[column] > 0:
            chosen[row, column] = True
            missing[column] -= 1
        elif not _exchange(row, column, missing, allowed, chosen):
            _settle(row, allowed, chosen)


@numba.njit(cache=True, nogil=True)
def _exchange(row: int, first: int, missing: Any, allowed: Any, chosen: Any) -> bool:
    """One more cell in `row` and in a column that lacks one, all else keeping its number: an alternating path.

    Breadth first: a row takes a free cell of some column, whose place another row gives up for a cell elsewhere, until
    a column with room is met. Columns are tried from `first` on. This finds a path whenever there is one.
    """
    count, width = allowed.shape
    left_by = np.full(count, -1)  # the column whose cell a row gave up
    taken_by = np.full(width, -1)  # the row that takes a free cell of a column
    goal = first
    while missing[goal] == 0:
        goal = (goal + 1) % width
    queue = np.empty(count, dtype=np.int64)
    queue[0] = row
    length = 1
    for head in range(count):
        if head == length:
            break
        current = queue[head]
        for step in range(width):
            other = (first + step) % width
            if taken_by[other] >= 0 or not allowed[current, other] or chosen[current, other]:
                continue
            if missing[other] > 0:
                _shift(row, current, other, left_by, taken_by, missing, chosen)
                return True
            taken_by[other] = current
            for holder in range(count):
                if chosen[holder, other] and left_by[holder] < 0 and holder != row:
                    left_by[holder] = other
                    queue[length] = holder
                    length += 1
                    if allowed[holder, goal] and not chosen[holder, goal]:
                        _shift(row, holder, goal, left_by, taken_by, missing, chosen)
                        return True
    return False


@numba.njit(cache=True, nogil=True)
def _shift(row: int, last: int, column: int, left_by: Any, taken_by: Any, missing: Any, chosen: Any) -> None:
    """Exchange the cells along the path from `row` to the free cell (last, column)."""
    missing[column] -= 1
    chosen[last, column] = True
    while last != row:
        freed = left_by[last]
        chosen[last, freed] = False
        last = taken_by[freed]
        chosen[last, freed] = True


@numba.njit(cache=True, nogil=True)
def _settle(row: int, allowed: Any, chosen: Any) -> None:
    """Choose the free cell of `row` whose column has fewest."""
    best, fewest = -1, len(allowed) + 1
    for column in range(allowed.shape[1]):
        number = 0
        for other in range(len(allowed)):
            number += chosen[other, column]
        if allowed[row, column] and not chosen[row, column] and number < fewest:
            best, fewest = column, number
    chosen[row, best] = True


def _barred(shape: tuple[int, int], count: int, forbidden: ArrayLike | None) -> IntArray:
    """The forbidden cells as sorted distinct flat indices, once shape and count make sense together."""
    size = shape[0] * shape[1]
    if forbidden is None:
        barred = np.empty(0, dtype=np.int64)
    else:
        given = np.asarray(forbidden)
        if given.dtype == np.bool_ and given.shape == tuple(shape):
            barred = np.flatnonzero(given)
        elif given.ndim == 1 and (given.dtype.kind in "iu" or not given.size):
            barred = np.unique(given).astype(np.int64)
        else:
            raise InputError(
                f"`forbidden` must be a boolean array shaped {tuple(shape)} or flat indices, "
                f"got an array of {given.dtype} shaped {given.shape}"
            )
        if barred.size and (barred[0] < 0 or barred[-1] >= size):
            raise InputError(f"`forbidden` must lie in [0, {size}), got {barred[0]} to {barred[-1]}")
    if not 0 <= count <= size - len(barred):
        raise InputError(
            f"`count` must lie between 0 and the {size - len(barred)} cells that may be drawn, got {count}"
        )
    return barred


def _weights(given: ArrayLike | None, length: int, name: str) -> FloatArray:
    weights = np.ones(length) if given is None else np.asarray(given, dtype=np.float64)
    if weights.shape != (length,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError(f"`{name}_weights` must be {length} finite numbers, none below zero")
    return weights


def _cells(shape: tuple[int, int], flat: IntArray) -> Drawn:
    return flat // shape[1], flat % shape[1]
