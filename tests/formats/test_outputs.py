"""Decisions out: JSON Lines and text, whole or not at all."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from formats.texts import ODD_TEXTS, write
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from minrisk.formats import TextLayout, open_output, read_segments, record_of, write_jsonl, write_text


def decisions() -> Iterator[minrisk.Decision]:
    """Two decisions with odd texts."""
    texts = [text[:20] for text in ODD_TEXTS]
    return minrisk.decode_corpus([{"hypotheses": texts}, {"id": "\ud800", "hypotheses": ["a\r\nb"]}])


class TestWriting:
    """Records and texts come back as they were."""

    def test_records(self, tmp_path: Path) -> None:
        records = [record_of(decision, nbest=100) for decision in decisions()]
        with open_output(tmp_path / "out.jsonl") as file:
            write_jsonl(records, file)
        lines = (tmp_path / "out.jsonl").read_bytes().decode().split("\n")
        assert [json.loads(line) for line in lines[:-1]] == records
        assert lines[-1] == ""
        assert {choice["text"] for choice in records[0]["nbest"]} == {text[:20] for text in ODD_TEXTS}
        best = {"text": records[0]["selected"], "index": records[0]["index"], "utility": records[0]["utility"]}
        assert records[0]["nbest"][0] == best
        assert "nbest" not in record_of(next(decisions()))

    def test_what_nothing_is_known_about_is_null(self) -> None:
        decision = minrisk.decode(list("abcdefgh"), method="square", budget=4)
        unknown = [choice["utility"] for choice in record_of(decision, nbest=8)["nbest"]]
        assert unknown.count(None) == 6
        json.dumps(unknown, allow_nan=False)

    @given(st.lists(st.text(st.characters(exclude_categories=()), max_size=20), min_size=1))
    def test_any_texts(self, texts: list[str]) -> None:
        write_jsonl([{"hypotheses": texts}], file := io.BytesIO())
        assert file.getvalue().count(b"\n") == 1
        assert json.loads(file.getvalue().decode()) == {"hypotheses": texts}

    def test_text_keeps_lines_in_step(self, tmp_path: Path) -> None:
        with open_output(tmp_path / "out.txt") as file:
            write_text(["a\nb", "c\r\nd\r", "", *ODD_TEXTS], file)
        segments = list(read_segments(tmp_path / "out.txt", layout=TextLayout(num_candidates=1)))
        texts = ["a\\nb", "c\\r\\nd\\r", "", *ODD_TEXTS]
        assert [segment.hypotheses[0] for segment in segments] == texts


class TestOutput:
    """A file is there when it is whole."""

    @pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "ü" * 120, "-o"])
    def test_appears_at_the_end(self, tmp_path: Path, name: str) -> None:
        with open_output(tmp_path / name) as file:
            file.write(b"text")
            assert not (tmp_path / name).exists()
        assert os.listdir(tmp_path) == [name]
        content = (tmp_path / name).read_bytes()
        assert (gzip.decompress(content) if name.endswith(".gz") else content) == b"text"

    def fail_halfway(self, path: Path, error: type[BaseException]) -> None:
        with open_output(path) as file:
            file.write(b"half" * 100_000)
            raise error

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
    @pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
    def test_does_not_appear_on_failure(self, tmp_path: Path, name: str, error: type[BaseException]) -> None:
        with pytest.raises(error):
            self.fail_halfway(tmp_path / name, error)
        assert os.listdir(tmp_path) == []
        write(tmp_path / name, "before")
        with pytest.raises(error):
            self.fail_halfway(tmp_path / name, error)
        assert os.listdir(tmp_path) == [name]
        assert (tmp_path / name).read_text() == "before"

    def test_gzip_is_the_same_each_time(self, tmp_path: Path) -> None:
        with open_output(tmp_path / "out.gz") as file:
            file.write(b"text")
        assert (tmp_path / "out.gz").read_bytes()[4:8] == bytes(4), "no time stamp"

    def test_links_are_followed(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "folder" / "target")
        with open_output(tmp_path / "link") as file:
            file.write(b"text")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "folder" / "target").read_bytes() == b"text"

    def test_devices_and_pipes_are_written_to(self, tmp_path: Path) -> None:
        with open_output(os.devnull) as file:
            file.write(b"text")
        received, sent = os.pipe()
        with open_output(f"/dev/fd/{sent}") as file:
            file.write(b"text")
        os.close(sent)
        with open(received, "rb") as pipe:
            assert pipe.read() == b"text"

    def test_what_cannot_be_written(self, tmp_path: Path) -> None:
        for path, message in (
            (tmp_path / "no" / "out.jsonl", r"no/out\.jsonl: cannot be written: No such file or directory"),
            (tmp_path, "cannot be written: Is a directory"),
            (write(tmp_path / "file", "") / "out.jsonl", r"file/out\.jsonl: cannot be written: Not a directory"),
            (tmp_path / ("x" * 300), "x: cannot be written: File name too long"),
        ):
            with pytest.raises(minrisk.InputError, match=message), open_output(path):
                raise AssertionError("must not get here")
        assert os.listdir(tmp_path) == ["file"]

    def test_two_writers_do_not_meet(self, tmp_path: Path) -> None:
        with open_output(tmp_path / "out") as one:
            with open_output(tmp_path / "out") as other:
                one.write(b"one")
                other.write(b"other")
            assert (tmp_path / "out").read_bytes() == b"other"
        assert (tmp_path / "out").read_bytes() == b"one"
