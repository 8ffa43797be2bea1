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
    ],
)
def test_what_is_wrong_is_said(
    samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    given = [argument.format(samples=samples, tmp=tmp_path) for argument in arguments]
    assert main(["study", *given]) == 2
    assert message in capsys.readouterr().err
