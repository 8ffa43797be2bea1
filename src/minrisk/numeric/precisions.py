"""Sentence BLEU from n-gram counts.

Shapes: O orders, P pairs, R rows, C columns. A text's length is its number of 1-grams.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

SMOOTHINGS = ("none", "floor", "add-k", "exp")
_FLOOR, _ADD_K, _EXP = 1, 2, 3


@njit(cache=True, nogil=True, error_model="numpy")
def pair_scores(
    matches: Any, row_totals: Any, column_totals: Any, smoothing: Any, value: Any, effective: Any, scores: Any
) -> None:
    """Fill scores (P,) from the n-grams that each pair shares and has on either side: all (O, P).

    A score is 100 times the brevity penalty times exp(mean of log precision). The logarithm of a product of a few
    precisions is taken at once: of so few that the product stays within the range of a double.
    """
    orders, pairs = matches.shape
    at_once = 4 if orders <= 32 else 1
    halving = 0.5 if smoothing == _EXP else 1.0
    product, logarithm = np.ones(pairs), np.zeros(pairs)
    used = np.zeros(pairs)
    instead = np.empty(pairs)
    for pair in range(pairs):
        instead[pair] = 1.0 if smoothing == _EXP else value if smoothing == _FLOOR else 0.0
    for order in range(orders):
        added = value if smoothing == _ADD_K and order > 0 else 0.0
        for pair in range(pairs):
            correct, total = matches[order, pair] + added, row_totals[order, pair] + added
            instead[pair] *= 1.0 if correct > 0 else halving
            precision = 100 * (correct if correct > 0 else instead[pair]) / total
            product[pair] *= precision if total > 0 else 1.0 if effective else 0.0
            used[pair] += 1.0 if total > 0 or not effective else 0.0
        if (order + 1) % at_once == 0 or order + 1 == orders:
            for pair in range(pairs):
                logarithm[pair] += np.log(product[pair])
                product[pair] = 1.0
    for pair in range(pairs):
        penalty = min(0.0, 1 - column_totals[0, pair] / row_totals[0, pair])
        scores[pair] = np.exp(logarithm[pair] / used[pair] + penalty) if matches[0, pair] > 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def tile_scores(
    matches: Any, row_totals: Any, column_totals: Any, smoothing: Any, value: Any, effective: Any, scores: Any
) -> None:
    """Fill scores (R, C) from matches (R, O, C), row totals (R, O) and column totals (O, C)."""
    rows, orders, columns = matches.shape
    totals_of_row = np.empty((orders, columns))
    for row in range(rows):
        for order in range(orders):
            for column in range(columns):
                totals_of_row[order, column] = row_totals[row, order]
        pair_scores(matches[row], totals_of_row, column_totals, smoothing, value, effective, scores[row])
