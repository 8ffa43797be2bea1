"""Sources in, prompts, and samples on their way to a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from minrisk.errors import InputError
from minrisk.generation.journal import Journal
from minrisk.generation.prompting import CHAT, Prompt, cut, read_exemplars
from minrisk.generation.sources import Source, read_sources

SETTINGS = {"model": "m", "epsilon": 0.02}
SOURCES = [Source(text) for text in ("one", "two", "three")]


def record(source: Source) -> dict[str, Any]:
    return source.record | {"hypotheses": [source.text.upper()]}


class TestSources:
    @pytest.mark.parametrize(
        ("name", "content", "expected"),
        [
            ("a.txt", "ein Satz\n{noch} einer\n", [Source("ein Satz"), Source("{noch} einer")]),
            ("a.tsv", "ein\tone\nzwei\n", [Source("ein", others={"reference": "one"}), Source("zwei")]),
            ("a.jsonl", '{"source": "ein", "id": 7, "document": "d"}\n\n', [Source("ein", "7", {"document": "d"})]),
            ("strange", '{"source": "ein", "hypotheses": ["x"]}\n', [Source("ein")]),
            ("strange", "ein\n", [Source("ein")]),
        ],
    )
    def test_what_is_read(self, tmp_path: Path, name: str, content: str, expected: list[Source]) -> None:
        (tmp_path / name).write_text(content)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
        assert list(read_sources(tmp_path / name)) == list(read_sources(tmp_path / f"{name}.gz")) == expected

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"source": "a"}\nx\n', "a.jsonl, line 2: not JSON"),
            ('{"text": "a"}\n', "line 1: an object with a `source` is needed"),
            ('{"source": " "}\n', "line 1: an empty `source`"),
            ('{"source": "a", "id": [1]}\n', "line 1: `id` must be a string or a whole number"),
            ("", "no sources; the file is empty"),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, content: str, message: str) -> None:
        (tmp_path / "a.jsonl").write_text(content)
        with pytest.raises(InputError, match=message):
            list(read_sources(tmp_path / "a.jsonl"))


class TestPrompts:
    def test_a_few_shot_prompt_ends_where_the_target_begins(self) -> None:
        prompt = Prompt(languages=("English", "German"), exemplars=[("a {source}", "ein")], instruction="Translate.")
        assert prompt.text("b") == "Translate.\n\nEnglish: a {source}\nGerman: ein\n\nEnglish: b\nGerman:"
        assert prompt.ends == ("\n",)

    def test_the_stop_string_is_what_follows_the_target(self) -> None:
        assert Prompt(template="Q{source} A{target} END").ends == (" END",)
        assert Prompt(template="{source}", chat=True).ends == ()
        assert Prompt(template="{source}", stops=["x"]).ends == ("x",)

    def test_a_chat_has_turns(self) -> None:
        prompt = Prompt(template=CHAT, languages=("A", "B"), chat=True, exemplars=[("x", "y")])
        asked = "Translate from A to B. Answer with the translation alone.\n\n"
        assert prompt.messages("z") == [
            {"role": "user", "content": asked + "x"},
            {"role": "assistant", "content": "y"},
            {"role": "user", "content": asked + "z"},
        ]

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"template": "x"}, "must hold {source}"),
            ({"template": "{source}", "exemplars": [("a", "b")]}, "must hold {target}"),
            ({}, "needs a source language"),
            ({"template": "{source}", "stops": [""]}, "must not be empty"),
        ],
    )
    def test_bad_prompts(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            Prompt(**settings)

    def test_exemplars_have_references(self, tmp_path: Path) -> None:
        path = tmp_path / "shots.tsv"
        path.write_text("a\tb\nc\td\n")
        assert read_exemplars(path, 1) == [("a", "b")]
        assert sorted(read_exemplars(path, 2, seed=1)) == [("a", "b"), ("c", "d")]
        with pytest.raises(InputError, match="holds 2 exemplars, 3 are wanted"):
            read_exemplars(path, 3)
        path.write_text("a\n")
        with pytest.raises(InputError, match="an exemplar needs a `reference`"):
            read_exemplars(path, 1)

    def test_a_text_is_cut_at_the_first_stop_string(self) -> None:
        assert cut(" ein Haus\nEnglish: x", ["\n", "xx"]) == "ein Haus"


class TestJournal:
    def test_a_run_that_was_stopped_goes_on(self, tmp_path: Path) -> None:
        out = tmp_path / "out.jsonl"
        with pytest.raises(KeyboardInterrupt), Journal(out, SETTINGS) as journal:  # noqa: PT012
            journal.add(0, record(SOURCES[0]))
            journal.receive(1, [["x", None]])
            raise KeyboardInterrupt
        assert not out.exists()
        with journal.partial.open("ab") as file:
            file.write(b'{"position": 2, "rec')
        with Journal(out, SETTINGS) as journal:
            assert journal.received(1) == [["x", None]]
            assert [place for place, _ in journal.missing(SOURCES)] == [1, 2]
            journal.add(2, record(SOURCES[2]))
            journal.add(1, record(SOURCES[1]))
            journal.finish(3)
        assert [json.loads(line) for line in out.read_text().splitlines()] == [record(source) for source in SOURCES]
        assert list(tmp_path.iterdir()) == [out]

    def test_gzip_by_name(self, tmp_path: Path) -> None:
        with Journal(tmp_path / "out.jsonl.gz", SETTINGS) as journal:
            journal.add(0, record(SOURCES[0]))
            journal.finish(1)
        assert json.loads(gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes())) == record(SOURCES[0])

    @pytest.mark.parametrize("restart", [False, True])
    def test_other_settings_are_refused(self, tmp_path: Path, restart: bool) -> None:
        with Journal(tmp_path / "out", SETTINGS) as journal:
            journal.add(0, record(SOURCES[0]))
        if restart:
            with Journal(tmp_path / "out", SETTINGS | {"epsilon": 0.1}, restart=True) as journal:
                assert len(journal) == 0
            return
        with pytest.raises(InputError, match=r"unfinished run with other settings \(epsilon\).*--restart"):
            Journal(tmp_path / "out", SETTINGS | {"epsilon": 0.1})

    def test_other_sources_are_refused(self, tmp_path: Path) -> None:
        with Journal(tmp_path / "out", SETTINGS) as journal:
            journal.add(0, record(SOURCES[0]))
        with (
            Journal(tmp_path / "out", SETTINGS) as journal,
            pytest.raises(InputError, match="unfinished run over other sources"),
        ):
            list(journal.missing(SOURCES[1:]))

    def test_a_strange_file_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "out.partial").write_text('{"mine": 1}\n')
        with pytest.raises(InputError, match="is not what an unfinished run leaves"):
            Journal(tmp_path / "out", SETTINGS)
        assert (tmp_path / "out.partial").read_text() == '{"mine": 1}\n'

    def test_an_error_before_the_first_record_leaves_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(InputError), Journal(tmp_path / "out", SETTINGS):
            raise InputError("bad source")
        assert list(tmp_path.iterdir()) == []
