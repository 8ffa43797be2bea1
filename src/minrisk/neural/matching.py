"""Greedy matching of token vectors, as in BERTScore: for each token of a text, its nearest in the other text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk.neural.linear import linear
from minrisk.neural.packages import package
from minrisk.types import FloatArray, IntArray

ROWS, COLUMNS = 16, 64
"""Texts on either side of a block: its similarities stay in the cache of a core."""

DENSE = 0.4
"""Share of a block's pairs that are asked for, from which on all of them are computed at once."""


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """A text's L tokens: unit vectors (L, d), and the weight of each (L,), summing to 1, or all 0."""

    vectors: Any
    weights: Any

    @property
    def nbytes(self) -> int:
        return int(self.vectors.nbytes + self.weights.nbytes)


def matched(texts: Sequence[TokenVectors], left: IntArray, right: IntArray) -> tuple[FloatArray, FloatArray]:
    """For C pairs of texts, how well the tokens of the left are found in the right, and of the right in the left: (C,).

    Of two texts in both orders, only one product of their vectors is computed.
    """
    by_length = np.argsort([len(text.weights) for text in texts], kind="stable")
    rank = np.empty(len(texts), dtype=np.int64)
    rank[by_length] = np.arange(len(texts))
    low, high = np.minimum(rank[left], rank[right]), np.maximum(rank[left], rank[right])
    keys, places = np.unique(low * len(texts) + high, return_inverse=True)
    both = np.empty((2, len(keys)))
    sorted_texts = [texts[place] for place in by_length]
    for rows, columns, where in _blocks(keys // len(texts), keys % len(texts)):
        one, other = _product([sorted_texts[row] for row in rows], [sorted_texts[column] for column in columns])
        chosen, row_places, column_places = where
        both[0, chosen] = one[row_places, column_places]
        both[1, chosen] = other[row_places, column_places]
    places = places.ravel()
    swapped = rank[left] != low
    return both[swapped.astype(np.int64), places], both[1 - swapped.astype(np.int64), places]


def _product(rows: Sequence[TokenVectors], columns: Sequence[TokenVectors]) -> tuple[FloatArray, FloatArray]:
    """How well the tokens of R rows are found in K columns, and the other way: both (R, K)."""
    tokens, weights = _stacked(rows)
    others, other_weights = _stacked(columns)
    # Tokens of the columns come first, texts second: the maxima then run along contiguous memory.
    others, other_weights = others.transpose(0, 1), other_weights.transpose(0, 1)
    similarity = linear(tokens.reshape(-1, tokens.shape[-1]), others.reshape(-1, tokens.shape[-1]))
    similarity = similarity.view(*tokens.shape[:2], *others.shape[:2])
    found = (similarity.amax(dim=2) * weights.unsqueeze(-1)).sum(dim=1)
    found_back = (similarity.amax(dim=1) * other_weights).sum(dim=1)
    return found.double().cpu().numpy(), found_back.double().cpu().numpy()


def _stacked(texts: Sequence[TokenVectors]) -> tuple[Any, Any]:
    """Vectors (T, L, d) and weights (T, L), padded with each text's first token: a maximum does not mind repeats."""
    torch = package("torch")
    longest = max(len(text.weights) for text in texts)
    places = torch.zeros((len(texts), longest), dtype=torch.int64)
    weights = texts[0].weights.new_zeros((len(texts), longest))
    start = 0
    for row, text in enumerate(texts):
        length = len(text.weights)
        places[row] = start
        places[row, :length] += torch.arange(length)
        weights[row, :length] = text.weights
        start += length
    vectors = torch.cat([text.vectors for text in texts])
    return vectors[places.to(vectors.device)], weights


Where = tuple[Any, IntArray, IntArray]


def _blocks(low: IntArray, high: IntArray) -> Iterator[tuple[IntArray, IntArray, Where]]:
    """Pairs sorted by `low` as blocks of rows and columns, and where the pairs are in them."""
    starts = np.concatenate(([0], np.flatnonzero(np.diff(low)) + 1, [len(low)]))
    first = 0
    while first < len(starts) - 1:
        last = min(first + ROWS, len(starts) - 1)
        columns = np.unique(high[starts[first] : starts[last]])
        if starts[last] - starts[first] < DENSE * (last - first) * len(columns):
            last = first + 1
            columns = high[starts[first] : starts[last]]
        pairs = np.arange(starts[first], starts[last])
        rows = low[starts[first:last]]
        row_of, column_of = np.searchsorted(rows, low[pairs]), np.searchsorted(columns, high[pairs])
        for begin in range(0, len(columns), COLUMNS):
            part = (column_of >= begin) & (column_of < begin + COLUMNS)
            yield rows, columns[begin : begin + COLUMNS], (pairs[part], row_of[part], column_of[part] - begin)
        first = last
