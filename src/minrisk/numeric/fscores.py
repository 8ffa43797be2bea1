"""chrF from n-gram counts, operation for operation as sacreBLEU computes it.

Shapes: O orders (of characters, then of words), P pairs, R rows, C columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_NOTHING = 1e-16


# Division as IEEE has it, not as Python has it: a check for zero would keep the loops from vectorising.
@njit(cache=True, nogil=True, error_model="numpy")
def pair_scores(matches: Any, row_totals: Any, column_totals: Any, factor: Any, smooth: Any, scores: Any) -> None:
    """Fill scores (P,) from the n-grams that each pair shares and has on either side: all (O, P)."""
    orders, pairs = matches.shape
    if smooth:
        _smooth_pair_scores(matches, row_totals, column_totals, factor, scores)
        return
    precision, recall, both = np.zeros(pairs), np.zeros(pairs), np.zeros(pairs)
    for order in range(orders):
        for pair in range(pairs):
            row_total, column_total = row_totals[order, pair], column_totals[order, pair]
            precision[pair] += matches[order, pair] / (row_total if row_total > 0 else 1.0)
            recall[pair] += matches[order, pair] / (column_total if column_total > 0 else 1.0)
            both[pair] += 1.0 if min(row_total, column_total) > 0 else 0.0
    for pair in range(pairs):
        mean_precision, mean_recall = precision[pair] / both[pair], recall[pair] / both[pair]
        score = (1 + factor) * mean_precision * mean_recall / (factor * mean_precision + mean_recall)
        scores[pair] = 100 * score if precision[pair] > 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _smooth_pair_scores(matches: Any, row_totals: Any, column_totals: Any, factor: Any, scores: Any) -> None:
    """`pair_scores` where every order counts, those without n-grams with a precision or recall of almost nothing."""
    orders, pairs = matches.shape
    scores[:] = 0
    for order in range(orders):
        for pair in range(pairs):
            row_total, column_total = row_totals[order, pair], column_totals[order, pair]
            match = matches[order, pair]
            precision = match / row_total if row_total > 0 and column_total > 0 else _NOTHING
            recall = match / column_total if column_total > 0 else _NOTHING
            weight = factor * precision + recall
            scores[pair] += (1 + factor) * precision * recall / weight if weight > 0 else _NOTHING
    for pair in range(pairs):
        scores[pair] = 100 * scores[pair] / orders


@njit(cache=True, nogil=True, error_model="numpy")
def tile_scores(matches: Any, row_totals: Any, column_totals: Any, factor: Any, smooth: Any, scores: Any) -> None:
    """Fill scores (R, C) from matches (R, O, C), row totals (R, O) and column totals (O, C)."""
    rows, orders, columns = matches.shape
    totals_of_row = np.empty((orders, columns))
    for row in range(rows):
        for order in range(orders):
            for column in range(columns):
                totals_of_row[order, column] = row_totals[row, order]
        pair_scores(matches[row], totals_of_row, column_totals, factor, smooth, scores[row])
