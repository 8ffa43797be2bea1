"""Whatever a file holds, it is read as it is or refused with its place."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from formats.texts import ODD_TEXTS, write

import minrisk
from minrisk.formats import Input, TextLayout, read_segments
from minrisk.types import Segment

VALID = '{"hypotheses": ["a", "b"]}\n'


def fifo_with(path: Path, content: str | bytes) -> Path:
    """A named pipe that gives this content to its first reader."""
    os.mkfifo(path)
    threading.Thread(target=write, args=(path, content), daemon=True).start()
    return path


def refused(path: Path | str, message: str, **options: Any) -> None:
    """Reading stops with one line that begins as given and shows the message."""
    with pytest.raises(minrisk.InputError) as caught:
        list(read_segments(path, **options))
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


class TestJsonLines:
    """One segment a line."""

    def test_all_fields(self, tmp_path: Path) -> None:
        record = {
            "id": "news-1",
            "source": "s",
            "hypotheses": ["a", "b", "a"],
            "pseudo_references": ["c", "d"],
            "logprobs": [-1, -2.5, -1],
            "pseudo_reference_logprobs": [-3.0, -4.0],
            "weights": [1, 2],
            "reference": "r",
            "unknown": {"nested": [1, None, {"deeper": "x"}]},
        }
        (segment,) = read_segments(write(tmp_path / "in.jsonl", json.dumps(record)))
        del record["unknown"]
        assert segment == Segment(**record)

    @pytest.mark.parametrize("raw", [True, False], ids=["raw", "escaped"])
    def test_odd_texts(self, tmp_path: Path, raw: bool) -> None:
        path = write(tmp_path / "in.jsonl", json.dumps({"hypotheses": ODD_TEXTS}, ensure_ascii=not raw) + "\n")
        assert list(next(read_segments(path)).hypotheses) == ODD_TEXTS

    def test_control_characters_that_json_wants_escaped(self, tmp_path: Path) -> None:
        path = write(tmp_path / "in.jsonl", '{"hypotheses": ["\t\x00\x01"]}')
        assert next(read_segments(path)).hypotheses == ("\t\x00\x01",)

    @pytest.mark.parametrize(
        "content",
        [
            VALID * 2,
            VALID * 2 + VALID[:-1],
            "\ufeff" + VALID * 2,
            VALID.replace("\n", "\r\n") * 2,
            "\n\r\n  \n" + VALID + "\n\t\n" + VALID + "\n\n",
        ],
        ids=["plain", "no-newline-at-the-end", "byte-order-mark", "crlf", "blank-lines"],
    )
    def test_lines(self, tmp_path: Path, content: str) -> None:
        for data in (content, gzip.compress(content.encode())):
            segments = list(read_segments(write(tmp_path / "in.jsonl", data)))
            assert len(segments) == content.count("hypotheses")
            assert {segment.hypotheses for segment in segments} == {("a", "b")}

    def test_gzip_of_many_members(self, tmp_path: Path) -> None:
        path = write(tmp_path / "in.jsonl.gz", gzip.compress(VALID.encode()) * 3)
        assert len(list(read_segments(path))) == 3

    @pytest.mark.parametrize(
        ("id", "expected"), [(7, "7"), ("7", "7"), (10**40, "1" + "0" * 40), (None, None), ("", "")]
    )
    def test_ids(self, tmp_path: Path, id: object, expected: str | None) -> None:
        path = write(tmp_path / "in.jsonl", json.dumps({"id": id, "hypotheses": ["a"]}))
        assert next(read_segments(path)).id == expected

    def test_nulls_are_absent(self, tmp_path: Path) -> None:
        record = {"hypotheses": ["a"], "source": None, "pseudo_references": None, "logprobs": None}
        assert next(read_segments(write(tmp_path / "in.jsonl", json.dumps(record)))) == Segment(hypotheses=["a"])

    def test_the_name_tells_the_format(self, tmp_path: Path) -> None:
        for name in ("a.json", "a.jsonl", "a.ndjson", "a.JSONL", "a", "a.jsonl.gz", "a.en"):
            assert len(list(read_segments(write(tmp_path / name, VALID)))) == 1
        assert len(list(read_segments(write(tmp_path / "a.txt", VALID), "jsonl"))) == 1

    def test_lines_are_read_as_they_are_needed(self, tmp_path: Path) -> None:
        segments = read_segments(write(tmp_path / "in.jsonl", VALID + "broken\n"))
        assert next(segments).hypotheses == ("a", "b")
        with pytest.raises(minrisk.InputError, match="line 2"):
            next(segments)

    def test_from_a_fifo(self, tmp_path: Path) -> None:
        for number, content in enumerate((VALID * 300, gzip.compress(VALID.encode() * 300))):
            opened: list[Input] = []
            assert len(list(read_segments(fifo_with(tmp_path / str(number), content), on_open=opened.append))) == 300
            assert opened[0].share is None

    def test_the_share_read_grows_and_outlives_the_file(self, tmp_path: Path) -> None:
        opened: list[Input] = []
        shares = []
        for _ in read_segments(write(tmp_path / "in.jsonl", VALID * 2000), on_open=opened.append):
            shares.append(opened[0].share)
        assert shares == sorted(shares)
        assert 0 < shares[0] < 0.01
        assert opened[0].share == 1


class TestBadJsonLines:
    """Every refusal names file, line and what is wrong."""

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"hypotheses": ["a"', r"not JSON: Expecting ',' delimiter at character 20"),
            ('{"hypotheses": ["a"]} {"hypotheses": ["b"]}', r"not JSON: Extra data at character 23"),
            ("[1, 2]", r"must be an object with `hypotheses`, got list \[1, 2\]"),
            ("17", "must be an object with `hypotheses`, got int 17"),
            ('"text"', "must be an object with `hypotheses`, got str 'text'"),
            ("null", "must be an object with `hypotheses`, got NoneType"),
            ("{}", r"needs `hypotheses`, got the keys \[\]"),
            ('{"hypothesis": ["a"]}', "is 'hypothesis' meant to be `hypotheses`"),
            ('{"hypotheses": null}', "hypotheses"),
            ('{"hypotheses": "a b"}', "`hypotheses` must be a list of strings, got str 'a b'"),
            ('{"hypotheses": {"a": 1}}', "`hypotheses` must be a list of strings, got dict"),
            ('{"hypotheses": []}', "`hypotheses` is empty"),
            ('{"hypotheses": ["a", 5]}', "`hypotheses` must be a list of strings, got int 5 at position 1"),
            ('{"hypotheses": ["a", null]}', "`hypotheses` must be a list of strings, got NoneType None at position 1"),
            ('{"hypotheses": [["a"]]}', r"`hypotheses` must be a list of strings, got list \['a'\] at position 0"),
            ('{"hypotheses": ["a"], "pseudo_references": []}', "`pseudo_references` is empty"),
            ('{"hypotheses": ["a"], "source": 3}', "`source` must be a string, got int 3"),
            ('{"hypotheses": ["a"], "id": true}', "`id` must be a string, got bool True"),
            ('{"hypotheses": ["a", "b"], "logprobs": [-1]}', "`logprobs` must hold 2 numbers, .* got 1"),
            ('{"hypotheses": ["a"], "logprobs": [NaN]}', "`logprobs` must hold finite numbers, got float nan"),
            ('{"hypotheses": ["a"], "logprobs": [-Infinity]}', "`logprobs` must hold finite numbers, got float -inf"),
            ('{"hypotheses": ["a"], "logprobs": ["-1"]}', "`logprobs` must hold finite numbers, got str '-1'"),
            ('{"hypotheses": ["a"], "logprobs": [true]}', "`logprobs` must hold finite numbers, got bool True"),
            ('{"hypotheses": ["a"], "logprobs": "-1"}', "`logprobs` must be a list of numbers, got str '-1'"),
            (f'{{"hypotheses": ["a"], "logprobs": [1{"0" * 400}]}}', "too large|finite"),
            (f'{{"hypotheses": ["a"], "logprobs": [1{"0" * 5000}]}}', "not JSON that can be read: Exceeds the limit"),
            ("[" * 100_000 + "]" * 100_000, "not JSON that can be read: maximum recursion depth"),
            (f'{{"hypotheses": {"[" * 500 + "]" * 500}}}', "must be a list of strings"),
        ],
    )
    def test_line_17(self, tmp_path: Path, line: str, message: str) -> None:
        path = write(tmp_path / "in.jsonl", VALID * 15 + "\n" + line + "\n" + VALID)
        refused(path, rf"^{re.escape(str(path))}, line 17: .*{message}")

    @pytest.mark.parametrize("depth", range(900, 1000, 3))
    def test_nesting_at_the_edge(self, tmp_path: Path, depth: int) -> None:
        path = write(tmp_path / "in.jsonl", f'{{"hypotheses": {"[" * depth + "]" * depth}}}')
        refused(path, "line 1: ")

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        path = write(tmp_path / "in.jsonl", VALID.encode() * 2 + b'{"hypotheses": ["\xe9t\xe9"]}\n')
        refused(path, r"in\.jsonl, line 3: not UTF-8 at byte 18$")

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
    def test_utf_16(self, tmp_path: Path, encoding: str) -> None:
        refused(write(tmp_path / "in.jsonl", VALID.encode(encoding)), r"in\.jsonl: is UTF-16; save it as UTF-8")

    @pytest.mark.parametrize("content", [b"", b"\n\n  \n", b"\xef\xbb\xbf", b"\r\n", gzip.compress(b"")])
    def test_nothing(self, tmp_path: Path, content: bytes) -> None:
        refused(write(tmp_path / "in.jsonl", content), r"in\.jsonl: no segments; the file is empty")

    def test_missing_folder_and_forbidden(self, tmp_path: Path) -> None:
        refused(tmp_path / "no.jsonl", r"no\.jsonl: cannot be read: No such file or directory")
        refused(tmp_path, "cannot be read: Is a directory")
        refused(write(tmp_path / "file", VALID) / "in.jsonl", "cannot be read: Not a directory")
        if os.geteuid() != 0:
            path = write(tmp_path / "secret.jsonl", VALID)
            path.chmod(0)
            refused(path, r"secret\.jsonl: cannot be read: Permission denied")

    @pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="Linux has a file that opens and cannot be read")
    def test_what_opens_and_cannot_be_read(self) -> None:
        refused("/proc/self/mem", r"^/proc/self/mem: cannot be read: Input/output error")

    def test_damaged_gzip(self, tmp_path: Path) -> None:
        noise = random.Random(0)
        records = ({"hypotheses": [str(number), noise.randbytes(40).hex()]} for number in range(500))
        packed = gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode(), mtime=0)
        refused(
            write(tmp_path / "cut.jsonl.gz", packed[: len(packed) // 2]), r"cut\.jsonl\.gz: damaged after line \d+: "
        )
        refused(write(tmp_path / "cut.gz", packed[:-4]), r"cut\.gz: damaged after line 500: ")
        refused(write(tmp_path / "sum.gz", packed[:-8] + bytes(4) + packed[-4:]), r"damaged after line 500: CRC")
        broken = packed[:2000] + bytes(byte ^ 0xFF for byte in packed[2000:2100]) + packed[2100:]
        refused(write(tmp_path / "broken.gz", broken), r"broken\.gz(: damaged after line \d+|, line \d+: )")
        refused(write(tmp_path / "tail.gz", packed + b"more"), "damaged after line 500: Not a gzipped file")
        refused(write(tmp_path / "magic.gz", b"\x1f\x8b"), "damaged after line 0")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"\x28\xb5\x2f\xfd....", "is compressed with Zstandard; unpack it, as in: zstdcat .* | minrisk decode -"),
            (b"BZh91AY&SY....", "is compressed with bzip2"),
            (b"\xfd7zXZ\x00....", "is compressed with xz"),
            (b"PK\x03\x04....", "is a zip archive"),
        ],
    )
    def test_other_compressions(self, tmp_path: Path, content: bytes, message: str) -> None:
        refused(write(tmp_path / "in.jsonl", content), message)

    def test_a_json_array_and_indented_json_say_what_to_do(self, tmp_path: Path) -> None:
        path = tmp_path / "in.json"
        refused(write(path, '[{"hypotheses": ["a"]}]'), r"line 1: .*got list .*jq -c '\.\[\]' FILE")
        refused(write(path, '[\n {"hypotheses": ["a"]}\n]'), r"line 1: not JSON: .*jq -c '\.\[\]' FILE")
        refused(write(path, '{\n "hypotheses": ["a"]\n}'), r"line 1: not JSON: .*jq -c \. FILE")
        refused(write(tmp_path / "in.en", "A cat sat.\n"), r"line 1: not JSON: .*flat text.*--num-candidates N")

    def test_wrong_arguments(self, tmp_path: Path) -> None:
        path = write(tmp_path / "in.jsonl", VALID)
        refused(path, "unknown format 'josnl'; did you mean 'jsonl'", format="josnl")
        for layout in (TextLayout(num_candidates=2), TextLayout(sources="x")):
            refused(path, "is read as jsonl; `num_candidates`, `sources` and the like go with flat text", layout=layout)
        refused("-", "can be read only once", layout=TextLayout(num_candidates=1, sources="-"))


class TestText:
    """N lines a segment, other files beside."""

    def test_segments(self, tmp_path: Path) -> None:
        path = write(tmp_path / "in.txt", "\ufeffa\nb\n\n \nc\u2028d\x85e\r\nf\x00")
        segments = list(read_segments(path, layout=TextLayout(num_candidates=2)))
        assert [segment.hypotheses for segment in segments] == [("a", "b"), ("", " "), ("c\u2028d\x85e", "f\x00")]

    @pytest.mark.parametrize("name", ["in.txt", "in.TXT", "in.txt.gz", "in.en", "in"])
    def test_the_name_tells_the_format(self, tmp_path: Path, name: str) -> None:
        data = b"a\nb\n"
        path = write(tmp_path / name, gzip.compress(data) if name.endswith(".gz") else data)
        assert len(list(read_segments(path, layout=TextLayout(num_candidates=1)))) == 2

    def test_files_beside(self, tmp_path: Path) -> None:
        path = write(tmp_path / "in.txt", "a\nb\nc\nd\n")
        layout = TextLayout(
            num_candidates=2,
            sources=str(write(tmp_path / "sources", "s\r\n\r\n")),
            references=str(write(tmp_path / "references", gzip.compress(b"r\nq"))),
            logprobs=str(write(tmp_path / "logprobs", "-1\n-2.5\n 3e-1 \n0\n")),
            pseudo_references=str(write(tmp_path / "pseudo", "1\n2\n3\n4\n5\n6\n")),
            num_pseudo_references=3,
        )
        first, second = read_segments(path, layout=layout)
        assert (first.source, first.reference, first.logprobs) == ("s", "r", (-1, -2.5))
        assert (second.source, second.reference, second.logprobs) == ("", "q", (0.3, 0))
        assert (first.pseudo_references, second.pseudo_references) == (("1", "2", "3"), ("4", "5", "6"))

    @pytest.mark.parametrize("count", [2, None, 0, -1])
    def test_lines_that_do_not_divide(self, tmp_path: Path, count: int | None) -> None:
        divided = r"in\.txt, line 5: the last segment has 1 lines, 2 were expected"
        message = divided if count == 2 else r"needs the number of lines.*--num-candidates N"
        refused(write(tmp_path / "in.txt", "a\nb\nc\nd\ne\n"), message, layout=TextLayout(num_candidates=count))

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("sources", "s\n", r"do not match: \S*beside ends after 1 segments, \S*in\.txt goes on"),
            ("sources", "s\nt\nu\n", r"do not match: \S*in\.txt ends after 2 segments, \S*beside goes on \(2 lines"),
            ("sources", b"s\n\xff\n", r"beside, line 2: not UTF-8 at byte 1"),
            ("references", "", r"do not match: \S*beside ends after 0 segments"),
            ("logprobs", "-1\n-2\n", r"do not match: \S*beside ends after 1 segments"),
            ("logprobs", "-1\n-2\n-3\n", r"beside, line 3: the last segment has 1 lines, 2 were expected"),
            ("logprobs", "-1\n-2\nx\n-4", r"beside, line 3: could not convert string to float: 'x'"),
            ("logprobs", "-1\n-2\n-3\n\n", r"beside, line 4: could not convert string to float"),
            ("logprobs", "-1\n-2\n-3\nnan\n", r"in\.txt, line 3: `logprobs` must hold finite numbers, got float nan"),
        ],
    )
    def test_files_that_do_not_match(self, tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
        path = write(tmp_path / "in.txt", "a\nb\nc\nd\n")
        beside = str(write(tmp_path / "beside", content))
        refused(path, message, layout=TextLayout(num_candidates=2, **{name: beside}))

    def test_pseudo_references_need_their_number(self, tmp_path: Path) -> None:
        path = write(tmp_path / "in.txt", "a\n")
        for half in ({"pseudo_references": str(path)}, {"num_pseudo_references": 1}):
            layout = TextLayout(num_candidates=1, **half)
            refused(path, "go together.*--num-pseudo-references K", layout=layout)
        layout = TextLayout(num_candidates=1, pseudo_references=str(tmp_path / "no"), num_pseudo_references=1)
        refused(path, "no: cannot be read: No such file", layout=layout)


class TestParquet:
    """A row is a segment."""

    @pytest.fixture
    def table(self) -> arrow.Table:
        columns = {
            "id": [1, 2, 3],
            "hypotheses": [["a", "b"], ["", "c\x00\u2028"], ["d"]],
            "logprobs": arrow.array([[-1.0, -2.0], None, [0.0]], arrow.list_(arrow.float32())),
            "source": arrow.array(["s", None, "t"]).dictionary_encode(),
            "made_at": arrow.array([1, 2, 3], arrow.timestamp("ns")),
        }
        return arrow.table(columns)

    @pytest.mark.parametrize("name", ["in.parquet", "in.PARQUET", "in", "in.parquet.gz"])
    def test_rows(self, tmp_path: Path, table: arrow.Table, name: str) -> None:
        path = tmp_path / name
        parquet.write_table(table, path)
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress(path.read_bytes()))
        opened: list[Input] = []
        segments = list(read_segments(path, on_open=opened.append))
        assert segments[0] == Segment(id="1", hypotheses=["a", "b"], logprobs=[-1, -2], source="s")
        assert segments[1] == Segment(id="2", hypotheses=["", "c\x00\u2028"])
        assert segments[2] == Segment(id="3", hypotheses=["d"], logprobs=[0], source="t")
        assert opened[0].share == 1

    def test_from_a_fifo(self, tmp_path: Path, table: arrow.Table) -> None:
        parquet.write_table(table, tmp_path / "in.parquet")
        fifo = fifo_with(tmp_path / "fifo", (tmp_path / "in.parquet").read_bytes())
        assert len(list(read_segments(fifo))) == 3

    def test_bad_rows(self, tmp_path: Path) -> None:
        path = tmp_path / "in.parquet"
        for column, message in (
            ({"hypotheses": [["a"], ["a"], None]}, r"in\.parquet, row 3: .*hypotheses"),
            ({"hypotheses": [["a"], []]}, r"in\.parquet, row 2: `hypotheses` is empty"),
            ({"hypotheses": ["a"]}, r"in\.parquet, row 1: `hypotheses` must be a list of strings, got str"),
            ({"hypotheses": [[1]]}, r"in\.parquet, row 1: `hypotheses` must be a list of strings, got int"),
            (
                {"hypothesis": [["a"]]},
                r"row 1: .*got the keys \['hypothesis'\]; is 'hypothesis' meant to be `hypotheses`",
            ),
            ({"hypotheses": arrow.array([], arrow.list_(arrow.string()))}, "no segments; the file is empty"),
        ):
            parquet.write_table(arrow.table(column), path)
            refused(path, message)

    def test_what_is_not_parquet(self, tmp_path: Path, table: arrow.Table) -> None:
        path = tmp_path / "in.parquet"
        parquet.write_table(table, path)
        content = path.read_bytes()
        for bad in (b"", VALID.encode(), content[:-10], b"PAR1" + bytes(100) + b"PAR1", gzip.compress(content)[:-30]):
            refused(write(path, bad), r"^\S*in\.parquet: not Parquet: ")
        broken = content[:4] + bytes(byte ^ 0xFF for byte in content[4:400]) + content[400:]
        refused(write(path, broken), r"^\S*in\.parquet(: |, row 1: |, after row )")

    def test_text_that_is_not_utf_8(self, tmp_path: Path) -> None:
        binary = arrow.array([[b"a"], [b"\xff"]], arrow.list_(arrow.binary()))
        table = arrow.table({"hypotheses": binary.view(arrow.list_(arrow.string()))})
        parquet.write_table(table, tmp_path / "in.parquet")
        refused(tmp_path / "in.parquet", r"in\.parquet.*not UTF-8")

    def test_the_extra_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(minrisk.MissingExtraError, match=r"pip install 'minrisk\[parquet\]'"):
            list(read_segments(write(tmp_path / "in.parquet", b"PAR1")))
