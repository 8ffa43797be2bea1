"""The file of a score store: made whole or not at all; what is no store is refused and left as it is."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minrisk.errors import StoreError

APPLICATION, VERSION = 0x6D726B73, 1
"""Stand in the header of the file; SQLite keeps both for its users."""
FOREIGN = "is not a score store; the store must have a file of its own"
REPAIR = "restore a copy, or move it"
CHECKED = 1 << 30
"""Bytes of a file whose structure is checked whole when it is opened; values have checksums in any."""
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
    size = 0
    try:
        status = path.stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    else:
        if not stat.S_ISREG(status.st_mode):
            what = "directory" if path.is_dir() else "device or a pipe"
            raise StoreError(f"{path}: is a {what}; a store is a file")
        size = status.st_size
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
    """Refuse what is no store, or not sound, without a byte written.

    SQLite itself reads: whoever else closes a file makes this process lose its locks on it. Where no other process has
    the file open, it is told that nothing will change, so that it puts no files beside this one.
    """
    if _beside(path, "-journal"):
        # A process was killed as it pruned: the header is whole, the rest will be put right as the file is opened.
        _read_header(path, CHECKED + 1, "mode=ro&immutable=1")
        return
    alone = not _beside(path, "-wal", "-shm")
    try:
        _read_header(path, size, "mode=ro&immutable=1" if alone else "mode=ro")
    except StoreError:
        if not alone or not _beside(path, "-wal", "-shm", "-journal"):
            raise
        _read_header(path, size, "mode=ro")  # Something did change: another process has come.


def _beside(path: Path, *suffixes: str) -> bool:
    """Whether SQLite has put one of its files beside the store, which may be reached by a link."""
    return any(Path(f"{path.resolve()}{suffix}").exists() for suffix in suffixes)


def _read_header(path: Path, size: int, mode: str) -> None:
    with told(path):
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", timeout=PATIENCE, uri=True)
        try:
            application, version = (
                connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
            if application != APPLICATION:
                raise StoreError(f"{path}: {FOREIGN}")
            if version != VERSION:
                raise StoreError(f"{path}: is a score store of version {version}, {VERSION} is expected here")
            sound = connection.execute("PRAGMA quick_check(1)").fetchone()[0] if size <= CHECKED else "ok"
        finally:
            connection.close()
    if sound != "ok":
        raise StoreError(f"{path}: is damaged ({' '.join(sound.split())}); {REPAIR}")


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
            what = FOREIGN
        elif "full" in said or "disk I/O" in said:
            what = f"cannot be written ({said}): free some space; {kept}"
        elif "locked" in said:
            what = f"another program has been writing for {PATIENCE:.0f} s; {kept}"
        elif "readonly" in said or "unable to open" in said:
            what = f"cannot be opened for writing ({said})"
        else:
            what = f"is damaged ({said}); see `minrisk store verify`, {REPAIR}"
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


@contextmanager
def alone(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Keep out all other processes, and refuse where one has the store open: it knows texts by numbers that may go."""
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StoreError(f"{path}: another process has it open; do this when none has") from error
            raise
        yield
    finally:
        connection.execute("PRAGMA locking_mode = NORMAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")
