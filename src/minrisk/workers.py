"""Segments shared out among processes: each runs the ordinary engine on a few at a time, and results keep their order.

Segments and results pass between the processes as `multiprocessing` passes them, between our own and nobody else's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, TypeVar

from minrisk.budgets import calls_allowed
from minrisk.decoding import Work
from minrisk.engine import scorers_of
from minrisk.errors import InputError, MinriskError
from minrisk.parallel import in_order, pool
from minrisk.scoring import Ledger, Scorer
from minrisk.scripts import from_file, loaded
from minrisk.store import Store
from minrisk.types import TARGET, Segment
from minrisk.utilities.base import EncodedUtility, MatrixUtility

SEGMENTS, CALLS = 64, 2048
"""What a worker is given at a time: enough to fill the batches of a metric, little enough for all to end together."""
SPARED = 16
"""A method that stops when it is sure is taken to need one in so many of the calls that it may make."""
AHEAD = 2
"""Tasks under way for each worker, so that none waits for the first process."""


def results_of_workers(
    segments: Iterable[Segment | Mapping[str, Any]],
    work: Work,
    workers: int,
    store: Store | None,
    ledger: Ledger,
    first: int,
) -> Iterator[Any]:
    """What `work` makes of each segment, in order."""
    kept = None
    if store is not None:
        kept = store.path, store.matrix
        scorers_of(work.configuration.utilities, Ledger(), store)  # What cannot be kept is refused here and now.
    aside = sys.stdout is sys.stderr
    scripts = [Path(str(module.__file__)) for module in loaded()]
    with pool(workers, _prepare, scripts, _packed(work), kept, aside) as executor:
        try:
            for results, spent in in_order(executor, _decide, parts(segments, work, first), AHEAD * workers):
                ledger.add(spent)
                yield from results
        except BrokenProcessPool as error:
            raise MinriskError(
                "a worker has died, maybe for want of memory: use fewer --workers; and where minrisk is used in a "
                'script, its work must stand under `if __name__ == "__main__":`'
            ) from error


def _packed(work: Work) -> bytes:
    try:
        return bytes(ForkingPickler.dumps(work))
    except Exception as error:
        raise InputError(
            f"workers cannot be given utility {work.configuration.utility.name!r} or its method: functions and classes "
            f"must stand at the top of a module, where another process can import them ({error})"
        ) from error


Given = TypeVar("Given", bound=Segment | Mapping[str, Any])


def parts(segments: Iterable[Given], work: Work, first: int = 0) -> Iterator[tuple[list[Given], int]]:
    """Segments, a few at a time, with the position of the first of them."""
    held: list[Given] = []
    cost = 0.0
    position = first
    for segment in segments:
        held.append(segment)
        cost += _cost(segment, work)
        if cost >= CALLS or len(held) >= min(SEGMENTS, work.window):
            yield held, position
            position += len(held)
            held, cost = [], 0.0
    if held:
        yield held, position


def _cost(segment: Segment | Mapping[str, Any], work: Work) -> float:
    """About what a segment costs, in calls; a record that is none costs nothing before that is told."""
    if not isinstance(segment, Segment):
        return 0.0
    rows, columns = len(segment.hypotheses), len(segment.columns_given)
    if isinstance(work.configuration.utility, EncodedUtility):
        return 4.0 * (rows if segment.pseudo_references is None else rows + columns)
    calls = calls_allowed(work.configuration.budget, rows * columns)
    if getattr(work.configuration.method, "confidence", None) is not None:  # It is allowed more than it will take.
        calls = math.ceil(calls / SPARED)
    return calls / 64 if isinstance(work.configuration.utility, MatrixUtility) else float(calls)


@dataclass
class _Worker:
    """What a process keeps from task to task: models that are loaded, pairs that are known."""

    work: Work
    scorers: dict[str, Scorer]
    aside: bool


_prepared: list[_Worker | Exception] = []


def _prepare(scripts: list[Path], packed: bytes, kept: tuple[Path, bool] | None, aside: bool) -> None:
    try:
        with redirect_stdout(sys.stderr) if aside else nullcontext():
            for script in scripts:
                from_file(script)
            work: Work = ForkingPickler.loads(packed)
            store = None if kept is None else Store(kept[0], matrix=kept[1])
            scorers = scorers_of(work.configuration.utilities, Ledger(), store)
    except Exception as error:  # To be told where it is heard: with the first task.
        _prepared.append(error)
    else:
        _prepared.append(_Worker(work, scorers, aside))


def _decide(segments: list[Segment | Mapping[str, Any]], first: int) -> tuple[list[Any], Ledger]:
    (worker,) = _prepared
    if isinstance(worker, Exception):
        raise worker
    with redirect_stdout(sys.stderr) if worker.aside else nullcontext():
        results = list(worker.work.results(segments, first, scorers=worker.scorers))
    return results, worker.scorers[TARGET].ledger.taken()
