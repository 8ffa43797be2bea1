"""A store says what it holds, drops what it is told to, and is refused where it is no store or not sound."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from store import metric

import minrisk
from minrisk import Segment, Store, StoreError, decode_corpus
from minrisk.cli.main import main
from minrisk.store.scores import CHECK

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with a store of two utilities."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    shared = Segment(hypotheses=["a", "b", "a\ud800"])
    own = Segment(hypotheses=["a", "c"])
    for name, segments in (("first", [shared]), ("second", [shared, own])):
        list(decode_corpus(segments, minrisk.utility(metric.similarity, label=name), "full", store="scores.db"))
    Path("metric.py").write_text(Path(metric.__file__).read_text())


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return (main(["store", *arguments]), *capsys.readouterr())

    return command


def damaged(*statements: str) -> None:
    connection = sqlite3.connect("scores.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_stats(said: Said) -> None:
    code, out, err = said("stats", "scores.db")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].startswith("scores.db: 21 pairs of 4 texts, ")
    assert [line.split()[0] for line in lines[1:]] == ["9", "12"]
    assert lines[2].endswith("function:second(higher_is_better=True)")


def test_export_holds_every_pair_once(said: Said) -> None:
    for arguments, count in (((), 21), (("--utility", "first"), 9)):
        code, out, _ = said("export", "scores.db", *arguments)
        records = [json.loads(line) for line in out.splitlines()]
        assert code == 0
        assert len({tuple(record.values())[:4] for record in records}) == len(records) == count
        for record in records:
            value = metric.similarity([record["candidate"]], [record["pseudo_reference"]])
            assert [record["value"]] == value
            assert record["source"] is None
    assert said("export", "scores.db", "-o", "pairs.jsonl")[:2] == (0, "")
    assert len(Path("pairs.jsonl").read_text().splitlines()) == 21
    assert "holds no utility with 'third'" in said("export", "scores.db", "--utility", "third")[2]


def test_prune_drops_utilities_and_the_texts_that_no_other_needs(said: Said) -> None:
    assert said("prune", "scores.db", "--unused", "1")[1].startswith("0 utilities, 0 texts dropped")
    code, out, _ = said("prune", "scores.db", "--utility", "second")
    assert code == 0
    assert out.splitlines()[0] == "dropped 12 pairs: function:second(higher_is_better=True)"
    assert out.splitlines()[1].startswith("1 utilities, 1 texts dropped")
    assert said("verify", "scores.db")[1] == "scores.db: sound, 9 pairs\n"
    ledger = minrisk.Ledger()
    for name, scored in (("first", 4), ("second", 12)):  # "c" is new again, and so is its number.
        segments = [Segment(hypotheses=["a", "b", "a\ud800"]), Segment(hypotheses=["a", "c"])]
        ledger = minrisk.Ledger()
        utility = minrisk.utility(metric.similarity, label=name)
        list(decode_corpus(segments, utility, "full", store="scores.db", ledger=ledger))
        assert ledger.scored == scored - (1 if name == "first" else 0)
    assert said("verify", "scores.db")[1] == "scores.db: sound, 24 pairs\n"


def test_prune_waits_until_nobody_has_the_store_open(said: Said) -> None:
    before = said("stats", "scores.db")[1]
    with Store("scores.db") as store:
        store.shelf(minrisk.utility(metric.similarity, label="first"))
        code, _, err = said("prune", "scores.db", "--utility", "second")
        assert (code, err.count("\n")) == (2, 1)
        assert "scores.db: another process has it open" in err
        assert said("stats", "scores.db")[1] == before
    assert said("prune", "scores.db", "--utility", "second")[0] == 0
    assert sorted(path.name for path in Path().glob("scores*")) == ["scores.db"]


KILLED = """
import os, sqlite3
connection = sqlite3.connect("scores.db", isolation_level=None)
for statement in ("PRAGMA journal_mode = DELETE", "PRAGMA cache_size = 1", "BEGIN", "DELETE FROM cells"):
    connection.execute(statement)
connection.executemany("INSERT INTO log (packed) VALUES (?)", [(bytes(4000),)] * 50)
os._exit(9)
"""


def test_what_a_killed_process_had_half_pruned_is_put_right(said: Said) -> None:
    subprocess.run([sys.executable, "-c", KILLED])
    assert Path("scores.db-journal").exists()
    os.symlink("scores.db", "link.db")
    assert said("verify", "link.db")[1:] == ("link.db: sound, 21 pairs\n", "")
    assert not Path("scores.db-journal").exists()


def test_verify_scores_a_sample_again(said: Said) -> None:
    arguments = ("verify", "scores.db", "--utility", "metric.py:similarity", "--utility-set", "label=second")
    assert said(*arguments, "--sample", "5")[1].splitlines()[1].startswith("5 pairs scored again: at most 0 apart")
    script = Path("metric.py").read_text()
    Path("other.py").write_text(script.replace("/ 7", "/ 8"))
    code, out, err = said(*arguments[:3], "other.py:similarity", *arguments[4:])
    assert (code, out.splitlines()[1][:21]) == (2, "12 pairs scored again")
    assert "the utility says something else now" in err
    assert "holds nothing of function:third" in said(*arguments[:-1], "label=third")[2]


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE cells SET packed = zeroblob(28) WHERE row = (SELECT min(row) FROM cells)", "the checksum is wrong"),
        ("UPDATE cells SET row = row + 100", "the checksum is wrong"),
        ("DELETE FROM texts WHERE number = 2", "a text or a utility is not there"),
        ("UPDATE texts SET text = x'41' WHERE number = 1", "text 1 is not what it was"),
        ("DELETE FROM utilities WHERE number = 1", "is of utility 1 and source 0, and one of them is not there"),
    ],
)
def test_verify_finds_what_is_wrong(said: Said, statement: str, fault: str) -> None:
    damaged(statement)
    code, out, err = said("verify", "scores.db")
    assert code == 2
    assert fault in out
    assert "scores.db: is damaged: " in err


def test_a_value_that_was_changed_is_never_used() -> None:
    packed = bytes(sqlite3.connect("scores.db").execute("SELECT packed FROM cells").fetchone()[0])
    whole = Path("scores.db").read_bytes()
    assert whole.count(packed) == 1
    place = whole.index(packed) + CHECK + 9
    Path("scores.db").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(StoreError, match="is damaged: a checksum is wrong"):
        list(
            decode_corpus(
                [Segment(hypotheses=["a", "b"])], minrisk.utility(metric.similarity, label="first"), store="scores.db"
            )
        )


def foreign() -> None:
    Path("scores.db").unlink()
    damaged("CREATE TABLE mine (value)", "INSERT INTO mine VALUES (1)")


def written(data: bytes) -> Callable[[], None]:
    return lambda: [Path("scores.db").write_bytes(data), None][1]


def scrambled() -> None:
    whole = bytearray(Path("scores.db").read_bytes())
    for page in range(4096, len(whole), 4096):
        whole[page : page + 16] = bytes(range(16))
    Path("scores.db").write_bytes(bytes(whole))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (foreign, "is not a score store"),
        (written(b"my notes\n"), "is not a score store"),
        (written(b"\x89PNG" + bytes(9000)), "is not a score store"),
        (lambda: damaged("PRAGMA user_version = 2"), "is a score store of version 2, 1 is expected here"),
        (lambda: os.truncate("scores.db", 8192), "is damaged"),
        (scrambled, "is damaged"),
    ],
)
def test_what_is_no_store_is_refused_and_left_as_it_is(said: Said, change: Callable[[], None], message: str) -> None:
    change()
    before, names = Path("scores.db").read_bytes(), sorted(os.listdir())
    Path("samples.jsonl").write_text('{"hypotheses": ["a", "b"]}\n')
    decode = ["decode", "samples.jsonl", "--utility", "metric.py:similarity", "--utility-set", "label=first"]
    for command in (["store", "stats", "scores.db"], [*decode, "--store", "scores.db", "-o", "out.jsonl"]):
        assert main(command) == 2
        assert Path("scores.db").read_bytes() == before
    code, out, err = said("verify", "scores.db")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert sorted(set(os.listdir()) - {"samples.jsonl", "__pycache__"}) == names


def test_stores_that_cannot_be_had(said: Said) -> None:
    assert "nowhere.db: there is no such store" in said("stats", "nowhere.db")[2]
    assert not Path("nowhere.db").exists()
    with pytest.raises(StoreError, match=r"no/scores.db: cannot be opened for writing"):
        Store("no/scores.db")
    with pytest.raises(StoreError, match="is a directory"):
        Store(".")
    with pytest.raises(StoreError, match="/dev/null: is a device or a pipe; a store is a file"):
        Store("/dev/null")
    Path("empty.db").touch()
    Store("empty.db").close()
    assert said("verify", "empty.db")[1] == "empty.db: sound, 0 pairs\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prune", "scores.db"), "minrisk store prune needs --utility TEXT or --unused DAYS"),
        (("stats", "scores.db", "-o", "x"), "--output goes with minrisk store export"),
        (("stats", "scores.db", "--utility", "x"), "--utility goes with minrisk store export, prune and verify"),
        (("export", "scores.db", "--sample", "3"), "--sample goes with minrisk store verify"),
        (("verify", "scores.db", "--sample", "3"), "go with --utility NAME"),
    ],
)
def test_options_that_do_not_go_together(said: Said, arguments: tuple[str, ...], message: str) -> None:
    assert message in said(*arguments)[2]
