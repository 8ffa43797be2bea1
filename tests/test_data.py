"""Test sets, paragraphs, statistics."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from minrisk import datasets
from minrisk.cli.main import main
from minrisk.errors import InputError

WMT22 = Path(__file__).parent.parent / "../shared/data/wmt22"
XML = """<?xml version="1.0"?><dataset id="wmttest2022">
<collection id="general">
<doc origlang="en" id="first"><src lang="en"><p><seg id="1">One.</seg><seg id="2">Two two.</seg></p></src>
<ref lang="de" translator="A"><p><seg id="1">Eins.</seg><seg id="2">Zwei zwei.</seg></p></ref></doc>
<doc origlang="en" id="second"><src lang="en"><p><seg id="1">Three.</seg></p></src>
<ref lang="de" translator="A"><p><seg id="1">Drei.</seg></p></ref></doc>
</collection></dataset>
"""


def words(text: str) -> int:
    return len(text.split())


def records(*texts: tuple[str | None, str]) -> list[dict[str, Any]]:
    return [
        {"source": text, "reference": text.upper()} | ({} if document is None else {"document": document})
        for document, text in texts
    ]


class TestParagraphs:
    def test_neighbours_of_a_document_are_joined_within_the_limit(self) -> None:
        given = records(("a", "1 2"), ("a", "3 4"), ("a", "5"), ("b", "6"), (None, "7"), (None, "8"), ("a", "9"))
        found = list(datasets.paragraphs(given, words, 4))
        assert [each["source"] for each in found] == ["1 2 3 4", "5", "6", "7", "8", "9"]
        assert [each["segments"] for each in found] == [2, 1, 1, 1, 1, 1]
        assert found[0]["document"] == "a"

    def test_source_and_reference_stay_together(self) -> None:
        given = records(("a", "x y "), ("a", " z"))
        assert next(datasets.paragraphs(given, words))["reference"] == "X Y Z"

    def test_a_segment_above_the_limit_stays_whole(self) -> None:
        given = records(("a", "1 2 3 4 5"), ("a", "6"))
        assert [each["source"] for each in datasets.paragraphs(given, words, 3)] == ["1 2 3 4 5", "6"]

    def test_what_is_measured(self) -> None:
        given = [{"document": "a", "source": "x", "reference": "x y z"}] * 2
        assert len(list(datasets.paragraphs(given, words, 3, ("source",)))) == 1
        assert len(list(datasets.paragraphs(given, words, 3, ("source", "reference")))) == 2

    def test_references_are_lost_nowhere(self) -> None:
        given = records(("a", "1"), ("a", "2"))
        del given[1]["reference"]
        with pytest.raises(InputError, match="document 'a': some of its segments have a `reference`"):
            list(datasets.paragraphs(given, words))

    def test_a_reference_that_is_null_is_none(self) -> None:
        given = [{"document": 1, "source": text, "reference": None} for text in "ab"]
        assert list(datasets.paragraphs(given, words)) == [{"document": 1, "source": "a b", "segments": 2}]
        with pytest.raises(InputError, match="segment 1: has no `reference` to be measured"):
            list(datasets.paragraphs(given, words, 9, ("source", "reference")))

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("reference", 3, "`reference` must be a string, got 3"),
            ("document", ["d"], "`document` must be a string or a whole number"),
            ("segments", "x", "`segments` must be a whole number, got 'x'"),
        ],
    )
    def test_a_field_of_another_kind(self, name: str, value: object, message: str) -> None:
        given = [{"source": "a"}, {"source": "b", name: value}]
        for function in (lambda: list(datasets.paragraphs(given, words)), lambda: datasets.statistics(given)):
            with pytest.raises(InputError, match=f"segment 2: {message}"):
                function()

    def test_paragraphs_of_paragraphs_count_what_they_hold(self) -> None:
        given = list(datasets.paragraphs(records(("a", "1"), ("a", "2"), ("a", "3")), words, 2))
        assert [each["segments"] for each in datasets.paragraphs(given, words, 3)] == [3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One.", 1),
        ("One. Two! Three? Four", 4),
        ("The U.S. are 3.5 percent.", 1),
        ('He said: "No." Then he left.', 2),
        ("Привет. Как дела? хорошо", 2),
        ("你好。再见。", 2),
        ("Wait... what", 1),
        ("", 1),
    ],
)
def test_sentences(text: str, expected: int) -> None:
    assert datasets.sentences(text) == expected


class TestCommands:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        lines = records(("a", "One two."), ("a", "Three. Four."), ("b", "Five"))
        Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return tmp_path

    def test_paragraphs_and_statistics(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(("data", "paragraphs", "in.jsonl", "--limit", "4", "-o", "out.jsonl.gz")) == 0
        found = [json.loads(line) for line in gzip.decompress(Path("out.jsonl.gz").read_bytes()).splitlines()]
        assert [each["source"] for each in found] == ["One two. Three. Four.", "Five"]
        assert main(("data", "stats", "in.jsonl", "out.jsonl.gz")) == 0
        assert capsys.readouterr().out == (
            "file          segments  documents  words/segment  sentences/segment  joined/segment\n"
            "in.jsonl             3          2            1.7               1.33            1.00\n"
            "out.jsonl.gz         2          2            2.5               2.00            1.50\n"
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("wmt22", "en-xx"), "unknown language pair of 'wmt22': 'en-xx'; did you mean"),
            (("wmt2", "en-de"), "unknown test set 'wmt2'"),
            (("paragraphs", "in.jsonl", "in.jsonl"), "takes one argument, got 2"),
            (("paragraphs", "in.jsonl", "--limit", "0"), "--limit must be at least 1"),
            (("paragraphs", "in.jsonl", "-o", "in.jsonl"), "is read from"),
            (("paragraphs", "in.jsonl", "--tokenizer", "no.model"), "no.model: cannot be read"),
            (("paragraphs", "missing.jsonl"), "missing.jsonl: cannot be read"),
            (("wmt22", "en-de", "--folder", "nowhere"), "nowhere: no such folder"),
            (("wmt22", "en-de", "--folder", "."), "unknown language pair in .: 'en-de'; known: in"),
            (("wmt22", "in", "--folder", ".", "-o", "in.jsonl"), "in.jsonl: is read from"),
            (("stats", "missing.jsonl"), "missing.jsonl: cannot be read"),
        ],
    )
    def test_what_is_refused(
        self, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        if arguments[0].startswith("wmt") and "--folder" not in arguments:
            pytest.importorskip("sacrebleu")
        if "no.model" in arguments:
            pytest.importorskip("sentencepiece")
        assert main(("data", *arguments)) == 2
        assert re.fullmatch(f"minrisk: error: .*{re.escape(message)}.*\n", capsys.readouterr().err)

    def test_a_test_set_with_its_documents(self, monkeypatch: pytest.MonkeyPatch) -> None:
        place = self.downloaded(monkeypatch)
        place.parent.mkdir(parents=True)
        place.write_text(XML)
        assert main(("data", "wmt22", "en-de", "-o", "out.jsonl")) == 0
        found = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
        assert found[1] == {
            "id": "wmt22-en-de-0001",
            "source": "Two two.",
            "reference": "Zwei zwei.",
            "document": "first",
            "origlang": "en",
        }
        assert [each["document"] for each in found] == ["first", "first", "second"]

    def test_a_test_set_in_a_folder(self) -> None:
        assert main(("data", "mine", "in", "--folder", ".", "-o", "out.jsonl.gz")) == 0
        found = [json.loads(line) for line in gzip.decompress(Path("out.jsonl.gz").read_bytes()).splitlines()]
        assert found[1]["id"] == "mine-in-0001"
        assert found[1]["document"] == "a"

    def test_offline(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.downloaded(monkeypatch, OSError("Name or service not known"))
        assert main(("data", "wmt22", "en-de", "-o", "out.jsonl")) == 2
        assert re.search("wmt22 en-de: cannot be downloaded .*Name or service.*SACREBLEU", capsys.readouterr().err)
        assert not Path("out.jsonl").exists()

    def downloaded(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> Path:
        """Where sacreBLEU has the test set after a download, which is left out here."""
        pytest.importorskip("sacrebleu")
        from sacrebleu.dataset import DATASETS

        def download(self: object) -> None:
            if error is not None:
                raise error

        dataset = DATASETS["wmt22"]
        monkeypatch.setattr(type(dataset), "maybe_download", download)
        for name in ("_outdir", "_rawdir"):
            Path("cache", name).mkdir(parents=True)
            monkeypatch.setattr(dataset, name, str(Path("cache", name).resolve()), raising=False)
        return Path(dataset._get_langpair_path("en-de"))

    def test_sacrebleu_is_optional(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setitem(sys.modules, "sacrebleu.dataset", None)
        assert main(("data", "wmt22", "en-de")) == 2
        assert "downloading test sets needs an optional dependency" in capsys.readouterr().err


def test_a_sentencepiece_file_counts_tokens(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d", "b c d e"] * 20),
        model_prefix=str(tmp_path / "tiny"),
        vocab_size=12,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    count = datasets.counter(str(tmp_path / "tiny.model"))
    assert count("a b c") >= 3
    named = (tmp_path / "tiny.model").rename(tmp_path / "tokenizer.model.v1")
    assert datasets.counter(str(named))("a b c") == count("a b c")
    (tmp_path / "bad.model").write_text("no model")
    with pytest.raises(InputError, match="is no SentencePiece model"):
        datasets.counter(str(tmp_path / "bad.model"))


@pytest.mark.parametrize(
    ("pair", "segments", "mean"), [("en-de", 2037, 16.7), ("en-ru", 2037, 16.7), ("ru-en", 2016, 13.6)]
)
def test_the_paper_has_the_same_test_sets(pair: str, segments: int, mean: float) -> None:
    path = WMT22 / f"{pair}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no WMT22 data at {path}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = datasets.statistics(json.loads(line) for line in file)
    assert found.segments == segments
    assert round(found.words, 1) == mean
    assert round(found.sentences, 2) == 1.01
