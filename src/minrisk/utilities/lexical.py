"""What the utilities that compare words or n-grams share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minrisk.errors import InputError
from minrisk.numeric import expectation, ngrams, overlap
from minrisk.types import FloatArray, IntArray
from minrisk.utilities.base import MatrixUtility

Matches = NDArray[np.int32] | FloatArray
"""Shared n-grams: whole numbers, or expected ones."""

_TILE = 1 << 16
"""Pairs of one tile of rows."""

_CELLS = 1 << 14
"""Cells scored at once where hardly any two have a text in common: that bounds the memory for the texts."""


LONGEST = 10_000
"""Orders of n-grams beyond this are refused: each takes memory, and no sentence has them."""


class SparseUtility(MatrixUtility):
    """A utility whose cells are scored among the texts that they touch: `_some` where they are few, else `matrix`."""

    dense: ClassVar[int] = 1
    """Of the pairs of the texts that cells touch, one in `dense` costs as much as all of them."""

    def cells(
        self,
        candidates: Sequence[str],
        pseudo_references: Sequence[str],
        rows: IntArray,
        columns: IntArray,
        source: str | None = None,
    ) -> FloatArray:
        left, rows = _used(candidates, rows)
        right, columns = _used(pseudo_references, columns)
        if len(left) + len(right) >= len(rows) > _CELLS:
            blocks = range(0, len(rows), _CELLS)
            some = [self.cells(left, right, rows[at : at + _CELLS], columns[at : at + _CELLS]) for at in blocks]
            return np.concatenate(some)
        if self.dense * len(rows) >= len(left) * len(right):
            return self.matrix(left, right)[rows, columns]
        return self._some(left, right, rows, columns)

    @abstractmethod
    def _some(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], rows: IntArray, columns: IntArray
    ) -> FloatArray:
        """The values of the cells (rows[c], columns[c]), which touch every text: (C,)."""


class NgramUtility(SparseUtility):
    """A utility that is a function of clipped n-gram matches and n-gram totals of O orders."""

    dense = 6

    @abstractmethod
    def _streams(self, texts: Sequence[str]) -> list[ngrams.Stream]:
        """The texts as symbols."""

    @abstractmethod
    def _score_pairs(
        self, matches: Matches, row_totals: FloatArray, column_totals: FloatArray, scores: FloatArray
    ) -> None:
        """Fill scores (P,) from matches (O, P) and the totals on either side, both (O, P)."""

    @abstractmethod
    def _score_tile(
        self, matches: Matches, row_totals: FloatArray, column_totals: FloatArray, scores: FloatArray
    ) -> None:
        """Fill scores (R, K) from matches (R, O, K), row totals (R, O) and column totals (O, K)."""

    def matrix(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], source: str | None = None
    ) -> FloatArray:
        scores = np.empty((len(candidates), len(pseudo_references)))
        if not scores.size:
            return scores
        row_totals, column_totals, features = self._features(candidates, pseudo_references)
        for first, matches in overlap.tiles(overlap.index(features, len(candidates))):
            tile = slice(first, first + len(matches))
            self._score_tile(matches, row_totals[tile], column_totals, scores[tile])
        return scores

    def _some(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], rows: IntArray, columns: IntArray
    ) -> FloatArray:
        row_totals, column_totals, features = self._features(candidates, pseudo_references)
        index = overlap.index(features, len(candidates), overlap.COMMON_OF_CELLS)
        row_totals = np.ascontiguousarray(row_totals.T)
        order = slice(None) if (rows[1:] >= rows[:-1]).all() else overlap.by_row(rows)
        rows, columns = rows[order], columns[order]
        grouped = np.empty(len(rows))
        for first, matches in overlap.cell_blocks(index, rows, columns):
            block = slice(first, first + matches.shape[1])
            totals_of_rows = np.take(row_totals, rows[block], axis=1)
            totals_of_columns = np.take(column_totals, columns[block], axis=1)
            self._score_pairs(matches, totals_of_rows, totals_of_columns, grouped[block])
        scores = np.empty(len(rows))
        scores[order] = grouped
        return scores

    def self_values(self, texts: Sequence[str]) -> FloatArray:
        scores = np.empty(len(texts))
        matches = np.ascontiguousarray(ngrams.totals_of(self._streams(texts)).T)
        totals = matches.astype(np.float64)
        self._score_pairs(matches.astype(np.int32), totals, totals, scores)
        return scores

    def aggregate(
        self,
        candidates: Sequence[str],
        pseudo_references: Sequence[str],
        weights: FloatArray,
        source: str | None = None,
    ) -> FloatArray:
        """The values against G virtual pseudo-references: (N, G).

        A virtual pseudo-reference has the expected n-gram counts (and length) of the pseudo-references, given their
        shares, a row of `weights` (G, K). With a single share of 1 it is that pseudo-reference, to the bit.
        """
        weights = np.asarray(weights, dtype=np.float64)
        if weights.ndim != 2 or weights.shape[1] != len(pseudo_references):
            raise InputError(f"`weights` must have the shape (groups, {len(pseudo_references)}), got {weights.shape}")
        if not ((weights >= 0).all() and np.allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-6)):
            raise InputError("each row of `weights` must be shares: at least 0 and 1 in sum")
        scores = np.empty((len(candidates), len(weights)))
        if scores.size:
            row_totals, column_totals, features = self._features(candidates, pseudo_references)
            matches = expectation.expected_overlaps(features, len(candidates), weights)
            self._score_tile(matches, row_totals, np.ascontiguousarray(column_totals @ weights.T), scores)
        return scores

    def _features(
        self, candidates: Sequence[str], pseudo_references: Sequence[str]
    ) -> tuple[FloatArray, FloatArray, ngrams.Features]:
        """The n-gram totals of the rows (N, O) and of the columns (O, K), and the features of all texts."""
        candidates, pseudo_references = list(candidates), list(pseudo_references)
        symmetric = candidates == pseudo_references
        features = ngrams.extract(self._streams(candidates if symmetric else candidates + pseudo_references))
        totals = features.totals.astype(np.float64)
        size = len(candidates)
        column_totals = np.ascontiguousarray((totals if symmetric else totals[size:]).T)
        return totals[:size], column_totals, features


class Texts(NamedTuple):
    """T texts as word numbers below `vocabulary`: text t is words[starts[t]:starts[t + 1]]."""

    words: IntArray
    starts: IntArray
    vocabulary: int


class PairwiseUtility(SparseUtility):
    """A utility of two runs of words, computed pair by pair."""

    symmetric: ClassVar[bool] = False
    """u(a, b) is u(b, a), to the bit."""

    @abstractmethod
    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of each text."""

    def _words_of_references(self, words: list[list[str]]) -> list[list[str]]:
        """What the words of each text are where it is a pseudo-reference."""
        return words

    @abstractmethod
    def _pairs(self, texts: Texts, rows: IntArray, columns: IntArray) -> FloatArray:
        """The values of the pairs of texts (rows[c], columns[c]): (C,)."""

    def matrix(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], source: str | None = None
    ) -> FloatArray:
        scores = np.empty((len(candidates), len(pseudo_references)))
        if not scores.size:
            return scores
        texts, columns = self._numbered(candidates, pseudo_references)
        half = self.symmetric and columns[0] == 0
        height = max(1, _TILE // len(columns))
        for first in range(0, len(scores), height):
            rows = np.arange(first, min(first + height, len(scores)))
            begin = first if half else 0
            pairs = np.repeat(rows, len(columns) - begin), np.tile(columns[begin:], len(rows))
            tile = self._pairs(texts, *pairs).reshape(len(rows), -1)
            scores[first : first + height, begin:] = tile
            if half:
                scores[begin:, first : first + height] = tile.T
        return scores

    def _some(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], rows: IntArray, columns: IntArray
    ) -> FloatArray:
        texts, places = self._numbered(candidates, pseudo_references)
        return self._pairs(texts, rows, places[columns])

    def _numbered(self, candidates: Sequence[str], pseudo_references: Sequence[str]) -> tuple[Texts, IntArray]:
        """The texts of both sides, those of the rows first, and the numbers of the columns among them."""
        left = self._words(candidates)
        same = list(candidates) == list(pseudo_references)
        right = self._words_of_references(left if same else self._words(pseudo_references))
        symmetric = same and left == right
        stream = ngrams.word_stream(left if symmetric else left + right, 1)
        starts = np.concatenate(([0], np.cumsum(stream.lengths)))
        vocabulary = int(stream.symbols.max(initial=0)) + 1
        columns = np.arange(len(pseudo_references)) + (0 if symmetric else len(candidates))
        return Texts(stream.symbols.astype(np.int64), starts, vocabulary), columns


def _used(texts: Sequence[str], numbers: IntArray) -> tuple[list[str], IntArray]:
    """The texts that are used, in order, and the numbers among them."""
    used = np.zeros(len(texts), np.bool_)
    used[numbers] = True
    return [texts[number] for number in np.flatnonzero(used).tolist()], (np.cumsum(used) - 1)[numbers]
