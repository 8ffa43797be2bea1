"""The score store beside simpler designs: microseconds and bytes a pair, on the pairs that decoding really asks for.

    python benchmarks/store.py            prints a table in Markdown
    python benchmarks/store.py --quick    smaller

Each design is asked for a window of pairs that it does not know, keeps them in batches of 1024 with a commit each, in
an order without any locality (batches are sorted by the length of texts), and is asked for all of them again, as by a
second run. `lmdb` is measured where it is installed. Seconds are the process's own, the best of three.
"""

from __future__ import annotations

import argparse
import gc
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import minrisk
from minrisk.store import Store

try:
    import lmdb
except ImportError:
    lmdb = None

BATCH = 1024
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """Texts, and pairs as positions of candidate, pseudo-reference and source among them."""

    texts: list[str]
    pairs: tuple[Numbers, Numbers, Numbers]
    values: NDArray[np.float64]


def windows(segments: int, size: int, share: float, window: int) -> Iterator[Window]:
    """The pairs of so many segments of `size` distinct texts each, `share` of them asked for."""
    rng = np.random.default_rng(0)
    for start in range(0, segments, window):
        texts: list[str] = []
        parts = []
        for number in range(start, min(segments, start + window)):
            base = len(texts)
            texts += [f"sample {place} of segment {number}, a sentence of usual length" for place in range(size)]
            texts.append(f"the source of segment {number}")
            cells = rng.choice(size * size, int(share * size * size), replace=False)
            parts.append((base + cells // size, base + cells % size, np.full(len(cells), base + size)))
        scattered = rng.permutation(sum(len(part[0]) for part in parts))
        candidates, references, sources = (np.concatenate(part)[scattered] for part in zip(*parts))
        yield Window(texts, (candidates, references, sources), rng.random(len(scattered)))


class Design(Protocol):
    """A way to keep pairs."""

    def window(self, window: Window) -> Any: ...

    def find(self, asked: Any) -> NDArray[np.float64]: ...

    def add(self, asked: Any, chosen: slice, values: NDArray[np.float64]) -> None: ...

    def close(self) -> None: ...


class Minrisk:
    """The store: texts with numbers, values logged by the batch, packed by candidate when they are next asked for."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        self.shelf = self.store.shelf(minrisk.utility(min, label="benchmark"))

    def window(self, window: Window) -> Any:
        return self.shelf.pairs(window.texts, *window.pairs)

    def find(self, asked: Any) -> NDArray[np.float64]:
        return self.shelf.find(asked)

    def add(self, asked: Any, chosen: slice, values: NDArray[np.float64]) -> None:
        self.shelf.add(asked[chosen], values)

    def close(self) -> None:
        self.store.fold()
        self.store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.store.close()


class Rows(Minrisk):
    """The same texts, and in SQLite a row for each pair, without rowid."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.execute("PRAGMA cache_size = -32768")
        columns = "space INTEGER, candidate INTEGER, reference INTEGER, value REAL"
        self.connection.execute(
            f"CREATE TABLE IF NOT EXISTS pairs ({columns}, PRIMARY KEY (space, candidate, reference)) WITHOUT ROWID"
        )

    def find(self, asked: Any) -> NDArray[np.float64]:
        execute = self.connection.execute
        execute("BEGIN")
        query = "SELECT value FROM pairs WHERE space = ? AND candidate = ? AND reference = ?"
        found = [execute(query, key).fetchone() or (np.nan,) for key in self._keys(asked)]
        execute("COMMIT")
        return np.array(found).ravel()

    def add(self, asked: Any, chosen: slice, values: NDArray[np.float64]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        rows = ((*key, value) for key, value in zip(self._keys(asked[chosen]), values.tolist()))
        self.connection.executemany("INSERT OR IGNORE INTO pairs VALUES (?, ?, ?, ?)", rows)
        self.connection.execute("COMMIT")

    def _keys(self, asked: Any) -> Iterator[tuple[int, int, int]]:
        return zip((asked.rows >> 32).tolist(), (asked.rows & 0xFFFFFFFF).tolist(), asked.references.tolist())

    def close(self) -> None:
        super().close()
        self.connection.close()


class Lmdb(Minrisk):
    """The same texts, and in LMDB an entry for each pair; a commit a batch, without waiting for the disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file = lmdb.open(f"{path}.lmdb", map_size=1 << 34, subdir=False, sync=False)

    def find(self, asked: Any) -> NDArray[np.float64]:
        keys = self._keys(asked)
        with self.file.begin() as transaction:
            found = dict(transaction.cursor().getmulti(keys))
        unknown = np.array([np.nan]).tobytes()
        return np.frombuffer(b"".join([found.get(key, unknown) for key in keys]))

    def add(self, asked: Any, chosen: slice, values: NDArray[np.float64]) -> None:
        data = values.tobytes()
        entries = [data[place : place + 8] for place in range(0, len(data), 8)]
        with self.file.begin(write=True) as transaction:
            transaction.cursor().putmulti(list(zip(self._keys(asked[chosen]), entries)))

    def _keys(self, asked: Any) -> list[bytes]:
        data = np.stack([asked.rows >> 32, asked.rows & 0xFFFFFFFF, asked.references], axis=1).astype(">u4").tobytes()
        return [data[place : place + 12] for place in range(0, len(data), 12)]

    def close(self) -> None:
        super().close()
        self.file.sync(True)
        self.file.close()


def costs(kind: type[Minrisk], asked: list[Window]) -> tuple[float, float, float]:
    """Microseconds a pair of a cold run (asked in vain, and kept) and of a warm one, and bytes a pair beyond texts."""
    pairs = sum(len(window.values) for window in asked)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        empty = Path(folder) / "texts"
        texts = Minrisk(empty)
        for window in asked:
            texts.store.numbers(window.texts)
        texts.close()
        design = kind(path)
        begin = time.process_time()
        for window in asked:
            found = design.window(window)
            assert np.isnan(design.find(found)).all()
            for start in range(0, len(window.values), BATCH):
                design.add(found, slice(start, start + BATCH), window.values[start : start + BATCH])
        design.close()
        cold = time.process_time() - begin
        size = sum(file.stat().st_blocks * 512 for file in Path(folder).glob("store*")) - os.path.getsize(empty)
        design = kind(path)
        begin = time.process_time()
        for window in asked:
            assert np.array_equal(design.find(design.window(window)), window.values)
        warm = time.process_time() - begin
        design.close()
    return 1e6 * cold / pairs, 1e6 * warm / pairs, size / pairs


def table(quick: bool) -> Iterator[str]:
    """A row for each workload and design."""
    yield "| segments | N | share | pairs | design | cold, µs a pair | warm, µs a pair | bytes a pair |"
    yield "| ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |"
    designs = [Minrisk, Rows] + ([Lmdb] if lmdb is not None else [])
    names = {Minrisk: "the store", Rows: "SQLite, a row a pair", Lmdb: "LMDB, an entry a pair"}
    workloads = ((2048, 64, 1 / 16, 256), (256, 64, 1.0, 256), (32, 1024, 1 / 16, 16), (16384, 4, 1 / 4, 256))
    for segments, size, share, window in workloads:
        asked = list(windows(segments // (8 if quick else 1), size, share, window))
        pairs = sum(len(window.values) for window in asked)
        for kind in designs:
            runs = []
            for _ in range(1 if quick else 3):
                gc.collect()
                runs.append(costs(kind, asked))
            cold, warm, size_of_pair = (min(run[place] for run in runs) for place in range(3))
            shape = f"| {len(asked) * window:,} | {size} | {share:.4g} | {pairs:,} "
            yield f"{shape}| {names[kind]} | {cold:.2f} | {warm:.2f} | {size_of_pair:.1f} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    for line in table(parser.parse_args().quick):
        print(line, flush=True)
