"""chrF from n-gram counts, operation for operation as sacreBLEU computes it.

Shapes: O orders (of characters, then of words), P pairs, R rows, C columns.
"""

from __future__ import annotations

from typing import Any

from numba import njit

_NOTHING = 1e-16


# Division as IEEE has it, not as Python has it: a check for zero would keep the loops from vectorising.
@njit(cache=True, nogil=True, error_model="numpy")
def pair_scores(matches: Any, row_totals: Any, column_totals: Any, factor: Any, sums: Any, scores: Any) -> None:
    """Fill scores (P,) from the n-grams that each pair shares and has on either side: all (O, P).

    `sums` (3, P) is room for precisions, recalls and orders that both texts have.
    """
    orders, pairs = matches.shape
    for pair in range(pairs):
        sums[0, pair], sums[1, pair], sums[2, pair] = 0.0, 0.0, 0.0
    for order in range(orders):
        for pair in range(pairs):
            row_total, column_total = row_totals[order, pair], column_totals[order, pair]
            sums[0, pair] += matches[order, pair] / (row_total if row_total > 0 else 1.0)
            sums[1, pair] += matches[order, pair] / (column_total if column_total > 0 else 1.0)
            sums[2, pair] += 1.0 if min(row_total, column_total) > 0 else 0.0
    for pair in range(pairs):
        mean_precision, mean_recall = sums[0, pair] / sums[2, pair], sums[1, pair] / sums[2, pair]
        score = (1 + factor) * mean_precision * mean_recall / (factor * mean_precision + mean_recall)
        scores[pair] = 100 * score if sums[0, pair] > 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def tile_scores(
    matches: Any, row_totals: Any, column_totals: Any, factor: Any, sums: Any, totals_of_row: Any, scores: Any
) -> None:
    """Fill scores (R, C) from matches (R, O, C), row totals (R, O) and column totals (O, C).

    `sums` (3, C) and `totals_of_row` (O, C) are room.
    """
    rows, orders, columns = matches.shape
    for row in range(rows):
        for order in range(orders):
            for column in range(columns):
                totals_of_row[order, column] = row_totals[row, order]
        pair_scores(matches[row], totals_of_row, column_totals, factor, sums, scores[row])


@njit(cache=True, nogil=True, error_model="numpy")
def smooth_scores(matches: Any, row_totals: Any, column_totals: Any, factor: Any, scores: Any) -> None:
    """`pair_scores` where every order counts, those without n-grams with a precision or recall of almost nothing."""
    orders, pairs = matches.shape
    for pair in range(pairs):
        score = 0.0
        for order in range(orders):
            row_total, column_total = row_totals[order, pair], column_totals[order, pair]
            match = matches[order, pair]
            precision = match / row_total if row_total > 0 and column_total > 0 else _NOTHING
            recall = match / column_total if column_total > 0 else _NOTHING
            weight = factor * precision + recall
            score += (1 + factor) * precision * recall / weight if weight > 0 else _NOTHING
        scores[pair] = 100 * score / orders
