"""Throughput, memory and time to first output of the engine alone, with workers, and on Ray.

    python benchmarks/scale.py                 prints a report in Markdown; about ten minutes
    python benchmarks/scale.py --quick         a tenth of the work

The metric of the first table takes 1 ms a pair by waiting, so that other load on the machine does not count; `--busy`
has it keep the processor busy instead. Every run is a process of its own, and begins with a file of samples.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import minrisk
from minrisk.decoding import Work
from minrisk.formats import record_of

ENGINES = {
    "the engine alone": {},
    "1 worker": {"workers": 1},
    "2 workers": {"workers": 2},
    "Ray, 1 replica": {"replicas": 1},
    "Ray, 2 replicas": {"replicas": 2},
}
SECONDS_A_PAIR = 1e-3
MILESTONES = (1000, 10_000, 50_000, 100_000)


def waiting(candidates: Sequence[str], _: Sequence[str]) -> list[float]:
    """A metric that takes 1 ms a pair, of no processor's time."""
    time.sleep(SECONDS_A_PAIR * len(candidates))
    return [float(len(candidate)) for candidate in candidates]


def busy(candidates: Sequence[str], _: Sequence[str]) -> list[float]:
    """A metric that takes 1 ms a pair of the processor's time."""
    end = time.process_time() + SECONDS_A_PAIR * len(candidates)
    while time.process_time() < end:
        pass
    return [float(len(candidate)) for candidate in candidates]


def free(candidates: Sequence[str], _: Sequence[str]) -> list[float]:
    """A metric that costs nothing."""
    return [float(len(candidate)) for candidate in candidates]


METRICS = {metric.__name__: metric for metric in (waiting, busy, free)}


def write_samples(path: Path, segments: int, size: int) -> None:
    """A file of segments whose texts are all different, 60 characters each."""
    words = ["the", "of", "and", "to", "in", "is", "was", "for", "on", "that", "with", "as", "it", "by", "at", "from"]
    rng = random.Random(0)
    with path.open("w") as file:
        for number in range(segments):
            texts = [f"{number} {place} {' '.join(rng.choices(words, k=14))}" for place in range(size)]
            file.write(json.dumps({"id": str(number), "hypotheses": texts}) + "\n")


def records(path: str, metric: str, budget: str, workers: int = 0, replicas: int = 0) -> Iterator[Any]:
    """The records of a run."""
    utility = minrisk.utility(METRICS[metric], batch_size=64)
    if replicas:
        from minrisk.ray import connected, decode_files

        with connected(None):
            work = Work(minrisk.Configuration(utility, "columns", budget), record_of)
            yield from decode_files(path, work, replicas=replicas)
        return
    spread = {"workers": workers} if workers else {}
    for decision in minrisk.decode_corpus(minrisk.read_segments(path), utility, "columns", budget, **spread):
        yield record_of(decision)


def measured(arguments: dict[str, Any]) -> dict[str, Any]:
    """Run here: seconds to the first record and to the last, calls, and MB held after so many records."""
    begin = time.perf_counter()
    first, calls, number = 0.0, 0, 0
    held: dict[int, float] = {}
    for number, record in enumerate(records(**arguments), 1):
        first = first or time.perf_counter() - begin
        calls += record["calls"]
        if number in MILESTONES:
            held[number] = memory()
    total = time.perf_counter() - begin
    return {"first": first, "total": total, "calls": calls, "segments": number, "memory": list(held.values())}


def memory() -> float:
    """MB that this process and those that it has started hold now; what they share is counted once."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in family} - family:
        family |= more
    total = 0
    for process in family:
        try:
            total += int(re.findall(r"^Pss: +([0-9]+)", Path(f"/proc/{process}/smaps_rollup").read_text(), re.M)[0])
        except OSError:
            continue
    return total / 1024


def run(folder: Path, engine: str, segments: int, size: int, metric: str, budget: str) -> dict[str, Any]:
    """What `measured` finds in a process of its own."""
    path = folder / f"{segments}-{size}.jsonl"
    if not path.exists():
        write_samples(path, segments, size)
    given = {"path": str(path), "metric": metric, "budget": budget} | ENGINES[engine]
    command = [sys.executable, __file__, "--run", json.dumps(given)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def throughput(folder: Path, metric: str, segments: int) -> Iterator[str]:
    """A row for each engine: 32 texts a segment, a quarter of the cells scored."""
    yield "| | start, s | all, s | calls a second after the start | of the ideal | first output, s |"
    yield "| - | -: | -: | -: | -: | -: |"
    for engine, spread in ENGINES.items():
        start = run(folder, engine, 1, 2, metric, "1/4")["total"]
        found = run(folder, engine, segments, 32, metric, "1/4")
        rate = found["calls"] / (found["total"] - start)
        ideal = max(1, *spread.values(), 1) / SECONDS_A_PAIR
        yield (
            f"| {engine} | {start:.1f} | {found['total']:.1f} | {rate:,.0f} | {100 * rate / ideal:.1f} % "
            f"| {found['first']:.1f} |"
        )


def memories(folder: Path, segments: int) -> Iterator[str]:
    """A row for each engine: 8 texts a segment, a metric that costs nothing."""
    counts = [count for count in MILESTONES if count <= segments]
    yield f"| MB held after segments | {' | '.join(f'{count:,}' for count in counts)} | segments a second |"
    yield f"| - | {' | '.join('-:' for _ in counts)} | -: |"
    for engine in ENGINES:
        found = run(folder, engine, segments, 8, "free", "1.0")
        cells = " | ".join(f"{megabytes:,.0f}" for megabytes in found["memory"])
        yield f"| {engine} | {cells} | {found['segments'] / found['total']:,.0f} |"


def main() -> None:
    """Print the report, or do one run of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(measured(json.loads(options.run))))
        return
    metric = "busy" if options.busy else "waiting"
    with tempfile.TemporaryDirectory() as folder:
        for line in throughput(Path(folder), metric, 16 if options.quick else 160):
            print(line, flush=True)
        print()
        for line in memories(Path(folder), 10_000 if options.quick else 100_000):
            print(line, flush=True)


if __name__ == "__main__":
    main()
