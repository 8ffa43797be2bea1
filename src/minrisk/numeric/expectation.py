"""Overlaps with virtual texts that are made of expected n-gram counts.

The clipped overlap with real-valued counts x is a sum over features as well: where an n-gram comes c times,
min(c, x) = sum over its features k = 0..c-1 of min(max(x - k, 0), 1). One-hot weights give the overlaps of pairs,
exactly.

Shapes: N rows, K columns, G groups of columns, O orders, F features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from minrisk.numeric.ngrams import Features
from minrisk.types import FloatArray


def expected_overlaps(features: Features, rows: int, weights: FloatArray) -> FloatArray:
    """The overlaps of the first `rows` texts with virtual texts: (N, O, G).

    A virtual text has the counts of the columns, weighed by a row of `weights` (G, K). The columns are the other texts,
    or the same texts where there are no others.
    """
    texts, orders = features.totals.shape
    first_column = 0 if rows == texts else rows
    overlaps = np.empty((rows, orders, len(weights)))
    counts, values = np.empty(len(features.orders)), np.empty(len(features.orders))
    grams, ranks = np.empty(len(features.orders), np.int64), np.empty(len(features.orders), np.int64)
    _number(features.longer, grams, ranks)
    for group, shares in enumerate(weights):
        _expect(features.ids, features.starts, orders, first_column, shares, grams, ranks, counts, values)
        _add_up(features.ids, features.starts, values, group, overlaps)
    return overlaps


@njit(cache=True, nogil=True)
def _number(longer: Any, grams: Any, ranks: Any) -> None:
    """Fill the n-gram of each feature, as the number of its first one, and the rank: 0 for a first occurrence, ..."""
    for feature in range(longer.size):
        grams[feature], ranks[feature] = feature, 0
    for feature in range(longer.size):
        if longer[feature] >= 0:
            grams[longer[feature]] = grams[feature]
            ranks[longer[feature]] = ranks[feature] + 1


@njit(cache=True, nogil=True)
def _expect(
    ids: Any, starts: Any, orders: Any, first_column: Any, shares: Any, grams: Any, ranks: Any, counts: Any, values: Any
) -> None:
    """Fill what each feature of a row adds to the overlap, values (F,); `counts` (F,) is room for expected counts."""
    for feature in range(counts.size):
        counts[feature] = 0
    for column in range(shares.size):
        text = first_column + column
        if shares[column] > 0:
            for entry in range(starts[text * orders], starts[(text + 1) * orders]):
                counts[grams[ids[entry]]] += shares[column]
    for feature in range(counts.size):
        values[feature] = min(max(counts[grams[feature]] - ranks[feature], 0.0), 1.0)


@njit(cache=True, nogil=True)
def _add_up(ids: Any, starts: Any, values: Any, group: Any, overlaps: Any) -> None:
    """Fill overlaps[:, :, group]."""
    rows, orders, _ = overlaps.shape
    for row in range(rows):
        for order in range(orders):
            total = 0.0
            for entry in range(starts[row * orders + order], starts[row * orders + order + 1]):
                total += values[ids[entry]]
            overlaps[row, order, group] = total
