"""A working folder, and commands that run in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli.support import JUDGE, SEGMENTS, Result, Run, write_lines

from minrisk.cli.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with samples and scripts in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    write_lines("samples.jsonl", SEGMENTS)
    Path("judge.py").write_text(JUDGE)
    Path("helper.py").write_text("")
    Path("broken.py").write_text("def score(:\n")
    Path("exits.py").write_text("raise SystemExit('not without arguments')\n")
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command within this process: exit code, standard output, standard error."""

    def command(*arguments: str) -> Result:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as exit:
            code = int(exit.code or 0)
        return (code, *capsys.readouterr())

    return command
