"""Many small ridge regressions at once: every row of one side of a matrix on the factors of the other side.

LANES rows are solved side by side. Rows are sorted by their number of cells, so that the rows of such a group are about
equally deep and little is padded. A group whose rows have fewer cells than the rank is solved in its dual form, a
system of one unknown a cell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from minrisk.numeric.lanes import (
    LANES,
    backward,
    factorize,
    forward,
    load,
    pick,
    plus_product,
    product,
    spread,
    store,
    total,
)
from minrisk.numeric.sparse import Observed
from minrisk.types import FloatArray, IntArray

CHUNK = 16
"""Cells of a row taken up at a time: as many as stay in the nearest cache at the usual ranks."""

Work = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


class Groups(NamedTuple):
    """Rows in groups of LANES, each padded to its deepest row: cell t of a group's rows at [(start + t) * LANES].

    members   (G LANES,) row numbers, -1 for a lane without a row; rows without cells are in no group
    starts    (G + 1,) first cell slot of each group
    others    (S LANES,) the column of each cell; 0 where padded
    targets   (S LANES,) root of the weight times value; 0 where padded
    roots     (S LANES,) root of the weight; 0 where padded
    """

    members: IntArray
    starts: IntArray
    others: IntArray
    targets: FloatArray
    roots: FloatArray


def both_sides(observed: Observed) -> tuple[Groups, Groups]:
    """The cells laid out for solving the rows, and for solving the columns."""
    order = observed.by_column
    by_row = _grouped(observed.row_starts, observed.columns, observed.values, observed.weights)
    by_column = _grouped(observed.column_starts, observed.rows[order], observed.values[order], observed.weights[order])
    return by_row, by_column


def _grouped(starts: IntArray, others: IntArray, values: FloatArray, weights: FloatArray) -> Groups:
    counts = np.diff(starts)
    rows = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    members = np.full(-(-len(rows) // LANES) * LANES, -1)
    members[: len(rows)] = rows
    group_starts = np.zeros(len(members) // LANES + 1, dtype=np.int64)
    np.cumsum(counts[rows[::LANES]], out=group_starts[1:])
    return Groups(members, group_starts, *_laid_out(rows, group_starts, starts, others, values, np.sqrt(weights)))


@numba.njit(cache=True, nogil=True)
def _laid_out(rows: Any, group_starts: Any, starts: Any, others: Any, values: Any, roots: Any) -> Any:
    """The cells of each row in the lane that is its own: columns, targets and roots, zeros where padded."""
    size = group_starts[-1] * LANES
    laid_others, targets, laid_roots = np.zeros(size, dtype=np.int64), np.zeros(size), np.zeros(size)
    for place, row in enumerate(rows):
        slot = group_starts[place // LANES] * LANES + place % LANES
        for cell in range(starts[row], starts[row + 1]):
            laid_others[slot] = others[cell]
            targets[slot] = roots[cell] * values[cell]
            laid_roots[slot] = roots[cell]
            slot += LANES
    return laid_others, targets, laid_roots


@numba.njit(cache=True, nogil=True)
def work_space(rank: int) -> Work:
    """Room for the features of the cells taken up at a time, the matrices, their right sides and the solutions."""
    features = np.empty(max(rank, CHUNK) * rank * LANES)
    matrices = np.empty(rank * (rank + 1) // 2 * LANES)
    return features, matrices, np.empty(rank * LANES), np.empty(rank * LANES)


@numba.njit(cache=True, nogil=True)
def solve_side(groups: Any, fixed: Any, solved: Any, regularization: float, work: Any) -> float:
    """Minimise sum over cells of w (m - x . y)^2 + regularization |x|^2 for every row; the sum of the minima.

    fixed (rank, K) and solved (rank, N), which is overwritten where a row has cells
    """
    rank = len(fixed)
    prior = np.zeros(rank * (rank + 1) // 2)
    for i in range(rank):
        prior[i * (i + 1) // 2 + i] = regularization
    objective = 0.0
    for group in range(len(groups.starts) - 1):
        start, stop = groups.starts[group], groups.starts[group + 1]
        if stop - start < rank:
            objective += _solve_dual(groups, start, stop, fixed, regularization, work)
        else:
            _, matrices, sides, solutions = work
            squares = _gather(groups, start, stop, fixed, prior, work)
            factorize(matrices, rank)
            for i in range(rank):
                store(solutions, i * LANES, load(sides, i * LANES))
            forward(matrices, solutions, rank)
            backward(matrices, solutions, rank)
            # At the minimum, |m - Z x|^2 + regularization |x|^2 = m'm - (Z'm)'x.
            explained = spread(0.0)
            for i in range(rank):
                explained = plus_product(explained, load(sides, i * LANES), load(solutions, i * LANES))
            objective += squares - total(explained)
        _hand_back(groups, group, work[3], solved)
    return objective


@numba.njit(cache=True, nogil=True)
def sample_side(groups: Any, fixed: Any, solved: Any, prior: Any, shift: Any, work: Any) -> None:
    """Draw x ~ N(A^-1 b, v A^-1) for every row, where A = prior + Z'Z and b = shift + Z'm.

    fixed (rank, K); solved (rank, N) holds normal numbers of variance v and is overwritten where a row has cells
    prior (rank (rank + 1) / 2,) lower triangle, row by row; shift (rank,)
    """
    rank = len(fixed)
    _, matrices, sides, _ = work
    for group in range(len(groups.starts) - 1):
        _gather(groups, groups.starts[group], groups.starts[group + 1], fixed, prior, work)
        factorize(matrices, rank)
        for i in range(rank):
            store(sides, i * LANES, plus_product(load(sides, i * LANES), spread(shift[i]), spread(1.0)))
        forward(matrices, sides, rank)
        for lane in range(LANES):
            row = groups.members[group * LANES + lane]
            if row >= 0:
                for i in range(rank):
                    sides[i * LANES + lane] += solved[i, row]
        backward(matrices, sides, rank)
        _hand_back(groups, group, sides, solved)


@numba.njit(cache=True, nogil=True)
def _solve_dual(groups: Any, start: int, stop: int, fixed: Any, regularization: float, work: Any) -> Any:
    """(Z Z' + regularization) w = m and x = Z' w, at which the ridge objective is regularization m' w."""
    features, matrices, sides, solutions = work
    rank, depth = len(fixed), stop - start
    for t in range(depth):
        root = load(groups.roots, (start + t) * LANES)
        for i in range(rank):
            factor = pick(fixed[i], groups.others, (start + t) * LANES)
            store(features, (i * depth + t) * LANES, product(root, factor))
        store(sides, t * LANES, load(groups.targets, (start + t) * LANES))
    place = 0
    for i in range(depth):
        for j in range(i + 1):
            store(matrices, place, spread(regularization if i == j else 0.0))
            place += LANES
    _accumulate(features, rank, depth, matrices)
    factorize(matrices, depth)
    forward(matrices, sides, depth)
    backward(matrices, sides, depth)
    objective = spread(0.0)
    for t in range(depth):
        objective = plus_product(objective, load(sides, t * LANES), load(groups.targets, (start + t) * LANES))
    for i in range(rank):
        solution = spread(0.0)
        for t in range(depth):
            solution = plus_product(solution, load(features, (i * depth + t) * LANES), load(sides, t * LANES))
        store(solutions, i * LANES, solution)
    return regularization * total(objective)


@numba.njit(cache=True, nogil=True)
def _gather(groups: Any, start: int, stop: int, fixed: Any, prior: Any, work: Any) -> Any:
    """The normal equations of a group: matrices = prior + Z'Z, sides = Z'm; returns the sum of m'm."""
    features, matrices, sides, _ = work
    rank = len(fixed)
    for place in range(len(prior)):
        store(matrices, place * LANES, spread(prior[place]))
    for i in range(rank):
        store(sides, i * LANES, spread(0.0))
    squares = spread(0.0)
    for first in range(start, stop, CHUNK):
        depth = min(CHUNK, stop - first)
        for t in range(depth):
            root = load(groups.roots, (first + t) * LANES)
            target = load(groups.targets, (first + t) * LANES)
            squares = plus_product(squares, target, target)
            for i in range(rank):
                feature = product(root, pick(fixed[i], groups.others, (first + t) * LANES))
                store(features, (t * rank + i) * LANES, feature)
                store(sides, i * LANES, plus_product(load(sides, i * LANES), feature, target))
        _accumulate(features, depth, rank, matrices)
    return total(squares)


@numba.njit(cache=True, nogil=True)
def _accumulate(features: Any, count: int, size: int, matrices: Any) -> None:
    """Add the outer products of `count` vectors of `size` elements to the lower triangles."""
    for i in range(size):
        row = i * (i + 1) // 2
        for j in range(0, i, 2):  # two at a time, because reading is what takes the time
            place = (row + j) * LANES
            element = load(matrices, place)
            neighbour = load(matrices, place + LANES)
            for k in range(0, count * size, size):
                left = load(features, (k + i) * LANES)
                element = plus_product(element, left, load(features, (k + j) * LANES))
                neighbour = plus_product(neighbour, left, load(features, (k + j + 1) * LANES))
            store(matrices, place, element)
            store(matrices, place + LANES, neighbour)
        if i % 2 == 0:
            place = (row + i) * LANES
            element = load(matrices, place)
            for k in range(0, count * size, size):
                left = load(features, (k + i) * LANES)
                element = plus_product(element, left, left)
            store(matrices, place, element)


@numba.njit(cache=True, nogil=True)
def _hand_back(groups: Any, group: int, solutions: Any, solved: Any) -> None:
    for lane in range(LANES):
        row = groups.members[group * LANES + lane]
        if row >= 0:
            for i in range(len(solved)):
                solved[i, row] = solutions[i * LANES + lane]
