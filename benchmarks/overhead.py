"""The engine's own cost: what a decoded segment and a cell cost when the metric is free (a table of values).

    python benchmarks/overhead.py            prints a table in Markdown
    python benchmarks/overhead.py --quick    fewer repetitions

One thread, and processor time, the best of several runs: other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator, Mapping

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

import minrisk
from minrisk.testing import random_table

SIZES = (32, 128, 1024)
WINDOWS = (1, 256)
RUNS = (("full", 1.0), ("columns", "1/16"), ("square", "1/16"), ("pmbr", "1/16"))


class Everywhere(Mapping[str, NDArray[np.floating]]):
    """One table for every segment."""

    def __init__(self, table: NDArray[np.floating]) -> None:
        self.table = table

    def __getitem__(self, _: str) -> NDArray[np.floating]:
        return self.table

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def segments(count: int, size: int) -> Iterator[minrisk.Segment]:
    """Segments whose texts are all different."""
    for number in range(count):
        texts = [f"sample {number} {place} of a sentence" for place in range(size)]
        yield minrisk.Segment(id=str(number), hypotheses=texts)


def seconds(count: int, size: int, method: str, budget: float | str, window: int, utility: minrisk.Utility) -> float:
    """How much processor time `count` segments take."""
    begin = time.process_time()
    for _ in minrisk.decode_corpus(segments(count, size), utility, method, budget, window=window):
        pass
    return time.process_time() - begin


def costs(repeats: int) -> Iterator[str]:
    """A row for each size, method and window."""
    yield "| N | method | budget | calls | window | ms a segment | µs a call |"
    yield "| ---: | --- | --- | ---: | ---: | ---: | ---: |"
    for size in SIZES:
        table = minrisk.utility("table", values=Everywhere(random_table(size, size, np.random.default_rng(0))))
        count = max(4, 4096 // size)
        for method, budget in RUNS:
            calls = next(minrisk.decode_corpus(segments(1, size), table, method, budget)).calls
            for window in WINDOWS:
                best = min(seconds(count, size, method, budget, window, table) for _ in range(repeats)) / count
                cost = f"{1e3 * best:.3f} | {1e6 * best / calls:.3f}"
                yield f"| {size} | {method} | {budget} | {calls:,} | {window} | {cost} |"


def memory(counts: tuple[int, ...] = (100, 1000, 10_000)) -> Iterator[str]:
    """Peak memory of this process after so many segments, N = 128, PMBR at 1/16, window 256."""
    yield "| segments | peak memory of the process, MB |"
    yield "| ---: | ---: |"
    table = minrisk.utility("table", values=Everywhere(random_table(128, 128, np.random.default_rng(0))))
    for count in counts:
        seconds(count, 128, "pmbr", "1/16", 256, table)
        yield f"| {count:,} | {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for line in costs(repeats=2 if options.quick else 5):
        print(line, flush=True)
    print()
    for line in memory((100, 1000) if options.quick else (100, 1000, 10_000)):
        print(line, flush=True)
