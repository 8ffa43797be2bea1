"""Every method at equal calls: loss, agreement with full MBR, calls used, score against the human reference.

    python benchmarks/methods.py [--samples ../shared/data/test16.jsonl.gz] [--size 128] [--utility chrf]

Loss is (full MBR's expected utility - the choice's) / (full MBR's - the average candidate's): 0 is as good as full MBR,
1 no better than a random sample. Segments where all candidates are equally good are left out of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import minrisk
from minrisk.types import Decision, Segment

BUDGETS = ("1/128", "1/64", "1/32", "1/16", "1/8", "1/4")
METHODS: tuple[tuple[str, dict[str, object]], ...] = (
    ("columns", {}),
    ("square", {}),
    ("pmbr", {"paper": True}),
    ("pmbr", {}),
    ("pmbr", {"mirrored": True}),
    ("pmbr", {"design": "weighted"}),
    ("pmbr", {"design": "weighted", "mirrored": True}),
    ("pruning", {}),
    ("halving", {}),
    ("halving", {"order": "frequent"}),
    ("frontier", {"surrogate": None}),
    ("frontier", {"surrogate": "word_f1"}),
    ("aggregate", {}),
    ("aggregate", {"groups": 8}),
    ("aggregate_to_fine", {}),
    ("centroid", {}),
    ("coarse_to_fine", {"coarse": "word_f1"}),
    ("prefilter", {"by": "logprobs"}),
    ("random", {}),
    ("map", {}),
)


def segments(path: Path, size: int, draws: int) -> Iterator[Segment]:
    """`draws` random subsets of the samples of each segment; duplicates kept."""
    for segment in minrisk.read_segments(path):
        assert segment.logprobs is not None
        for draw in range(draws):
            name = f"{segment.id}/{draw}"
            places = np.random.default_rng([draw, *name.encode()]).permutation(len(segment.hypotheses))[:size]
            yield Segment(
                id=name,
                source=segment.source,
                hypotheses=[segment.hypotheses[place] for place in places],
                logprobs=[segment.logprobs[place] for place in places],
                reference=segment.reference,
            )


def losses(exact: Sequence[Decision], decisions: Sequence[Decision]) -> np.ndarray:
    """The loss of each decision; NaN where there is nothing to lose."""
    results = []
    for best, decision in zip(exact, decisions, strict=True):
        gain = best.utility - float(best.utilities.mean())
        results.append((best.utility - best.utilities[decision.index]) / gain if gain > 1e-9 else np.nan)
    return np.array(results)


def rows(given: Sequence[Segment], utility: str, seeds: int) -> Iterator[str]:
    """A line of the table for each method."""
    exact = list(minrisk.decode_corpus(given, utility, "full"))
    against = {
        segment.id: minrisk.utility(utility).matrix(segment.hypotheses, [segment.reference or ""])[:, 0]
        for segment in given
    }
    yield (
        "| method | "
        + " | ".join(BUDGETS)
        + " | agreement at 1/16 | calls used at 1/16 | against the reference at 1/16 |"
    )
    yield "| --- |" + " ---: |" * (len(BUDGETS) + 3)
    reference = np.mean([against[decision.id][decision.index] for decision in exact])
    yield f"| full (all calls) |{' 0 |' * len(BUDGETS)} 1 | 1 | {reference:.2f} |"
    for name, options in METHODS:
        method = minrisk.method(name, **options)
        cells = []
        for budget in BUDGETS:
            lost, agreed, used, score = [], [], [], []
            for seed in range(seeds):
                decisions = list(minrisk.decode_corpus(given, utility, method, budget, seed=seed))
                lost.append(np.nanmean(losses(exact, decisions)))
                agreed += [one.text == other.text for one, other in zip(exact, decisions, strict=True)]
                used.append(
                    sum(decision.calls for decision in decisions) / sum(decision.cells for decision in decisions)
                )
                score += [against[decision.id][decision.index] for decision in decisions]
            cells.append(f"{np.mean(lost):.3f}")
            if budget == "1/16":
                extra = [f"{np.mean(agreed):.2f}", f"{np.mean(used):.4f}", f"{np.mean(score):.2f}"]
        label = name + (f" ({', '.join(f'{key}={value}' for key, value in options.items())})" if options else "")
        yield "| " + " | ".join([label, *cells, *extra]) + " |"
    oracle = np.mean([values.max() for values in against.values()])
    yield f"| oracle (knows the reference) |{' |' * len(BUDGETS)} | | {oracle:.2f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = Path(__file__).resolve().parents[1]
    parser.add_argument("--samples", type=Path, default=root.parent / "shared" / "data" / "test16.jsonl.gz")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--utility", default="chrf")
    options = parser.parse_args()
    if not options.samples.exists():
        sys.exit(f"skipped: {options.samples.name} is not there; name a samples file with --samples")
    given = list(segments(options.samples, options.size, options.draws))
    for line in rows(given, options.utility, options.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
