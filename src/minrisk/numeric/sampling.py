"""Which rows and columns to look at: weighted draws without replacement, with their inclusion probabilities."""

from __future__ import annotations

import numpy as np

from minrisk.types import TARGET, Cells, FloatArray, IntArray, Problem


def inclusion_probabilities(weights: FloatArray, count: int) -> FloatArray:
    """Proportional to weight, at most 1, and `count` in sum: what heavy texts gain by being drawn for certain."""
    support = int(np.count_nonzero(weights))
    if count >= support:
        return (weights > 0).astype(np.float64)
    probabilities = np.zeros(len(weights))
    certain = np.zeros(len(weights), dtype=np.bool_)
    while True:
        rest = ~certain
        probabilities[certain] = 1.0
        probabilities[rest] = weights[rest] * (count - certain.sum()) / weights[rest].sum()
        over = rest & (probabilities >= 1.0)
        if not over.any():
            return probabilities
        certain |= over


def draw(weights: FloatArray, count: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """`count` distinct numbers drawn in proportion to weight, ascending, and how much weight each number stands for.

    Pareto sampling (Rosén 1997): fixed size, one uniform number each, inclusion probabilities met closely. A number
    drawn with probability p stands for weight / p, so that weighted means over the draw estimate those over all.
    Numbers without weight are drawn only when nothing else is left.
    """
    probabilities = inclusion_probabilities(weights, count)
    uniform = rng.random(len(weights))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        odds = uniform / (1 - uniform) * (1 - probabilities) / probabilities
    odds[probabilities == 0] = np.inf
    drawn = np.sort(np.argsort(odds, kind="stable")[:count])
    return drawn, prefix_stands_for(weights, count)


def block(problem: Problem, rows: IntArray, columns: IntArray) -> Cells:
    """The cells of some rows and columns, less the self-pairs that the utility knows without a call."""
    cells = Cells(np.repeat(rows, len(columns)), np.tile(columns, len(rows)))
    free = (problem.twins[cells.rows] == cells.columns) & ~np.isnan(problem.self_values[cells.rows])
    return Cells(cells.rows[~free], cells.columns[~free])


def every_cell(shape: tuple[int, int], utility: str = TARGET) -> Cells:
    """All cells of a matrix, row by row."""
    rows, columns = shape
    return Cells(np.repeat(np.arange(rows), columns), np.tile(np.arange(columns), rows), utility)


def random_order(weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """All numbers, drawn one after the other in proportion to weight; those without weight come last, at random."""
    keys = rng.exponential(size=len(weights))
    with np.errstate(divide="ignore", over="ignore"):
        return np.lexsort((keys, np.where(weights > 0, keys / weights, np.inf))).astype(np.int64)


def prefix_stands_for(weights: FloatArray, count: int) -> FloatArray:
    """The weight that each of the first `count` of a random order stands for: weight / inclusion probability."""
    probabilities = inclusion_probabilities(weights, count)
    return np.divide(weights, probabilities, out=np.zeros(len(weights)), where=probabilities > 0)
