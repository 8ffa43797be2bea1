"""The paper's experiment: draw samples from each segment's pool, run every method on every budget, many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from time import process_time

import numpy as np

from minrisk.budgets import Budget
from minrisk.errors import InputError
from minrisk.study.baselines import PAPER, Contender, contenders
from minrisk.study.parallel import spread
from minrisk.study.records import BLOCK, Records, Shard
from minrisk.study.store import Pool, Progress, Store
from minrisk.study.trials import draw_samples, outcomes, runs, shares_of
from minrisk.types import FloatArray, Method
from minrisk.version import __version__

SIZES = (32, 64, 128, 256)
BUDGETS = ("1/32", "1/16", "1/8", "1/4", "1/2")
TRIALS = 1000


@dataclass(frozen=True)
class Design:
    """What a simulation runs; the defaults are the paper's.

    unit     methods see the metric's values divided by this; by default a perfect score, so that the paper's
             regularization means what it means on its metrics, which lie between 0 and 1
    without  ids of segments that are left out, such as those that the tuning has seen
    """

    methods: tuple[str, ...] = PAPER
    sizes: tuple[int, ...] = SIZES
    budgets: tuple[Budget, ...] = BUDGETS
    trials: int = TRIALS
    seed: int = 0
    keep_duplicates: bool = False
    unit: float | None = None
    tuned: Method | None = None
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise InputError(f"`trials` must be at least 1, got {self.trials}")
        if not self.sizes or not all(isinstance(size, int) and size >= 1 for size in self.sizes):
            raise InputError(f"`sizes` must be numbers of samples of at least 1, got {self.sizes}")
        object.__setattr__(self, "sizes", tuple(dict.fromkeys(self.sizes)))
        object.__setattr__(self, "budgets", tuple(shares_of(self.budgets)))
        if self.unit is not None and not self.unit > 0:
            raise InputError(f"`unit` must be above zero, got {self.unit}")

    @property
    def shares(self) -> list[Fraction | int]:
        """The budgets as numbers."""
        return shares_of(self.budgets)

    @property
    def contenders(self) -> list[Contender]:
        """The methods, full MBR first."""
        return contenders(self.methods, self.tuned)

    def about(self, store: Store, others: Sequence[Store] = ()) -> dict[str, object]:
        """All that decides the records; trials and sizes may be added later."""
        signature = {
            "minrisk": __version__,
            "values": store.signature,
            "methods": [contender.signature for contender in self.contenders],
            "seed": self.seed,
            "keep_duplicates": self.keep_duplicates,
            "unit": self.unit or store.unit,
            "without": list(self.without),
        }
        if others:
            signature["others"] = [other.signature for other in others]
        return {
            "signature": signature,
            "utility": store.about["utility"],
            "higher_is_better": store.about["higher_is_better"],
            "runs": runs(self.contenders, self.shares),
            "budgets": [str(share) for share in self.shares],
            "metrics": store.metrics,
            "lower_is_better": store.lower_is_better,
        }


def simulate(
    store: Store,
    folder: str | Path,
    design: Design | None = None,
    *,
    others: Sequence[Store] = (),
    workers: int | None = None,
    progress: Progress | None = None,
) -> Records:
    """Run a design on the matrices of a store and write its records; what is there already is not done again.

    others  stores of the same samples under other utilities, for methods that look at these too
    """
    design = design or Design()
    _check_others(store, others, design)
    unknown = sorted(set(design.without) - set(store.ids))
    if unknown:
        raise InputError(f"`without` names segments that the store does not have: {', '.join(unknown[:5])}")
    kept = [number for number, name in enumerate(store.ids) if name not in set(design.without)]
    if not kept:
        raise InputError("no segment is left: the tuning has seen all of them, or `without` names them all")
    records = Records.create(folder, design.about(store, others))
    blocks = [(first, min(first + BLOCK, design.trials)) for first in range(0, design.trials, BLOCK)]
    shards = [Shard(size, number, *block) for size in design.sizes for number in kept for block in blocks]
    missing = [shard for shard in shards if not records.has(shard)]
    # The largest first: at the end, no process waits long for another. Shards of a segment follow each other.
    missing.sort(key=lambda shard: -shard.size)
    total = sum(shard.cost for shard in shards)
    done = total - sum(shard.cost for shard in missing)
    folders = tuple(other.folder for other in others)
    tasks = [(store.folder, records.folder, design, shard, folders) for shard in missing]
    if progress is not None:
        progress(done, total)
    for number, _ in spread(run_shard, tasks, workers):
        done += missing[number].cost
        if progress is not None:
            progress(done, total)
    records.finish(design.sizes, kept, design.trials)
    return records


def _check_others(store: Store, others: Sequence[Store], design: Design) -> None:
    """Whether all utilities that methods look at are there, on the same samples."""
    for other in others:
        if other.ids != store.ids:
            raise InputError(f"{other.folder}: holds other segments than {store.folder}")
        for number, name in enumerate(store.ids):
            if not np.array_equal(store.samples(number)["texts"], other.samples(number)["texts"]):
                raise InputError(f"{other.folder}, segment {name!r}: other samples than in {store.folder}")
    known = {store.utility, *(other.utility for other in others)}
    for contender in design.contenders:
        for signature in contender.auxiliaries.values():
            if signature not in known:
                raise InputError(
                    f"method {contender.label!r} looks at {signature} too: compute its matrices on the same samples "
                    "(`minrisk study matrix`) and name them (--other FOLDER)"
                )


def run_shard(
    store_folder: Path, records_folder: Path, design: Design, shard: Shard, others: tuple[Path, ...] = ()
) -> None:
    """Compute and write one shard."""
    begin = process_time()
    pool, unit = _pool((store_folder, *others), shard.segment, design.unit)
    chosen, shares = design.contenders, design.shares
    wanted = {signature for contender in chosen for signature in contender.auxiliaries.values()}
    pool = replace(pool, others={signature: pool.others[signature] for signature in wanted})
    width = len(runs(chosen, shares))
    shape = (shard.last - shard.first, width)
    choice, rows = np.empty(shape, np.int32), np.empty(shape, np.int64)
    calls, rank = np.empty(shape, np.int32), np.empty(shape, np.int32)
    expected = np.empty(shape)
    for place, trial in enumerate(range(shard.first, shard.last)):
        drawn = draw_samples(pool, shard.size, design.seed, trial, design.keep_duplicates)
        values, found = outcomes(drawn, chosen, shares, design.seed)
        chosen_rows = np.array([outcome.choice for outcome in found])
        choice[place], rows[place] = drawn.positions[chosen_rows], drawn.rows[chosen_rows]
        calls[place] = [outcome.calls for outcome in found]
        rank[place] = [outcome.rank for outcome in found]
        expected[place] = values[chosen_rows] * unit
    arrays = {"choice": choice, "calls": calls, "rank": rank, "expected": expected.astype(np.float32)}
    # The first run is full MBR's: what a choice falls short of it, before rounding to single precision.
    arrays["regret"] = np.abs(expected[:, :1] - expected).astype(np.float32)
    arrays |= {f"score.{metric}": scores[rows].astype(np.float32) for metric, scores in pool.metrics.items()}
    arrays["seconds"] = np.array(process_time() - begin)
    Records(records_folder, {}).write(shard, arrays)


_opened: dict[tuple[Path, ...], tuple[list[Store], dict[str, list[FloatArray]]]] = {}
_latest: dict[tuple[tuple[Path, ...], int, float | None], Pool] = {}
"""What a process has read: shards of a segment follow each other."""


def _pool(folders: tuple[Path, ...], number: int, unit: float | None) -> tuple[Pool, float]:
    """A segment's pool, and what turns its values into the metric's own."""
    if folders not in _opened:
        _opened.clear()
        _latest.clear()
        store, *others = map(Store.open, folders)
        _opened[folders] = [store, *others], {metric: store.scores(metric) for metric in store.metrics}
    (store, *others), scores = _opened[folders]
    key = folders, number, unit
    if key not in _latest:
        _latest.clear()
        own = store.pool(number, {name: of[number] for name, of in scores.items()}, unit)
        own.others[store.utility] = own.matrix
        own.others.update((other.utility, other.pool(number).matrix) for other in others)
        _latest[key] = own
    return _latest[key], store.sign * (unit or store.unit)


def paper_sizes(limit: int, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
    """The sizes that a pool of `limit` samples allows."""
    return tuple(size for size in sizes if size <= limit)
