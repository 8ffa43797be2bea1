"""What a plan foretells is what decoding then spends."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import minrisk
from minrisk.cli.main import main
from minrisk.types import FloatArray, IntArray
from minrisk.utilities.base import EncodedUtility

WORDS = ["a", "cat", "dog", "sat", "down", "on", "the", "mat", "red", "big"]
RNG = np.random.default_rng(5)
SEGMENTS = [
    {
        "id": f"news-{number}",
        "source": f"source {number}",
        "hypotheses": [" ".join(RNG.choice(WORDS, size=4)) for _ in range(12 + number % 5)],
    }
    for number in range(10)
]
Plan = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def samples(tmp_path: Path) -> str:
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(segment) + "\n" for segment in SEGMENTS))
    return str(path)


@pytest.fixture
def plan(capsys: pytest.CaptureFixture[str]) -> Plan:
    """Run the command; the rows it prints."""

    def command(*arguments: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        assert main(["plan", *arguments, "--format", "jsonl"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return command


class Letters(EncodedUtility):
    """Encodes texts as counts of letters."""

    name: ClassVar[str] = "letters"
    needs_source = True

    def represent(self, texts: Sequence[str]) -> Sequence[Any]:
        return [np.array([text.count(letter) for letter in "acdgost"], dtype=float) for text in texts]

    def compare(
        self, encodings: Sequence[Any], candidates: IntArray, pseudo_references: IntArray, sources: IntArray
    ) -> FloatArray:
        table = np.stack(list(encodings))
        return -np.abs(table[candidates] - table[pseudo_references]).sum(axis=1)


letters = Letters()


def test_calls_and_encodes_are_those_of_the_run(samples: str, plan: Plan) -> None:
    methods = ["columns", "square", "pmbr"]
    rows = plan(samples, "--utility", f"{__file__}:letters", "--method", ",".join(methods), "--budget", "1/8,40")
    assert [(row["method"], row["budget"]) for row in rows] == [
        ("full", "1.0"), *((method, budget) for budget in ("1/8", "40") for method in methods)
    ]  # fmt: skip
    for row in rows:
        spent = minrisk.Ledger()
        for segment in SEGMENTS:  # One by one: texts that segments share are encoded once otherwise.
            list(minrisk.decode_corpus([segment], letters, row["method"], row["budget"], ledger=spent))
        assert row["calls"] == spent.calls, row
        assert row["encodes"] == spent.encoded, row
        assert row["share"] == pytest.approx(spent.share)


def test_methods_that_save_calls_are_planned_where_the_metric_bears_them(
    samples: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", samples, "--utility", "metricx", "--format", "csv"]) == 0
    printed = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    names = {row["method"] for row in rows}
    assert {"full", "pmbr", "halving"} <= names
    assert not names & {"aggregate", "random", "oracle", "map"}
    assert "left out: aggregate: utility 'metricx' cannot fold" in printed.err
    assert "10 segments, on average" in printed.err
    assert "encodes" not in rows[0]
    full = next(int(row["calls"]) for row in rows if row["method"] == "full")
    assert full == sum(len(set(segment["hypotheses"])) ** 2 for segment in SEGMENTS)
    for row in rows[1:]:
        top, bottom = row["budget"].split("/")
        assert int(row["calls"]) <= full * int(top) / int(bottom) + len(SEGMENTS), row


def test_a_budget_that_ends_by_itself_is_planned_for_the_method_that_can(
    samples: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--method", "pmbr,frontier", "--budget", "auto,1/2", "--format", "csv")
    assert main(["plan", samples, "--utility", "metricx", *arguments]) == 0
    printed = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    named = [(row["method"], row["budget"]) for row in rows]
    assert named == [("full", "1.0"), ("frontier", "auto"), ("pmbr", "1/2"), ("frontier", "1/2")]
    assert int(rows[1]["calls"]) <= int(rows[0]["calls"])
    assert "left out: pmbr: a budget of 'auto' needs a method that can stop" in printed.err


def test_what_was_not_read_is_estimated(samples: str, plan: Plan) -> None:
    whole = plan(samples, "--method", "pmbr", "--budget", "1/4")
    given = plan(samples, "--method", "pmbr", "--budget", "1/4", "--limit", "5", "--segments", "10")
    assert given[1]["calls"] == pytest.approx(whole[1]["calls"], rel=0.2)
    told = plan(samples, "--method", "pmbr", "--budget", "1/4", "--segments", "1000")
    assert told[1]["calls"] == 100 * whole[1]["calls"]


def test_the_run_of_the_paper_takes_its_24_hours(plan: Plan) -> None:
    arguments = ("--segments", "2037", "--candidates", "1024", "--utility", "metricx", "--hardware", "paper")
    full, pmbr = plan(*arguments, "--method", "pmbr", "--budget", "1/16")
    assert full["calls"] == 2037 * 1024**2
    assert full["hours"] == pytest.approx(24)
    assert pmbr["hours"] == pytest.approx(1.5)


def test_hours_and_prices_add_up(plan: Plan) -> None:
    # 3 segments of 10 x 10 cells; 10 texts and a source each.
    base = ("--segments", "3", "--candidates", "10", "--utility", f"{__file__}:letters", "--method", "columns")
    full, _ = plan(*base, "--budget", "1/2", "--calls-per-second", "0.1", "--encodes-per-second", "0.5")
    seconds = 300 / 0.1 + 33 / 0.5
    assert full["encodes"] == 33
    assert full["hours"] == pytest.approx(seconds / 3600)
    priced, _ = plan(
        *base, "--budget", "1/2", "--calls-per-second", "0.1", "--devices", "4", "--price-per-call", "0.5",
        "--price-per-hour", "7",
    )  # fmt: skip
    assert priced["hours"] == pytest.approx(300 / 0.1 / 3600 / 4)
    assert priced["cost"] == pytest.approx(300 * 0.5 + 300 / 0.1 / 3600 * 7)


def test_tokens_of_texts_sources_and_prompts(tmp_path: Path, plan: Plan) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text('{"source": "123456", "hypotheses": ["ab", "abcd"]}\n')
    base = (str(path), "--utility", f"{__file__}:letters", "--method", "columns", "--budget", "1/2")
    full, _ = plan(*base, "--tokenizer", "characters/2", "--tokens-per-call", "10", "--price-per-1k-tokens", "5")
    # Four calls of a candidate and a pseudo-reference, 1 or 2 tokens each, a source of 3, and a prompt of 10.
    assert full["tokens"] == 4 * (1.5 + 1.5 + 3 + 10)
    assert full["cost"] == pytest.approx(full["tokens"] / 1000 * 5)


def overlap(candidates: Sequence[str], pseudo_references: Sequence[str]) -> list[float]:
    return [float(len(set(one) & set(other))) for one, other in zip(candidates, pseudo_references, strict=True)]


@pytest.mark.parametrize("utility", ["overlap", "letters", "chrf"])
def test_a_metric_can_be_timed(
    utility: str, samples: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minrisk.planning.SECONDS_MEASURED", 0.01)
    name = utility if utility == "chrf" else f"{__file__}:{utility}"
    arguments = ["plan", samples, "--utility", name, "--method", "pmbr", "--measure"]
    assert main([*arguments, "--format", "markdown"]) == 0
    printed = capsys.readouterr()
    assert "measured here: " in printed.err
    assert "| hours |" in printed.out.splitlines()[0]
    assert ("encodes" in printed.out) == (utility == "letters")


def test_the_table_is_drawn(samples: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", samples, "--budget", "1/4", "--price-per-call", "0.001"]) == 0
    printed = capsys.readouterr().out
    assert "┃ method" in printed
    assert "│ pmbr" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "SAMPLES is needed, or --segments N and --candidates N"),
        (["SAMPLES", "--candidates", "5"], "--candidates goes without SAMPLES"),
        (["SAMPLES", "--method", "pmbrr"], "unknown method 'pmbrr'; did you mean 'pmbr'?"),
        (["SAMPLES", "--budget", "2.5"], "a budget is a share"),
        (["SAMPLES", "--hardware", "abacus"], "unknown hardware 'abacus'; known: paper"),
        (["SAMPLES", "--hardware", "paper", "--measure"], "do not go with it"),
        (["SAMPLES", "--price-per-hour", "2"], "needs a speed"),
        (["SAMPLES", "--price-per-1k-tokens", "2"], "needs --tokenizer"),
        (["SAMPLES", "--tokenizer", "characters/x"], "a number above zero is needed"),
        (["SAMPLES", "--calls-per-second", "-1"], "`calls_per_second` must be above zero, got -1.0"),
        (["SAMPLES", "--tokens-per-call", "-5"], "`tokens_per_call` must be zero or more, got -5"),
        (["SAMPLES", "--encodes-per-second", "5"], "utility 'chrf' does not encode texts"),
        (["SAMPLES", "--measure", "--encodes-per-second", "5"], "do not go with it"),
        (["--segments", "5", "--candidates", "9000"], "segment '0': has 9,000 x 9,000 cells, too many to rehearse"),
        (["nowhere.jsonl"], "cannot be read"),
    ],
)
def test_bad_input_is_told_in_one_line(
    arguments: list[str], message: str, samples: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *(samples if word == "SAMPLES" else word for word in arguments)]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.startswith("minrisk: error: ")
    assert printed.count("\n") == 1


def test_a_source_that_the_metric_needs_is_missed_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text('{"id": "one", "hypotheses": ["a", "b"]}\n')
    assert main(["plan", str(path), "--utility", "comet"]) == 2
    assert "segment 'one': utility 'comet' needs a `source`" in capsys.readouterr().err
