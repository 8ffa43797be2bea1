"""`minrisk study`: every experiment from a file to its outcome."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from study.conftest import segments

from minrisk.cli.main import main


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("samples") / "samples.jsonl"
    lines = [
        json.dumps({"id": one.id, "hypotheses": list(one.hypotheses), "reference": one.reference}) for one in segments()
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_matrix_tune_simulate(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, tuned, output = str(tmp_path / "store"), str(tmp_path / "tuned.json"), tmp_path / "out"
    assert main(["study", "matrix", samples, "--metric", "bleu", "-o", store]) == 0
    assert "4 matrices" in capsys.readouterr().out
    grid = ["--held-out", "1", "--trials", "1", "--sizes", "8", "--budgets", "1/2", "--workers", "1"]
    assert main(["study", "tune", store, "--paper", *grid, "-o", tuned]) == 0
    assert "full MBR's choice comes" in capsys.readouterr().out
    run = ["study", "simulate", store, "--tuned", tuned, "--sizes", "8,12", "--trials", "2", "--budgets", "1/4,1/2"]
    run += ["--methods", "PMBR,NxK,columns,fast=pmbr(rank=2,iterations=3)", "--workers", "1", "--no-figures", "--csv"]
    assert main([*run, "-o", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "| N=12 | FMBR |" in printed
    assert "| fast |" in printed
    assert len((output / "records.csv").read_text().splitlines()) == 1 + 2 * 3 * 2 * 9
    assert json.loads((output / "study.json").read_text())["trials"] == 2
    assert (output / "tables" / "results.tex").exists()
    assert main([*run, "-o", str(output), "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_decoding_with_a_tuned_configuration(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuned = str(tmp_path / "tuned.json")
    grid = ["--held-out", "1", "--trials", "1", "--sizes", "8", "--budgets", "1/2", "--workers", "1"]
    assert main(["study", "tune", samples, "--paper", *grid, "-o", tuned]) == 0
    options = json.loads(Path(tuned).read_text())["options"]
    settings = [f"{name}={options[name]}" for name in ("rank", "iterations", "paper")]
    settings.append(f"regularization={options['regularization'] * 100}")  # chrF's own scale
    run = ["decode", samples, "--budget", "1/4", "--signature"]
    assert main([*run, "--tuned", tuned, "-o", str(tmp_path / "a.jsonl")]) == 0
    signature = capsys.readouterr().err.splitlines()[-1]
    by_hand = [part for setting in settings for part in ("--set", setting)]
    assert main([*run, "--method", "pmbr", *by_hand, "-o", str(tmp_path / "b.jsonl")]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == signature
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()


def test_a_configuration_tuned_on_other_samples(samples: str, tmp_path: Path) -> None:
    lines = [
        json.loads(line) | {"id": f"other{number}"}
        for number, line in enumerate(Path(samples).read_text().splitlines())
    ]
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps(line) + "\n" for line in lines))
    tuned, grid = str(tmp_path / "tuned.json"), ["--held-out", "1", "--trials", "1", "--sizes", "8"]
    assert main(["study", "tune", str(other), *grid, "--workers", "1", "-o", tuned, "--quiet"]) == 0
    run = ["study", "simulate", samples, "--tuned", tuned, "--sizes", "8", "--trials", "1", "--budgets", "1/2"]
    assert main([*run, "--workers", "1", "--no-figures", "--quiet", "-o", str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out" / "study.json").read_text())["segments"] == [0, 1, 2, 3]


def test_held_out_metrics_have_options_and_labels(samples: str, tmp_path: Path) -> None:
    metrics = ["--metric", "plus=chrf(word_order=2)", "--metric", "chrf", "--metric", "ter"]
    assert main(["study", "matrix", samples, *metrics, "-o", str(tmp_path / "store"), "--quiet"]) == 0
    about = json.loads((tmp_path / "store" / "store.json").read_text())["metrics"]
    assert list(about) == ["plus", "chrf", "ter"]
    assert "word_order=2" in about["plus"]["signature"]
    assert not about["ter"]["higher_is_better"]


def test_spectrum_from_samples(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["study", "spectrum", samples, "--sizes", "8", "--workers", "1", "--keep-duplicates", "--no-figures"]
    assert main([*run, "-o", str(tmp_path)]) == 0
    assert "8x8 σ1" in capsys.readouterr().out
    assert (tmp_path / "matrices" / "store.json").exists()


def test_matrices_from_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "given.npy", np.random.default_rng(0).random((2, 12, 12)))
    run = ["study", "simulate", str(tmp_path / "given.npy"), "--sizes", "8", "--trials", "1", "--budgets", "1/2"]
    assert main([*run, "--workers", "1", "--no-figures", "--lower-is-better", "-o", str(tmp_path / "out")]) == 0
    assert "N=8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: EXPERIMENT"),
        (["simulat", "x", "-o", "y"], "simulat"),
        (["spectrum", "{samples}", "-o", "{tmp}", "--sizes", "x"], "at least 1"),
        (["tune", "{samples}", "-o", "{tmp}/t.json", "--sizes", "4,8"], "one of --sizes"),
        (["simulate", "{tmp}", "-o", "{tmp}/x"], "matrix store"),
        (["simulate", "{samples}", "-o", "{tmp}/x", "--methods", "clumns"], "columns"),
        (["matrix", "{samples}", "-o", "{tmp}/x", "--metric", "ter", "--metric", "ter(beam_size=3)"], "option of"),
        (["matrix", "{samples}", "-o", "{tmp}/x", "--metric", "ter", "--metric", "ter()"], "other=ter"),
    ],
)
def test_what_is_wrong_is_said(
    samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    given = [argument.format(samples=samples, tmp=tmp_path) for argument in arguments]
    assert main(["study", *given]) == 2
    assert message in capsys.readouterr().err


def test_an_interrupted_study_says_that_it_goes_on(
    samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> float:
        raise KeyboardInterrupt

    run = ["study", "simulate", samples, "--sizes", "8", "--trials", "1", "--workers", "1", "-o", str(tmp_path / "out")]
    with monkeypatch.context() as patched:
        patched.setattr("minrisk.study.simulation.run_shard", interrupted)
        assert main(run) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert main([*run, "--no-figures"]) == 0


def test_a_tuned_configuration_is_the_whole_method(samples: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", samples, "--tuned", "tuned.json", "--set", "rank=3"]) == 2
    assert "leave out --method and --set" in capsys.readouterr().err
    assert main(["decode", samples, "--tuned", "nowhere.json"]) == 2
    assert "nowhere.json: a tuned configuration" in capsys.readouterr().err
