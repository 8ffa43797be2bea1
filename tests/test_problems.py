"""From segments as given to problems: merging, weights, budgets, streams."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from minrisk import Segment
from minrisk.budgets import calls_allowed, parse_budget
from minrisk.problems import problem_of
from minrisk.seeding import digest, stream
from minrisk.types import Estimate, ranking
from minrisk.utilities.chrf import ChrF

TEXTS = st.lists(st.sampled_from(["", "a", "b", "c d", "ä", "\ud800"]), min_size=1, max_size=12)


def problem(segment: Segment, weights: str = "multiplicity") -> minrisk.Problem:
    return problem_of(segment, ChrF(), Fraction(1, 2), weights)


@given(TEXTS)
def test_equal_texts_are_one_candidate_with_a_weight(texts: list[str]) -> None:
    made = problem(Segment(hypotheses=texts))
    counts = Counter(texts)
    assert list(made.candidates) == list(counts)
    np.testing.assert_allclose(made.row_weights, [counts[text] / len(texts) for text in made.candidates])
    assert [made.candidates[row] for row in made.row_of_hypothesis] == texts
    assert [texts.index(text) for text in made.candidates] == made.row_positions.tolist()
    assert made.twins.tolist() == list(range(len(counts)))
    assert made.budget == math.ceil(len(counts) ** 2 / 2)


@given(TEXTS, TEXTS)
def test_separate_pseudo_references(texts: list[str], references: list[str]) -> None:
    made = problem(Segment(hypotheses=texts, pseudo_references=references))
    assert made.shape == (len(set(texts)), len(set(references)))
    for row, text in enumerate(made.candidates):
        twin = made.twins[row]
        assert (twin == -1) == (text not in references)
        assert twin == -1 or made.pseudo_references[twin] == text
        assert math.isnan(made.self_values[row]) == (twin == -1)
    assert made.column_weights.sum() == pytest.approx(1)


def test_model_probabilities_count_distinct_texts_once() -> None:
    logprobs = [math.log(0.5), math.log(0.25), math.log(0.5), math.log(0.125)]
    made = problem(Segment(hypotheses=["a", "b", "a", "c"], logprobs=logprobs), "logprob")
    np.testing.assert_allclose(made.column_weights, np.array([0.5, 0.25, 0.125]) / 0.875)


def test_model_probabilities_by_length() -> None:
    made = problem(Segment(hypotheses=["a", "b c", ""], logprobs=[-1.0, -2.0, -1.0]), "logprob-normalized")
    np.testing.assert_allclose(made.column_weights, [1 / 3] * 3)


def test_model_probabilities_of_separate_pseudo_references() -> None:
    segment = Segment(
        hypotheses=["a"], pseudo_references=["b", "c"], logprobs=[-1.0], pseudo_reference_logprobs=[-1.0, -1.0]
    )
    np.testing.assert_allclose(problem(segment, "logprob").column_weights, [0.5, 0.5])


def test_very_small_probabilities_do_not_vanish_together() -> None:
    made = problem(Segment(hypotheses=["a", "b"], logprobs=[-5000.0, -5001.0]), "logprob")
    np.testing.assert_allclose(made.column_weights, [1 / (1 + math.exp(-1)), 1 / (1 + math.e)])


@pytest.mark.parametrize("weights", [[1.7e308, 1.7e308], [5e-324, 5e-324], [1.7e308, 5e-324]])
def test_weights_of_any_size_have_shares(weights: list[float]) -> None:
    made = problem(Segment(hypotheses=["a", "b"], weights=weights))
    np.testing.assert_allclose(made.column_weights, [0.5, 0.5] if weights[0] == weights[1] else [1.0, 0.0])
    spread = problem(Segment(hypotheses=["a", "b"], logprobs=[1.7e308, -1.7e308]), "logprob")
    np.testing.assert_array_equal(spread.column_weights, [1.0, 0.0])


def test_given_weights_add_up_over_equal_texts() -> None:
    decision = minrisk.decode(["a", "b", "a"], weights=[1.0, 6.0, 1.0])
    np.testing.assert_allclose(decision.problem.column_weights, [0.25, 0.75])
    assert decision.text == "b"


@pytest.mark.parametrize(
    ("fields", "weights", "message"),
    [
        ({"hypotheses": []}, "multiplicity", "`hypotheses` is empty"),
        ({"hypotheses": "abc"}, "multiplicity", "must be a list of strings, got str 'abc'"),
        ({"hypotheses": ["a", 3]}, "multiplicity", "got int 3 at position 1"),
        ({"hypotheses": ["a", None]}, "multiplicity", "got NoneType None at position 1"),
        ({"hypotheses": None}, "multiplicity", "must be a list of strings"),
        ({"hypotheses": ["a"], "pseudo_references": []}, "multiplicity", "`pseudo_references` is empty"),
        ({"hypotheses": ["a"], "source": 3}, "multiplicity", "`source` must be a string, got int 3"),
        ({"hypotheses": ["a"], "logprobs": [-1.0, -2.0]}, "multiplicity", "`logprobs` must hold 1 numbers"),
        ({"hypotheses": ["a"], "logprobs": [math.nan]}, "multiplicity", "finite numbers, got float nan at position 0"),
        ({"hypotheses": ["a"], "logprobs": ["-1"]}, "multiplicity", "finite numbers, got str '-1'"),
        ({"hypotheses": ["a"], "logprobs": [True]}, "multiplicity", "finite numbers, got bool True"),
        ({"hypotheses": ["a"], "weights": [-1.0]}, "multiplicity", "must not be negative"),
        ({"hypotheses": ["a", "b"], "weights": [0.0, 0.0]}, "multiplicity", "at least one must be above zero"),
        ({"hypotheses": ["a"]}, "logprob", "weights 'logprob' need `logprobs`"),
        (
            {"hypotheses": ["a"], "pseudo_references": ["b"], "logprobs": [-1.0]},
            "logprob",
            "need `pseudo_reference_logprobs`",
        ),
    ],
)
def test_bad_segments(fields: dict[str, Any], weights: str, message: str) -> None:
    with pytest.raises(minrisk.InputError, match=message):
        problem(Segment(**fields), weights)


@pytest.mark.parametrize(
    ("budget", "size", "calls"),
    [
        (1.0, 100, 100),
        (0.1, 100, 10),
        (1 / 16, 16384, 1024),
        (1 / 3, 9, 3),
        (Fraction(1, 16), 17, 2),
        ("1/16", 16384, 1024),
        ("0.25", 10, 3),
        ("1024", 16384, 1024),
        (1024, 9, 9),
        (1, 9, 1),
        (np.float64(0.5), 9, 5),
        (np.int64(4), 9, 4),
        (1e-9, 9, 1),
        (1e-10, 100, 1),
    ],
)
def test_budgets(budget: Any, size: int, calls: int) -> None:
    assert calls_allowed(parse_budget(budget), size) == calls


@pytest.mark.parametrize(
    "budget", [0, -1, 0.0, -0.5, 1.5, math.nan, math.inf, "x", "1/0", "0", "", "2/1", True, None, []]
)
def test_bad_budgets(budget: Any) -> None:
    with pytest.raises(minrisk.InputError, match="a budget is a share of the cells"):
        parse_budget(budget)


def test_streams_depend_on_seed_segment_and_purpose_alone() -> None:
    draws = [stream(seed, segment, purpose).random() for seed in (0, 1) for segment in (b"a", b"b") for purpose in "pq"]
    assert len(set(draws)) == 8
    assert stream(0, b"a", "p").random() == draws[0]


def test_a_stream_is_named_by_id_and_texts() -> None:
    plain = problem(Segment(hypotheses=["a", "b"])).stream
    assert problem(Segment(hypotheses=["a", "b"])).stream == plain
    for other in (
        Segment(id="x", hypotheses=["a", "b"]),
        Segment(hypotheses=["ab"]),
        Segment(hypotheses=["a"], pseudo_references=["b"]),
        Segment(hypotheses=["a", "b"], source=""),
    ):
        assert problem(other).stream != plain


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_digests_tell_sequences_apart(one: list[str | None], other: list[str]) -> None:
    assert (digest(one) == digest(other)) == (one == other)


def test_ranking_puts_the_unknown_last_and_ties_in_order() -> None:
    values = np.array([np.nan, 2.0, 3.0 - 1e-13, np.nan, 3.0, 1.0])
    weights = np.array([0.1, 0.1, 0.1, 0.5, 0.1, 0.1])
    assert ranking(Estimate(values=values), weights).tolist() == [2, 4, 1, 5, 3, 0]
    assert ranking(Estimate(values=np.full(3, np.nan)), np.array([0.2, 0.5, 0.3])).tolist() == [1, 2, 0]
    preferred = Estimate(values=np.array([5.0, 1.0, 3.0]), preference=np.array([np.nan, 2.0, 1.0]))
    assert ranking(preferred, np.ones(3)).tolist() == [1, 2, 0]
    assert ranking(Estimate(values=np.array([-1e9, -1e9 - 1e-5, 0.0])), np.ones(3)).tolist() == [2, 0, 1]
