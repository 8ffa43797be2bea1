"""Sentence BLEU, equal to sacreBLEU's `sentence_bleu` with one reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minrisk.errors import InputError, unknown_name
from minrisk.numeric import ngrams, precisions
from minrisk.types import FloatArray
from minrisk.utilities.lexical import LONGEST, Matches, NgramUtility
from minrisk.utilities.tokenizers import tokenizer

_SMOOTHING_VALUES = {"floor": 0.1, "add-k": 1.0}


@dataclass(frozen=True)
class Bleu(NgramUtility):
    """Sentence BLEU, 0 to 100.

    lowercase         compare in lower case
    tokenize          `13a`, `intl`, `char`, `none`, or any other tokenizer of sacreBLEU where that is installed
    smooth_method     what takes the place of a precision of zero: `exp`, `floor`, `add-k` or `none`
    smooth_value      the value of `floor` (0.1 if not given) and `add-k` (1)
    max_ngram_order   longest n-gram
    effective_order   leave out the orders that are longer than the candidate
    """

    name: ClassVar[str] = "bleu"

    lowercase: bool = False
    tokenize: str = "13a"
    smooth_method: str = "exp"
    smooth_value: float | None = None
    max_ngram_order: int = 4
    effective_order: bool = True

    def __post_init__(self) -> None:
        if self.smooth_method not in precisions.SMOOTHINGS:
            raise unknown_name("smooth_method", self.smooth_method, precisions.SMOOTHINGS)
        if self.smooth_value is not None and not self.smooth_value >= 0:
            raise InputError(f"`smooth_value` must be at least 0, got {self.smooth_value}")
        if not 1 <= self.max_ngram_order <= LONGEST:
            raise InputError(f"`max_ngram_order` must be between 1 and {LONGEST}, got {self.max_ngram_order}")
        tokenizer(self.tokenize)

    def _streams(self, texts: Sequence[str]) -> list[ngrams.Stream]:
        lines = [text.lower().rstrip() if self.lowercase else text.rstrip() for text in texts]
        return [ngrams.word_stream(tokenizer(self.tokenize)(lines), self.max_ngram_order)]

    def _score_pairs(
        self, matches: Matches, row_totals: FloatArray, column_totals: FloatArray, scores: FloatArray
    ) -> None:
        precisions.pair_scores(matches, row_totals, column_totals, *self._smoothing(), scores)

    def _score_tile(
        self, matches: Matches, row_totals: FloatArray, column_totals: FloatArray, scores: FloatArray
    ) -> None:
        precisions.tile_scores(matches, row_totals, column_totals, *self._smoothing(), scores)

    def _smoothing(self) -> tuple[int, float, bool]:
        """The method's number, its value, and whether the order is effective."""
        value = _SMOOTHING_VALUES.get(self.smooth_method, 0.0) if self.smooth_value is None else self.smooth_value
        return precisions.SMOOTHINGS.index(self.smooth_method), float(value), self.effective_order
