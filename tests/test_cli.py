"""The command line does what it says, or says in one line why not."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

import minrisk
from minrisk.cli.main import main
from minrisk.cli.progress import Progress
from minrisk.formats import record_of

WORDS = ["a", "cat", "dog", "sat", "down", "on", "the", "mat", "red"]
SEGMENTS: list[dict[str, Any]] = [
    {
        "id": f"news-{number}",
        "hypotheses": [" ".join(WORDS[place % (row + 2)] for place in range(number % 5, 9)) for row in range(8)],
        "logprobs": [-0.25 * row for row in range(8)],
    }
    for number in range(12)
]
JUDGE = """
from __future__ import annotations
from dataclasses import dataclass
import helper
from minrisk.utilities.function import Function

print("imported")

@dataclass
class Scale:
    factor: float = 1.0

def score(candidates, pseudo_references):
    print("scoring")
    return [float(len(set(c.split()) & set(r.split()))) for c, r in zip(candidates, pseudo_references)]

def raises(candidates, pseudo_references):
    raise ConnectionError("the server\\nis gone")

def late(candidates, pseudo_references):
    return raises(None, None) if any("dog" in text for text in candidates) else score(candidates, pseudo_references)

def interrupted(candidates, pseudo_references):
    raise KeyboardInterrupt

class Own(Function):
    def __init__(self):
        super().__init__(score)

short = lambda candidates, pseudo_references: score(candidates, pseudo_references)[1:]
nan = lambda candidates, pseudo_references: [float("nan")] * len(candidates)
words = lambda candidates, pseudo_references: candidates
number = 5
ready = Function(score, label="ready")
"""

Result = tuple[int, str, str]
Run = Callable[..., Result]


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


def write_lines(path: str, records: list[Any]) -> None:
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records))


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


def process(*arguments: str, **settings: Any) -> Any:
    """A command as a process of its own; SIGINT reaches it even where the tests run in the background."""
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings
    command = [sys.executable, "-W", "error", "-m", "minrisk", *arguments]
    return subprocess.Popen(command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **settings)


def refused(result: Result, message: str) -> None:
    """Exit code 2, nothing on standard output, and one line with this message on standard error."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("minrisk: error: ")
    assert err.count("\n") == 1, err
    assert err.endswith("\n")
    assert re.search(message, err), err


DECODE = ("decode", "samples.jsonl")
BAD_ARGUMENTS = [
    ((), r"a command is needed: decode, .*methods, utilities.*; see minrisk --help"),
    (("",), "unknown command ''"),
    (("decoed",), "unknown command 'decoed'; did you mean 'decode'"),
    (("--versoin",), "unrecognized arguments: --versoin; did you mean --version"),
    (("--quiet", *DECODE), "unrecognized arguments: --quiet; see minrisk --help"),
    (("decode",), "the following arguments are required: SAMPLES; see minrisk decode --help"),
    ((*DECODE, "--utilty", "chrf"), "unrecognized arguments: --utilty chrf; did you mean --utility?"),
    ((*DECODE, "--num-candidate=3"), "unrecognized arguments: --num-candidate=3; did you mean --num-candidates?"),
    ((*DECODE, "--budget"), "argument --budget: expected one argument"),
    ((*DECODE, "--format", "xml"), r"argument --format: invalid choice: 'xml' \(choose from"),
    ((*DECODE, "--method", "colums"), "unknown method 'colums'; did you mean 'columns'"),
    ((*DECODE, "--utility", "chfr"), "unknown utility 'chfr'; did you mean 'chrf'"),
    ((*DECODE, "--weights", "logprobs"), "unknown weights 'logprobs'; did you mean 'logprob"),
    ((*DECODE, "--method", "columns", "--set", "rank=1"), "unknown option of method 'columns': 'rank'"),
    ((*DECODE, "--utility-set", "word_order=two"), "`word_order` of utility 'chrf' must be int, got 'two'"),
    ((*DECODE, "--utility-set", "lowercase=perhaps"), "`lowercase` of utility 'chrf' must be bool, got 'perhaps'"),
    ((*DECODE, "--utility-set", "char_order=-1"), "`char_order`.*got -1"),
    ((*DECODE, "--utility-set", "beta=nan"), "`beta`.*got nan"),
    ((*DECODE, "--utility-set", "word_ordr=2"), "option of utility 'chrf': 'word_ordr'; did you mean 'word_order'"),
    *(((*DECODE, "--seed", seed), rf"--seed: a whole number is needed, got '{seed}'") for seed in ("x", "1.5", "")),
    *(
        ((*DECODE, option, count), rf"argument {option}: at least 1 is needed, got '{count}'")
        for option, count in (("--nbest", "-1"), ("--nbest", "0"), ("--window", "0"), ("--num-candidates", "0"))
    ),
    *(((*DECODE, "--set", text), f"must look like option=value, got '{text}'") for text in ("rank", "=3")),
    *(((*DECODE, "--utility", name), f"file.py:function, got '{name}'") for name in ("judge.py:", ":score")),
    *(
        ((*DECODE, "--budget", budget), rf"a budget is a share .* got '{re.escape(budget)}'")
        for budget in ("0", "-1", "1.5", "nan", "inf", "x", "1/0", "3/2", "0/4", "", "1e3", "1/16/2")
    ),
    ((*DECODE, "--budget", "1/4", "--method", "full"), "method 'full' scores all .* in segment 'news-0'"),
    ((*DECODE, "--nbest", "3", "--format", "text"), "--nbest goes with --format jsonl"),
    ((*DECODE, "--num-candidates", "8"), "samples.jsonl: is read as jsonl; `num_candidates`"),
    ((*DECODE, "--utility", "judge.py:raises"), r"'raises'.*segment 'news-\d+'.*ConnectionError: the server is gone$"),
    ((*DECODE, "--utility", "judge.py:short"), r"lambda.*segment 'news-\d+'.*expected 320 values, got 319"),
    ((*DECODE, "--utility", "judge.py:nan"), r"segment 'news-0': the utility returned nan"),
    ((*DECODE, "--utility", "judge.py:words"), "utility '<lambda>' must return numbers, got list; .*segment 'news"),
    ((*DECODE, "--utility", "judge.py:scores"), "unknown function of 'judge.py': 'scores'; did you mean 'score'"),
    ((*DECODE, "--utility", "judge.py:number"), "a utility must be a name, a Utility or a callable, got 5"),
    ((*DECODE, "--utility", "judge.py:score", "--utility-set", "batchsize=2"), "did you mean 'batch_size'"),
    ((*DECODE, "--utility", "judge.py:score", "--utility-set", "batch_size=0"), "`batch_size` must be at least 1"),
    ((*DECODE, "--utility", "broken.py:score"), "cannot import 'broken.py', line 1: SyntaxError: "),
    ((*DECODE, "--utility", "exits.py:score"), "cannot import 'exits.py': SystemExit: not without arguments"),
    ((*DECODE, "--utility", "missing.py:score"), "cannot import 'missing.py': FileNotFoundError: no such file"),
    ((*DECODE, "--utility", "no.such.module:score"), "cannot import 'no.such.module': ModuleNotFoundError"),
    (("decode", "missing.jsonl"), "missing.jsonl: cannot be read: No such file or directory"),
    (("decode", "."), r"\.: cannot be read: Is a directory"),
    ((*DECODE, "-o", "no/out.jsonl"), "no/out.jsonl: cannot be written: No such file or directory"),
    ((*DECODE, "-o", "out.parquet"), "out.parquet: Parquet is read but not written"),
    ((*DECODE, "-o", "samples.jsonl"), "samples.jsonl: is read from; the output must have another name"),
    (("methods", "colums"), "unknown method 'colums'; did you mean 'columns'"),
    (("methods", "columns", "more"), "unrecognized arguments: more; see minrisk methods --help"),
    (("utilities", "chfr"), "unknown utility 'chfr'; did you mean 'chrf'"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS, ids=lambda value: str(value)[:60])
def test_bad_arguments(run: Run, arguments: tuple[str, ...], message: str) -> None:
    before = sorted(os.listdir())
    code, out, err = run(*arguments)
    script_output = [line for line in err.splitlines(keepends=True) if line not in ("imported\n", "scoring\n")]
    refused((code, out, "".join(script_output)), message)
    assert sorted(set(os.listdir()) - {"__pycache__"}) == before


class TestBadSamples:
    """What is wrong with the samples is said with its place, and no output file appears."""

    @pytest.mark.parametrize(
        ("record", "arguments", "message"),
        [
            ({"hypotheses": []}, (), "samples.jsonl, line 13: `hypotheses` is empty"),
            ({"hypotheses": ["a"], "logprobs": [1, 2]}, (), "line 13: `logprobs` must hold 1 numbers"),
            ({"id": "odd", "hypotheses": ["a"]}, ("--weights", "logprob"), "'odd': weights 'logprob' need `logprobs`"),
            ({"hypotheses": ["a"]}, ("--weights", "logprob"), "segment '12': weights 'logprob' need `logprobs`"),
            ([{"hypotheses": ["a"]}], (), "line 13: a segment must be an object"),
        ],
    )
    def test_after_good_ones(self, run: Run, record: object, arguments: tuple[str, ...], message: str) -> None:
        write_lines("samples.jsonl", [*SEGMENTS, record])
        for target in ("out.jsonl", "out.jsonl.gz", "old.jsonl"):
            Path("old.jsonl").write_text("before")
            refused(run(*DECODE, "--window", "1", "-o", target, *arguments), message)
            assert not [name for name in os.listdir() if "out" in name]
            assert Path("old.jsonl").read_text() == "before"

    def test_a_utility_that_fails_halfway(self, run: Run) -> None:
        code, out, err = run(*DECODE, "--utility", "judge.py:late", "--window", "1", "-o", "out.jsonl", "--quiet")
        assert (code, out) == (2, "")
        assert "ConnectionError: the server is gone" in err.splitlines()[-1]
        assert not [name for name in os.listdir() if "out" in name]

    def test_long_and_odd_messages_are_one_short_line(self, run: Run) -> None:
        write_lines("samples.jsonl", [{f"key\n{number}": 1 for number in range(10_000)}])
        refused(run(*DECODE), r"line 1: a segment needs `hypotheses`, got the keys .*\.\.\.$")
        write_lines("samples.jsonl", [{"id": "\ud800\x1b[31m", "hypotheses": ["a"]}])
        refused(run(*DECODE, "--weights", "logprob"), r"segment '\\ud800\\x1b\[31m'")

    def test_a_missing_extra_is_named(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        Path("samples.parquet").write_bytes(b"PAR1")
        refused(run("decode", "samples.parquet"), r"pip install 'minrisk\[parquet\]'$")


def lines_of(decisions: Any, nbest: int = 0) -> list[dict[str, Any]]:
    return [record_of(decision, nbest) for decision in decisions]


class TestDecode:
    """The command gives what the function gives, in every format."""

    @pytest.mark.parametrize(
        ("arguments", "settings"),
        [
            ((), {}),
            (("--budget", "1/4", "--method", "columns"), {"budget": 0.25, "method": "columns"}),
            (("--budget", "20", "--method", "square", "--seed", "-1"), {"budget": 20, "method": "square", "seed": -1}),
            (("--budget", "0.5"), {"budget": Fraction(1, 2)}),
            (("--budget", "1/4", "--set", "rank=2"), {"budget": "1/4", "method": minrisk.method("pmbr", rank=2)}),
            (("--weights", "logprob", "--window", "1"), {"weights": "logprob"}),
            (("--utility-set", "word-order=2"), {"utility": minrisk.utility("chrf", word_order=2)}),
        ],
    )
    def test_equals_the_function(self, run: Run, arguments: tuple[str, ...], settings: dict[str, Any]) -> None:
        expected = lines_of(minrisk.decode_corpus(SEGMENTS, **settings), nbest=3)
        code, out, err = run(*DECODE, *arguments, "--nbest", "3")
        assert code == 0
        assert [json.loads(line) for line in out.splitlines()] == expected
        assert re.fullmatch(r"12 segments, [\d,]+ calls of [\d,]+ \([\d.]+ % of full MBR.*\); .* s: scoring .*\n", err)

    @pytest.mark.parametrize("name", ["score", "ready", "Own"])
    @pytest.mark.parametrize("module", ["judge.py", "judge"])
    def test_own_functions(self, run: Run, module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for kept in ("judge", "helper"):
            monkeypatch.delitem(sys.modules, kept, raising=False)
        arguments = ("--utility-set", "batch_size=7") if name == "score" else ()
        code, out, err = run(*DECODE, "--utility", f"{module}:{name}", "--quiet", *arguments)
        assert code == 0, err
        assert set(err.splitlines()) == {"imported", "scoring"}

        def score(candidates: list[str], references: list[str]) -> list[float]:
            return [float(len(set(c.split()) & set(r.split()))) for c, r in zip(candidates, references)]

        assert [json.loads(line) for line in out.splitlines()] == lines_of(minrisk.decode_corpus(SEGMENTS, score))

    def test_output_formats(self, run: Run) -> None:
        texts = "".join(f"{decision.text}\n" for decision in minrisk.decode_corpus(SEGMENTS))
        _, lines, _ = run(*DECODE)
        assert run(*DECODE, "--format", "text", "--quiet") == (0, texts, "")
        for target, arguments, expected in (
            ("out", (), lines),
            ("out.jsonl.gz", (), lines),
            ("out.txt", (), texts),
            ("out.txt.gz", (), texts),
            ("out.txt", ("--format", "jsonl"), lines),
            ("out.jsonl", ("--format", "text"), texts),
        ):
            assert run(*DECODE, "-o", target, "--quiet", *arguments) == (0, "", "")
            content = Path(target).read_bytes()
            assert (gzip.decompress(content) if target.endswith(".gz") else content).decode() == expected
        assert run(*DECODE, "-o", os.devnull, "--quiet") == (0, "", "")

    def test_input_formats(self, run: Run) -> None:
        expected = run(*DECODE, "--quiet", "--weights", "logprob", "--format", "text")
        Path("samples.json.gz").write_bytes(gzip.compress(Path("samples.jsonl").read_bytes()))
        columns = {name: [segment[name] for segment in SEGMENTS] for name in ("hypotheses", "logprobs")}
        parquet.write_table(arrow.table(columns), "samples.parquet")
        Path("samples.en").write_text("".join(f"{text}\n" for segment in SEGMENTS for text in segment["hypotheses"]))
        Path("logprobs").write_text("".join(f"{number}\n" for segment in SEGMENTS for number in segment["logprobs"]))
        flat = ("samples.en", "--num-candidates", "8", "--logprobs", "logprobs")
        for arguments in (("samples.json.gz",), ("samples.parquet",), flat):
            assert run("decode", *arguments, "--quiet", "--weights", "logprob", "--format", "text") == expected

    def test_flat_text_beside(self, run: Run) -> None:
        Path("samples.txt").write_text("a b\nc d\na b\ne f\n")
        Path("pseudo").write_text("c d\ne f\n")
        Path("sources").write_text("s\nt\n")
        arguments = ("--num-candidates", "2", "--sources", "sources", "--format", "text", "--quiet")
        pseudo = ("--pseudo-references", "pseudo", "--num-pseudo-references", "1")
        assert run("decode", "samples.txt", *arguments, *pseudo) == (0, "c d\ne f\n", "")
        refused(run("decode", "samples.txt", *arguments, *pseudo, "-o", "pseudo"), "pseudo: is read from")

    def test_signature(self, run: Run) -> None:
        configuration = minrisk.Configuration("chrf", "columns", "1/4", seed=5)
        arguments = ("--method", "columns", "--budget", "1/4", "--seed", "5", "--signature")
        assert run(*DECODE, *arguments, "--quiet")[2] == configuration.signature() + "\n"
        assert run(*DECODE, *arguments)[2].splitlines()[1:] == [configuration.signature()]
        assert minrisk.__version__ in configuration.signature()

    def test_nbest_is_as_long_as_there_are_texts(self, run: Run) -> None:
        write_lines("samples.jsonl", [{"hypotheses": ["a", "b", "a"]}])
        _, out, err = run(*DECODE, "--nbest", "10")
        assert [choice["text"] for choice in json.loads(out)["nbest"]] == ["a", "b"]
        assert err.startswith("1 segment, 4 calls of 4")

    def test_interrupted(self, run: Run) -> None:
        code, out, err = run(*DECODE, "--utility", "judge.py:interrupted", "-o", "out.jsonl")
        assert (code, out) == (130, "")
        assert err.splitlines()[-1] == "minrisk: interrupted; no output file was written"
        assert not [name for name in os.listdir() if "out" in name]


class TestCatalogue:
    """What a newcomer reads."""

    @pytest.mark.parametrize("command", ["methods", "utilities"])
    def test_lists(self, run: Run, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        code, out, err = run(command)
        assert (code, err) == (0, "")
        from minrisk.methods import METHODS
        from minrisk.utilities import UTILITIES

        registry = METHODS if command == "methods" else UTILITIES
        for name in registry:
            assert re.search(rf"^{name}  +\S", out, re.MULTILINE)
            kind = getattr(registry.factory(name), "kind", "")
            assert run(command, name)[1].startswith(f"{name} [{kind}]\n\n" if kind else f"{name}\n\n")
        assert max(map(len, out.splitlines())) <= 80

    def test_options_are_listed(self, run: Run) -> None:
        assert "word_order=0" in run("utilities", "chrf")[1]
        table = run("utilities", "table")[1]
        assert "path=None" in table
        assert "values=" not in table, "an array cannot be given as text"

    def test_help(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "100")
        for arguments in (("--help",), ("decode", "--help"), ("methods", "--help"), ("utilities", "-h")):
            code, out, err = run(*arguments)
            assert (code, err) == (0, "")
            assert out.startswith("usage: minrisk")
            assert max(map(len, out.splitlines())) <= 100
        assert run("--version") == (0, f"minrisk {minrisk.__version__}\n", "")


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
