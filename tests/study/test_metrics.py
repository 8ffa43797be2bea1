"""What a store holds beside the matrices: held-out scores; and that neither they nor encodings cost anything twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from study.conftest import segments

from minrisk.errors import InputError
from minrisk.study import store as module
from minrisk.study.simulation import Design, simulate
from minrisk.study.store import Store, build_store
from minrisk.types import FloatArray, IntArray, Segment
from minrisk.utilities.base import EncodedUtility
from minrisk.utilities.chrf import ChrF
from minrisk.utilities.function import Function, QualityFunction
from minrisk.utilities.ter import Ter


class Lengths(EncodedUtility):
    """Encodes a text as its length, and counts how often."""

    name: ClassVar[str] = "lengths"
    needs_source = True

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def represent(self, texts: Sequence[str]) -> Sequence[Any]:
        self.encoded += texts
        return [np.array([len(text)]) for text in texts]

    def compare(
        self, encodings: Sequence[Any], candidates: IntArray, pseudo_references: IntArray, sources: IntArray
    ) -> FloatArray:
        lengths = np.array([one[0] for one in encodings], dtype=np.float64)
        return lengths[candidates] - lengths[pseudo_references] / 10 + 100 * lengths[sources]


@pytest.mark.parametrize("source", ["the source", None])
def test_texts_are_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None) -> None:
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 30)
    texts = [f"text {'x' * number}" for number in range(12)]
    utility = Lengths()
    found = build_store([Segment(source=source or texts[3], hypotheses=texts)], utility, tmp_path).values(0)
    assert sorted(utility.encoded) == sorted({*texts, source or texts[3]})
    np.testing.assert_allclose(found, Lengths().matrix(texts, texts, source or texts[3]))


def test_scores_are_kept_when_a_run_goes_on_and_when_metrics_are_added(tmp_path: Path) -> None:
    judged: list[str] = []

    def judge(candidates: list[str], references: list[str]) -> list[float]:
        judged.append(references[0])
        if len(judged) == 3:
            raise KeyboardInterrupt
        return [float(len(text)) for text in candidates]

    with pytest.raises(KeyboardInterrupt):
        build_store(segments(), ChrF(), tmp_path, metrics=[Function(judge)])
    build_store(segments(), ChrF(), tmp_path, metrics=[Function(judge)])
    assert len(judged) == 5
    more = build_store(segments(), ChrF(), tmp_path, metrics={"length": Function(judge), "ter": Ter()})
    assert len(judged) == 5
    assert more.metrics == ["length", "ter"]
    assert more.lower_is_better == ["ter"]
    texts = list(dict.fromkeys(segments()[1].hypotheses))
    np.testing.assert_array_equal(more.scores("length")[1], [len(text) for text in texts])
    np.testing.assert_allclose(more.scores("ter")[1], Ter().matrix(texts, [segments()[1].reference or ""])[:, 0])


def test_other_samples_are_scored_anew(tmp_path: Path) -> None:
    build_store(segments(1), ChrF(), tmp_path, metrics=[Ter()])
    changed = [Segment(id="s0", hypotheses=["a cat", "a dog"], reference="a dog")]
    np.testing.assert_array_equal(build_store(changed, ChrF(), tmp_path, metrics=[Ter()]).scores("ter")[0], [50, 0])


def test_metrics_that_need_no_reference(tmp_path: Path) -> None:
    judge = QualityFunction(lambda candidates, sources: [len(text) for text in candidates], label="length")
    store = build_store([Segment(hypotheses=["a", "bcd"])], ChrF(), tmp_path, metrics=[judge])
    np.testing.assert_array_equal(store.scores("length")[0], [1, 3])


def test_metrics_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two held-out metrics are called 'chrf'"):
        build_store(segments(1), ChrF(), tmp_path, metrics=[ChrF(), ChrF(word_order=2)])
    broken = Function(lambda candidates, references: [np.nan] * len(candidates), label="broken")
    with pytest.raises(InputError, match="'broken' gave nan for"):
        build_store(segments(1), ChrF(), tmp_path, metrics=[broken])


def test_records_know_which_metrics_are_better_when_lower(tmp_path: Path, store: Store) -> None:
    design = Design(methods=("NxK", "SxS"), sizes=(8,), budgets=("1/2",), trials=1)
    own = build_store(segments(), ChrF(), tmp_path / "store", metrics=[Ter(), ChrF()])
    assert simulate(own, tmp_path / "records", design, workers=1).about["lower_is_better"] == ["ter"]
    assert simulate(store, tmp_path / "others", design, workers=1).about["lower_is_better"] == []
