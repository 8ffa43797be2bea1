"""Progress on a terminal, pipes and signals: what needs a process of its own."""

from __future__ import annotations

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from cli.support import SEGMENTS, lines_of, process, write_lines

import minrisk
from minrisk.cli.progress import Progress


class TestProgress:
    """What the bar says."""

    def test_line(self) -> None:
        ledger = minrisk.Ledger()
        progress = Progress(ledger, Fraction(1, 2), visible=False)
        assert progress.line(1.0) == "0 segments, 0 calls, 0.0 calls/s"
        progress._visible = True
        followed = progress.follow(minrisk.Segment(hypotheses=["a", "b", "b"]) for _ in range(100))
        next(followed)
        assert progress.share is None, "a pipe has no end that is known"
        list(followed)
        assert progress.share == 0
        ledger.segments, ledger.calls, ledger.scored = 10, 20, 18
        assert progress.line(400.0) == "10 segments, 20 calls, 0.1 calls/s, 1:00:00 left"
        ledger.scored = 100
        assert progress.line(5.0) == "10 segments, 100 calls, 20 calls/s, 0:00:05 left"

    @pytest.mark.parametrize("columns", [120, 80, 30])
    def test_on_a_terminal(self, columns: int) -> None:
        screen, code = on_terminal("decode", "samples.jsonl", "-o", "out.jsonl", "--window", "1", columns=columns)
        assert code == 0
        drawn, erased, after = screen.rpartition("\x1b[2K")
        assert erased, "the bar must be erased"
        assert after.startswith("12 segments, ")
        assert "12 segments" in drawn
        if columns >= 80:
            assert "calls/s, 0:00:00 left" in drawn
        assert len(Path("out.jsonl").read_text().splitlines()) == 12

    def test_on_a_terminal_that_is_output_too_or_in_quiet(self) -> None:
        for arguments, expected in (((), 13), (("--quiet",), 12)):
            screen, _ = on_terminal("decode", "samples.jsonl", *arguments, stdout=True)
            assert "\x1b[2K" not in screen
            assert sum("segments, " in line or line.startswith("{") for line in screen.splitlines()) == expected

    def test_an_error_stands_alone_on_a_terminal(self) -> None:
        screen, code = on_terminal("decode", "samples.jsonl", "-o", "out.jsonl", "--utility", "judge.py:raises")
        assert (code, "Traceback" in screen) == (2, False)
        assert screen.rpartition("\x1b[2K")[2].startswith("minrisk: error: ")


def on_terminal(*arguments: str, stdout: bool = False, columns: int = 120) -> tuple[str, int]:
    """What a command shows on a terminal that is its standard error, or its standard output too; its exit code."""
    terminal, end = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm"}
    with process(*arguments, stdout=end if stdout else subprocess.DEVNULL, stderr=end, env=environment) as running:
        os.close(end)
        shown = b""
        while chunk := read_terminal(terminal):
            shown += chunk
    os.close(terminal)
    return shown.decode().replace("\r\n", "\n"), running.returncode


def read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how Linux says that the other side has gone
        return b""


class TestProcess:
    """What needs a process of its own."""

    def test_help_imports_nothing_heavy(self) -> None:
        script = """
import sys
from minrisk.cli.main import main
for arguments in (["--help"], ["decode", "--help"], ["--version"], ["decode", "--nosuch"], ["nosuch"], []):
    try:
        main(arguments)
    except SystemExit:
        pass
heavy = {"numpy", "numba", "rich", "pyarrow", "torch", "minrisk.formats", "minrisk.types"} & set(sys.modules)
assert not heavy, heavy
"""
        subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, capture_output=True)

    def test_pipes(self) -> None:
        data = Path("samples.jsonl").read_bytes()
        expected = lines_of(minrisk.decode_corpus(SEGMENTS))
        for given in (data, gzip.compress(data)):
            with process("decode", "-", stdin=subprocess.PIPE) as running:
                out, err = running.communicate(given)
            assert running.returncode == 0
            assert [json.loads(line) for line in out.splitlines()] == expected
            assert err.count(b"\n") == 1, "no progress bar in a pipe"
        with process("decode", "-", stdin=subprocess.DEVNULL) as running:
            assert running.communicate() == (b"", b"minrisk: error: standard input: no segments; the file is empty\n")
        assert running.returncode == 2

    def test_decisions_do_not_wait_in_a_pipe(self) -> None:
        with process("decode", "-", "--window", "1", "--quiet", stdin=subprocess.PIPE) as running:
            for segment in SEGMENTS[:3]:
                running.stdin.write(json.dumps(segment).encode() + b"\n")
                running.stdin.flush()
                assert json.loads(running.stdout.readline())["id"] == segment["id"]
            running.stdin.close()
        assert running.returncode == 0

    def test_a_reader_that_leaves(self) -> None:
        write_lines("samples.jsonl", SEGMENTS * 100)
        with process("decode", "samples.jsonl", "--nbest", "8", "--window", "1") as running:
            assert json.loads(running.stdout.readline())["id"] == "news-0"
            running.stdout.close()
            assert running.stderr.read() == b""
        assert running.returncode == 1

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a device that is always full")
    @pytest.mark.parametrize("arguments", [("decode", "samples.jsonl"), ("methods", "columns")])
    def test_a_full_disk(self, arguments: tuple[str, ...]) -> None:
        with open("/dev/full", "wb") as full, process(*arguments, stdout=full) as running:
            assert running.communicate()[1] == b"minrisk: error: output: No space left on device\n"
        assert running.returncode == 2

    @pytest.mark.parametrize(("closed", "name"), [(0, "input"), (1, "output"), (2, "error")])
    def test_closed_streams(self, closed: int, name: str) -> None:
        command = f'exec "$0" -m minrisk decode {"-" if closed == 0 else "samples.jsonl"} {closed}>&-'
        done = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True)
        expected = (0, b"") if closed == 2 else (2, f"minrisk: error: standard {name}: is closed\n".encode())
        assert (done.returncode, done.stderr) == expected

    @pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_signals_leave_nothing_behind(self, sent: signal.Signals, code: int) -> None:
        Path("waits.py").write_text("import os\ndef score(*_):\n    print('at work')\n    while True: os.read(0, 1)\n")
        arguments = ("decode", "samples.jsonl", "-o", "out.jsonl", "--utility", "waits.py:score")
        with process(*arguments, stdin=subprocess.PIPE) as running:
            assert running.stderr.readline() == b"at work\n"
            assert any(name.endswith(".partial") for name in os.listdir())
            running.send_signal(sent)
            out, err = running.communicate()
        assert (running.returncode, out) == (code, b"")
        assert b"Traceback" not in err
        assert err == (b"minrisk: interrupted; no output file was written\n" if code == 130 else b"")
        assert not [name for name in os.listdir() if "out" in name]
