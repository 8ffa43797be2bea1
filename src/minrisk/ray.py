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
import io
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from types import ModuleType
from typing import IO, Any, cast

from minrisk.budgets import Budget
from minrisk.decoding import Configuration, Work
from minrisk.engine import WINDOW, scorers_of
from minrisk.errors import InputError, MinriskError, MissingExtraError
from minrisk.formats import Format, Input, decisions_table, read_segments, record_of
from minrisk.scoring import Ledger
from minrisk.types import TARGET, Decision, Method, Segment
from minrisk.utilities.base import Utility
from minrisk.workers import parts

try:
    import fsspec.core
    import pyarrow as arrow
    import ray
    import ray.data
    from pyarrow import fs
except ImportError as error:
    raise MissingExtraError("decoding on Ray", "ray") from error

Record = dict[str, Any]
ROWS, READERS = 16, 4
"""Rows of a Dataset that an actor is given at once; files that are read at the same time."""


def decode(
    dataset: ray.data.Dataset,
    utility: str | Utility | Any = "chrf",
    method: str | Method | None = None,
    budget: Budget = 1.0,
    *,
    weights: str = "multiplicity",
    seed: int = 0,
    nbest: int = 0,
    window: int = WINDOW,
    replicas: int | None = None,
    cpus_per_replica: float | None = None,
    gpus_per_replica: float = 0.0,
) -> ray.data.Dataset:
    """The decisions of a Dataset of segments, in their order; see `minrisk.decode` for the arguments that are not here.

    dataset           a row is a segment: `hypotheses` and, where there are any, `id`, `source`, `logprobs` and the like
    nbest             also the so many best texts of each segment
    replicas          actors, each with the utility (default: as many as the cluster has room for, one CPU left free)
    cpus_per_replica  default: 1, or 0 where a replica has a GPU or a share of one
    A row of the result has `id` (null where none was given), `selected`, `index`, `utility`, `calls`, `cells`, `nbest`.
    Nothing happens until the result is used; then blocks of rows stream through the actors.
    """
    work = Work(Configuration(utility, method, budget, weights, seed), partial(record_of, nbest=nbest), window)
    share = Share.of(replicas, cpus_per_replica, gpus_per_replica, spare_cpus=1)
    return share.mapped(dataset.repartition(target_num_rows_per_block=ROWS), Rows, work, bool(nbest))


def decode_files(
    path: str,
    configuration: Configuration,
    *,
    format: Format | None = None,
    record: Callable[[Decision], Record] = record_of,
    window: int = WINDOW,
    replicas: int | None = None,
    gpus_per_replica: float = 0.0,
    ledger: Ledger | None = None,
    on_share: Callable[[float], None] = lambda _: None,
) -> Iterator[Record]:
    """The records of the decisions on the segments of a file, or of all files of a folder by name, in order.

    path      of JSON Lines or Parquet: a local one, or any that Ray reads, such as s3://bucket/samples
    record    what is kept of a decision; it is called in the actors
    ledger    a `Ledger` to be kept up to date with what all actors have spent
    on_share  is told how much of the input, 0 to 1, has been decided
    A segment without an id is named by its position among all.
    """
    ledger = Ledger() if ledger is None else ledger
    share = Share.of(replicas, None, gpus_per_replica, spare_cpus=0)
    work = Work(configuration, record, window)
    decided = share.mapped(_parts_of(path, format, work), Lines, work)
    decided.context.target_max_block_size = 1  # Every row is a block, and handed on at once.
    position = 0
    for row in decided.iter_rows():
        ledger.add(Ledger(**json.loads(row["spent"])))
        for line in row["lines"].splitlines():
            found = json.loads(line)
            yield found if found["id"] is not None else found | {"id": str(position)}
            position += 1
        if row["error"] is not None:
            raise MinriskError(row["error"])
        on_share(row["share"])


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
        if replicas is None:
            if not ray.is_initialized():
                ray.init()
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            room = sum(_room(node, needs) for node in nodes)
            if room == 0:
                raise InputError(
                    f"no node of the cluster has what a replica needs ({needs['CPU']:g} CPUs, {gpus:g} GPUs); give a "
                    "smaller share, or the number of replicas to wait for nodes that have it"
                )
            replicas = max(1, room - (spare_cpus if needs["CPU"] else 0))
        return cls(replicas, needs["CPU"], gpus)

    def mapped(self, dataset: ray.data.Dataset, kind: type, *arguments: Any) -> ray.data.Dataset:
        """The dataset through actors of a class, its order kept."""
        mapped = dataset.map_batches(
            kind,
            fn_constructor_args=arguments,
            batch_size=None,
            batch_format="pyarrow",
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            compute=ray.data.ActorPoolStrategy(size=self.replicas),
        )
        mapped.context.execution_options.preserve_order = True
        return mapped


def _room(node: dict[str, float], needs: dict[str, float]) -> int:
    """Replicas that fit on a node; one if they need nothing."""
    return min((int(node.get(kind, 0.0) / need + 1e-9) for kind, need in needs.items() if need), default=1)


class Actor:
    """Does the work, and remembers from block to block what its utility has loaded and scored."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.scorers = scorers_of(work.configuration.utilities, Ledger())

    def records(self, segments: Sequence[Segment], first: int = 0) -> Iterator[Record]:
        """A record for each segment, without an id where none was given; `first` is the position of the first one."""
        results = self.work.results(segments, first, scorers=self.scorers)
        for segment, record in zip(segments, results, strict=True):
            yield record | {"id": segment.id}


class Rows(Actor):
    """Rows of segments in, rows of decisions out."""

    def __init__(self, work: Work, nbest: bool) -> None:
        super().__init__(work)
        self.nbest = nbest

    def __call__(self, block: arrow.Table) -> arrow.Table:
        return decisions_table(self.records([_segment(row) for row in block.to_pylist()]), self.nbest)


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

    def __call__(self, block: arrow.Table) -> arrow.Table:
        return arrow.Table.from_pylist([self._decided(row) for row in block.to_pylist()], schema=LINES)

    def _decided(self, row: Record) -> Record:
        segments = [Segment(**json.loads(line)) for line in row["lines"].splitlines()]
        decided = list[str]()
        try:
            for record in self.records(segments, row["position"]):
                decided.append(json.dumps(record))
        except MinriskError as error:
            row["error"] = _told(error)
        spent = self.scorers[TARGET].ledger.taken()
        return row | {"lines": "\n".join(decided), "spent": json.dumps(asdict(spent))}


LINES = arrow.schema(
    [
        ("lines", arrow.string()),
        ("position", arrow.int64()),
        ("share", arrow.float64()),
        ("error", arrow.string()),
        ("spent", arrow.string()),
    ]
)
"""Rows on their way to an actor and back: a few segments, or the decisions on them; the position of the first; how much
of the input has been read with them; what went wrong after them; what they have cost."""


def _told(error: MinriskError) -> str:
    """An error as a line that Arrow can hold."""
    return "; ".join([str(error), *getattr(error, "__notes__", ())]).encode(errors="backslashreplace").decode()


def _parts_of(path: str, format: Format | None, work: Work) -> ray.data.Dataset:
    """The segments of files as `LINES`, read where the files are."""
    filesystem, files = _listed(path)
    total = max(1, sum(file.size for file in files))
    starts = [sum(file.size for file in files[:number]) / total for number in range(len(files))]
    pieces = [
        {"path": file.path, "name": path if len(files) == 1 else file.path, "start": start, "size": file.size / total}
        for file, start in zip(files, starts, strict=True)
    ]
    here = {f"node:{ray.util.get_node_ip_address()}": 0.001} if isinstance(filesystem, fs.LocalFileSystem) else None
    return ray.data.from_items(pieces, override_num_blocks=len(pieces)).map_batches(
        _read,
        fn_kwargs={"filesystem": filesystem, "format": format, "work": work},
        batch_size=None,
        batch_format="pyarrow",
        num_cpus=0,
        resources=here,
        compute=ray.data.TaskPoolStrategy(size=min(READERS, len(files))),
    )


def _read(pieces: arrow.Table, filesystem: fs.FileSystem, format: Format | None, work: Work) -> Iterator[arrow.Table]:
    for piece in pieces.to_pylist():
        row = {"lines": "", "position": 0, "share": piece["start"]}
        try:
            with filesystem.open_input_file(piece["path"]) as stream:
                opened: list[Input] = []
                segments = read_segments(piece["name"], format, None, opened.append, io.BufferedReader(stream))
                for held, position in parts(segments, work):
                    share = piece["start"] + piece["size"] * (opened[0].share or 0.0)
                    row = {"lines": "\n".join(map(_line, held)), "position": position, "share": share}
                    yield arrow.Table.from_pylist([row], schema=LINES)
        except (MinriskError, OSError) as error:
            failed = _told(error) if isinstance(error, MinriskError) else f"{piece['name']}: cannot be read: {error}"
            yield arrow.Table.from_pylist([row | {"lines": "", "error": failed}], schema=LINES)


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
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # It says much about what goes well.
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False, include_dashboard=False)
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
