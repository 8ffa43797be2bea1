"""Several texts of a decision: best, diverse, medoids."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from minrisk.cli.main import main
from minrisk.numeric.choosing import diverse, medoids
from minrisk.types import FloatArray
from minrisk.utilities.function import Function

SEEDS = st.integers(0, 1000)


def diverse_value(quality: FloatArray, similarity: FloatArray, rows: list[int], penalty: float) -> float:
    """The objective, term by term."""
    size = len(rows)
    pairs = sum(similarity[one, other] for one in rows for other in rows if one != other)
    return sum(quality[row] for row in rows) / size - (penalty * pairs / (size * (size - 1)) if size > 1 else 0.0)


def medoid_value(similarity: FloatArray, weights: FloatArray, rows: list[int]) -> float:
    return float(sum(weight * max(similarity[row, text] for row in rows) for text, weight in enumerate(weights)))


@given(SEEDS, st.integers(1, 4), st.sampled_from([0.0, 0.5, 2.0]))
def test_diverse_against_all_subsets(seed: int, size: int, penalty: float) -> None:
    rng = np.random.default_rng(seed)
    quality, similarity = rng.normal(size=7), rng.normal(size=(7, 7))
    chosen = diverse(quality, similarity.copy(), size, penalty, 50, np.random.default_rng(0)).tolist()
    assert len(set(chosen)) == size
    best = max(
        diverse_value(quality, similarity, list(rows), penalty) for rows in itertools.combinations(range(7), size)
    )
    value = diverse_value(quality, similarity, chosen, penalty)
    assert value <= best + 1e-9
    # No single exchange is better: what a local search can promise.
    for place, other in itertools.product(range(size), set(range(7)) - set(chosen)):
        changed = [*chosen[:place], other, *chosen[place + 1 :]]
        assert diverse_value(quality, similarity, changed, penalty) <= value + 1e-9


@given(SEEDS, st.integers(1, 4))
def test_medoids_against_all_swaps(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    similarity, weights = rng.random((7, 7)), rng.random(7)
    chosen = medoids(similarity, weights, size).tolist()
    assert len(set(chosen)) == size
    value = medoid_value(similarity, weights, chosen)
    for place, other in itertools.product(range(size), set(range(7)) - set(chosen)):
        changed = [*chosen[:place], other, *chosen[place + 1 :]]
        assert medoid_value(similarity, weights, changed) <= value + 1e-9


def test_the_matrix_given_is_left_as_it_was() -> None:
    """A peer zeroed the diagonal of its caller's matrix."""
    similarity = np.ones((4, 4))
    diverse(np.arange(4.0), similarity, 2, 1.0, 5, np.random.default_rng(0))
    medoids(similarity, np.ones(4), 2)
    assert (similarity == 1).all()


TEXTS = ["a cat sat on the mat", "a cat sat on a mat", "the cat sat on the mat", "two dogs run in the park", "x"]


def test_penalty_makes_different_texts() -> None:
    decision = minrisk.decode(TEXTS)
    assert [choice.text for choice in minrisk.select(decision, 3, "diverse", penalty=0.0)] == [
        choice.text for choice in decision.nbest(3)
    ]
    texts = {choice.text for choice in minrisk.select(decision, 3, "diverse", penalty=50.0)}
    assert {"two dogs run in the park", "x"} <= texts


def test_lower_is_better_similarities_mean_the_same() -> None:
    """A peer took the direction of the decoding metric for that of the diversity metric."""
    decision = minrisk.decode(TEXTS)
    chrf = minrisk.utility("chrf")
    distance = Function(lambda candidates, references: 100 - chrf.score(candidates, references), False)
    for selection in ("diverse", "medoids"):
        one = minrisk.select(decision, 2, selection, penalty=3.0)
        assert minrisk.select(decision, 2, selection, penalty=3.0, similarity=distance) == one


def test_medoids_stand_for_clusters() -> None:
    decision = minrisk.decode([*TEXTS[:3], TEXTS[3], "two dogs run in a park"])
    texts = [choice.text for choice in minrisk.select(decision, 2, "medoids")]
    assert sorted("cat" in text for text in texts) == [False, True]


def test_what_is_unknown_is_not_among_the_diverse() -> None:
    decision = minrisk.decode(TEXTS, "chrf", "square", 4)
    known = {text for text, value in zip(TEXTS, decision.utilities, strict=True) if not np.isnan(value)}
    assert {choice.text for choice in minrisk.select(decision, 5, "diverse")} == known
    assert len(minrisk.select(decision, 5)) == 5


def test_bad_selections() -> None:
    decision = minrisk.decode(TEXTS)
    with pytest.raises(minrisk.InputError, match="did you mean 'diverse'"):
        minrisk.select(decision, 2, "divers")
    with pytest.raises(minrisk.InputError, match="at least 1, got 0"):
        minrisk.select(decision, 0, "diverse")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = tmp_path / "samples.jsonl"
    samples.write_text(json.dumps({"id": "a", "hypotheses": TEXTS}) + "\n")
    (decision,) = minrisk.decode_corpus([minrisk.Segment(id="a", hypotheses=TEXTS)])
    for selection in ("diverse", "medoids"):
        assert main(["decode", str(samples), "--nbest", "3", "--selection", selection, "--penalty", "2"]) == 0
        record = json.loads(capsys.readouterr().out)
        expected = minrisk.select(decision, 3, selection, penalty=2.0)
        assert [choice["index"] for choice in record["nbest"]] == [choice.index for choice in expected]
    for wrong in (["--nbest", "3", "--selection", "divers"], ["--selection", "medoids"]):
        assert main(["decode", str(samples), *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1
