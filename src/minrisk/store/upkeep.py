"""What a store holds, in words and in lines of JSON; pruning it; whether it is sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any

import numpy as np

from minrisk.errors import InputError
from minrisk.store.file import alone, told
from minrisk.store.scores import CELL, CHECK, Store, text_digest
from minrisk.types import FloatArray
from minrisk.utilities.base import Utility

PAIRS = f"(length(packed) - {CHECK}) / {CELL.itemsize}"
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Holding:
    """What is held of a utility; `used` is the day on which it was last asked for."""

    number: int
    identity: str
    used: date
    pairs: int
    bytes: int


def holdings(store: Store) -> list[Holding]:
    """What is held of each utility, in the order in which they came."""
    store.fold()
    query = f"""
        SELECT utilities.number, identity, used, total(pairs), total(bytes) FROM utilities
        LEFT JOIN spaces ON spaces.utility = utilities.number
        LEFT JOIN (SELECT row >> 32 AS space, sum({PAIRS}) AS pairs, sum(length(packed)) AS bytes FROM cells GROUP BY 1)
        ON space = spaces.number GROUP BY 1 ORDER BY 1
    """
    with told(store.path):
        rows = store.connection.execute(query).fetchall()
    return [Holding(row[0], row[1], date.fromisoformat(row[2]), int(row[3]), int(row[4])) for row in rows]


def chosen(store: Store, utility: str | None = None, unused: int | None = None) -> list[Holding]:
    """The utilities whose identity holds a text, and that have not been used for so many days."""
    today = datetime.now(UTC).date()
    return [
        holding
        for holding in holdings(store)
        if (utility is None or utility in holding.identity)
        and (unused is None or (today - holding.used).days >= unused)
    ]


def count_texts(store: Store) -> int:
    """How many texts there are."""
    with told(store.path):
        return int(store.connection.execute("SELECT count(*) FROM texts").fetchone()[0])


def export(store: Store, kept: Sequence[Holding]) -> Iterator[Record]:
    """The pairs of utilities, as `{"utility", "candidate", "pseudo_reference", "source", "value"}`."""

    @lru_cache(1 << 14)
    def text(number: int) -> str | None:
        if number == 0:
            return None
        data = store.connection.execute("SELECT text FROM texts WHERE number = ?", (number,)).fetchone()[0]
        return str(bytes(data).decode("utf-8", "surrogatepass"))

    with told(store.path):
        for holding in kept:
            for source, row, packed in store.connection.execute(
                "SELECT source, row, packed FROM spaces JOIN cells ON row BETWEEN spaces.number << 32 "
                "AND (spaces.number << 32) + 4294967295 WHERE utility = ? ORDER BY row",
                (holding.number,),
            ):
                for reference, value in np.frombuffer(store.opened(packed, row), CELL).tolist():
                    yield {
                        "utility": holding.identity,
                        "candidate": text(row & 0xFFFFFFFF),
                        "pseudo_reference": text(reference),
                        "source": text(source),
                        "value": value,
                    }


def prune(store: Store, dropped: Sequence[Holding]) -> int:
    """Drop utilities, then the texts that no other needs, and give the room back; how many texts went."""
    with told(store.path), alone(store.connection, store.path):
        gone = _dropped(store, dropped)
        store.connection.execute("VACUUM")
    return gone


def _dropped(store: Store, dropped: Sequence[Holding]) -> int:
    execute = store.connection.execute
    with store.writing():
        for holding in dropped:
            execute(
                "DELETE FROM cells WHERE row IN (SELECT row FROM spaces JOIN cells ON row BETWEEN spaces.number << 32 "
                "AND (spaces.number << 32) + 4294967295 WHERE utility = ?)",
                (holding.number,),
            )
            execute("DELETE FROM spaces WHERE utility = ?", (holding.number,))
            execute("DELETE FROM utilities WHERE number = ?", (holding.number,))
        execute("CREATE TEMP TABLE needed (number INTEGER PRIMARY KEY)")
        add = "INSERT OR IGNORE INTO needed "
        execute(f"{add} SELECT source FROM spaces")
        execute(f"{add} SELECT row & 4294967295 FROM cells")
        for row, packed in execute("SELECT row, packed FROM cells"):
            references = np.frombuffer(store.opened(packed, row), CELL)["reference"]
            store.connection.executemany(f"{add} VALUES (?)", ((number,) for number in references.tolist()))
        gone = execute("DELETE FROM texts WHERE number NOT IN needed").rowcount
        execute("DROP TABLE needed")
    return gone


def faults(store: Store) -> Iterator[str]:
    """What is wrong with a store: its structure, its checksums, its texts, and what they refer to."""
    execute = store.connection.execute
    with told(store.path):
        for (said,) in execute("PRAGMA integrity_check(20)"):
            if said != "ok":
                yield " ".join(said.split())
        texts = {0}
        for number, digest, data in execute("SELECT number, digest, text FROM texts"):
            texts.add(number)
            if text_digest(bytes(data)) != digest:
                yield f"text {number} is not what it was"
        utilities = {number for (number,) in execute("SELECT number FROM utilities")}
        spaces = set()
        for number, utility, source in execute("SELECT number, utility, source FROM spaces"):
            spaces.add(number)
            if utility not in utilities or source not in texts:
                yield f"space {number} is of utility {utility} and source {source}, and one of them is not there"
        for row, packed in execute("SELECT row, packed FROM cells"):
            wrong = _fault_of_row(store, row, packed, texts, spaces)
            if wrong is not None:
                yield f"row {row}: {wrong}"


def _fault_of_row(store: Store, row: int, packed: Any, texts: set[int], spaces: set[int]) -> str | None:
    if not store.whole(packed, row):
        return "the checksum is wrong"
    cells = np.frombuffer(store.opened(packed, row), CELL)
    if row >> 32 not in spaces or row & 0xFFFFFFFF not in texts or not texts.issuperset(cells["reference"].tolist()):
        return "a text or a utility is not there"
    if not np.isfinite(cells["value"]).all() or (np.diff(cells["reference"].astype(np.int64)) <= 0).any():
        return "values must be finite and pseudo-references ascending"
    return None


def compared(store: Store, utility: Utility, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """What is held of a random `size` pairs of a utility, and what it says of them now: (size,) each."""
    identity = store.identity(utility)
    held = [holding for holding in holdings(store) if holding.identity == identity and holding.pairs]
    if not held:
        raise InputError(f"{store.path}: holds nothing of {identity}; see `minrisk store stats`")
    places = set(rng.choice(held[0].pairs, min(size, held[0].pairs), replace=False).tolist())
    drawn = [record for place, record in enumerate(export(store, held)) if place in places]
    candidates, references, sources = ([record[name] for record in drawn] for name in list(drawn[0])[1:4])
    now = utility.score(candidates, references, sources)
    return np.array([record["value"] for record in drawn]), np.asarray(now, dtype=np.float64)
