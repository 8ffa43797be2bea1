"""Matrix completion: speed against mbrs and dense NumPy, recovery, and quality on real utility matrices.

    python benchmarks/completion.py [--mbrs-python PATH] [--samples FILE] [--segments 40] [--only speed,recovery]

One thread everywhere, and processor time, which other work on the machine disturbs least. mbrs needs an environment of
its own (pip install torch mbrs "setuptools<81"): --mbrs-python, or the variable MINRISK_MBRS_PYTHON, names its Python;
without one, its rows are left out. Prints Markdown.
"""

# ruff: noqa: E402 -- the numbers of threads are read when NumPy is imported

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import gzip
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil
from pathlib import Path

import numpy as np

from minrisk.numeric import designs
from minrisk.numeric.als import als
from minrisk.numeric.completion import ALGORITHMS, completion
from minrisk.numeric.sparse import Observed, observe
from minrisk.utilities.chrf import ChrF

RANK, REGULARIZATION, ITERATIONS = 10, 0.1, 30
SAMPLES = Path(__file__).parents[1] / "../shared/data/test16.jsonl.gz"
BUDGETS = [Fraction(1, share) for share in (64, 32, 16, 8, 4, 2)]
SIZE = 128

# Runs in mbrs' environment. A tolerance of minus infinity keeps it from stopping early: all 30 iterations are done.
MBRS_WORKER = """
import sys, time, json, numpy, torch
torch.set_num_threads(1)
from mbrs.modules.als import MatrixFactorizationALS
data = numpy.load(sys.argv[1])
matrix, mask = torch.tensor(data["matrix"], dtype=torch.float32), torch.tensor(data["mask"])
model = MatrixFactorizationALS(regularization_weight=float(data["regularization"]), rank=int(data["rank"]))
times = []
for _ in range(int(data["repeats"])):
    start = time.process_time()
    x, y = model.factorize(matrix, mask, niter=int(data["iterations"]), tolerance=float("-inf"), seed=0)
    times.append(time.process_time() - start)
numpy.savez(sys.argv[2], x=x.double().numpy(), y=y.double().numpy(), seconds=min(times))
"""


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbrs-python", default=os.environ.get("MINRISK_MBRS_PYTHON"))
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("--segments", type=int, default=40)
    parser.add_argument("--only", default="speed,recovery,quality")
    parser.add_argument("--algorithms", default="", help="only those whose row begins with one of these words")
    arguments = parser.parse_args()
    print(f"Machine: {_processor()}, one core, processor time.")
    print(f"NumPy {np.__version__}, Python {platform.python_version()}.\n")
    if "speed" in arguments.only:
        print_speed(arguments.mbrs_python)
    if "recovery" in arguments.only:
        print_recovery()
    if "quality" in arguments.only:
        words = tuple(arguments.algorithms.split(","))
        chosen = {name: complete for name, complete in COMPLETERS.items() if name.startswith(words)}
        print_quality(arguments.samples, arguments.segments, chosen)


def print_speed(mbrs_python: str | None) -> None:
    """Seconds and objective of 30 iterations at rank 10, ours beside mbrs' and a dense version."""
    if not mbrs_python:
        print("mbrs left out: give its Python with --mbrs-python or MINRISK_MBRS_PYTHON.\n")
    print(f"## ALS: rank {RANK}, lambda {REGULARIZATION}, {ITERATIONS} iterations, values between 0 and 1\n")
    print("| N | budget | implementation | ms | objective | minrisk is faster by |\n|-|-|-|-|-|-|")
    for size, budget in ((128, Fraction(1, 16)), (128, Fraction(1, 4)), (1024, Fraction(1, 32))):
        observed = _example(size, budget)
        ours, fit = _best(lambda cells=observed: _ours(cells), 30 if size < 1000 else 10)
        rows = [("minrisk", ours, fit), ("dense NumPy", *_best(lambda cells=observed: _dense(cells), 2))]
        if mbrs_python:
            rows.append(("mbrs 0.1.8", *_mbrs(observed, mbrs_python)))
        if (size, budget) == (128, Fraction(1, 16)):
            rows.append(("paper, its CPU", 0.2, float("nan")))
        for name, seconds, objective in rows:
            shown = "" if np.isnan(objective) else f"{objective:.4f}"
            print(f"| {size} | {budget} | {name} | {seconds * 1e3:.3g} | {shown} | {seconds / ours:.0f} x |")
    print(
        "\nminrisk's time includes indexing the cells and multiplying the factors out; the others' do not. All do the"
        " same number of iterations, each from its own start, without early stop.\n"
    )


def _ours(observed: Observed) -> float:
    cells = observe(observed.values, observed.rows, observed.columns, observed.shape)
    options = {"rank": RANK, "regularization": REGULARIZATION, "iterations": ITERATIONS}
    return als(cells, np.random.default_rng(0), tolerance=-np.inf, **options).objective


def _dense(observed: Observed) -> float:
    """The same with a dense mask: all Gram matrices of a side as one product of mask and outer products."""
    mask = np.zeros(observed.shape)
    mask[observed.rows, observed.columns] = 1.0
    matrix = np.zeros(observed.shape)
    matrix[observed.rows, observed.columns] = observed.values
    second = np.random.default_rng(0).standard_normal((observed.shape[1], RANK)) / np.sqrt(RANK)
    ridge = REGULARIZATION * np.eye(RANK)
    for _ in range(ITERATIONS):
        for values, seen in ((matrix, mask), (matrix.T, mask.T)):
            outer = (second[:, :, None] * second[:, None, :]).reshape(len(second), -1)
            grams = (seen @ outer).reshape(-1, RANK, RANK) + ridge
            first, second = second, np.linalg.solve(grams, (values @ second)[:, :, None])[:, :, 0]
    return _objective(observed, first, second)


def _mbrs(observed: Observed, python: str) -> tuple[float, float]:
    dense = np.zeros((2, *observed.shape))
    dense[0][observed.rows, observed.columns] = observed.values
    dense[1][observed.rows, observed.columns] = 1.0
    with tempfile.TemporaryDirectory() as folder:
        given, answered = f"{folder}/given.npz", f"{folder}/answered.npz"
        settings = {"rank": RANK, "regularization": REGULARIZATION, "iterations": ITERATIONS}
        repeats = 5 if observed.shape[0] < 1000 else 2
        np.savez(given, matrix=dense[0], mask=dense[1].astype(bool), repeats=repeats, **settings)
        subprocess.run([python, "-c", MBRS_WORKER, given, answered], check=True, stderr=subprocess.DEVNULL)
        with np.load(answered) as answer:
            return float(answer["seconds"]), _objective(observed, answer["x"], answer["y"])


def _objective(observed: Observed, first: np.ndarray, second: np.ndarray) -> float:
    fitted = np.einsum("cr,cr->c", first[observed.rows], second[observed.columns])
    if not np.allclose(fitted, (second @ first.T)[observed.columns, observed.rows]):
        raise AssertionError
    size = np.square(first).sum() + np.square(second).sum()
    return float(np.square(observed.values - fitted).sum() + REGULARIZATION * size)


def print_recovery() -> None:
    """Relative error on exactly low-rank matrices with little shrinkage."""
    print("## Recovery of an exactly rank-3 matrix, N = 100, half of the cells\n")
    print("| algorithm | options | relative error | iterations | converged |\n|-|-|-|-|-|")
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 100))
    rows, columns = designs.uniform(matrix.shape, matrix.size // 2, rng)
    observed = observe(matrix[rows, columns], rows, columns, matrix.shape)
    for algorithm, options in (
        ("als", {"rank": 3, "regularization": 1e-10, "iterations": 300, "tolerance": 1e-10}),
        ("biased", {"rank": 4, "regularization": 1e-9, "iterations": 3000, "tolerance": 1e-8}),
        ("bpmf", {"rank": 3, "iterations": 400}),
        ("soft-impute", {"regularization": 1e-7, "iterations": 3000, "tolerance": 1e-9}),
        ("svt", {"iterations": 2000, "tolerance": 1e-7, "threshold": 5.0}),
    ):
        result = completion(observed, algorithm, 0, keep_observed=False, **options)
        error = np.linalg.norm(result.matrix - matrix) / np.linalg.norm(matrix)
        shown = ", ".join(f"{name} {value:g}" for name, value in options.items())
        print(f"| {algorithm} | {shown} | {error:.1e} | {result.iterations} | {result.converged} |")
    print("\nbpmf is a mean over draws around the matrix, no solution of an equation. mmmf knows grades only, and")
    print("additive no products of rows and columns: neither is meant to recover a matrix.\n")


Completer = Callable[[Observed], np.ndarray]


def _standardised(algorithm: str, divisor: float = 1.0, mirrored: bool = False) -> Completer:
    """Complete z-scores over `divisor`, as method pmbr does; the result in the values' own units."""

    def complete(observed: Observed) -> np.ndarray:
        mean, deviation = observed.values.mean(), observed.values.std() * divisor
        given = observed.with_values((observed.values - mean) / deviation)
        return mean + deviation * completion(given, algorithm, 0, scaled=False, mirrored=mirrored).matrix

    return complete


def _literal(observed: Observed) -> np.ndarray:
    """The paper's: values between 0 and 1, nothing centred, the reconstruction everywhere."""
    return completion(observed, "als", 0, scaled=False, keep_observed=False, tolerance=-np.inf).matrix


COMPLETERS: dict[str, Completer] = {
    "als, as in the paper (0-1 values)": _literal,
    "als on z/16": _standardised("als", 16.0),
    "als on z/16, mirrored": _standardised("als", 16.0, mirrored=True),
    "bpmf on z, mirrored": _standardised("bpmf", mirrored=True),
    **{f"{name} on z": _standardised(name) for name in ALGORITHMS if name != "als"},
}


def print_quality(samples: Path, segments: int, completers: dict[str, Completer]) -> None:
    """Completion error and the paper's rank loss, per algorithm, design and budget."""
    if not samples.exists():
        print(f"Quality left out: {samples} is not there.\n")
        return
    errors: dict[tuple[str, str], list[list[tuple[float, float, float]]]] = {}
    number, clock = 0, dict.fromkeys(completers, 0.0)
    for number, (matrix, weights) in enumerate(_matrices(samples, segments), 1):
        for design in ("uniform", "balanced", "weighted", "balanced, weighted"):
            scores = [_scores(completers, matrix, weights, design, budget, number, clock) for budget in BUDGETS]
            for name in completers:
                errors.setdefault((name, design), []).append([score[name] for score in scores])
        print(f"segment {number}", file=sys.stderr)
    print(f"## Quality: chrF, N = {SIZE} distinct samples, {number} segments\n")
    print(
        "Root mean square error on the cells that were not observed, as a share of the values' standard deviation /"
        " rank of full MBR's choice when sorted by completed row means (1 is best). Self-pairs are never drawn.\n"
    )
    print("| algorithm | design |" + "".join(f" {budget} |" for budget in BUDGETS) + " ms |")
    print("|-" * (3 + len(BUDGETS)) + "|")
    for (name, design), found in errors.items():
        means = np.mean(found, axis=0)
        shown = "".join(f" {error:.2f} / {rank:.1f} |" for error, rank, _ in means)
        spent = clock[name] / (number * 4 * len(BUDGETS)) * 1e3
        print(f"| {name} | {design} |{shown} {spent:.1f} |")


def _scores(
    completers: dict[str, Completer],
    matrix: np.ndarray,
    weights: np.ndarray,
    design: str,
    budget: Fraction,
    number: int,
    clock: dict[str, float],
) -> dict[str, tuple[float, float, float]]:
    """Error, rank and loss of every algorithm on the same cells."""
    rng = np.random.default_rng([number, budget.denominator])
    diagonal = np.eye(SIZE, dtype=bool)
    count = ceil(budget * SIZE * SIZE)
    drawn = {
        "uniform": lambda: designs.uniform(matrix.shape, count, rng, diagonal),
        "balanced": lambda: designs.balanced(matrix.shape, count, rng, diagonal),
        "weighted": lambda: designs.weighted(matrix.shape, count, rng, diagonal, column_weights=weights),
        "balanced, weighted": lambda: designs.balanced(matrix.shape, count, rng, diagonal, column_weights=weights),
    }
    rows, columns = drawn[design]()
    observed = observe(matrix[rows, columns], rows, columns, matrix.shape)
    hidden = ~diagonal
    hidden[rows, columns] = False
    truth = np.where(diagonal, 0.0, matrix) @ weights / (1.0 - weights)
    chosen = int(np.argmax(truth))
    results = {}
    for name, complete in completers.items():
        start = time.process_time()
        completed = complete(observed)
        clock[name] += time.process_time() - start
        error = np.sqrt(np.mean(np.square((completed - matrix)[hidden]))) / observed.values.std()
        means = np.where(diagonal, 0.0, completed) @ weights / (1.0 - weights)
        loss = (truth[chosen] - truth[np.argmax(means)]) / (truth[chosen] - truth.mean())
        results[name] = (float(error), 1.0 + int((means > means[chosen]).sum()), float(loss))
    return results


def _matrices(samples: Path, wanted: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The chrF of all pairs of the first 128 distinct samples, and the share of each among all samples.

    From segments on which no default was tuned: tuning took the first 60 of this order.
    """
    with gzip.open(samples, "rt", encoding="utf-8") as lines:
        segments = [json.loads(line)["hypotheses"] for line in lines]
    found = 0
    for position in np.random.default_rng(7).permutation(len(segments))[100:]:
        texts, counts = np.unique(segments[position], return_counts=True)
        firsts = list(dict.fromkeys(segments[position]))[:SIZE]
        if len(firsts) == SIZE and found < wanted:
            found += 1
            share = dict(zip(texts, counts, strict=True))
            weights = np.array([share[text] for text in firsts], dtype=float)
            yield ChrF().matrix(firsts, firsts) / 100.0, weights / weights.sum()


def _example(size: int, budget: Fraction) -> Observed:
    """Values between 0 and 1: a level, row and column effects, a low-rank part and noise, like a utility matrix."""
    rng = np.random.default_rng(0)
    product = rng.standard_normal((size, 4)) @ rng.standard_normal((4, size)) * 0.03
    effects = 0.06 * (rng.standard_normal((size, 1)) + rng.standard_normal((1, size)))
    matrix = np.clip(0.6 + product + effects + 0.02 * rng.standard_normal((size, size)), 0.0, 1.0)
    rows, columns = designs.uniform(matrix.shape, ceil(budget * size * size), rng)
    return observe(matrix[rows, columns], rows, columns, matrix.shape)


def _best(function: Callable[[], float], repeats: int) -> tuple[float, float]:
    """Least seconds of a call, and what it returned."""
    result, best = function(), np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best, result


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
