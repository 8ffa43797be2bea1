"""`minrisk evaluate` and what is behind it."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import minrisk
from minrisk.cli.main import main
from minrisk.evaluation import Bootstrap, evaluate
from minrisk.utilities.function import QualityFunction

REFERENCES = ["the cat sat on the mat", "two dogs run on wet grass", "a man reads a paper", "nobody knew why"] * 5
GOOD = ["the cat sat on a mat", "two dogs run on the grass", "a man reads the paper", "nobody knew why"] * 5
BAD = ["cat mat", "dogs are running", "a man reads a paper", "who knows"] * 5
SOURCES = [f"Quelle {number}" for number in range(20)]


def test_means_and_intervals() -> None:
    utility = minrisk.utility("chrf")
    good, bad = evaluate({"good": GOOD, "bad": BAD}, utility, REFERENCES)
    for found, texts in ((good, GOOD), (bad, BAD)):
        np.testing.assert_allclose(found.values, utility.score(texts, REFERENCES))
        assert found.mean.value == pytest.approx(found.values.mean())
        assert found.mean.low < found.mean.value < found.mean.high
        error = found.values.std() / np.sqrt(len(texts))
        assert found.mean.high - found.mean.low == pytest.approx(2 * 1.96 * error, rel=0.2)
    assert good.difference is None
    assert good.p_value is None
    assert bad.difference is not None
    assert bad.difference.value == pytest.approx((bad.values - good.values).mean())
    assert bad.difference.high < 0
    assert bad.p_value == pytest.approx(1 / 1001)


def test_equal_systems_do_not_differ() -> None:
    _, other = evaluate({"one": GOOD, "other": list(GOOD)}, minrisk.utility("ter"), REFERENCES)
    assert other.difference is not None
    assert (other.difference.value, other.difference.low, other.difference.high) == (0.0, 0.0, 0.0)
    assert other.p_value == 1.0
    assert not other.higher_is_better


def test_the_p_value_is_uniform_where_there_is_no_difference() -> None:
    rng = np.random.default_rng(0)
    values = [Bootstrap(200, seed=seed).p_value(rng.normal(size=60)) for seed in range(200)]
    assert 0.02 <= np.mean(np.array(values) <= 0.05) <= 0.1
    assert 0.4 <= np.mean(values) <= 0.6


def test_the_same_seed_gives_the_same_intervals_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(50.0)
    whole = Bootstrap(100).means(values)
    np.testing.assert_array_equal(whole, Bootstrap(100).means(values))
    assert not np.array_equal(whole, Bootstrap(100, seed=1).means(values))
    monkeypatch.setattr("minrisk.evaluation.RESAMPLES_AT_ONCE", 120)
    np.testing.assert_array_equal(whole, Bootstrap(100).means(values))


@pytest.mark.parametrize("name", ["bleu", "chrf(word_order=2)", "chrf", "ter", "bleu(lowercase=true,tokenize=none)"])
def test_corpus_scores_are_those_of_sacrebleu(name: str) -> None:
    official = pytest.importorskip("sacrebleu.metrics", reason="sacreBLEU is not installed")
    metric = {
        "bleu": official.BLEU(),
        "chrf(word_order=2)": official.CHRF(word_order=2),
        "chrf": official.CHRF(),
        "ter": official.TER(),
        "bleu(lowercase=true,tokenize=none)": official.BLEU(lowercase=True, tokenize="none"),
    }[name]
    (found,) = evaluate({"good": GOOD}, minrisk.utility(name), REFERENCES)
    assert found.corpus == metric.corpus_score(GOOD, [REFERENCES]).score
    assert found.corpus_signature == str(metric.get_signature())


def test_what_several_systems_chose_is_scored_once() -> None:
    seen: list[str] = []

    def judge(candidates: list[str], references: list[str]) -> list[float]:
        seen.extend(candidates)
        return [1.0] * len(candidates)

    evaluate({"one": ["a", "b", "a"], "other": ["a", "b", "c"]}, minrisk.utility(judge), ["r", "r", "r"])
    assert sorted(seen) == ["a", "b", "c"]


def test_quality_needs_no_references() -> None:
    judge = QualityFunction(lambda candidates, sources: [len(text) for text in candidates])
    (found,) = evaluate({"one": ["a", "bb"]}, judge, None, ["x", "y"])
    assert found.mean.value == 1.5
    assert found.corpus is None


@pytest.mark.parametrize(
    ("systems", "references", "message"),
    [
        ({}, REFERENCES, "nothing to evaluate"),
        ({"one": GOOD}, None, "needs references"),
        ({"one": GOOD, "two": GOOD[:3]}, REFERENCES, "two: 20 segments were expected, as in the first output, got 3"),
        ({"one": GOOD}, REFERENCES[:7], "the references: 20 segments were expected.*got 7"),
    ],
)
def test_bad_input(systems: dict[str, list[str]], references: list[str] | None, message: str) -> None:
    with pytest.raises(minrisk.InputError, match=message):
        evaluate(systems, minrisk.utility("chrf"), references)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (lambda candidates, references: [1.0], "expected 20 values, got 1"),
        (lambda candidates, references: 1 / 0, r"segment 'the cat sat on a mat' among them\): ZeroDivisionError"),
        (lambda candidates, references: [float("nan")] * 20, "returned nan for 'the cat"),
    ],
)
def test_metrics_that_fail(judge: Callable[..., list[float]], message: str) -> None:
    references = [f"{number}" for number in range(20)]
    with pytest.raises(minrisk.UtilityError, match=message):
        evaluate({"one": GOOD}, minrisk.utility(judge), references)


@pytest.mark.parametrize("options", [{"resamples": 0}, {"confidence": 1.0}, {"confidence": 0.0}])
def test_bad_bootstraps(options: dict[str, float]) -> None:
    with pytest.raises(minrisk.InputError):
        Bootstrap(**options)  # type: ignore[arg-type]


def jsonl(path: Path, records: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Decisions, a text file packed with gzip, and samples."""
    samples = [
        {"id": f"s{number}", "source": source, "hypotheses": ["a"], "reference": reference}
        for number, (source, reference) in enumerate(zip(SOURCES, REFERENCES, strict=True))
    ]
    chosen = [{"id": f"s{number}", "selected": text, "index": 0} for number, text in enumerate(GOOD)]
    with gzip.open(tmp_path / "bad.txt.gz", "wt", encoding="utf-8") as file:
        file.write("".join(f"{text}\n" for text in BAD))
    return {
        "chosen": jsonl(tmp_path / "chosen.jsonl", chosen),
        "bad": str(tmp_path / "bad.txt.gz"),
        "samples": jsonl(tmp_path / "samples.jsonl", samples),
    }


def test_the_command(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", files["chosen"], files["bad"], "--reference", files["samples"]]
    assert main([*arguments, "--utility", "chrf(word_order=2,beta=3),bleu,ter", "--resamples", "50"]) == 0
    printed = capsys.readouterr().out
    assert "chrf(char_order=6,word_order=2,beta=3" in printed
    assert "ter(" in printed
    assert "lower is better, 20 segments" in printed
    assert printed.count("difference") == printed.count("p = ") == 3
    pytest.importorskip("sacrebleu", reason="sacreBLEU is not installed")
    assert printed.count("corpus: sacreBLEU nrefs:1|case:") == 3


def test_without_sacrebleu_the_command_says_what_is_missing(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    arguments = ["evaluate", files["chosen"], "--reference", files["samples"], "--resamples", "9"]
    assert main([*arguments, "--utility", "chrf,jaccard"]) == 0
    assert capsys.readouterr().out.count("corpus: not computed; pip install 'minrisk[sacrebleu]'") == 1


def test_the_command_as_json(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", files["chosen"], files["bad"], "--reference", files["samples"], "--format", "jsonl"]
    assert main(arguments) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["system"] for record in records] == [files["chosen"], files["bad"]]
    assert "difference" not in records[0]
    assert records[1]["p_value"] < 0.05
    assert set(records[1]["difference"]) == {"value", "low", "high"}


def test_sources_beside_the_references_are_used(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "judge.py"
    script.write_text("def judge(candidates, references, sources):\n    return [len(text) for text in sources]\n")
    assert main(["evaluate", files["bad"], "--reference", files["samples"], "--utility", f"{script}:judge"]) == 0
    mean = sum(map(len, SOURCES)) / len(SOURCES)
    assert f"{mean:.4f} [" in capsys.readouterr().out
    source = tmp_path / "sources.txt"
    source.write_text("ab\n" * 20)
    given = ["--reference", files["samples"], "--source", str(source), "--utility", f"{script}:judge"]
    assert main(["evaluate", files["bad"], *given]) == 0
    assert "2.0000 [2.0000, 2.0000]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.update(samples="missing.txt"), "missing.txt: cannot be read"),
        (lambda files: files.update(bad=files["chosen"]), "is given twice"),
        (lambda files: files.update(samples=files["chosen"]), "line 1: has no `reference`, got the keys"),
        (lambda files: Path(files["samples"]).write_text("{oops\n"), "line 1: not JSON"),
        (lambda files: Path(files["samples"]).write_text("[1]\n"), "line 1: is no object"),
        (
            lambda files: Path(files["samples"]).write_text('{"id": "x", "reference": "a"}\n'),
            "segment 1: has the id 'x'",
        ),
        (lambda files: Path(files["samples"]).write_text(""), "the file is empty"),
    ],
)
def test_bad_files_are_told_in_one_line(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], change: object, message: str
) -> None:
    change(files)  # type: ignore[operator]
    assert main(["evaluate", files["chosen"], files["bad"], "--reference", files["samples"]]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_missing_references_and_names(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", files["chosen"]]) == 2
    assert "utility 'chrf' needs references" in capsys.readouterr().err
    assert main(["evaluate", files["chosen"], "--utility", ","]) == 2
    assert "at least one name" in capsys.readouterr().err
    assert main(["evaluate", files["chosen"], "--reference", files["samples"], "--utility", "chrf,chfr"]) == 2
    said = capsys.readouterr()
    assert "did you mean 'chrf'" in said.err
    assert not said.out
