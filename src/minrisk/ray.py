"""Decoding on a Ray cluster: utilities live in actors, segments stream through them.

    import minrisk.ray
    import ray

    samples = ray.data.read_parquet("s3://bucket/samples")
    decisions = minrisk.ray.decode(samples, utility="metricx", budget="1/16", gpus_per_replica=1)
    decisions.write_parquet("s3://bucket/decisions")

Ray Data does what a cluster needs: it starts the actors, feeds them no faster than they decode, restarts what has died
and repeats what was lost with it. Each actor runs the ordinary engine on the blocks of segments that it is given.
"""

from __future__ import annotations

import gzip
import inspect
import io
import json
import logging
import os
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import IO, Any, ClassVar, NamedTuple, cast

import numpy as np

from minrisk.budgets import Budget
from minrisk.decoding import Configuration, Work
from minrisk.engine import WINDOW, scorers_of
from minrisk.errors import InputError, MinriskError, MissingExtraError, redacted
from minrisk.formats import Format, Input, decisions_table, read_segments, record_of
from minrisk.scoring import Ledger, Scorer
from minrisk.store import Store
from minrisk.types import TARGET, Method, Segment
from minrisk.unfinished import telling, undecided
from minrisk.utilities.base import Utility
from minrisk.workers import parts

try:
    import fsspec.core
    import pyarrow as arrow
    import ray
    import ray.data
    import ray.exceptions
    from pyarrow import fs
except ImportError as error:
    raise MissingExtraError("decoding on Ray", "ray") from error

Record = dict[str, Any]
RETRIES = 10
"""Times that segments are given to another actor when theirs has died: they may be what it dies of."""


def decode(
    dataset: ray.data.Dataset,
    utility: str | Utility | Any = "chrf",
    method: str | Method | None = None,
    budget: Budget | None = None,
    *,
    weights: str = "multiplicity",
    seed: int = 0,
    nbest: int = 0,
    window: int = WINDOW,
    store: str | Path | None = None,
    replicas: int | None = None,
    cpus_per_replica: float | None = None,
    gpus_per_replica: float = 0.0,
) -> ray.data.Dataset:
    """The decisions of a Dataset of segments, in their order; see `minrisk.decode` for the arguments that are not here.

    dataset           a row is a segment: `hypotheses` and, where there are any, `id`, `source`, `logprobs` and the like
    nbest             also the so many best texts of each segment
    store             the path of a store of scores: every machine of the cluster has one of its own there
    replicas          actors, each with the utility (default: as many as the cluster has room for, one CPU left free)
    cpus_per_replica  default: 1, or 0 where a replica has a GPU or a share of one
    A row of the result has `id` (null where none was given), `selected`, `index`, `utility`, `calls`, `cells`, `nbest`.
    Nothing happens until the result is used; then blocks of rows stream through the actors.
    """
    work = Work(Configuration(utility, method, budget, weights, seed), partial(record_of, nbest=nbest), window)
    _check(work)
    share = Share.of(replicas, cpus_per_replica, gpus_per_replica, spare_cpus=1)
    return share.mapped(dataset.repartition(target_num_rows_per_block=Rows.rows), Rows, work, kept(store), bool(nbest))


def decode_files(
    path: str,
    work: Work,
    *,
    format: Format | None = None,
    store: Kept | None = None,
    replicas: int | None = None,
    gpus_per_replica: float = 0.0,
    ledger: Ledger | None = None,
    on_share: Callable[[float], None] = lambda _: None,
    done: Sequence[str] = (),
    on_segment: Callable[[str], None] = lambda _: None,
) -> Iterator[Record]:
    """The records of the decisions on the segments of a file, or of all files of a folder by name, in order.

    path        of JSON Lines or Parquet: a local one, or any that Ray reads, such as s3://bucket/samples
    ledger      a `Ledger` to be kept up to date with what all actors have spent
    on_share    is told how much of the input, 0 to 1, has been decided
    done        what tells the first segments, which are left out; `on_segment` is told that of each other one
    """
    ledger = Ledger() if ledger is None else ledger
    _check(work)
    share = Share.of(replicas, None, gpus_per_replica, spare_cpus=0)
    decided = share.mapped(_parts_of(path, format, work, done), Lines, work, store)
    decided.context.target_max_block_size = 1  # Every row is a block, and handed on at once.
    for row in _rows(decided):
        ledger.add(Ledger(**json.loads(row["spent"])))
        for line, told in zip(row["lines"].splitlines(), row["told"].splitlines()):
            on_segment(told)
            yield json.loads(line)
        if row["error"] is not None:
            raise MinriskError(row["error"])
        on_share(row["share"])


def _rows(dataset: ray.data.Dataset) -> Iterator[Record]:
    """The rows of a dataset; what Ray raises is told in one line, its last one of many."""
    try:
        yield from dataset.iter_rows()
    except ray.exceptions.ActorUnavailableError as error:
        raise MinriskError(
            f"actors died {RETRIES + 1} times over the same segments: the metric may end its process, or want more "
            f"memory than there is; Ray says: {_last_line(error)}"
        ) from error
    except ray.exceptions.RayError as error:
        raise MinriskError(f"Ray cannot go on: {_last_line(error)}") from error


def _last_line(error: Exception) -> str:
    return redacted([line.strip() for line in str(error).splitlines() if line.strip()][-1])


def _check(work: Work) -> None:
    """Raise for what cannot be sent to actors."""
    try:
        ray.cloudpickle.dumps(work)
    except Exception as error:
        raise InputError(
            f"actors cannot be given utility {work.configuration.utility.name!r} or its method: what they hold cannot "
            f"be sent to another process; make it when it is first needed ({type(error).__name__}: {error})"
        ) from error


@dataclass(frozen=True, slots=True)
class Share:
    """How many actors there are, and what each has of the cluster."""

    replicas: int
    cpus: float
    gpus: float

    @classmethod
    def of(cls, replicas: int | None, cpus: float | None, gpus: float, spare_cpus: int) -> Share:
        """By default as many replicas as the cluster has room for beside the spare CPUs."""
        if replicas is not None and replicas < 1:
            raise InputError(f"`replicas` must be at least 1, got {replicas}")
        for name, value in (("cpus_per_replica", cpus), ("gpus_per_replica", gpus)):
            if value is not None and not 0 <= value < float("inf"):
                raise InputError(f"`{name}` must be zero or more, got {value}")
        needs = {"CPU": (0.0 if gpus else 1.0) if cpus is None else cpus, "GPU": gpus}
        if not ray.is_initialized():
            ray.init()
        room = sum(_room(node["Resources"], needs) for node in ray.nodes() if node["Alive"])
        if room == 0:
            lacking = f"no node of the cluster has what a replica needs ({needs['CPU']:g} CPUs, {gpus:g} GPUs)"
            if replicas is None:
                raise InputError(f"{lacking}; give a smaller share, or the number of replicas to wait for nodes")
            logging.getLogger(__name__).warning("minrisk: %s; waiting for one that has", lacking)
        if replicas is None:
            replicas = max(1, room - (spare_cpus if needs["CPU"] else 0))
        return cls(replicas, needs["CPU"], gpus)

    def mapped(self, dataset: ray.data.Dataset, kind: type[Actor], *arguments: Any) -> ray.data.Dataset:
        """The dataset through actors of a class, its order kept."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # That a number of retries will have to be said in another way.
            mapped = dataset.map_batches(
                kind,
                fn_constructor_args=arguments,
                batch_size=kind.rows,
                batch_format="pyarrow",
                num_cpus=self.cpus,
                num_gpus=self.gpus,
                compute=ray.data.ActorPoolStrategy(size=self.replicas),
                **_retries(),
            )
        mapped.context.execution_options.preserve_order = True
        return mapped


def _retries() -> dict[str, Any]:
    """A bound on them, where this version of Ray lets it be said: otherwise it tries again for ever."""
    known = inspect.signature(ray.data.Dataset.map_batches).parameters
    return {"max_task_retries": RETRIES} if {"max_task_retries", "ray_remote_args"} & known.keys() else {}


def _room(node: dict[str, float], needs: dict[str, float]) -> int:
    """Replicas that fit on a node; one if they need nothing."""
    return min((int(node.get(kind, 0.0) / need + 1e-9) for kind, need in needs.items() if need), default=1)


@dataclass(frozen=True, slots=True)
class Kept:
    """A store of scores that each actor opens on its own machine; `matrix`: for metrics as fast as the store too."""

    path: str
    matrix: bool = False


def kept(path: str | Path | None, matrix: bool = False) -> Kept | None:
    """The store at a path, the same one for all actors of this machine."""
    return None if path is None else Kept(os.path.abspath(path), matrix)


class Actor:
    """Does the work, and remembers from block to block what its utility has loaded and scored."""

    rows: ClassVar[int]
    """That it is given at once."""

    def __init__(self, work: Work, store: Kept | None) -> None:
        self.work = work
        self.store = store

    @cached_property
    def scorers(self) -> dict[str, Scorer]:
        """Made with the first block: an error is told as one of its segments'."""
        opened = None if self.store is None else Store(self.store.path, matrix=self.store.matrix)
        return scorers_of(self.work.configuration.utilities, Ledger(), opened)


class Rows(Actor):
    """Rows of segments in, rows of decisions out."""

    rows = 16

    def __init__(self, work: Work, store: Kept | None, nbest: bool) -> None:
        super().__init__(work, store)
        self.nbest = nbest

    def __call__(self, block: arrow.Table) -> arrow.Table:
        segments = [_segment(row) for row in block.to_pylist()]
        records = self.work.results(segments, scorers=self.scorers)
        # A row without an id has none in the result: its position in a block says nothing.
        named = (record | {"id": segment.id} for segment, record in zip(segments, records, strict=True))
        return decisions_table(named, self.nbest)


def _segment(row: Record) -> Segment:
    """The segment of a row; NaN, as Pandas has it, is nothing."""
    try:
        return Segment.of({name: value for name, value in row.items() if value == value})
    except InputError as error:
        raise InputError(f"segment {row.get('id')!r}: {error}") from error


class Lines(Actor):
    """Rows of a few segments in, the decisions on them out, both as lines of JSON.

    Texts of all kinds and errors pass as JSON: Arrow has no lone surrogates, Ray adds pages to an error that is raised.
    """

    rows = 1

    def __call__(self, block: arrow.Table) -> arrow.Table:
        return arrow.Table.from_pylist([self._decided(row) for row in block.to_pylist()], schema=LINES)

    def _decided(self, row: Record) -> Record:
        segments = [Segment(**json.loads(line)) for line in row["lines"].splitlines()]
        decided = list[str]()
        spent = Ledger()
        try:
            for record in self.work.results(segments, row["position"], scorers=self.scorers):
                decided.append(json.dumps(record))
            spent = self.scorers[TARGET].ledger.taken()
        except MinriskError as error:
            row["error"] = _told(error)
        return row | {"lines": "\n".join(decided), "spent": json.dumps(asdict(spent))}


LINES = arrow.schema(
    [
        ("lines", arrow.string()),
        ("told", arrow.string()),
        ("position", arrow.int64()),
        ("share", arrow.float64()),
        ("error", arrow.string()),
        ("spent", arrow.string()),
    ]
)
"""Rows on their way to an actor and back: a few segments, or the decisions on them; what tells them from others; the
position of the first; how much of the input is read with them; what went wrong after them; what they have cost."""


def _told(error: MinriskError) -> str:
    """An error as a line that Arrow can hold."""
    return "; ".join([str(error), *getattr(error, "__notes__", ())]).encode(errors="backslashreplace").decode()


class File(NamedTuple):
    """A file to read: what the user calls it, where it is in its file system, its bytes."""

    name: str
    place: str
    size: int


def _parts_of(path: str, format: Format | None, work: Work, done: Sequence[str]) -> ray.data.Dataset:
    """The segments of files as `LINES`, read where the files are: by one task, which knows the position of each."""
    filesystem, found = _listed(path)
    files = [File(path if len(found) == 1 else file.path, file.path, file.size or 0) for file in found]
    here = {f"node:{ray.util.get_node_ip_address()}": 0.001} if isinstance(filesystem, fs.LocalFileSystem) else None
    return ray.data.from_items([{"reader": 0}]).map_batches(
        _read,
        fn_args=(filesystem, files, format, work, done),
        batch_size=None,
        num_cpus=0,
        resources=here,
        compute=ray.data.TaskPoolStrategy(size=1),
    )


def _read(
    _: Any,
    filesystem: fs.FileSystem,
    files: Sequence[File],
    format: Format | None,
    work: Work,
    done: Sequence[str],
) -> Iterator[arrow.Table]:
    shares = _Shares([file.size for file in files])
    row: Record = {"lines": "", "told": "", "position": 0, "share": 0.0}
    try:
        segments = _segments(filesystem, files, format, shares)
        for held, position in parts(undecided(segments, done), work, len(done)):
            lines, told = "\n".join(map(_line, held)), "\n".join(map(telling, held))
            row = {"lines": lines, "told": told, "position": position, "share": shares.read}
            yield arrow.Table.from_pylist([row], schema=LINES)
    except MinriskError as error:
        yield arrow.Table.from_pylist([row | {"lines": "", "told": "", "error": _told(error)}], schema=LINES)


class _Shares:
    """How much of several files has been read, 0 to 1."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._starts = np.cumsum([0, *sizes])
        self._number = -1
        self._input: Input | None = None

    def opened(self, source: Input) -> None:
        """The next file is being read."""
        self._number, self._input = self._number + 1, source

    @property
    def read(self) -> float:
        if self._input is None:
            return 0.0
        start, end, all_of_it = (float(self._starts[place]) for place in (self._number, self._number + 1, -1))
        return (start + (end - start) * (self._input.share or 0.0)) / max(1.0, all_of_it)


def _segments(
    filesystem: fs.FileSystem, files: Sequence[File], format: Format | None, shares: _Shares
) -> Iterator[Segment]:
    for file in files:
        try:
            stream = filesystem.open_input_file(file.place)
        except OSError as error:
            raise InputError(f"{file.name}: cannot be read: {error}") from error
        with stream:
            yield from read_segments(file.name, format, None, shares.opened, io.BufferedReader(stream))


def _line(segment: Segment) -> str:
    return json.dumps({name: value for name, value in asdict(segment).items() if value is not None})


def _listed(path: str) -> tuple[fs.FileSystem, list[fs.FileInfo]]:
    """The file of a path, or the files of a folder by name, those aside that a dot or an underscore hides."""
    try:
        filesystem, place = filesystem_of(path)
        found = filesystem.get_file_info(place)
        files = [found]
        if found.type == fs.FileType.Directory:
            files = filesystem.get_file_info(fs.FileSelector(place, recursive=True))
            files = [file for file in files if file.is_file and not file.base_name.startswith((".", "_"))]
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if found.type == fs.FileType.NotFound:
        raise InputError(f"{path}: cannot be read: No such file or directory")
    if not files:
        raise InputError(f"{path}: no files in this folder")
    return filesystem, sorted(files, key=lambda file: file.path)


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """Where a path leads: to a file of this machine, or to a store that Arrow or fsspec knows."""
    if "://" not in path:
        return fs.LocalFileSystem(), os.path.abspath(path)
    try:
        filesystem, place = fs.FileSystem.from_uri(path)
    except arrow.ArrowInvalid:
        other, place = fsspec.core.url_to_fs(path)
        filesystem = fs.PyFileSystem(fs.FSSpecHandler(other))
    return filesystem, place


@contextmanager
def open_remote(path: str) -> Iterator[IO[bytes]]:
    """A file that is written here and copied to the path when it is whole."""
    try:
        filesystem, place = filesystem_of(path)
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"{path}: cannot be written: {error}") from error
    with tempfile.TemporaryFile() as file:
        if path.endswith(".gz"):
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield file
        file.seek(0)
        try:
            with filesystem.open_output_stream(place, compression=None) as target:
                shutil.copyfileobj(file, target)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error}") from error


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Within a cluster: the one at an address, that of the variable RAY_ADDRESS, or one of this machine alone."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    # It says much about what goes well; what does not is raised too.
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    terminated = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False, include_dashboard=False)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, terminated)  # Ray's way is to abort, with a page of addresses.
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(f"no Ray cluster at {address!r}: {error}") from error
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Such as that there are more actors than blocks.
            yield
    finally:
        ray.shutdown()


def shipped(modules: Iterable[ModuleType]) -> None:
    """Have what these modules define sent to the actors, which may be where their files are not."""
    for module in modules:
        ray.cloudpickle.register_pickle_by_value(module)
