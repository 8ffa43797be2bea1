"""Throughput, memory and time to first output of the engine alone, with workers, and on Ray.

    python benchmarks/scale.py                 prints a report in Markdown; about half an hour
    python benchmarks/scale.py --quick         a tenth of it

The metric of the first table takes 1 ms a pair by waiting, so that other load on the machine hardly counts; `--busy`
has it keep the processor busy instead. Every run is a process of its own, and begins with a file of samples. The start
lasts until the metric is first called; what comes after it is compared with the time that the metric itself takes.
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
    "a Ray Dataset, 2 replicas": {"replicas": 2, "dataset": True},
}
BEGUN = "MINRISK_SCALE_BEGUN"
"""The file that tells when the metric was first called, whoever called it."""
SECONDS_A_PAIR = 1e-3
MILESTONES = (1000, 10_000, 50_000, 100_000)


def note_begin() -> None:
    """Tell that the metric is called, if nobody has."""
    file = Path(os.environ[BEGUN])
    if not file.exists():
        file.write_text(str(time.time()))


def waiting(candidates: Sequence[str], _: Sequence[str]) -> list[float]:
    """A metric that takes 1 ms a pair, of no processor's time."""
    note_begin()
    time.sleep(SECONDS_A_PAIR * len(candidates))
    return [float(len(candidate)) for candidate in candidates]


def busy(candidates: Sequence[str], _: Sequence[str]) -> list[float]:
    """A metric that takes 1 ms a pair of the processor's time."""
    note_begin()
    end = time.process_time() + SECONDS_A_PAIR * len(candidates)
    while time.process_time() < end:
        pass
    return [float(len(candidate)) for candidate in candidates]


def free(candidates: Sequence[str], _: Sequence[str]) -> list[float]:
    """A metric that costs nothing."""
    note_begin()
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


def records(
    path: str, metric: str, budget: str, workers: int = 0, replicas: int = 0, dataset: bool = False
) -> Iterator[Any]:
    """The records of a run."""
    utility = minrisk.utility(METRICS[metric], batch_size=64)
    if replicas:
        from minrisk.ray import connected, decode, decode_files, ray

        with connected(None):
            if dataset:
                rows = ray.data.read_json(path)
                yield from decode(rows, utility, "columns", budget, replicas=replicas, cpus_per_replica=0.5).iter_rows()
                return
            work = Work(minrisk.Configuration(utility, "columns", budget), record_of)
            yield from decode_files(path, work, replicas=replicas)
        return
    spread = {"workers": workers} if workers else {}
    for decision in minrisk.decode_corpus(minrisk.read_segments(path), utility, "columns", budget, **spread):
        yield record_of(decision)


def measured(arguments: dict[str, Any]) -> dict[str, Any]:
    """Run here: seconds to the first call, record and the last, calls, and MB held after so many records."""
    begin, clock = time.perf_counter(), time.time()
    first, calls, number = 0.0, 0, 0
    held: dict[int, float] = {}
    for number, record in enumerate(records(**arguments), 1):
        first = first or time.perf_counter() - begin
        calls += record["calls"]
        if number in MILESTONES:
            held[number] = memory()
    total = time.perf_counter() - begin
    start = float(Path(os.environ[BEGUN]).read_text()) - clock
    found = {"start": start, "first": first, "total": total, "calls": calls, "segments": number}
    return found | {"memory": list(held.values())}


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
    begun = folder / "begun"
    begun.unlink(missing_ok=True)
    environment = os.environ | {BEGUN: str(begun)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def throughput(folder: Path, metric: str, segments: int) -> Iterator[str]:
    """A row for each engine: 32 texts a segment, a quarter of the cells scored."""
    yield "| | start, s | first output after it, s | all after it, s | calls a second | overhead | beside the first |"
    yield "| - | -: | -: | -: | -: | -: | -: |"
    alone = 0.0
    for engine, spread in ENGINES.items():
        found = run(folder, engine, segments, 32, metric, "1/4")
        start = found["start"]
        worked = found["total"] - start
        share = found["calls"] * SECONDS_A_PAIR / max([1, *spread.values()])
        overhead = worked / share - 1
        alone = alone or worked / share
        yield (
            f"| {engine} | {start:.1f} | {found['first'] - start:.1f} | {worked:.1f} | {found['calls'] / worked:,.0f} "
            f"| {100 * overhead:.1f} % | {100 * (worked / share / alone - 1):.1f} % |"
        )


def memories(folder: Path, segments: int) -> Iterator[str]:
    """A row for each engine: 8 texts a segment, a metric that costs nothing."""
    counts = [count for count in MILESTONES if count <= segments]
    yield f"| MB held after segments | {' | '.join(f'{count:,}' for count in counts)} | segments a second |"
    yield f"| - | {' | '.join('-:' for _ in counts)} | -: |"
    for engine in ENGINES:
        if engine == "1 worker":  # Which is the engine alone.
            continue
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
        for line in throughput(Path(folder), metric, 32 if options.quick else 320):
            print(line, flush=True)
        print()
        for line in memories(Path(folder), 10_000 if options.quick else 100_000):
            print(line, flush=True)


if __name__ == "__main__":
    main()
