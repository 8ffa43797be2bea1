"""What every method must keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from minrisk.budgets import Budget, calls_allowed, parse_budget
from minrisk.decoding import Configuration, decode_corpus
from minrisk.engine import run
from minrisk.numeric.estimation import expected_utilities
from minrisk.session import Session, replay
from minrisk.testing.tables import random_segments, recorded
from minrisk.types import Decision, FloatArray, Segment
from minrisk.utilities.table import Table

BUDGETS: tuple[Budget, ...] = (1, 2, 5, 17, Fraction(1, 16), 0.1, 0.25, "1/2", 0.9)


WAIVED = {
    "exact": "test_full_budget_is_full_mbr",
    "scale_free": "test_scale_and_direction_do_not_matter",
    "shy": "test_knowing_nothing_never_wins",
    "fair": "test_self_pairs_do_not_steer",
}
"""The test that a flag of the suite takes away where a method cannot keep the promise by its nature."""


class MethodSuite:
    """The promises of a method on tables of values. Subclass and set `method`.

    samples     False for a method that needs all cells, and is only run on a full budget
    exact       False if a full budget does not lead to the choice of full MBR (say why in the method's docstring)
    scale_free  False if the choice depends on the metric's scale (say why)
    shy         False if it may choose candidates that it has no cell of (say why)
    fair        False if self-pairs may steer the choice (say why)
    random      False if it scores the same cells whatever the seed

    Where a flag is False, put a test of the nearest true thing beside it; `minrisk.testing.waived_needlessly` tells
    whether the method does keep the promise.
    """

    method: ClassVar[Any]
    samples: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    scale_free: ClassVar[bool] = True
    shy: ClassVar[bool] = True
    fair: ClassVar[bool] = True
    random: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for flag, test in WAIVED.items():
            if not getattr(cls, flag) and test not in vars(cls):
                setattr(cls, test, None)

    def decided(
        self,
        segments: Sequence[Segment],
        tables: Mapping[str, FloatArray],
        budget: Budget = 0.25,
        higher_is_better: bool = True,
        **options: Any,
    ) -> list[Decision]:
        """The decisions of the method on segments with these tables."""
        utility = Table(values=tables, higher_is_better=higher_is_better)
        given = budget if self.samples else 1.0
        return list(decode_corpus(segments, utility, self.method, given, **options))

    @pytest.fixture(params=[False, True], ids=["own references", "separate references"])
    def corpus(self, request: pytest.FixtureRequest) -> tuple[list[Segment], dict[str, FloatArray]]:
        """Twelve segments with duplicates."""
        return random_segments(12, np.random.default_rng(7), separate=request.param)

    @pytest.mark.parametrize("window", [1, 3, 256])
    def test_same_answer_whatever_the_packing(self, corpus: Any, window: int) -> None:
        """Promise 1: packed, shuffled, sharded, alone."""
        segments, tables = corpus
        alone = [decision for segment in segments for decision in self.decided([segment], tables)]
        order = np.random.default_rng(1).permutation(len(segments))
        shuffled = self.decided([segments[place] for place in order], tables, window=window)
        halves = self.decided(segments[:5], tables, window=window) + self.decided(segments[5:], tables)
        for place, decision in zip(order, shuffled, strict=True):
            same(alone[place], decision)
        for one, other in zip(alone, halves, strict=True):
            same(one, other)

    def test_same_answer_from_a_transcript(self, corpus: Any) -> None:
        """Promise 1: replayed."""
        for session in self.sessions(*corpus):
            assert session.estimate is not None
            again = replay(session.problem, self.method, 3, session.transcript, session.directions)
            assert again.estimate is not None
            np.testing.assert_array_equal(again.estimate.values, session.estimate.values)

    def sessions(self, segments: Sequence[Segment], tables: Mapping[str, FloatArray]) -> list[Session]:
        """Concluded sessions with seed 3."""
        configuration = Configuration(Table(values=tables), self.method, 0.25 if self.samples else 1.0, seed=3)
        return list(run(configuration.problems(segments), self.method, configuration.utilities, seed=3))

    @pytest.mark.parametrize("budget", BUDGETS, ids=str)
    def test_budget_is_kept_and_counted(self, corpus: Any, budget: Budget) -> None:
        """Promise 2: never above the budget, and no cell twice."""
        segments, tables = corpus
        utility = recorded(values=tables)
        given = budget if self.samples else 1.0
        for decision in decode_corpus(segments, utility, self.method, given):
            asked = [
                cell
                for name, rows, columns in utility.asked
                if name == decision.id
                for cell in zip(rows, columns, strict=True)
            ]
            folded = sum(len(rows) * groups for name, rows, groups in utility.folded if name == decision.id)
            assert len(set(asked)) == len(asked) == decision.calls - folded
            assert decision.calls <= calls_allowed(parse_budget(given), decision.cells)
            assert decision.cells == math.prod(decision.problem.shape)

    def test_duplicates_are_one_candidate(self, corpus: Any) -> None:
        """Promise 2: equal texts share a utility."""
        segments, tables = corpus
        for segment, decision in zip(segments, self.decided(segments, tables), strict=True):
            for place, text in enumerate(segment.hypotheses):
                first = segment.hypotheses.index(text)
                np.testing.assert_array_equal(decision.utilities[place], decision.utilities[first])
            assert decision.index == segment.hypotheses.index(decision.text)

    @pytest.mark.parametrize("budget", [0.1, 0.25, 0.5, 1.0])
    def test_scale_and_direction_do_not_matter(self, corpus: Any, budget: Budget) -> None:
        """Promise 3: u, 100 u, u + c and (lower is better) -u give the same choice."""
        segments, tables = corpus
        plain = self.decided(segments, tables, budget)
        for scale, shift, higher in ((100.0, 0.0, True), (0.01, 0.0, True), (1.0, 1000.0, True), (-1.0, 5.0, False)):
            changed = {name: scale * table + shift for name, table in tables.items()}
            for one, other in zip(plain, self.decided(segments, changed, budget, higher), strict=True):
                assert other.text == one.text
                assert other.calls == one.calls
                np.testing.assert_allclose(other.utilities, scale * one.utilities + shift, rtol=1e-6, atol=1e-6)

    def test_knowing_nothing_never_wins(self) -> None:
        """Promise 4: a candidate without evidence is not preferred to one with evidence."""
        segments, tables = random_segments(40, np.random.default_rng(3), separate=True)
        low = {name: table - 1000.0 for name, table in tables.items()}
        utility = recorded(values=low)
        for decision in decode_corpus(segments, utility, self.method, 7 if self.samples else 1.0):
            asked = [*utility.asked, *utility.folded]
            rows = {row for name, rows, _ in asked if name == decision.id for row in rows}
            assert decision.problem.candidates.index(decision.text) in rows

    @pytest.mark.parametrize("budget", [0.1, 0.25, 0.5])
    def test_self_pairs_do_not_steer(self, budget: Budget) -> None:
        """Promise 5: whatever the constant u(h, h), the choice among equally frequent texts is the same."""
        segments, tables = random_segments(12, np.random.default_rng(5), size=16)
        choices = []
        for constant in (0.0, 100.0, 1e4):
            changed = {name: table.copy() for name, table in tables.items()}
            for segment in segments:
                hypotheses = np.array(segment.hypotheses)
                changed[str(segment.id)][hypotheses[:, None] == hypotheses[None, :]] = constant
            choices.append([decision.text for decision in self.decided(segments, changed, budget)])
        assert choices[0] == choices[1] == choices[2]

    @pytest.mark.parametrize("weights", ["multiplicity", "logprob"])
    def test_full_budget_is_full_mbr(self, corpus: Any, weights: str) -> None:
        """Promise 6: the same choice and the same values as full MBR, model-based too."""
        segments, tables = corpus
        for segment, decision in zip(segments, self.decided(segments, tables, 1.0, weights=weights), strict=True):
            expected = expected_utilities(tables[decision.id], _shares(segment, weights))
            np.testing.assert_allclose(decision.utilities, expected, rtol=1e-12)
            assert decision.index == int(np.argmax(expected >= expected.max() - 1e-9))

    def test_ties_go_to_the_earliest(self) -> None:
        """Promise 6: where all candidates are equal, the first one given wins."""
        table = np.full((9, 9), 41.7)
        segment = _segment("tie", [f"text {row}" for row in range(9)])
        (decision,) = self.decided([segment], {"tie": table}, 1.0)
        assert decision.index == 0

    @pytest.mark.parametrize("texts", [["one"], ["same", "same", "same"], ["", ""], ["a", "b"]])
    @pytest.mark.parametrize("budget", [1, 0.5, 1.0])
    def test_tiny_segments(self, texts: list[str], budget: Budget) -> None:
        """One text, equal texts, empty texts, two texts: a choice all the same."""
        table = np.where(np.array(texts)[:, None] == np.array(texts)[None, :], 1.0, 0.5)
        (decision,) = self.decided([_segment("tiny", texts)], {"tiny": table}, budget)
        assert decision.text in texts
        assert len(decision.nbest(5)) == len(set(texts))

    def test_no_two_segments_share_a_mask(self) -> None:
        """Promise 1: segments that differ in nothing but their id are sampled differently, if they are sampled."""
        texts = [f"text {row}" for row in range(40)]
        table = random_segments(1, np.random.default_rng(0), size=40, distinct=40)[1]["segment 0"]
        segments = [_segment(str(number), texts) for number in range(3)]
        utility = recorded(values={str(number): table for number in range(3)})
        list(decode_corpus(segments, utility, self.method, 0.1 if self.samples else 1.0, window=1))
        masks = {
            name: sorted(
                cell
                for asked, rows, columns in utility.asked
                if asked == name
                for cell in zip(rows, columns, strict=True)
            )
            for name in ("0", "1", "2")
        }
        if self.samples and self.random:
            assert masks["0"] != masks["1"] != masks["2"] != masks["0"]
        else:
            assert masks["0"] == masks["1"] == masks["2"]

    def test_seed_decides(self, corpus: Any) -> None:
        """The same seed gives the same answer twice."""
        segments, tables = corpus
        for one, other in zip(
            self.decided(segments, tables, seed=11), self.decided(segments, tables, seed=11), strict=True
        ):
            same(one, other)


def waived_needlessly(suite: type[MethodSuite]) -> list[str]:
    """The flags of a suite that are False although the method keeps the promise."""
    corpora = [random_segments(12, np.random.default_rng(7), separate=separate) for separate in (False, True)]
    given: dict[str, list[dict[str, Any]]] = {
        "exact": [{"corpus": corpus, "weights": "multiplicity"} for corpus in corpora],
        "scale_free": [{"corpus": corpus, "budget": budget} for corpus in corpora for budget in (0.1, 0.5, 1.0)],
        "shy": [{}],
        "fair": [{"budget": budget} for budget in (0.1, 0.25, 0.5)],
    }
    return [flag for flag in WAIVED if not getattr(suite, flag) and _passes(suite, WAIVED[flag], given[flag])]


def _passes(suite: type[MethodSuite], test: str, given: list[dict[str, Any]]) -> bool:
    try:
        for arguments in given:
            getattr(MethodSuite, test)(suite(), **arguments)
    except AssertionError:
        return False
    return True


def same(one: Decision, other: Decision) -> None:
    """Assert that two decisions are equal, bit for bit."""
    assert (one.id, one.text, one.index, one.calls, one.cells) == (
        other.id,
        other.text,
        other.index,
        other.calls,
        other.cells,
    )
    np.testing.assert_array_equal(one.utilities, other.utilities)


def _shares(segment: Segment, weights: str) -> FloatArray:
    """What each pseudo-reference given counts; the copies of a text share its probability."""
    if weights == "multiplicity":
        return np.full(len(segment.columns_given), 1 / len(segment.columns_given))
    logprobs = segment.logprobs if segment.pseudo_references is None else segment.pseudo_reference_logprobs
    assert logprobs is not None
    texts = segment.columns_given
    mass = np.array([math.exp(logprob) / texts.count(text) for logprob, text in zip(logprobs, texts, strict=True)])
    return np.asarray(mass / mass.sum())


def _segment(name: str, texts: list[str]) -> Segment:
    """A segment whose texts have equal probabilities and scores."""
    return Segment(id=name, hypotheses=texts, logprobs=[-1.0] * len(texts), scores=[1.0] * len(texts))
