"""The file of a score store: made whole or not at all; what is no store is refused and left as it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minrisk.errors import StoreError

APPLICATION, VERSION = 0x6D726B73, 1
"""Stand in the header of the file; SQLite keeps both for its users."""
HEADER = ("application_id", "user_version", "page_count", "page_size")
PATIENCE = 120.0
"""Seconds to wait for another process that writes."""
SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE utilities (number INTEGER PRIMARY KEY AUTOINCREMENT, identity TEXT NOT NULL UNIQUE, used TEXT NOT NULL);
CREATE TABLE texts (number INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, text BLOB NOT NULL);
CREATE TABLE spaces (
    number INTEGER PRIMARY KEY AUTOINCREMENT, utility INTEGER NOT NULL, source INTEGER NOT NULL,
    UNIQUE (utility, source)
);
CREATE TABLE cells (row INTEGER PRIMARY KEY, packed BLOB NOT NULL);
CREATE TABLE log (number INTEGER PRIMARY KEY, packed BLOB NOT NULL);
CREATE TABLE files (
    path TEXT NOT NULL, size INTEGER NOT NULL, changed INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (path)
);
"""


def connected(path: Path, create: bool) -> sqlite3.Connection:
    """A connection to the store in a file, which is made if it is not there and may be."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        size = 0
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    if size:
        _check(path, size)
    elif not create:
        raise StoreError(f"{path}: there is no such store")
    with told(path):
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            if not size:
                _make(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA cache_size = -32768")
        except BaseException:
            connection.close()
            raise
    return connection


def _check(path: Path, size: int) -> None:
    """Refuse what is no store, without a byte written.

    SQLite itself reads the header: whoever else closes a file makes this process lose its locks on it.
    """
    with told(path):
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", timeout=PATIENCE, uri=True)
        try:
            found = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in HEADER}
        finally:
            connection.close()
    if found["application_id"] != APPLICATION:
        raise StoreError(f"{path}: is not a score store; the store must have a file of its own")
    if found["user_version"] != VERSION:
        raise StoreError(f"{path}: is a score store of version {found['user_version']}, {VERSION} is expected here")
    expected = found["page_count"] * found["page_size"]
    # Where writes were interrupted, SQLite completes them from these files.
    waiting = any(Path(f"{path}{suffix}").exists() for suffix in ("-wal", "-journal"))
    if size < expected and not waiting:
        raise StoreError(f"{path}: is damaged: cut off at {size} of {expected} bytes; restore a copy, or move it")


def _make(connection: sqlite3.Connection) -> None:
    """Fill an empty file, unless another process has been faster."""
    connection.execute("BEGIN EXCLUSIVE")
    if connection.execute("PRAGMA application_id").fetchone()[0] == 0:
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
    connection.execute("COMMIT")


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What SQLite raises, as one line that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        said = str(error)
        kept = "what was scored before is kept, and the same command goes on from it"
        if "not a database" in said:
            what = "is not a score store; the store must have a file of its own"
        elif "full" in said or "disk I/O" in said:
            what = f"cannot be written ({said}): free some space; {kept}"
        elif "locked" in said:
            what = f"another program has been writing for {PATIENCE:.0f} s; {kept}"
        elif "readonly" in said or "unable to open" in said:
            what = f"cannot be opened for writing ({said})"
        else:
            what = f"is damaged ({said}); see `minrisk store verify`, restore a copy, or move it"
        raise StoreError(f"{path}: {what}") from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # A full disk has ended it already.
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
