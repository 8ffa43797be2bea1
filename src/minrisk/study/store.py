"""A matrix store: the utilities of all pairs of each segment's pool of samples, computed once.

A folder:

    store.json          what the values are; written last, so that a store that can be opened is complete
    00007.npy           (D, D) utilities of the distinct texts of the eighth segment's pool, memory-mapped when read
    00007.samples.npz   index (P,) the distinct text of each sample of the pool, in drawing order; logprobs and scores
                        of the samples, if given
    00007.metrics.npz   held-out scores of each distinct text against the human reference: (D,) for each metric

P samples of which D differ: duplicates cost nothing.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from minrisk.errors import InputError, MinriskError
from minrisk.formats import read_segments
from minrisk.numeric.sampling import every_cell
from minrisk.problems import merged, problem_of
from minrisk.seeding import digest
from minrisk.store.identity import file_digest
from minrisk.study.files import made_folder, read_arrays, read_json, reason, write_array, write_arrays, write_json
from minrisk.types import FloatArray, IntArray, Segment
from minrisk.utilities.base import EncodedUtility, MatrixUtility, QualityUtility, Utility
from minrisk.utilities.function import Function, QualityFunction
from minrisk.utilities.table import Table
from minrisk.version import __version__

POOL = 1024
DTYPES = ("float32", "float64")
PAIRS_AT_ONCE = 1 << 16
Progress = Callable[[int, int | None], None]
"""Told how much is done, and of how much if that is known."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The samples of one segment and the utilities of their pairs, higher better, a perfect score being about 1.

    matrix       (D, D) float64
    index        (P,) the distinct text of each sample
    self_values  (D,) u(h, h) where the utility knows it without a call, else NaN
    logprobs     (P,) or None; scores likewise
    metrics      of each held-out metric: (D,) against the human reference, on the metric's own scale
    others       matrices (D, D) of other utilities by their signatures, for methods that look at several
    """

    number: int
    id: str
    matrix: FloatArray
    index: IntArray
    self_values: FloatArray
    logprobs: FloatArray | None = None
    scores: FloatArray | None = None
    metrics: dict[str, FloatArray] = field(default_factory=dict)
    others: dict[str, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Store:
    """A complete matrix store; `pool` reads one segment."""

    folder: Path
    about: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """The store in a folder; one that is not complete is an InputError."""
        about = read_json(Path(folder) / "store.json", "the description of a matrix store (see `minrisk study matrix`)")
        if not {"ids", "unit", "higher_is_better", "signature", "knows_self_values"} <= about.keys():
            raise InputError(f"{folder}: this matrix store is not complete; run `minrisk study matrix` again")
        return cls(Path(folder), about)

    @property
    def ids(self) -> list[str]:
        """The segments, in order."""
        return list(self.about["ids"])

    @property
    def unit(self) -> float:
        """What the metric gives a perfect score, 1 if unknown: methods see values divided by it."""
        return float(self.about["unit"])

    @property
    def sign(self) -> float:
        """1 where higher is better, else -1."""
        return 1.0 if self.about["higher_is_better"] else -1.0

    @property
    def signature(self) -> str:
        """All that decides the values."""
        return str(self.about["signature"])

    @property
    def utility(self) -> str:
        """The signature of the utility."""
        return str(self.about["utility_signature"])

    @property
    def metrics(self) -> list[str]:
        """The held-out metrics whose scores are there."""
        return sorted(self.about.get("metrics", {}))

    @property
    def lower_is_better(self) -> list[str]:
        """Those of the held-out metrics of which less is better."""
        return [name for name in self.metrics if not self.about["metrics"][name]["higher_is_better"]]

    def values(self, number: int) -> np.ndarray[Any, Any]:
        """The matrix of a segment as the utility gave it, memory-mapped: (D, D)."""
        path = self.folder / f"{number:05}.npy"
        try:
            return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            again = "remove it, and `minrisk study matrix` computes it anew"
            raise InputError(f"{path}: cannot be read: {reason(error)}; {again}") from error

    def samples(self, number: int) -> dict[str, np.ndarray[Any, Any]]:
        """`index`, and `logprobs` and `scores` if they were given."""
        return read_arrays(self.folder / f"{number:05}.samples.npz")

    def scores(self, metric: str) -> list[FloatArray]:
        """The held-out scores of each segment's distinct texts."""
        key = self.about["metrics"][metric]["key"]
        return [read_arrays(_metrics_path(self.folder, number), [key])[key] for number in range(len(self.ids))]

    def pool(self, number: int, metrics: dict[str, FloatArray] | None = None, unit: float | None = None) -> Pool:
        """One segment in memory, its values oriented and divided by the unit."""
        if unit is not None and not unit > 0:
            raise InputError(f"`unit` must be above zero, got {unit}")
        matrix = np.array(self.values(number), dtype=np.float64) * (self.sign / (unit or self.unit))
        samples = self.samples(number)
        known = np.full(len(matrix), np.nan)
        if self.about["knows_self_values"]:
            known = np.diagonal(matrix).copy()
        return Pool(
            number=number,
            id=self.ids[number],
            matrix=matrix,
            index=samples["index"].astype(np.int64),
            self_values=known,
            logprobs=samples.get("logprobs"),
            scores=samples.get("scores"),
            metrics=metrics or {},
        )


def build_store(
    samples: str | Path | Iterable[Segment],
    utility: Utility,
    folder: str | Path,
    *,
    pool: int = POOL,
    dtype: str = "float32",
    limit: int | None = None,
    metrics: Sequence[Utility] | Mapping[str, Utility] = (),
    progress: Progress | None = None,
) -> Store:
    """Compute the matrices of a samples file, or go on where an interrupted run stopped.

    utility  any; a `Table` takes values that are there already (hypotheses x hypotheses as given)
    pool     samples of each segment that are used: the first so many
    limit    segments that are used: the first so many
    metrics  also score each text against the human reference by these, under their names or those given
    """
    if dtype not in DTYPES:
        raise InputError(f"`dtype` of a matrix store must be one of {', '.join(DTYPES)}, got {dtype!r}")
    for name, count in (("pool", pool), ("limit", limit)):
        if count is not None and count < 1:
            raise InputError(f"`{name}` of a matrix store must be at least 1, got {count}")
    if isinstance(utility, QualityUtility):
        raise InputError(f"utility {utility.name!r} compares with no pseudo-references: there is no matrix to store")
    judges = dict(metrics) if isinstance(metrics, Mapping) else labelled_metrics((one.name, one) for one in metrics)
    target = made_folder(folder)
    about = _about(utility, pool, dtype)
    _check_same(target / "store.json", about["signature"])
    write_json(target / "store.json", about)
    behind = _behind(utility)
    keys = {name: _key(judge) for name, judge in judges.items()}
    segments = islice(read_segments(samples) if isinstance(samples, str | Path) else samples, limit)
    total = _count(samples, limit) if progress is not None else None
    ids: dict[str, None] = {}
    for number, segment in enumerate(segments):
        name = str(number) if segment.id is None else segment.id
        if name in ids:
            raise InputError(f"two segments have the id {name!r}; a study tells segments by their ids")
        try:
            _add_segment(target, number, segment, utility, pool, np.dtype(dtype), behind)
            _add_scores(target, number, segment, {keys[label]: judge for label, judge in judges.items()}, pool)
        except MinriskError as error:
            error.add_note(f"in segment {name!r}")
            raise
        ids[name] = None
        if progress is not None:
            progress(number + 1, total)
    if not ids:
        raise InputError("there are no segments to compute matrices of")
    signature = f"{about['signature']}|samples:{_samples_digest(target, len(ids))}"
    scored = {
        name: {"signature": judge.signature(), "key": keys[name], "higher_is_better": judge.higher_is_better}
        for name, judge in judges.items()
    }
    write_json(target / "store.json", about | {"signature": signature, "ids": list(ids), "metrics": scored})
    return Store.open(target)


def import_matrices(
    path: str | Path, folder: str | Path, *, higher_is_better: bool = True, unit: float = 1.0, dtype: str = "float32"
) -> Store:
    """A store of square matrices without texts: an .npz with one for each segment id, or an .npy with one or a stack.

    All samples count as different, and there are no held-out metrics.
    """
    matrices = _matrices_in(path)
    if not matrices:
        raise InputError(f"{path}: at least one matrix was expected, there is none")
    segments = []
    for name, matrix in matrices.items():
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"{path}: matrix {name!r} must be square (samples x samples), got {matrix.shape}")
        segments.append(Segment(id=name, hypotheses=[str(place) for place in range(len(matrix))]))
    table = Table(values=matrices, higher_is_better=higher_is_better)
    store = build_store(segments, table, folder, pool=max(map(len, matrices.values())), dtype=dtype)
    write_json(store.folder / "store.json", store.about | {"unit": unit})
    return Store.open(folder)


def _matrices_in(path: str | Path) -> dict[str, Any]:
    """The arrays of a file by their names, or by their numbers in a stack."""
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"{path}: an .npy or .npz of matrices was expected: {reason(error)}") from error
    return {str(number): matrix for number, matrix in enumerate(loaded[None] if loaded.ndim == 2 else loaded)}


def slug(name: str) -> str:
    """A name that can be a file's."""
    return re.sub(r"[^A-Za-z0-9.+=-]+", "-", name).strip("-")


def _about(utility: Utility, pool: int, dtype: str) -> dict[str, Any]:
    known = utility.self_values(["a text"])
    perfect = float(known[0]) if known is not None else 1.0
    return {
        "signature": f"minrisk:{__version__}|utility:{utility.signature()}|pool:{pool}|dtype:{dtype}",
        "utility": utility.name,
        "utility_signature": utility.signature(),
        "higher_is_better": utility.higher_is_better,
        "knows_self_values": known is not None,
        "unit": perfect if perfect > 0 else 1.0,
        "pool": pool,
        "metrics": {},
    }


def _check_same(path: Path, signature: str) -> None:
    """An InputError if the folder holds a store of other values."""
    if not path.exists():
        return
    found = str(read_json(path, "the description of a matrix store").get("signature")).partition("|samples:")[0]
    if found != signature:
        raise InputError(f"{path.parent}: holds other matrices ({found}); {signature} needs another folder")


def labelled_metrics(given: Iterable[tuple[str, Utility]]) -> dict[str, Utility]:
    """Held-out metrics by the names that tables show, no two alike."""
    metrics: dict[str, Utility] = {}
    for label, metric in given:
        if label in metrics:
            raise InputError(f"two held-out metrics are called {label!r}; give one a name, as in: other={label}")
        metrics[label] = metric
    return metrics


def _count(samples: str | Path | Iterable[Segment], limit: int | None) -> int | None:
    """How many segments there will be, if that can be told without taking them: then the time left can be, too."""
    if isinstance(samples, str | Path) and Path(samples).is_file():
        return sum(1 for _ in islice(read_segments(samples), limit))
    return min(len(samples), limit or len(samples)) if isinstance(samples, Sized) else limit


def _behind(utility: Utility) -> bytes:
    """What a signature does not tell: the content of a checkpoint, or of the file of a function without a label."""
    files = list(utility.files())
    if isinstance(utility, Function | QualityFunction) and utility.label is None:
        try:
            files = [Path(inspect.getfile(inspect.unwrap(utility.function)))]
        except TypeError:
            files = []
    return digest(file_digest(file) for file in files if file.is_file())


def _mark(segment: Segment, pool: int, *more: bytes) -> np.ndarray[Any, Any]:
    """Bytes that stand for all that the values of a segment depend on."""
    texts = digest((segment.id, segment.source, segment.reference, *segment.hypotheses[:pool], *more))
    return np.frombuffer(texts, dtype=np.uint8)


def _add_segment(
    target: Path, number: int, segment: Segment, utility: Utility, pool: int, dtype: np.dtype[Any], behind: bytes
) -> None:
    """Put a segment on disk, its matrix unless it is there."""
    for name in ("pseudo_references", "weights"):
        if getattr(segment, name) is not None:
            raise InputError(f"a study draws candidates and pseudo-references from one pool; leave `{name}` out")
    done = target / f"{number:05}.samples.npz"
    texts, index, _ = merged(segment.hypotheses[:pool])
    # Values of a table are had for nothing, and nothing else says whether they are still the same.
    given = _matrix(segment, texts, utility, dtype) if isinstance(utility, Table) else None
    mark = _mark(segment, pool, behind if given is None else given.tobytes())
    if not (done.exists() and np.array_equal(read_arrays(done).get("digest", np.empty(0)), mark)):
        matrix = _matrix(segment, texts, utility, dtype) if given is None else given
        write_array(target / f"{number:05}.npy", matrix)
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "index": index.astype(np.int32),
        "digest": mark,
        "texts": _mark(segment, pool),
    }
    if segment.logprobs is not None:
        arrays["logprobs"] = np.array(segment.logprobs[:pool])
    if segment.scores is not None:
        arrays["scores"] = np.array(segment.scores[:pool])
    # Written last: where this file is, the matrix is whole.
    write_arrays(done, arrays)


def _matrix(segment: Segment, texts: Sequence[str], utility: Utility, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The utilities of all pairs of the distinct texts of a segment: (D, D), all finite."""
    if isinstance(utility, Table):
        matrix = _of_table(utility, segment, len(texts))
    else:
        matrix = _all_pairs(utility, texts, segment.source)
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise InputError(f"utility {utility.name!r} gave {matrix[row, column]} for {texts[row]!r}, {texts[column]!r}")
    if np.abs(matrix).max() > np.finfo(dtype).max:
        raise InputError(f"utility {utility.name!r} gave values beyond what {dtype} holds; name another `dtype`")
    return matrix.astype(dtype)


def _all_pairs(utility: Utility, texts: Sequence[str], source: str | None) -> FloatArray:
    """(D, D); utilities that score pair by pair get a bounded number of them at a time, and encode each text once."""
    if isinstance(utility, MatrixUtility):
        return utility.matrix(texts, texts, source)
    step = max(1, PAIRS_AT_ONCE // len(texts))
    starts = range(0, len(texts), step)
    if not isinstance(utility, EncodedUtility):
        return np.concatenate([utility.matrix(texts[row : row + step], texts, source) for row in starts])
    own = [] if source is None or not utility.uses_source else [source]
    known = list(dict.fromkeys([*texts, *own]))
    encodings = utility.represent(known)
    columns = np.arange(len(texts))
    blocks = []
    for row in starts:
        rows = columns[row : row + step]
        places = np.full(len(rows) * len(texts), known.index(own[0]) if own else -1)
        values = utility.compare(encodings, np.repeat(rows, len(texts)), np.tile(columns, len(rows)), places)
        blocks.append(values.reshape(len(rows), len(texts)))
    return np.concatenate(blocks)


def _of_table(table: Table, segment: Segment, size: int) -> FloatArray:
    """The rows and columns of the first `size` distinct texts."""
    problem = problem_of(segment, table, Fraction(1))
    return table.answer(problem, every_cell((size, size))).reshape(size, size)


def _add_scores(target: Path, number: int, segment: Segment, metrics: Mapping[str, Utility], pool: int) -> None:
    """Put the scores of a segment's distinct texts against its reference on disk, those that are not there."""
    path, mark = _metrics_path(target, number), _mark(segment, pool)
    found = read_arrays(path) if path.exists() else {}
    if not np.array_equal(found.get("digest", np.empty(0)), mark):
        found = {"digest": mark}
    missing = {key: metric for key, metric in metrics.items() if key not in found}
    if not missing:
        return
    texts = merged(segment.hypotheses[:pool])[0]
    for key, metric in missing.items():
        if segment.reference is None and not isinstance(metric, QualityUtility):
            raise InputError(f"held-out metric {metric.name!r} needs the human `reference`, and the segment has none")
        scores = metric.matrix(texts, [segment.reference or ""], segment.source)[:, 0]
        found[key] = np.asarray(scores, dtype=np.float64)
        if not np.isfinite(found[key]).all():
            row = int(np.flatnonzero(~np.isfinite(found[key]))[0])
            raise InputError(f"held-out metric {metric.name!r} gave {found[key][row]} for {texts[row]!r}")
    write_arrays(path, found)


def _metrics_path(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.metrics.npz"


def _key(metric: Utility) -> str:
    """What the scores of a metric are filed under."""
    return digest((metric.signature(), _behind(metric))).hex()[:16]


def _samples_digest(target: Path, count: int) -> str:
    """Eight hexadecimal digits that stand for all texts of the store."""
    marks = (read_arrays(target / f"{number:05}.samples.npz")["digest"].tobytes() for number in range(count))
    return digest(marks).hex()[:8]
