"""Utilities that compare encodings, through the engine: no torch needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

import minrisk
from minrisk.scoring import EncodingMemory
from minrisk.testing import UtilitySuite
from minrisk.types import FloatArray, IntArray, Segment
from minrisk.utilities.base import EncodedUtility
from minrisk.utilities.mixture import Mixture

LETTERS = "abcdefghijklmnopqrstuvwxyz "


class Letters(EncodedUtility):
    """The cosine of the counts of letters, and how far the candidate's length is from the source's."""

    name: ClassVar[str] = "letters"

    def __init__(self, with_source: bool = False) -> None:
        self.encoded: list[list[str]] = []
        self.with_source = with_source

    @property
    def uses_source(self) -> bool:
        return self.with_source

    def represent(self, texts: Sequence[str]) -> Sequence[FloatArray]:
        assert len(set(texts)) == len(texts)
        self.encoded.append(list(texts))
        return [np.array([text.count(letter) + 0.01 for letter in LETTERS]) for text in texts]

    def compare(
        self, encodings: Sequence[Any], candidates: IntArray, pseudo_references: IntArray, sources: IntArray
    ) -> FloatArray:
        table = np.array(encodings)
        unit = table / np.linalg.norm(table, axis=1, keepdims=True)
        far = np.where(sources >= 0, np.abs(table.sum(axis=1)[candidates] - table.sum(axis=1)[sources]), 0.0)
        return np.asarray((unit[candidates] * unit[pseudo_references]).sum(axis=1) - 0.001 * far)

    def fold(self, encodings: Sequence[Any], weights: FloatArray) -> Sequence[FloatArray]:
        return list(weights @ np.array(encodings))

    def vectors(self, encodings: Sequence[Any]) -> FloatArray:
        return np.array(encodings)


class TestLetters(UtilitySuite):
    utility = Letters()
    tolerance = 1e-12


class TestLettersWithSource(UtilitySuite):
    utility = Letters(with_source=True)
    source = "Ein Mann liest."
    tolerance = 1e-12


SEGMENTS = [
    Segment(id=str(number), source="abc", hypotheses=[f"{word} {number % 2}" for word in ("a cat", "cats", "dog", "a")])
    for number in range(6)
]


@pytest.mark.parametrize("with_source", [False, True])
@pytest.mark.parametrize("method", ["full", "pruning"])
def test_each_text_is_encoded_once(with_source: bool, method: str) -> None:
    utility, ledger = Letters(with_source), minrisk.Ledger()
    decisions = list(minrisk.decode_corpus(SEGMENTS, utility, method, ledger=ledger))
    texts = [text for batch in utility.encoded for text in batch]
    assert sorted(texts) == sorted(set(texts))
    assert ledger.encoded == len(texts) == 8 + with_source
    assert len(utility.encoded) == 1
    for segment, decision in zip(SEGMENTS, decisions, strict=True):
        alone = minrisk.decode(segment.hypotheses, Letters(with_source), method, source="abc", id=segment.id)
        assert decision.text == alone.text
        if method == "full":
            np.testing.assert_allclose(decision.utilities, alone.utilities)


@pytest.mark.parametrize("method", ["aggregate", "centroid"])
def test_folded_and_encoded_asks_share_the_encodings(method: str) -> None:
    utility = Letters()
    for decision in minrisk.decode_corpus(SEGMENTS, utility, method):
        assert np.isfinite(decision.utilities).all()
    texts = [text for batch in utility.encoded for text in batch]
    assert sorted(texts) == sorted(set(texts))


def test_memory_is_bounded_and_forgets_what_lay_unused() -> None:
    memory = EncodingMemory(100)
    for number in range(30):
        memory.add([str(number)], [np.zeros(2)])
        assert memory["0"].nbytes == 16
        memory.trim()
    assert [number for number in range(30) if str(number) in memory] == [0, 25, 26, 27, 28, 29]


def test_a_part_of_a_mixture() -> None:
    utility = Mixture((Letters(), minrisk.utility("chrf")), (0.5, 0.01))
    decision = minrisk.decode(SEGMENTS[0].hypotheses, utility)
    means = utility.matrix(SEGMENTS[0].hypotheses, SEGMENTS[0].hypotheses).mean(axis=1)
    np.testing.assert_allclose(decision.utilities, means)


@pytest.mark.parametrize("part", ["represent", "compare"])
def test_failures_name_utility_and_segment(part: str) -> None:
    class Broken(Letters):
        pass

    def fail(*_: object) -> None:
        raise ValueError("no")

    setattr(Broken, part, fail)
    with pytest.raises(minrisk.UtilityError, match=r"utility 'letters', batch of .* \(segment 'news'.*ValueError: no"):
        minrisk.decode(["a", "b"], Broken(), id="news")


@pytest.mark.parametrize(("part", "message"), [("represent", "expected 2 encodings, got 1"), ("compare", "expected 4")])
def test_numbers_are_checked(part: str, message: str) -> None:
    class Short(Letters):
        pass

    setattr(Short, part, lambda *_: [np.zeros(1)])
    with pytest.raises(minrisk.UtilityError, match=message):
        minrisk.decode(["a", "b"], Short())
