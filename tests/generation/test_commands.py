"""`minrisk generate`, `minrisk translate` and the pipe between generate and decode."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from generation import folders  # noqa: E402

from minrisk.cli.main import main  # noqa: E402
from minrisk.generation.journal import Journal  # noqa: E402

LINES = ["ein mann liest", "das buch im park", "hund rennt"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(folders.marian(tmp_path_factory.mktemp("models") / "marian"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("news.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path


def generate(model: str, *options: str) -> tuple[str, ...]:
    given = ("--model", model, "--samples", "16", "--max-new-tokens", "5", "--device", "cpu", "--threads", "1")
    return ("generate", "news.txt", *given, *options)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_samples_go_to_a_file_with_their_settings(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(generate(model, "--epsilon", "0.05", "-o", "out.jsonl")) == 0
    found = lines(Path("out.jsonl").read_text())
    assert [each["source"] for each in found] == LINES
    assert found[0]["generation"] == {
        "model": model,
        "dtype": "float32",
        "samples": 16,
        "distinct": False,
        "sampling": "epsilon",
        "epsilon": 0.05,
        "temperature": 1.0,
        "max_new_tokens": 5,
        "seed": 0,
    }
    out, err = capsys.readouterr()
    assert out == ""
    assert re.match(r"3 sources, 48 samples; .* samples/s", err)
    assert sorted(path.name for path in Path().iterdir()) == ["news.txt", "out.jsonl"]


def test_a_run_that_was_stopped_ends_as_one_that_was_not(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(generate(model, "-o", "whole.jsonl")) == 0
    plain = Journal.add

    def add(self: Journal, position: int, record: Any) -> None:
        plain(self, position, record)
        if position == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add", add)
        assert main(generate(model, "-o", "out.jsonl")) == 130
    assert "out.jsonl.partial; the same command goes on" in capsys.readouterr().err
    assert main(generate(model, "-o", "out.jsonl", "--seed", "1")) == 2
    assert "other settings (seed)" in capsys.readouterr().err
    assert main(generate(model, "-o", "out.jsonl")) == 0
    assert "going on after 2 sources" in capsys.readouterr().err
    assert Path("out.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()


def test_a_run_that_was_killed_goes_on(model: str) -> None:
    """SIGKILL after a line and a half: nothing cleans up."""
    assert main(generate(model, "-o", "whole.jsonl")) == 0
    killed = """
import os, signal, sys
from minrisk.cli.main import main
from minrisk.generation.journal import Journal
plain = Journal.add
def add(self, position, record):
    if position == 1:
        self._out.write(b'{"position": 1, "rec')
        os.kill(os.getpid(), signal.SIGKILL)
    plain(self, position, record)
Journal.add = add
main(sys.argv[1:])
"""
    command = [sys.executable, "-c", killed, *generate(model, "-o", "out.jsonl")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert not Path("out.jsonl").exists()
    assert main(generate(model, "-o", "out.jsonl")) == 0
    assert Path("out.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()
    assert not Path("out.jsonl.partial").exists()


def test_an_error_on_the_way_says_what_is_kept(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("news.txt").write_text("ein mann\n\n")
    assert main(generate(model, "-o", "out.jsonl")) == 2
    assert re.search(r"line 2: an empty source; what is done is kept in .*out.jsonl.partial", capsys.readouterr().err)
    assert len(Path("out.jsonl.partial").read_text().splitlines()) == 2


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no /dev/stdout here")
def test_a_device_is_written_to_as_a_pipe_is(model: str) -> None:
    command = [sys.executable, "-m", "minrisk", *generate(model, "-o", "/dev/stdout", "--quiet")]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert [each["source"] for each in lines(found.stdout)] == LINES
    assert not Path("/dev/stdout.partial").exists()


@pytest.mark.parametrize("search", [("--greedy",), ("--beam", "3")])
def test_searches(model: str, search: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    given = ("generate", "news.txt", "--model", model, "--device", "cpu", "--max-new-tokens", "5", *search)
    assert main(given) == 0
    found = lines(capsys.readouterr().out)
    assert [len(each["hypotheses"]) for each in found] == [1, 1, 1]
    assert found[0]["generation"]["samples"] == 1
    assert found[0]["generation"]["search"] == search[0].removeprefix("--")


def test_translate_decides_as_generate_and_decode_do(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(generate(model, "-o", "samples.jsonl")) == 0
    assert main(("decode", "samples.jsonl", "-o", "chosen.jsonl")) == 0
    expected = lines(Path("chosen.jsonl").read_text())
    translate = ("translate", *generate(model)[1:])
    capsys.readouterr()
    assert main(translate) == 0
    assert lines(capsys.readouterr().out) == expected
    assert main((*translate, "-o", "chosen.txt", "--samples-output", "kept.jsonl")) == 0
    assert Path("chosen.txt").read_text().splitlines() == [each["selected"] for each in expected]
    assert Path("kept.jsonl").read_bytes() == Path("samples.jsonl").read_bytes()


def test_translate_goes_on_from_samples_that_were_kept(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(generate(model, "-o", "whole.jsonl")) == 0
    settings = lines(Path("whole.jsonl").read_text())[0]["generation"]
    with Journal("kept.jsonl", settings) as journal:
        journal.add(1, lines(Path("whole.jsonl").read_text())[1])
    translate = ("translate", *generate(model)[1:], "--samples-output", "kept.jsonl", "-o", "chosen.jsonl")
    assert main(translate) == 0
    assert len(lines(Path("chosen.jsonl").read_text())) == 3
    assert Path("kept.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "o.jsonl", "--samples-output", "./o.jsonl"), "samples and decisions need a file each"),
        (("--samples-output", "-"), "-: is no file that samples could be kept in"),
        (("--samples-output", "."), ".: is no file that samples could be kept in"),
        (("--samples-output", "s.txt"), "s.txt: samples are written as JSON Lines"),
        (("-o", "news.txt"), "news.txt: is read from"),
        (("--format", "text", "--nbest", "2"), "--nbest goes with --format jsonl"),
    ],
)
def test_what_translate_refuses(
    model: str, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("translate", *generate(model, *options)[1:])) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(f"minrisk: error: .*{re.escape(message)}.*\n", err)
    assert [path.name for path in Path().iterdir()] == ["news.txt"]


def test_a_pipe_from_generate_to_decode(model: str) -> None:
    command = [sys.executable, "-m", "minrisk"]
    first = subprocess.Popen([*command, *generate(model)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    second = subprocess.run(
        [*command, "decode", "-", "--format", "text"], stdin=first.stdout, capture_output=True, text=True, check=True
    )
    assert first.stdout is not None
    first.stdout.close()
    assert first.wait() == 0
    assert len(second.stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sampling", "epsilom"), "unknown sampling 'epsilom'; did you mean 'epsilon'"),
        (("--top-p", "0.9", "--epsilon", "0.1"), "--epsilon and --top-p exclude one another"),
        (("--top-p", "0.9", "--sampling", "eta"), "--top-p does not go with --sampling eta"),
        (("--top-p", "1.9"), "`top-p` must lie between 0 and 1, got 1.9"),
        (("--greedy", "--beam", "2"), "--greedy and --beam exclude one another"),
        (("--beam", "2", "--distinct"), "--distinct goes with sampling"),
        (("--beam", "2"), "search with 2 beams gives at most 2 of the 16 samples wanted"),
        (("--prompt", "translate {source}"), "is an encoder-decoder model and takes no prompt"),
        (("--prompt", "translate"), "a prompt must hold {source}"),
        (("--target-language", "xx"), "knows no language 'xx'"),
        (("-o", "out.parquet"), "samples are written as JSON Lines"),
        (("-o", "news.txt"), "samples are written as JSON Lines"),
        (("-o", "no/out.jsonl"), "no/out.jsonl: cannot be written"),
        (("-o", "."), ".: cannot be written: Is a directory"),
        (("--top-k", "inf"), "`top-k` must be a whole number of at least 1, got inf"),
        (("--greedy", "--temperature", "0.5"), "--temperature goes with sampling, not with --greedy or --beam"),
        (("--beam", "16", "--epsilon", "0"), "--epsilon goes with sampling, not with --greedy or --beam"),
        (("--length-penalty", "2"), "--length-penalty goes with --beam"),
        (("--server-set", "n=1"), "--server-set goes with --server"),
        (("--server", "", "--prompt", "{source}"), "--device goes with a model on this machine, not with --server"),
        (("--samples", "0"), "at least 1 is needed"),
        (("--dtype", "float31"), "`dtype` must be one of auto, float32, bfloat16, float16, got 'float31'"),
        (("--device", "abacus"), "`device` 'abacus' is not to be had here"),
        (("--samples", "2", "--beam", "2", "--length-penalty", "nan"), "`length_penalty` must be finite, got nan"),
    ],
)
def test_what_is_refused(
    model: str, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(generate(model, *options)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(f"minrisk: error: .*{re.escape(message)}.*\n", err)
    assert [path.name for path in Path().iterdir()] == ["news.txt"]
