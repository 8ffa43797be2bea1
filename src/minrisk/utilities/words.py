"""How many words two texts share: F1 and Jaccard index, 0 to 1.

A word is what stands between white space, or what a tokenizer of BLEU makes one. Two texts without words are equal: 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.numeric import ngrams
from minrisk.types import FloatArray
from minrisk.utilities.lexical import Matches, NgramUtility
from minrisk.utilities.tokenizers import tokenizer


@dataclass(frozen=True)
class _SharedWords(NgramUtility):
    """A function of the words that two texts share and have.

    lowercase   compare in lower case
    tokenize    how words are found: `none` (white space), `13a`, `intl`, `char`, ...
    """

    lowercase: bool = False
    tokenize: str = "none"

    def __post_init__(self) -> None:
        tokenizer(self.tokenize)

    @abstractmethod
    def _coefficient(self, shared: Matches, left: FloatArray, right: FloatArray) -> tuple[Matches, FloatArray]:
        """Numerator and denominator of the value."""

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        return tokenizer(self.tokenize)([text.lower() for text in texts] if self.lowercase else texts)

    def _streams(self, texts: Sequence[str]) -> list[ngrams.Stream]:
        return [ngrams.word_stream(self._words(texts), 1)]

    def _score_pairs(
        self, matches: Matches, row_totals: FloatArray, column_totals: FloatArray, scores: FloatArray
    ) -> None:
        self._score_tile(matches[None], row_totals, column_totals, scores[None])

    def _score_tile(
        self, matches: Matches, row_totals: FloatArray, column_totals: FloatArray, scores: FloatArray
    ) -> None:
        shared, whole = self._coefficient(matches[:, 0], row_totals, column_totals)
        scores[:] = 1
        np.divide(shared, whole, out=scores, where=whole > 0)


@dataclass(frozen=True)
class WordF1(_SharedWords):
    """2 |a & b| / (|a| + |b|) of the words as multisets: a word that comes twice counts twice."""

    name: ClassVar[str] = "word_f1"

    def _coefficient(self, shared: Matches, left: FloatArray, right: FloatArray) -> tuple[Matches, FloatArray]:
        return 2 * shared, left + right


@dataclass(frozen=True)
class Jaccard(_SharedWords):
    """|a & b| / |a | b| of the words as sets: how often a word comes does not matter."""

    name: ClassVar[str] = "jaccard"

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        return [list(dict.fromkeys(words)) for words in super()._words(texts)]

    def _coefficient(self, shared: Matches, left: FloatArray, right: FloatArray) -> tuple[Matches, FloatArray]:
        return shared, left + right - shared
