"""The command line does what it says."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from cli.support import SEGMENTS, Run, lines_of, refused, write_lines

import minrisk

DECODE = ("decode", "samples.jsonl")


class TestDecode:
    """The command gives what the function gives, in every format."""

    @pytest.mark.parametrize(
        ("arguments", "settings"),
        [
            ((), {}),
            (("--budget", "1/4", "--method", "columns"), {"budget": 0.25, "method": "columns"}),
            (("--budget", "20", "--method", "square", "--seed", "-1"), {"budget": 20, "method": "square", "seed": -1}),
            (("--budget", "0.5"), {"budget": Fraction(1, 2)}),
            (("--budget", "0.3", "--set", "rounds=3"), {"budget": 0.3, "method": minrisk.method("frontier", rounds=3)}),
            (("--budget", "auto"), {"budget": "auto"}),
            (("--method", "frontier(surrogate=none)"), {"method": minrisk.method("frontier", surrogate=None)}),
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

    def test_other_utilities_are_in_the_summary(self, run: Run) -> None:
        write_lines("samples.jsonl", [{"hypotheses": ["a b", "a c", "b c"]}])
        arguments = ("--method", "coarse_to_fine", "--utility", "bleu", "--budget", "1/2", "--set", "coarse=jaccard")
        assert re.search(r"% of full MBR, besides 9 of other utilities\); ", run(*DECODE, *arguments)[2])

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
