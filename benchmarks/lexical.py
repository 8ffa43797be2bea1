"""Lexical utilities side by side with their peers, on one core, n-gram extraction included.

    python benchmarks/lexical.py [SAMPLES.jsonl.gz] [--output TABLE.md] [--quick]

Every time is processor time (other work on the machine does not count), the best of several runs. A peer that is too
slow scores some of the pairs and its time is scaled up to all of them; the table marks that with ~. Peers: fastchrf
(Rust, one thread), sacreBLEU and rouge-score (Python, pair by pair, with their own caches of tokenised texts).
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ["RAYON_NUM_THREADS"] = "1"  # for fastchrf
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numba import njit

from minrisk.numeric import designs, fscores, ngrams, overlap
from minrisk.utilities.bleu import Bleu
from minrisk.utilities.chrf import ChrF
from minrisk.utilities.lexical import NgramUtility, SparseUtility
from minrisk.utilities.rouge import RougeL
from minrisk.utilities.ter import Ter
from minrisk.utilities.words import Jaccard, WordF1

SAMPLES = Path(__file__).parents[2] / "shared" / "data" / "test16.jsonl.gz"
Texts = Sequence[str]


class Result(NamedTuple):
    """Seconds for all pairs, ours and a peer's."""

    task: str
    pairs: int
    ours: float
    peer: str
    theirs: float
    scaled: bool
    target: str

    def line(self) -> str:
        about = "~" if self.scaled else ""
        return (
            f"| {self.task} | {duration(self.ours)} | {1e9 * self.ours / self.pairs:,.0f} ns | {self.peer} | "
            f"{about}{duration(self.theirs)} | {about}{self.theirs / self.ours:,.0f} x | {self.target} |"
        )


def duration(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{1e3 * seconds:,.2f} ms"


def best(run: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs, after one that is not counted."""
    times = []
    for _ in range(repeats + 1):
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    return min(times[1:]) if repeats else times[0]


def read(path: Path) -> list[list[str]]:
    """The distinct samples of each segment, the segments with the most of them first."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        segments = [list(dict.fromkeys(json.loads(line)["hypotheses"])) for line in lines]
    return sorted(segments, key=len, reverse=True)


def pooled(segments: list[list[str]], size: int) -> tuple[list[str], int]:
    """`size` distinct texts of as few segments as possible, and how many segments these are."""
    texts: dict[str, None] = {}
    for used, segment in enumerate(segments, 1):
        texts |= dict.fromkeys(segment)
        if len(texts) >= size:
            return list(texts)[:size], used
    raise SystemExit(f"the samples hold fewer than {size} distinct texts")


def scaled(score: Callable[[str, str], float], texts: Texts, values: Any, count: int) -> float:
    """Seconds that a peer takes for all pairs, from `count` of them, which must equal ours."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, len(texts), size=(2, count)).tolist()
    begin = time.process_time()
    theirs = [score(texts[row], texts[column]) for row, column in zip(rows, columns)]
    spent = time.process_time() - begin
    np.testing.assert_allclose(values[rows, columns], theirs, rtol=0, atol=1e-9)
    return spent / count * len(texts) ** 2


def against_fastchrf(segments: list[list[str]], quick: bool) -> list[Result]:
    import fastchrf

    results = []
    large, used = pooled(segments, 1024)
    of = f"{used} segment{'s' if used > 1 else ''}"
    ours = best(lambda: ChrF().matrix(large, large), 7)
    theirs = best(lambda: fastchrf.pairwise_chrf([large], [large]), 0 if quick else 2)
    results.append(Result(f"chrF 1024 x 1024 ({of})", 1024**2, ours, "fastchrf", theirs, False, "40 x"))
    small = [segment[:128] for segment in segments if len(segment) >= 128][:: 30 if quick else 10]
    ours = best(lambda: [ChrF().matrix(texts, texts) for texts in small], 7)
    theirs = best(lambda: fastchrf.pairwise_chrf(small, small), 1)
    task = f"chrF 128 x 128 ({len(small)} segments)"
    results.append(Result(task, 128**2 * len(small), ours, "fastchrf", theirs, False, "10 x"))
    difference = fastchrf.pairwise_chrf([small[0]], [small[0]])[0] - ChrF().matrix(small[0], small[0])
    print(f"largest difference of a value from fastchrf's: {np.abs(difference).max():.1e}")
    return results


def against_python(texts: Texts, quick: bool) -> list[Result]:
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics import BLEU, CHRF, TER

    rouge = RougeScorer(["rougeL"])
    chrf, plus, bleu, ter = CHRF(), CHRF(word_order=2), BLEU(effective_order=True), TER()
    intl = BLEU(effective_order=True, tokenize="intl")
    tasks: list[tuple[str, SparseUtility, str, Callable[[str, str], float], str]] = [
        ("chrF", ChrF(), "sacreBLEU", lambda a, b: chrf.sentence_score(a, [b]).score, "400 x"),
        ("chrF++", ChrF(word_order=2), "sacreBLEU", lambda a, b: plus.sentence_score(a, [b]).score, ""),
        ("BLEU (13a)", Bleu(), "sacreBLEU", lambda a, b: bleu.sentence_score(a, [b]).score, "100 x"),
        ("BLEU (intl)", Bleu(tokenize="intl"), "sacreBLEU", lambda a, b: intl.sentence_score(a, [b]).score, "100 x"),
        ("TER", Ter(), "sacreBLEU", lambda a, b: ter.sentence_score(a, [b]).score, ""),
        ("ROUGE-L", RougeL(), "rouge-score", lambda a, b: rouge.score(b, a)["rougeL"].fmeasure, ""),
        ("word F1", WordF1(), "Python sets", word_f1, ""),
        ("Jaccard", Jaccard(), "Python sets", jaccard, ""),
    ]
    results = []
    for name, utility, peer, score, target in tasks:
        values = utility.matrix(texts, texts)
        ours = best(lambda utility=utility: utility.matrix(texts, texts), 2 if name == "TER" else 7)
        theirs = min(scaled(score, texts, values, 300 if quick else 2000) for _ in range(2))
        results.append(Result(f"{name} 1024 x 1024", len(texts) ** 2, ours, peer, theirs, True, target))
    return results


def word_f1(candidate: str, pseudo_reference: str) -> float:
    """Word F1 as it is usually written."""
    from collections import Counter

    left, right = Counter(candidate.split()), Counter(pseudo_reference.split())
    return 2 * (left & right).total() / (left.total() + right.total())


def jaccard(candidate: str, pseudo_reference: str) -> float:
    left, right = set(candidate.split()), set(pseudo_reference.split())
    return len(left & right) / len(left | right)


def sparse_lines(utility: NgramUtility, texts: Texts) -> list[str]:
    """A random 1/16 of the cells, as PMBR draws them, beside all; with and without what is done once a text."""
    pairs = len(texts) ** 2
    count = pairs // 16
    rows, columns = designs.uniform((len(texts), len(texts)), count, np.random.default_rng(0))
    whole = best(lambda: utility.matrix(texts, texts), 15)
    some = best(lambda: utility.cells(texts, texts, rows, columns), 15)
    once = best(lambda: overlap.index(ngrams.extract(utility._streams(texts)), len(texts)), 15)
    return [
        f"| {utility.name} {len(texts)} x {len(texts)}, all | {duration(whole)} | {duration(once)} | "
        f"{1e9 * whole / pairs:.1f} ns | {1e9 * (whole - once) / pairs:.1f} ns |",
        f"| {utility.name} {len(texts)} x {len(texts)}, 1/16 | {duration(some)} | {duration(once)} | "
        f"{1e9 * some / count:.1f} ns | {1e9 * (some - once) / count:.1f} ns |",
    ]


@njit
def popcounts(bits: Any, other: Any, rounds: int) -> int:
    """AND and population count of words that stay in the first-level cache."""
    total = np.uint64(0)
    for turn in range(rounds):
        for word in range(bits.size):
            total += overlap.popcount(bits[word] & (other[word] + np.uint64(turn)))
    return total


@njit(error_model="numpy")
def divisions(values: Any, out: Any, rounds: int) -> None:
    for turn in range(rounds):
        for place in range(values.size):
            out[place] += turn / values[place]


def limit_lines(texts: Texts) -> list[str]:
    """What chrF spends on overlaps and on scores, beside what this core needs at least for the same work."""
    utility = ChrF()
    size = len(texts)
    totals, column_totals, features = utility._features(texts, texts)
    made = overlap.index(features, size)
    counted = best(lambda: [None for _ in overlap.tiles(made)], 15)
    _, tile = next(iter(overlap.tiles(made)))
    scores = np.empty((len(tile), size))
    room = np.empty((3, size)), np.empty_like(column_totals)
    of_tile = best(lambda: fscores.tile_scores(tile, totals[: len(tile)], column_totals, 4.0, *room, scores), 50)
    scored = of_tile * size / len(tile)
    words = np.random.default_rng(0).integers(0, 1 << 62, size=1032).astype(np.uint64)
    starts = range(8)  # one of which begins a cache line
    word = (
        min(best(lambda at=at: popcounts(words[at:][:1024], words[at:][:1024], 2000), 3) for at in starts) / 2000 / 1024
    )
    numbers = np.random.default_rng(0).random((2, 1024)) + 1
    division = best(lambda: divisions(numbers[0], numbers[1], 2000), 5) / 2000 / 1024
    whole = best(lambda: utility.matrix(texts, texts), 15)
    streams = best(lambda: utility._streams(texts), 15)
    extracted = best(lambda: ngrams.extract(utility._streams(texts)), 15) - streams
    indexed = best(lambda: overlap.index(features, size), 15)
    rare = len(made.rows.rare) / size
    least_words, least_divisions = size**2 * made.words[-1] * word, size**2 * 15 * division
    rows = [
        ("characters to symbols", streams, ""),
        (f"n-gram extraction ({len(features.ids):,} occurrences)", extracted, ""),
        ("index", indexed, ""),
        (
            f"overlaps: {made.words[-1]} words of common features a pair, {rare:.0f} rare features a text",
            counted,
            f"{duration(least_words)} ({least_words / counted:.0%}): AND and population count at "
            f"{1 / word / 1e9:.0f} G words/s",
        ),
        (
            "F-scores: 15 divisions a pair",
            scored,
            f"{duration(least_divisions)} ({least_divisions / scored:.0%}): division at {1 / division / 1e9:.1f} G/s",
        ),
        (
            "all",
            whole,
            f"{duration(least_words + least_divisions)} of arithmetic ({(least_words + least_divisions) / whole:.0%})",
        ),
    ]
    return [f"| {stage} | {duration(seconds)} | {least} |" for stage, seconds, least in rows]


def peak() -> float:
    """The largest resident size of this process so far, in MiB (Linux)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024


def memory_line(path: Path) -> str:
    """Growth of the largest resident size for N = 4096, in a process of its own."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import lexical\n"
        "texts, used = lexical.pooled(lexical.read(lexical.Path(sys.argv[2])), 4096)\n"
        "lexical.ChrF().matrix(texts[:64], texts[:64])\n"
        "before = lexical.peak()\n"
        "begin = lexical.time.process_time(); lexical.ChrF().matrix(texts, texts)\n"
        "spent = lexical.time.process_time() - begin\n"
        "print(lexical.peak() - before, used, spent)\n"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(path)]
    grown, used, spent = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return (
        f"chrF 4096 x 4096 ({used} segments): {float(spent):.2f} s; the process grows by {float(grown):.0f} MiB at its "
        f"peak, of which the result is {4096**2 * 8 / 2**20:.0f} MiB (target: below 300)."
    )


def compile_line() -> str:
    """Seconds of compilation with an empty cache, in a process of its own."""
    code = (
        "import time, numba, numpy as np\n"
        "from minrisk.utilities.chrf import ChrF\n"
        "begin = time.process_time(); ChrF().matrix(['ab'], ['abc']); matrix = time.process_time() - begin\n"
        "rows = np.arange(9); texts = list('abcdefghi')\n"
        "ChrF().cells(texts, texts, rows, rows); print(matrix, time.process_time() - begin)\n"
    )
    times = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-c", code]
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, env=os.environ | {"NUMBA_CACHE_DIR": cache}
            )
        times.append([float(number) for number in done.stdout.split()])
    matrix, both = np.min(times, axis=0)
    return (
        f"Compilation with a cold cache: {matrix:.1f} s for chrF's matrix, {both:.1f} s with its sparse cells too "
        "(target: below 3)."
    )


def report(path: Path, quick: bool) -> str:
    segments = read(path)
    large, _ = pooled(segments, 1024)
    small = next(segment for segment in segments[len(segments) // 2 :] if len(segment) >= 128)[:128]
    results = against_fastchrf(segments, quick) if importlib.util.find_spec("fastchrf") else []
    results += against_python(large, quick)
    length = np.mean([len(text) for text in large])
    parts = [
        f"1024 distinct samples of {length:.0f} characters on average. One core, processor time, best of several runs.",
        "",
        "| task | minrisk | a pair | peer | peer's time | ratio | target |",
        "| - | -: | -: | - | -: | -: | -: |",
        *[result.line() for result in results],
        "",
        "~ from some pairs, scaled up. Values of these pairs equal the peer's to 1e-9.",
        "",
        "Sparse cells, as PMBR draws them; `once` is what is done once a text (n-grams, index), the last column",
        "leaves it out:",
        "",
        "| cells | all of it | once | a cell | a cell without `once` |",
        "| - | -: | -: | -: | -: |",
        *[line for texts in (small, large) for line in sparse_lines(ChrF(), texts)],
        "",
        "A cell on its own costs more than one of all: where all are wanted, each vector instruction serves eight",
        "columns at once; a lone cell fetches its column by itself. At 1024 texts, 1/16 of the cells takes half of the",
        "time of all, most of it for n-grams; from 1/6 on, all are computed.",
        "",
        "Where chrF 1024 x 1024 spends its time, and the least that this core needs for the same work from its",
        "first-level cache:",
        "",
        "| stage | time | least |",
        "| - | -: | - |",
        *limit_lines(large),
        "",
        memory_line(path),
        "",
        compile_line(),
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("samples", nargs="?", type=Path, default=SAMPLES)
    parser.add_argument("--output", type=Path, help="write the tables to this Markdown file too")
    parser.add_argument("--heading", default="", help="first lines of that file: machine and date")
    parser.add_argument("--quick", action="store_true", help="fewer runs of the slow peers")
    arguments = parser.parse_args()
    if not arguments.samples.exists():
        raise SystemExit(f"skipped: no samples at {arguments.samples}; give a file of segments as JSON Lines (.gz)")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    text = report(arguments.samples, arguments.quick)
    print(text)
    if arguments.output:
        arguments.output.write_text(f"# Lexical utilities\n\n{arguments.heading}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
