"""Translation edit rate, equal to sacreBLEU's sentence scores with one reference."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.numeric import shifts
from minrisk.types import FloatArray, IntArray
from minrisk.utilities.lexical import PairwiseUtility, Texts
from minrisk.utilities.tokenizers import split_stops, split_symbols, unescape

# Punctuation that `no_punct` removes, and what it removes besides with `asian_support`.
_PUNCTUATION = re.compile(r"[.,?:;!\"()]")
_ASIAN_MARKS = r"\u3001\u3002\u3008-\u3011\u3014-\u301f\u30fb\uff61-\uff65"
_WIDE_MARKS = r"\uff01\uff02\uff08\uff09\uff0c\uff0e\uff1a\uff1b\uff1f"
_ASIAN_PUNCTUATION = re.compile(f"[{_ASIAN_MARKS}{_WIDE_MARKS}]")

# Characters that `normalized` with `asian_support` makes words of their own: sacreBLEU's ranges, one of which begins
# with the enclosed letters (U+3200) and ends within Extension A (U+3F22). Its expressions for kana can never match:
# they want the kana at the beginning of a text that begins with a space.
_ASIAN = re.compile(
    rf"([\u2e80-\u2eff\u31c0-\u31ef\u3200-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ufe30-\ufe4f{_ASIAN_MARKS}{_WIDE_MARKS}])"
)


@dataclass(frozen=True)
class Ter(PairwiseUtility):
    """Translation edit rate: insertions, deletions, replacements and shifts for 100 words of the pseudo-reference.

    Lower is better; 0 is equal, and it may be more than 100. With `normalized`, sacreBLEU splits a few texts otherwise
    where they are pseudo-references, so that these are not equal to themselves.

    normalized       split off punctuation
    no_punct         leave out punctuation
    asian_support    treat Chinese and Japanese characters and punctuation too in what `normalized` and `no_punct` do
    case_sensitive   do not compare in lower case
    """

    name: ClassVar[str] = "ter"
    higher_is_better = False

    normalized: bool = False
    no_punct: bool = False
    asian_support: bool = False
    case_sensitive: bool = False

    def self_values(self, texts: Sequence[str]) -> FloatArray:
        places = np.arange(len(texts))
        return self.cells(texts, texts, places, places) if self.normalized else np.zeros(len(texts))

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        return [self._words_of(text.rstrip()) for text in texts]

    def _words_of_references(self, words: list[list[str]]) -> list[list[str]]:
        # sacreBLEU prepares pseudo-references twice, which makes other words of a few, such as `..7` and `a's's`.
        return self._words([" ".join(line) for line in words]) if self.normalized else words

    def _words_of(self, text: str) -> list[str]:
        if not self.case_sensitive:
            text = text.lower()
        if self.normalized:
            text = unescape(text.replace("\n-", "").replace("\n", " "))
            text = split_stops(split_symbols(f" {text} ").replace("'s ", " 's "))
            if self.asian_support:
                text = _ASIAN.sub(r" \1 ", text)
        if self.no_punct:
            text = _PUNCTUATION.sub("", text)
            if self.asian_support:
                text = _ASIAN_PUNCTUATION.sub("", text)
        return text.split()

    def _pairs(self, texts: Texts, rows: IntArray, columns: IntArray) -> FloatArray:
        edits = np.empty(len(rows), np.int64)
        shifts.edits_with_shifts(texts.words, texts.starts, rows, columns, texts.vocabulary, edits)
        lengths = np.diff(texts.starts)[columns]
        # Against an empty pseudo-reference any edit at all is 100.
        return 100 * np.where(lengths > 0, edits / np.maximum(lengths, 1), np.minimum(edits, 1))
