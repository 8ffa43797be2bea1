"""Scores of tiny checkpoints in the official layouts, against those of the official packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `neural` is not installed")
pytest.importorskip("transformers", reason="the extra `neural` is not installed")

import torch
from neural.golden.texts import CANDIDATES, CORPUS, REFERENCES, SOURCES
from neural.models import GOLDEN, expanded_metricx

import minrisk
from minrisk.utilities.base import QualityUtility

torch.set_num_threads(1)
SCORES: dict[str, Any] = json.loads((GOLDEN / "scores.json").read_text())
NOTHING = [None] * len(CANDIDATES)


def scores_of(name: str, sources: Any = SOURCES, **options: Any) -> Any:
    """Our scores of the golden pairs, on the CPU."""
    utility = minrisk.utility(name, device="cpu", **options)
    together = utility.score(CANDIDATES, REFERENCES, sources)
    # Alone, without padding, in another order: the same but for rounding.
    for place in (3, 7, 0):
        alone = utility.score([CANDIDATES[place]], [REFERENCES[place]], [sources[place]])
        np.testing.assert_allclose(alone, together[place : place + 1], atol=1e-5)
    return together


@pytest.mark.parametrize(
    ("golden", "name", "sources"),
    [
        ("comet", "comet", SOURCES),
        ("comet-norm", "comet", SOURCES),
        ("comet-qe", "cometkiwi", SOURCES),
        ("cometkiwi", "cometkiwi", SOURCES),
        ("cometkiwi-xl", "cometkiwi", SOURCES),
        ("unite", "xcomet", SOURCES),
        ("xcomet", "xcomet", SOURCES),
        ("xcomet-lite", "xcomet", SOURCES),
        ("xcomet without source", "xcomet", NOTHING),
        ("xcomet without reference", "xcomet_qe", SOURCES),
    ],
)
def test_comet(golden: str, name: str, sources: Any) -> None:
    found = scores_of(name, sources, model=str(GOLDEN / golden.partition(" ")[0]))
    np.testing.assert_allclose(found, SCORES[golden], rtol=0, atol=1e-5)


def test_bleurt() -> None:
    np.testing.assert_allclose(scores_of("bleurt", model=str(GOLDEN / "bleurt")), SCORES["bleurt"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("score_type", ["precision", "recall", "f1"])
def test_bertscore(score_type: str, tmp_path: Path) -> None:
    model = str(GOLDEN / "bert")
    plain = scores_of("bertscore", model=model, layer=2, score_type=score_type)
    np.testing.assert_allclose(plain, SCORES["bertscore"][score_type], rtol=0, atol=1e-5)
    documents = tmp_path / "documents.txt"
    documents.write_text("\n".join(CORPUS), encoding="utf-8")
    weighted = scores_of("bertscore", model=model, score_type=score_type, idf=str(documents))
    np.testing.assert_allclose(weighted, SCORES["bertscore idf"][score_type], rtol=0, atol=1e-5)
    baseline = str(GOLDEN / "baseline.csv")
    rescaled = scores_of("bertscore", model=model, layer=2, score_type=score_type, baseline=baseline)
    np.testing.assert_allclose(rescaled, SCORES["bertscore baseline"][score_type], rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def metricx_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return expanded_metricx(GOLDEN / "metricx", tmp_path_factory.mktemp("metricx"))


@pytest.mark.parametrize(("edition", "limit"), [("24", 120), ("23", 80)])
@pytest.mark.parametrize("quality", [False, True])
def test_metricx(metricx_folder: Path, edition: str, limit: int, quality: bool) -> None:
    name = "metricx_qe" if quality else "metricx"
    options = {"model": str(metricx_folder), "edition": edition, "max_length": limit}
    golden = np.array(SCORES["metricx"][edition + ("-qe" if quality else "")])
    np.testing.assert_allclose(scores_of(name, **options), golden, rtol=0, atol=1e-5)
    np.testing.assert_allclose(scores_of(name, clamp=False, **options), golden, rtol=0, atol=1e-5)
    utility = minrisk.utility(name, **options)
    assert not utility.higher_is_better
    assert utility.needs_source == (quality or edition == "24")
    assert isinstance(utility, QualityUtility) == quality


def test_metricx_ends_at_0_and_25_unless_told_otherwise(metricx_folder: Path) -> None:
    given = CANDIDATES, REFERENCES, [None] * len(CANDIDATES)
    for factor, end in ((9.0, 25.0), (-1.0, 0.0)):
        scores = []
        for clamp in (True, False):
            utility = minrisk.utility("metricx", model=str(metricx_folder), edition="23", device="cpu", clamp=clamp)
            utility._network.answer = utility._network.answer * factor
            scores.append(utility.score(*given))
        assert (scores[0] == end).any()
        np.testing.assert_array_equal(scores[0], np.clip(scores[1], 0, 25))


def test_metricx_in_bfloat16_keeps_its_type_and_stays_close(metricx_folder: Path, tmp_path: Path) -> None:
    folder = expanded_metricx(GOLDEN / "metricx", tmp_path, "bfloat16")
    options = {"edition": "24", "device": "cpu", "clamp": False, "max_length": 120}
    half = minrisk.utility("metricx", model=str(folder), dtype="auto", **options)
    whole = minrisk.utility("metricx", model=str(metricx_folder), **options)
    given = CANDIDATES, REFERENCES, SOURCES
    assert half._network.packer.replicas[0].dtype is torch.bfloat16
    np.testing.assert_allclose(half.score(*given), whole.score(*given), atol=1.5)


@pytest.mark.parametrize("label", ["contradiction", "Entailment", 2])
def test_nli(label: str | int) -> None:
    logits = np.array(SCORES["nli"]["reference, candidate"])
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    place = {"contradiction": 0, "Entailment": 1}.get(label, label)  # type: ignore[call-overload]
    options = {"model": str(GOLDEN / "nli"), "label": label}
    np.testing.assert_allclose(scores_of("nli", **options), probabilities[:, place], rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        scores_of("cross_encoder", activation="none", **options), logits[:, place], rtol=0, atol=1e-5
    )
