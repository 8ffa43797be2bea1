"""Pairs in and out of a score store.

Texts have numbers, counted up; so have spaces: a utility with a source. A row is a space and a candidate, and holds its
pseudo-references and values packed in one blob. New values are appended to a log, a commit a batch, and are folded into
the rows when the store is next read: neighbours of a batch are scattered over rows, and rows are written once.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minrisk.errors import StoreError
from minrisk.store.file import connected, told, transaction
from minrisk.store.identity import file_digest, identity_of
from minrisk.types import FloatArray, IntArray
from minrisk.utilities.base import EncodedUtility, MatrixUtility, PairUtility, Utility
from minrisk.utilities.table import Table

CELL = np.dtype([("reference", "<u4"), ("value", "<f8")])
LOGGED = np.dtype([("row", "<i8"), ("reference", "<u4"), ("value", "<f8")])
CHECK = 4
"""Bytes before what is packed: its checksum."""
ROWS_AT_ONCE, KEYS_AT_ONCE = 512, 256
"""Rows in memory at a time; what one query asks for at most."""
TEXTS_REMEMBERED = 1 << 16
SYNC_SECONDS = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs by their place in a store: row (P,), a space and a candidate, and pseudo-reference (P,)."""

    rows: IntArray
    references: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: IntArray) -> Pairs:
        return Pairs(self.rows[chosen], self.references[chosen])


class Store:
    """A file of scored pairs, for any number of utilities, methods, runs and processes at a time.

    path    a file of its own; it is made if it is not there and `create` is true
    matrix  keep what utilities of matrices say too, such as chrF; most of them are as fast as the store
    """

    def __init__(self, path: str | Path, *, matrix: bool = False, create: bool = True) -> None:
        self.path = Path(path)
        self.matrix = matrix
        self.connection = connected(self.path, create)
        self._numbers: dict[str | None, int] = {}
        self._older: dict[str | None, int] = {}
        self._synced = 0.0

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Put the file in order and close it; what was scored has been safe before."""
        with suppress(StoreError, sqlite3.ProgrammingError):
            self.fold()
        self.connection.close()

    def identity(self, utility: Utility) -> str:
        """What tells the values of a utility from any other's."""
        return identity_of(utility, self._file_digest)

    def shelf(self, utility: Utility) -> Shelf:
        """The part of the store that belongs to a utility."""
        identity = self.identity(utility)
        today = datetime.now(UTC).date().isoformat()
        with self.writing():
            self.connection.execute(
                "INSERT INTO utilities (identity, used) VALUES (?, ?) ON CONFLICT DO UPDATE SET used = excluded.used",
                (identity, today),
            )
            found = self.connection.execute("SELECT number FROM utilities WHERE identity = ?", (identity,))
            return Shelf(self, int(found.fetchone()[0]))

    def _file_digest(self, path: Path) -> str:
        """The digest of a file, from the store where the file is as it was."""
        status, place = path.stat(), str(path.resolve())
        key = place, status.st_size, status.st_mtime_ns
        with told(self.path):
            found = self.connection.execute(
                "SELECT digest FROM files WHERE path = ? AND size = ? AND changed = ?", key
            ).fetchone()
        if found is not None:
            return str(found[0])
        made = file_digest(path)
        with self.writing():
            self.connection.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (*key, made))
        return made

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that survives the end of the process; once a second, the end of the machine too."""
        now = time.monotonic()
        due = now - self._synced >= SYNC_SECONDS
        with told(self.path):
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if due else 'NORMAL'}")
            with transaction(self.connection):
                yield
        self._synced = now if due else self._synced

    def numbers(self, texts: Sequence[str | None]) -> IntArray:
        """The numbers of texts, 0 for None; those that are new get one: (T,)."""
        unknown = [text for text in dict.fromkeys(texts) if text not in self._numbers]
        for text in unknown:
            if (number := self._older.get(text)) is not None:
                self._numbers[text] = number
        unknown = [text for text in unknown if text not in self._numbers]
        if unknown:
            self._read_numbers(unknown)
        numbers = np.array([self._numbers[text] for text in texts], dtype=np.int64)
        if len(self._numbers) >= TEXTS_REMEMBERED:
            self._older, self._numbers = self._numbers, {}
        return numbers

    def _read_numbers(self, texts: list[str | None]) -> None:
        execute = self.connection.execute
        found: dict[str | None, int] = {None: 0}
        data = {text: text.encode("utf-8", "surrogatepass") for text in texts if text is not None}
        digests = {text: text_digest(encoded) for text, encoded in data.items()}

        def last() -> int:
            # Numbers are never used again, not even those of texts that were pruned.
            return int((execute("SELECT seq FROM sqlite_sequence WHERE name = 'texts'").fetchone() or (0,))[0])

        def look(wanted: list[str]) -> list[str]:
            asked = [digests[text] for text in wanted]
            known = dict(self.among("SELECT digest, number FROM texts WHERE digest", asked))
            found.update({text: known[digests[text]] for text in wanted if digests[text] in known})
            return [text for text in wanted if digests[text] not in known]

        with told(self.path):
            before = last()
            missing = look(list(data))
        if missing:
            with self.writing():
                if (number := last()) != before:  # Another process has added some meanwhile.
                    missing = look(missing)
                found.update({text: place for place, text in enumerate(missing, number + 1)})
                rows = ((found[text], digests[text], data[text]) for text in missing)
                self.connection.executemany("INSERT INTO texts VALUES (?, ?, ?)", rows)
        self._numbers |= found

    def among(self, query: str, keys: Sequence[Any]) -> Iterator[Any]:
        """What the query finds whose last word is one of these keys; a few of them at a time."""
        for start in range(0, len(keys), KEYS_AT_ONCE):
            asked = keys[start : start + KEYS_AT_ONCE]
            yield from self.connection.execute(f"{query} IN ({','.join('?' * len(asked))})", asked)

    def log(self, pairs: Pairs, values: FloatArray) -> None:
        """Keep the values of pairs, in one commit."""
        logged = np.empty(len(pairs), LOGGED)
        logged["row"], logged["reference"], logged["value"] = pairs.rows, pairs.references, values
        with self.writing():
            self.connection.execute("INSERT INTO log (packed) VALUES (?)", (_sealed(logged.tobytes(), 0),))

    def fold(self) -> None:
        """Move what all processes have logged into the rows."""
        with told(self.path):
            if self.connection.execute("SELECT 1 FROM log LIMIT 1").fetchone() is None:
                return
        with self.writing():
            blobs = self.connection.execute("SELECT packed FROM log ORDER BY number").fetchall()
            self._merge(np.frombuffer(b"".join(self.opened(blob, 0) for (blob,) in blobs), LOGGED))
            self.connection.execute("DELETE FROM log")

    def _merge(self, logged: NDArray[np.void]) -> None:
        """Add to the rows; a pair that is there already keeps its value."""
        logged = logged[np.lexsort((logged["reference"], logged["row"]))]
        rows = np.unique(logged["row"])
        for start in range(0, len(rows), ROWS_AT_ONCE):
            block = rows[start : start + ROWS_AT_ONCE]
            keys, values = self.block(block)
            part = logged[np.searchsorted(logged["row"], block[0]) :]
            part = part[: np.searchsorted(part["row"], block[-1], side="right")]
            keys = np.concatenate([keys, _keys(block, part["row"], part["reference"])])
            values = np.concatenate([values, part["value"]])
            keys, first = np.unique(keys, return_index=True)
            cells = np.empty(len(keys), CELL)
            cells["reference"], cells["value"] = keys & 0xFFFFFFFF, values[first]
            data, size = cells.tobytes(), CELL.itemsize
            ends = np.searchsorted(keys >> 32, np.arange(len(block) + 1)).tolist()
            self.connection.executemany(
                "INSERT OR REPLACE INTO cells VALUES (?, ?)",
                (
                    (row, _sealed(data[size * begin : size * end], row))
                    for row, begin, end in zip(block.tolist(), ends, ends[1:])
                ),
            )

    def block(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        """What is known of a few rows, ascending: keys, place among the rows << 32 | pseudo-reference, and values."""
        places: list[int] = []
        blobs: list[bytes] = []
        wanted = {row: place for place, row in enumerate(rows.tolist())}
        for row, blob in self.among("SELECT row, packed FROM cells WHERE row", list(wanted)):
            places.append(wanted[row])
            blobs.append(self.opened(blob, row))
        cells = np.frombuffer(b"".join(blobs), CELL)
        counts = [len(blob) // CELL.itemsize for blob in blobs]
        keys = np.repeat(np.array(places, dtype=np.int64), counts) << 32 | cells["reference"].astype(np.int64)
        return keys, cells["value"].astype(np.float64)

    def opened(self, blob: Any, row: int) -> bytes:
        """What is packed in a blob, which must be whole."""
        if not self.whole(blob, row):
            raise StoreError(
                f"{self.path}: is damaged: a checksum is wrong; see `minrisk store verify`, restore a copy, or move it"
            )
        return bytes(blob)[CHECK:]

    @staticmethod
    def whole(blob: Any, row: int) -> bool:
        """Whether a blob is as it was written, and where it was written."""
        return isinstance(blob, bytes) and blob[:CHECK] == _checksum(blob[CHECK:], row)


class Shelf:
    """What a store holds of one utility."""

    def __init__(self, store: Store, utility: int) -> None:
        self._store = store
        self.utility = utility
        self._spaces: dict[int, int] = {}

    def pairs(
        self, texts: Sequence[str | None], candidates: IntArray, references: IntArray, sources: IntArray
    ) -> Pairs:
        """The places in the store of pairs, given as positions in `texts`, which may hold None for no source."""
        numbers = self._store.numbers(texts)
        distinct, inverse = np.unique(numbers[sources], return_inverse=True)
        spaces = self._spaces_of(distinct.tolist())[inverse.ravel()]
        return Pairs(spaces << 32 | numbers[candidates], numbers[references])

    def find(self, pairs: Pairs) -> FloatArray:
        """The values of pairs, NaN for those that are not known: (P,)."""
        self._store.fold()
        values = np.full(len(pairs), np.nan)
        order = np.argsort(pairs.rows, kind="stable")
        ordered = pairs.rows[order]
        rows, starts = np.unique(ordered, return_index=True)
        starts = np.append(starts, len(order))
        for first in range(0, len(rows), ROWS_AT_ONCE):
            block = rows[first : first + ROWS_AT_ONCE]
            part = order[starts[first] : starts[first + len(block)]]
            with told(self._store.path):
                keys, known = self._store.block(block)
            if len(keys):
                asked = _keys(block, pairs.rows[part], pairs.references[part])
                places = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
                values[part] = np.where(keys[places] == asked, known[places], np.nan)
        return values

    def add(self, pairs: Pairs, values: FloatArray) -> None:
        """Keep the values of pairs, safe when this returns; what is not finite is not kept."""
        finite = np.flatnonzero(np.isfinite(values))
        if len(finite):
            self._store.log(pairs[finite], values[finite])

    def _spaces_of(self, sources: Sequence[int]) -> IntArray:
        """The numbers of this utility's spaces, one for each source."""
        query = f"SELECT source, number FROM spaces WHERE utility = {self.utility} AND source"
        unknown = [source for source in sources if source not in self._spaces]
        with told(self._store.path):
            self._spaces.update(self._store.among(query, unknown))
        unknown = [source for source in unknown if source not in self._spaces]
        if unknown:
            with self._store.writing():
                rows = ((self.utility, source) for source in unknown)
                self._store.connection.executemany("INSERT OR IGNORE INTO spaces (utility, source) VALUES (?, ?)", rows)
                self._spaces.update(self._store.among(query, unknown))
        spaces = np.array([self._spaces[source] for source in sources], dtype=np.int64)
        if len(self._spaces) >= TEXTS_REMEMBERED:
            self._spaces.clear()
        return spaces


def stored(utility: Utility, store: Store) -> bool:
    """Whether a store keeps what a utility says; not so mixtures, whose parts it keeps, nor tables."""
    if isinstance(utility, MatrixUtility):
        return store.matrix and not isinstance(utility, Table)
    return isinstance(utility, PairUtility | EncodedUtility)


def text_digest(data: bytes) -> bytes:
    """What a text is found by."""
    return hashlib.blake2b(data, digest_size=16).digest()


def _keys(rows: IntArray, of_pairs: IntArray, references: IntArray) -> IntArray:
    """Place among the rows << 32 | pseudo-reference, of pairs whose rows are among them."""
    return np.asarray(np.searchsorted(rows, of_pairs) << 32 | references.astype(np.int64))


def _checksum(data: bytes, row: int) -> bytes:
    """Tells whether data are whole, and where they belong."""
    return zlib.crc32(data, row & 0xFFFFFFFF).to_bytes(CHECK, "little")


def _sealed(data: bytes, row: int) -> bytes:
    return _checksum(data, row) + data
