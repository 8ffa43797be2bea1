"""From records to numbers: means, deviations over trials, significance between methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from minrisk.errors import InputError, unknown_name
from minrisk.seeding import stream
from minrisk.study.records import Records
from minrisk.types import FloatArray

RESAMPLES = 10_000
OTHERS = ("regret", "rank", "agreement", "calls")
"""What can be summed up beside the measures of a choice."""


@dataclass(frozen=True, slots=True)
class Summary:
    """All runs at one size, R methods on budgets, T trials, S segments.

    runs         (method, budget) of each
    corpus       of each measure: (T, R) means over segments
    of_segments  of each measure: (S, R) means over trials
    """

    size: int
    runs: list[tuple[str, str]]
    corpus: dict[str, FloatArray]
    of_segments: dict[str, FloatArray]

    def place(self, method: str, budget: str) -> int:
        """The number of a run; full MBR is the same on every budget."""
        if (method, budget) in self.runs:
            return self.runs.index((method, budget))
        if (method, "1") in self.runs:
            return self.runs.index((method, "1"))
        raise unknown_name("run", f"{method} on {budget}", [f"{name} on {share}" for name, share in self.runs])

    def mean(self, method: str, budget: str, measure: str) -> float:
        """Over trials and segments."""
        return float(self.corpus[measure][:, self.place(method, budget)].mean())

    def deviation(self, method: str, budget: str, measure: str) -> float:
        """Standard deviation over trials of the mean over segments; 0 for a single trial."""
        values = self.corpus[measure][:, self.place(method, budget)]
        return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def summarize(records: Records) -> list[Summary]:
    """A summary for each size."""
    return [_of_size(records, size) for size in records.sizes]


def _of_size(records: Records, size: int) -> Summary:
    names = [*records.measures, "regret", "rank", "calls"]
    totals: dict[str, FloatArray] = {}
    of_segments: dict[str, list[FloatArray]] = {}
    for arrays in records.of_segments(size, names):
        arrays["agreement"] = (arrays["regret"] == 0).astype(np.float64)
        for name, values in arrays.items():
            of_segments.setdefault(name, []).append(values.mean(axis=0))
            totals[name] = totals.get(name, 0.0) + values
    count = len(records.about["segments"])
    return Summary(
        size,
        records.runs,
        {name: values / count for name, values in totals.items()},
        {name: np.array(values) for name, values in of_segments.items()},
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """One method against another on the same segments.

    difference  mean over segments, of the first less the second
    low, high   its 95 % interval over bootstrap samples of the segments
    p           two-sided: twice the share of samples on the other side of zero
    """

    difference: float
    low: float
    high: float
    p: float


def bootstrap(first: FloatArray, second: FloatArray, seed: int = 0, resamples: int = RESAMPLES) -> Comparison:
    """Paired bootstrap over segments (Koehn 2004) of values (S,), each a segment's mean over trials."""
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise InputError(f"values of the same segments are compared; got {first.shape} and {second.shape}")
    differences = first - second
    means = _resampled(len(differences), resamples, seed) @ differences / len(differences)
    low, high = np.quantile(means, [0.025, 0.975])
    beyond = min(int((means <= 0).sum()), int((means >= 0).sum()))
    p = min(1.0, 2 * (beyond + 1) / (resamples + 1))
    return Comparison(float(differences.mean()), float(low), float(high), p)


@lru_cache(maxsize=1)
def _resampled(count: int, resamples: int, seed: int) -> FloatArray:
    """How often each of so many segments is drawn in each bootstrap sample: (resamples, count)."""
    rng = stream(seed, b"study", "bootstrap")
    return rng.multinomial(count, np.full(count, 1 / count), size=resamples).astype(np.float64)


def compared(summary: Summary, method: str, other: str, budgets: Sequence[str], measure: str) -> list[Comparison]:
    """Two methods on each budget."""
    if measure not in summary.of_segments:
        raise unknown_name("measure", measure, summary.of_segments)
    values = summary.of_segments[measure]
    return [
        bootstrap(values[:, summary.place(method, budget)], values[:, summary.place(other, budget)])
        for budget in budgets
    ]


def higher_is_better(measure: str, utility_is: bool, lower: Sequence[str] = ()) -> bool:
    """The direction of a measure; held-out metrics are better when higher, but for those in `lower`."""
    if measure in ("regret", "rank", "calls"):
        return False
    return utility_is if measure == "expected" else measure.removeprefix("score.") not in lower
