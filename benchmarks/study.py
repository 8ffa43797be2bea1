"""How long the paper's experiments take on one samples file.

    python benchmarks/study.py [--samples FILE] [--segments 200] [--trials 50]
    python benchmarks/study.py --trials 1000                                      the whole grid, nothing extrapolated

Two processes with one thread each run a share of the trials of the paper's grid at N=128 (FMBR, PMBR, NxK, SxS; five
budgets; 1000 trials; 200 segments), with duplicates kept, as in the paper, and merged. Processor time is what counts on
a shared machine: whole grid = start + trials x what is left out. Without the samples file it says so and does nothing.
"""

# ruff: noqa: E402 -- the numbers of threads are read when NumPy is imported

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import platform
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from minrisk import study, utility
from minrisk.budgets import calls_allowed
from minrisk.study.trials import Drawn, concluded, draw_samples

SAMPLES = Path(__file__).parents[2] / "shared" / "data" / "test16.jsonl.gz"
WORKERS = 2
SIZE = 128
GRID_TRIALS, GRID_SEGMENTS = 1000, 200
TARGET = 20
"""Minutes on two cores."""
PAPER_MACHINES, PAPER_MINUTES, PAPER_ALS = 1000, 15, 200
"""Machines and minutes for each budget and list size, and milliseconds for ALS, by the paper."""


def main() -> None:
    """Run a share of the grid and print what the whole takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("--segments", type=int, default=GRID_SEGMENTS, help="segments run")
    parser.add_argument("--trials", type=int, default=50, help="trials run")
    options = parser.parse_args()
    if not options.samples.is_file():
        print(f"skipped: {options.samples} is not there; name a samples file with --samples")
        return
    print(
        f"FMBR, PMBR, NxK, SxS; {', '.join(study.BUDGETS)}; N={SIZE}; {WORKERS} processes "
        f"({platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} cores)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        store = study.build_store(options.samples, utility("chrf"), Path(folder) / "matrices", limit=options.segments)
        # Compiled code is loaded from disk from here on.
        study.simulate(
            store, Path(folder) / "warm", study.Design(sizes=(SIZE,), trials=1, without=tuple(store.ids[1:]))
        )
        measure(store, Path(folder), options.trials)
        print(f"\nMilliseconds of a PMBR decode; the paper: {PAPER_ALS} for ALS alone.\n")
        print(one_decode(store))


def measure(store: study.Store, folder: Path, trials: int) -> None:
    """Print a table of what the trials took, and how that compares with the target and with the paper."""
    print(
        "| duplicates | segments x trials | wall s | CPU s, start | CPU s, trials | ms a trial | whole grid, 2 cores |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    count = len(store.ids)
    share = trials * count / (GRID_TRIALS * GRID_SEGMENTS)
    for keep in (True, False):
        design = study.Design(sizes=(SIZE,), trials=trials, keep_duplicates=keep)
        begin, before = time.perf_counter(), _cpu_seconds()
        records = study.simulate(store, folder / f"records-{keep}", design, workers=WORKERS)
        wall, spent = time.perf_counter() - begin, _cpu_seconds() - before
        start = spent - records.seconds
        minutes = (start + records.seconds / share) / WORKERS / 60
        print(
            f"| {'kept' if keep else 'merged'} | {count} x {trials} | {wall:.0f} | {start:.1f} | {records.seconds:.1f} "
            f"| {1000 * records.seconds / (count * trials):.2f} | {minutes:.1f} min |",
            flush=True,
        )
        if keep:
            said = _said(minutes, share)
    print(said)


def _said(minutes: float, share: float) -> str:
    extent = "all of the grid" if share == 1 else f"extrapolated from {100 * share:.3g} % of the grid"
    machines = PAPER_MACHINES * PAPER_MINUTES * len(study.BUDGETS)
    return (
        f"\nDuplicates kept, {extent}: {minutes:.1f} minutes of two cores (target: {TARGET}), "
        f"{WORKERS * minutes:.0f} core-minutes. "
        f"The paper: {PAPER_MACHINES:,} machines x {PAPER_MINUTES} minutes x {len(study.BUDGETS)} budgets, "
        f"{machines:,} machine-minutes, {machines / (WORKERS * minutes):,.0f} times as many."
    )


def one_decode(store: study.Store, segments: int = 10, trials: int = 4) -> str:
    """Markdown: milliseconds for PMBR as published with 30 iterations of rank 10, values at hand, duplicates kept."""
    pmbr = study.contenders(["PMBR"])[1]
    draws = [
        draw_samples(store.pool(number), SIZE, 0, trial, keep_duplicates=True)
        for number in range(min(segments, len(store.ids)))
        for trial in range(trials)
    ]
    return "\n".join(
        (
            f"| {' | '.join(study.BUDGETS)} |",
            f"|{'--:|' * len(study.BUDGETS)}",
            f"| {' | '.join(f'{_milliseconds(draws, budget, pmbr):.2f}' for budget in study.Design().shares)} |",
        )
    )


def _milliseconds(draws: Sequence[Drawn], budget: Fraction | int, contender: study.Contender) -> float:
    begin = time.process_time()
    for drawn in draws:
        problem = replace(drawn.problem, budget=calls_allowed(budget, drawn.problem.size))
        concluded(problem, drawn.matrix, contender, 0)
    return 1000 * (time.process_time() - begin) / len(draws)


def _cpu_seconds() -> float:
    """Of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
