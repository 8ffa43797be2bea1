"""ROUGE-L, equal to the F-measure of the `rouge-score` package (without its stemmer)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.numeric import edits
from minrisk.types import FloatArray, IntArray
from minrisk.utilities.lexical import PairwiseUtility, Texts

_WORD = re.compile("[a-z0-9]+")


@dataclass(frozen=True)
class RougeL(PairwiseUtility):
    """F-measure of the longest common subsequence of words, 0 to 1. Words are runs of a-z and 0-9 in lower case."""

    name: ClassVar[str] = "rouge_l"
    symmetric = True

    def self_values(self, texts: Sequence[str]) -> FloatArray:
        return np.array([1.0 if words else 0.0 for words in self._words(texts)])

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        return [_WORD.findall(text.lower()) for text in texts]

    def _pairs(self, texts: Texts, rows: IntArray, columns: IntArray) -> FloatArray:
        lengths = np.empty(len(rows), np.int64)
        edits.common_subsequences(texts.words, texts.starts, rows, columns, texts.vocabulary, lengths)
        sizes = np.diff(texts.starts)
        precision = lengths / np.maximum(sizes[rows], 1)
        recall = lengths / np.maximum(sizes[columns], 1)
        scores = np.zeros(len(rows))
        return np.divide(2 * precision * recall, precision + recall, out=scores, where=lengths > 0)
