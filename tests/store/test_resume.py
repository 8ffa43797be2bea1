"""Whatever ends a run, the same command goes on from there, and its output is that of a run that was never ended."""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from minrisk.cli.main import main

SEGMENTS = [{"hypotheses": [f"{n} sample {'x' * k}" for k in range(6 + n % 4)], "source": f"s{n}"} for n in range(30)]
JUDGE = """
import os
import signal

asked = int(os.environ.get("ASKED", 0))

def score(candidates, pseudo_references):
    global asked
    with open("calls.txt", "a") as file:
        file.write(f"{len(candidates)}\\n")
    if "DIES" in os.environ:
        asked -= len(candidates)
        if asked < 0:
            if os.environ["DIES"] == "server":
                raise ConnectionError("the server is gone")
            os.kill(os.getpid(), getattr(signal, os.environ["DIES"]))
    return [len(set(c) & set(r)) + len(c) / 7 for c, r in zip(candidates, pseudo_references)]
"""
UTILITY = ("--utility", "judge.py:score", "--utility-set", "label=j")
DECODE = ("decode", "samples.jsonl", *UTILITY, "--quiet", "--method", "full")
SMALL = (*DECODE, "--utility-set", "batch_size=16", "--store", "scores.db", "--window", "3", "--budget", "1/2")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("samples.jsonl").write_text("".join(json.dumps(segment) + "\n" for segment in SEGMENTS))
    Path("judge.py").write_text(JUDGE)
    return tmp_path


def started(*arguments: str, limit: Callable[[], None] | None = None, **environment: str) -> Any:
    """A command as a process of its own; SIGINT reaches it even where the tests run in the background."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if limit is not None:
            limit()

    command = [sys.executable, "-W", "error", "-m", "minrisk", *arguments]
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": os.environ | environment}
    return subprocess.Popen(command, preexec_fn=prepare, **settings)


def ended(*arguments: str, **options: Any) -> tuple[int, str]:
    with started(*arguments, **options) as running:
        _, err = running.communicate()
    return running.returncode, err.decode()


def calls() -> int:
    return sum(map(int, Path("calls.txt").read_text().split())) if Path("calls.txt").exists() else 0


def uninterrupted(*arguments: str) -> tuple[bytes, int]:
    """The output of a run without a store that nothing ends, and its calls."""
    kept = [word for word in arguments if word not in ("--store", "scores.db")]
    assert main([*kept, "-o", "whole.jsonl"]) == 0
    made = calls()
    Path("calls.txt").unlink()
    return Path("whole.jsonl").read_bytes(), made


@pytest.mark.parametrize(("name", "method"), [("SIGKILL", "pmbr"), ("SIGINT", "halving"), ("server", "pmbr")])
def test_a_run_that_dies_again_and_again(name: str, method: str) -> None:
    arguments = (*SMALL, "--method", method)
    expected, made = uninterrupted(*arguments)
    rng = random.Random(name)
    deaths = 0
    while True:
        asked = rng.randrange(made // 8, made // 2)
        code, err = ended(*arguments, "-o", "out.jsonl", DIES=name, ASKED=str(asked))
        if code == 0:
            break
        deaths += 1
        assert code == {"SIGKILL": -signal.SIGKILL, "SIGINT": 130, "server": 2}[name]
        assert not Path("out.jsonl").exists()
        assert "Traceback" not in err
        if deaths > 1 and name != "SIGKILL":
            assert err.rstrip().endswith("out.jsonl.partial; the same command goes on from there")
    assert deaths >= 2
    assert Path("out.jsonl").read_bytes() == expected
    assert not Path("out.jsonl.partial").exists()
    # Of each death, one batch was under way; what Ctrl-C ends has been asked for and not been told.
    assert made <= calls() <= made + 16 * deaths


def test_killed_from_outside_at_any_moment() -> None:
    write = Path("samples.jsonl").write_text
    write("".join(json.dumps(segment | {"id": str(n)}) + "\n" for n, segment in enumerate(SEGMENTS * 8)))
    arguments = (*SMALL, "--method", "pmbr", "--workers", "2")
    expected, made = uninterrupted(*arguments[:-2])
    rng = random.Random(0)
    for _ in range(2):
        with started(*arguments, "-o", "out.jsonl") as running:
            wanted = calls() + rng.randrange(1, made // 3)
            while calls() < wanted and running.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    running.wait(0.01)
            running.kill()
        assert running.returncode == -signal.SIGKILL
    assert ended(*arguments, "-o", "out.jsonl") == (0, "")
    assert Path("out.jsonl").read_bytes() == expected
    assert calls() <= made + 2 * 2 * 16


@pytest.mark.parametrize("size", [3000, 40_000, 60_000])
def test_a_full_disk(size: int) -> None:
    """A limit on the size of files stands for the disk: a store and an output may each grow to it."""
    arguments = (*SMALL, "--method", "pmbr")
    expected, _ = uninterrupted(*arguments)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    code, err = ended(*arguments, "-o", "out.jsonl", limit=limit)
    assert code == 2
    assert err.count("\n") == 1
    assert "cannot be written" in err
    assert ended(*arguments, "-o", "out.jsonl") == (0, "")
    assert Path("out.jsonl").read_bytes() == expected


class TestPartial:
    """What stands in OUT.partial, and who may go on from it."""

    def test_other_settings_samples_and_files_are_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        def refused(message: str, *more: str) -> None:
            before = Path("out.jsonl.partial").read_bytes()
            assert main([*DECODE, "--window", "3", "-o", "out.jsonl", *more]) == 2
            assert message in capsys.readouterr().err
            assert Path("out.jsonl.partial").read_bytes() == before

        assert ended(*DECODE, "--window", "3", "-o", "out.jsonl", DIES="server", ASKED="900")[0] == 2
        refused("an unfinished run with other settings (signature)", "--seed", "1")
        refused("an unfinished run with other settings (nbest)", "--nbest", "2")
        samples = Path("samples.jsonl").read_text()
        Path("samples.jsonl").write_text(samples.replace('"s2"', '"t2"'))
        refused("an unfinished run over other samples (segment 3 differs)")
        Path("samples.jsonl").write_text("".join(samples.splitlines(keepends=True)[:2]))
        refused("an unfinished run over other samples (segment 3 differs)")
        Path("out.jsonl.partial").write_text("my notes\n")
        refused("is not what an unfinished run leaves")
        assert main([*DECODE, "-o", "out.jsonl", "--restart"]) == 0
        assert len(Path("out.jsonl").read_text().splitlines()) == 2

    def test_a_torn_line_is_dropped_and_another_format_may_finish(self) -> None:
        expected, _ = uninterrupted(*DECODE, "--nbest", "2")
        assert ended(*DECODE, "--nbest", "2", "--window", "3", "-o", "out.gz", DIES="server", ASKED="900")[0] == 2
        with Path("out.gz.partial").open("ab") as file:
            file.write(b'{"segment": "')
        assert main([*DECODE, "--nbest", "2", "-o", "out.gz"]) == 0
        assert gzip.decompress(Path("out.gz").read_bytes()) == expected

    def test_standard_input_goes_on_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        expected, _ = uninterrupted(*DECODE)
        assert ended(*DECODE, "--window", "3", "-o", "out.jsonl", DIES="server", ASKED="900")[0] == 2
        with open("samples.jsonl", "rb") as samples:
            command = [sys.executable, "-m", "minrisk", "decode", "-", *DECODE[2:], "-o", "out.jsonl"]
            assert subprocess.run(command, stdin=samples).returncode == 0
        assert Path("out.jsonl").read_bytes() == expected

    def test_two_runs_at_a_time(self, capsys: pytest.CaptureFixture[str]) -> None:
        from minrisk.unfinished import Decisions

        with Decisions("out.jsonl", {}):
            assert main([*DECODE, "-o", "out.jsonl"]) == 2
        assert "out.jsonl.partial: another run is writing it" in capsys.readouterr().err
