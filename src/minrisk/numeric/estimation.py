"""Expected utilities from scored cells. Pure functions; u is oriented so that higher is better.

Self-pairs u(h, h) say nothing about how well h agrees with the others, and whether one happens to be among the scored
cells must not matter. So a candidate is judged by its other cells, and its self-pair enters with its weight alone: as
the utility knows it, as scored, or as the mean of the self-pairs that were scored.
"""

from __future__ import annotations

import numpy as np

from minrisk.types import BoolArray, Cells, FloatArray, IntArray, Problem

TURNS = 200
SETTLED = 1e-12
"""Additive effects are settled when no row changes by more than this share of the range of the values."""


def expected_utilities(matrix: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted row means of a full (N, K) matrix: the definition of full MBR."""
    return np.asarray(np.einsum("ij,j->i", matrix, weights))


def with_known_self_pairs(problem: Problem, cells: Cells, values: FloatArray) -> tuple[Cells, FloatArray]:
    """The scored cells and the self-pairs that needed no call."""
    scored = np.zeros(problem.shape[0], dtype=np.bool_)
    scored[cells.rows[is_self_pair(problem, cells)]] = True
    free = np.flatnonzero(~np.isnan(problem.self_values) & ~scored)
    rows = np.concatenate((cells.rows, free))
    columns = np.concatenate((cells.columns, problem.twins[free]))
    return Cells(rows, columns), np.concatenate((values, problem.self_values[free]))


def is_self_pair(problem: Problem, cells: Cells) -> BoolArray:
    """Which cells compare a text with itself: (C,)."""
    return np.asarray(problem.twins[cells.rows] == cells.columns)


def self_pair_values(problem: Problem, cells: Cells, values: FloatArray) -> FloatArray:
    """The self-pair of each row: known, scored, or the mean of those scored; NaN where there is none to go by: (N,)."""
    own = problem.self_values.copy()
    selfs = is_self_pair(problem, cells)
    if selfs.any():
        unknown = (problem.twins >= 0) & np.isnan(own)
        own[unknown] = values[selfs].mean()
        own[cells.rows[selfs]] = values[selfs]
    return own


def filled(problem: Problem, cells: Cells, values: FloatArray) -> FloatArray:
    """The (N, K) matrix of scored cells and known self-pairs, NaN elsewhere."""
    matrix = np.full(problem.shape, np.nan)
    cells, values = with_known_self_pairs(problem, cells, values)
    matrix[cells.rows, cells.columns] = values
    return matrix


def sampled_values(problem: Problem, cells: Cells, values: FloatArray, column_weights: FloatArray) -> FloatArray:
    """Expected utility of each row from the cells of some columns: (N,), NaN for rows without any evidence.

    column_weights  (K,) how much of all samples each sampled column stands for; they matter for scored columns only

    Rows and columns have an additive effect each, fitted to the cells but the self-pairs: so rows that lack cells here
    or there (their self-pair, always; all later columns, once an adaptive method has dropped them) are compared on
    equal terms. With every cell scored this is the exact row mean.
    """
    matrix = filled(problem, cells, values)
    if not np.isnan(matrix).any():
        return expected_utilities(matrix, problem.column_weights)
    judged = ~is_self_pair(problem, cells)
    rows, columns, scores = cells.rows[judged], cells.columns[judged], values[judged]
    deviations, column_means = _additive_effects(rows, columns, scores, column_weights[columns], problem.shape)
    share = np.where(np.isnan(column_means), 0.0, column_weights)
    level = float(np.nansum(share * column_means) / share.sum()) if share.any() else 0.0
    own_weight = np.where(problem.twins >= 0, problem.column_weights[problem.twins], 0.0)
    own_column = np.where(problem.twins >= 0, column_means[problem.twins], level)
    own_column = np.where(np.isnan(own_column), level, own_column)
    own = self_pair_values(problem, cells, values)
    own = np.where(np.isnan(own), deviations + own_column, own)
    return np.asarray(deviations * (1 - own_weight) + level + own_weight * (own - own_column))


def _additive_effects(
    rows: IntArray, columns: IntArray, scores: FloatArray, weights: FloatArray, shape: tuple[int, int]
) -> tuple[FloatArray, FloatArray]:
    """Row effects (N,) and column effects (K,) by least squares, in turns; NaN where there are no cells.

    Where all rows share their columns the first turn is exact but for the self-pairs, and a few more settle it.
    """
    row_effects = np.zeros(shape[0])
    precision = SETTLED * float(np.ptp(scores)) if len(scores) else 0.0
    for _ in range(TURNS):
        column_effects = _means(columns, scores - row_effects[rows], np.ones(len(scores)), shape[1])
        before, row_effects = row_effects, _means(rows, scores - column_effects[columns], weights, shape[0])
        if np.abs(row_effects[rows] - before[rows]).max(initial=0.0) <= precision:
            break
    return row_effects, column_effects


def _means(groups: IntArray, values: FloatArray, weights: FloatArray, count: int) -> FloatArray:
    """Weighted mean of `values` in each of `count` groups; NaN for empty ones."""
    totals = np.bincount(groups, weights=weights, minlength=count)
    sums = np.bincount(groups, weights=weights * values, minlength=count)
    return np.asarray(np.divide(sums, totals, out=np.full(count, np.nan), where=totals > 0))
