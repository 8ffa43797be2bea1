"""chrF and chrF++, equal to sacreBLEU's sentence scores with one reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.numeric import fscores, ngrams
from minrisk.types import FloatArray
from minrisk.utilities.lexical import LONGEST, Matches, NgramUtility

_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@dataclass(frozen=True)
class ChrF(NgramUtility):
    """Character n-gram F-score, 0 to 100; with `word_order=2` it is chrF++.

    char_order, word_order   longest n-grams of characters and of words
    beta                     weight of recall over precision
    lowercase                compare in lower case
    whitespace               keep white space in the character n-grams
    eps_smoothing            average the F-scores of all orders instead of leaving out the orders that a text lacks
    """

    name: ClassVar[str] = "chrf"

    char_order: int = 6
    word_order: int = 0
    beta: float = 2
    lowercase: bool = False
    whitespace: bool = False
    eps_smoothing: bool = False

    def __post_init__(self) -> None:
        if self.char_order < 0 or self.word_order < 0 or self.char_order + self.word_order < 1:
            raise InputError(
                "`char_order` and `word_order` must be at least 0 and one of them at least 1, "
                f"got {self.char_order} and {self.word_order}"
            )
        if max(self.char_order, self.word_order) > LONGEST:
            raise InputError(
                f"`char_order` and `word_order` must be at most {LONGEST}, got {self.char_order} and {self.word_order}"
            )
        if not 0 <= self.beta < math.inf:
            raise InputError(f"`beta` must be at least 0 and finite, got {self.beta}")

    def _streams(self, texts: Sequence[str]) -> list[ngrams.Stream]:
        if self.lowercase:
            texts = [text.lower() for text in texts]
        streams = [ngrams.character_stream(texts, self.char_order, self.whitespace)]
        if self.word_order:
            streams.append(ngrams.word_stream([_words(text) for text in texts], self.word_order))
        return streams

    def _score_pairs(
        self, matches: Matches, row_totals: FloatArray, column_totals: FloatArray, scores: FloatArray
    ) -> None:
        factor = float(self.beta**2)
        if self.eps_smoothing:
            fscores.smooth_scores(matches, row_totals, column_totals, factor, scores)
        else:
            fscores.pair_scores(matches, row_totals, column_totals, factor, np.empty((3, len(scores))), scores)

    def _score_tile(
        self, matches: Matches, row_totals: FloatArray, column_totals: FloatArray, scores: FloatArray
    ) -> None:
        if self.eps_smoothing:
            for of_row, totals, out in zip(matches, row_totals, scores, strict=True):
                totals = np.repeat(totals[:, None], column_totals.shape[1], axis=1)
                self._score_pairs(of_row, totals, column_totals, out)
        else:
            sums, totals = np.empty((3, scores.shape[1])), np.empty_like(column_totals)
            fscores.tile_scores(matches, row_totals, column_totals, float(self.beta**2), sums, totals, scores)


def _words(text: str) -> list[str]:
    """Words as chrF++ knows them: one punctuation mark at the end, or else at the beginning, is a word of its own."""
    words = []
    for word in text.split():
        if len(word) > 1 and word[-1] in _PUNCTUATION:
            words += [word[:-1], word[-1]]
        elif len(word) > 1 and word[0] in _PUNCTUATION:
            words += [word[0], word[1:]]
        else:
            words.append(word)
    return words
