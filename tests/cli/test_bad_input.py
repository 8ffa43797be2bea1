"""Whatever is wrong with arguments and samples is said in one line, and nothing is left behind."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from cli.support import SEGMENTS, Run, refused, write_lines

from minrisk.scripts import loaded
from minrisk.types import Plan

DECODE = ("decode", "samples.jsonl")
DIVERSE = ("--nbest", "2", "--selection", "diverse")
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
    ((*DECODE, "-o", ""), "the output needs a name, got an empty one"),
    ((*DECODE, "--utility", "1e400*chrf"), "weights of a mixture must be above zero and finite, got .inf"),
    ((*DECODE, "-o", "out.parquet.gz"), "out.parquet.gz: Parquet is compressed inside"),
    ((*DECODE, "-o", "samples.jsonl"), "samples.jsonl: is read from; the output must have another name"),
    *(
        ((*DECODE, "--method", "pruning", "--set", f"growth={growth}"), "a finite `growth` above 1")
        for growth in ("1", "nan", "inf")
    ),
    ((*DECODE, "--method", "mbr_bon", "--set", "beta=nan"), "`beta` of method 'mbr_bon' must be finite, got nan"),
    ((*DECODE, "--method", "mbr_bon", "--set", "by=score"), "unknown rewards 'score'; did you mean 'scores'"),
    ((*DECODE, "--method", "rerank", "--set", "by=chrf"), "`by` of method 'rerank' must judge .* got 'chrf'"),
    ((*DECODE, "--method", "rerank", "--set", "by=scores"), "error: `scores` are needed .*; in segment 'news-0'$"),
    ((*DECODE, "--utility-set", "beta=inf"), "`beta` must be at least 0 and finite, got inf"),
    ((*DECODE, "--selection", "diverse"), "--selection diverse needs --nbest K"),
    ((*DECODE, "--nbest", "2", "--similarity", "bleu"), "--similarity goes with --selection diverse or medoids"),
    ((*DECODE, *DIVERSE, "--similarity", "chr"), "unknown utility 'chr'; did you mean 'chrf'"),
    *(
        ((*DECODE, *DIVERSE, "--penalty", penalty), f"--penalty: a number of at least 0 is needed, got '{penalty}'")
        for penalty in ("-1", "nan", "inf", "x")
    ),
    (("plan", "samples.jsonl", "--weights", "logprobs"), "unknown weights 'logprobs'; did you mean 'logprob"),
    (("data", "stats", "samples.jsonl"), "samples.jsonl, line 1: an object with a `source` is needed"),
    (("translate", "samples.jsonl", "--model", ".", "--nbest", "0"), "--nbest: at least 1 is needed, got '0'"),
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
            assert not [name for name in os.listdir() if "out" in name and not name.endswith(".partial")]
            assert len(Path(f"{target}.partial").read_text().splitlines()) == 1 + len(SEGMENTS)
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

    def test_too_many_samples_for_the_memory(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> Plan:
            raise MemoryError("Unable to allocate 26.8 GiB")
            yield

        monkeypatch.setattr("minrisk.methods.full.Full.plan", full)
        refused(run(*DECODE), r"out of memory: Unable to allocate 26.8 GiB; in segment 'news-0'; fewer samples")

    def test_a_missing_extra_is_named(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        Path("samples.parquet").write_bytes(b"PAR1")
        refused(run("decode", "samples.parquet"), r"pip install 'minrisk\[parquet\]'$")
        refused(run(*DECODE, "-o", "out.parquet"), r"pip install 'minrisk\[parquet\]'$")
        assert not Path("out.parquet.partial").exists()


@pytest.mark.parametrize("script", ["broken.py", "exits.py"])
def test_a_script_that_fails_leaves_no_module(run: Run, script: str) -> None:
    """Worker processes load the modules that this process has loaded."""
    refused(run(*DECODE, "--utility", f"{script}:score"), "cannot import")
    assert not any(Path(str(module.__file__)).name == script for module in loaded())
