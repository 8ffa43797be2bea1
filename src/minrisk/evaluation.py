"""Final choices against references: means with bootstrap intervals, paired tests, sacreBLEU's corpus scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from minrisk.errors import InputError, UtilityError
from minrisk.scoring import score_batch
from minrisk.seeding import stream
from minrisk.types import FloatArray
from minrisk.utilities.base import QualityUtility, Utility

PAIRS_AT_ONCE = 1024
RESAMPLES_AT_ONCE = 1 << 22
CORPUS_METRICS = {"bleu": "BLEU", "chrf": "CHRF", "ter": "TER"}
"""What sacreBLEU has a corpus score for, with options of the same names."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number and where it lies, with the confidence asked for."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """One system's choices under one utility.

    mean         of the segments' values, with its bootstrap interval
    values       (S,) of the segments
    corpus       sacreBLEU's corpus score, where the metric has one and sacreBLEU is installed, else None
    difference   from the first system, segment by segment, with its interval; None for the first system itself
    p_value      of that difference under the paired bootstrap, two-sided
    """

    system: str
    utility: str
    higher_is_better: bool
    mean: Interval
    values: FloatArray
    corpus: float | None = None
    corpus_signature: str | None = None
    difference: Interval | None = None
    p_value: float | None = None


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How segments are drawn again: how often, from which seed, and the confidence of intervals."""

    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.resamples < 1:
            raise InputError(f"`resamples` must be at least 1, got {self.resamples}")
        if not 0 < self.confidence < 1:
            raise InputError(f"`confidence` must lie between 0 and 1, got {self.confidence}")

    def means(self, values: FloatArray) -> FloatArray:
        """Means of S values in each resample: (R,). Equal lengths are drawn alike, which makes differences paired."""
        rng = stream(self.seed, b"", "evaluation")
        size = len(values)
        step = max(1, RESAMPLES_AT_ONCE // size)
        parts = [
            values[rng.integers(size, size=(min(step, self.resamples - start), size))].mean(axis=1)
            for start in range(0, self.resamples, step)
        ]
        return np.concatenate(parts)

    def interval(self, values: FloatArray) -> Interval:
        """The mean of values, and the percentiles of its resamples."""
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(self.means(values), (tail, 1 - tail))
        return Interval(float(values.mean()), float(low), float(high))

    def p_value(self, differences: FloatArray) -> float:
        """How often a mean difference this large comes about where there is none (Koehn 2004, two-sided)."""
        means = self.means(differences)
        observed = abs(differences.mean())
        # Rounding must not decide: equal systems differ by nothing in all resamples.
        extreme = np.abs(means - differences.mean()) >= observed - 1e-12 * max(1.0, observed)
        return float((np.count_nonzero(extreme) + 1) / (len(means) + 1))


def evaluate(
    systems: Mapping[str, Sequence[str]],
    utility: Utility,
    references: Sequence[str] | None,
    sources: Sequence[str] | None = None,
    bootstrap: Bootstrap | None = None,
) -> list[Evaluation]:
    """Each system's choices (S texts) under one utility; the first system is what the others are compared with."""
    bootstrap = bootstrap or Bootstrap()
    _check(systems, utility, references, sources)
    values = _scored(systems, utility, references, sources)
    corpora = _corpus_scores(systems, utility, references)
    first = next(iter(values.values()))
    found = []
    for place, (name, own) in enumerate(values.items()):
        differences = own - first
        found.append(
            Evaluation(
                system=name,
                utility=utility.signature(),
                higher_is_better=utility.higher_is_better,
                mean=bootstrap.interval(own),
                values=own,
                corpus=corpora[name][0] if corpora else None,
                corpus_signature=corpora[name][1] if corpora else None,
                difference=bootstrap.interval(differences) if place else None,
                p_value=bootstrap.p_value(differences) if place else None,
            )
        )
    return found


def _check(
    systems: Mapping[str, Sequence[str]],
    utility: Utility,
    references: Sequence[str] | None,
    sources: Sequence[str] | None,
) -> None:
    if not systems or not all(systems.values()):
        raise InputError("there is nothing to evaluate")
    if references is None and not isinstance(utility, QualityUtility):
        raise InputError(f"utility {utility.name!r} needs references")
    if sources is None and utility.needs_source:
        raise InputError(f"utility {utility.name!r} needs sources")
    size = len(next(iter(systems.values())))
    for name, texts in (*systems.items(), ("the references", references), ("the sources", sources)):
        if texts is not None and len(texts) != size:
            raise InputError(f"{name}: {size} segments were expected, as in the first output, got {len(texts)}")


def _scored(
    systems: Mapping[str, Sequence[str]],
    utility: Utility,
    references: Sequence[str] | None,
    sources: Sequence[str] | None,
) -> dict[str, FloatArray]:
    """The values of each system's segments; what several systems chose is scored once."""
    numbers: dict[tuple[str, str, str | None], int] = {}
    places: dict[str, list[int]] = {}
    for name, texts in systems.items():
        columns = references or [""] * len(texts)
        given = sources if sources is not None and utility.uses_source else [None] * len(texts)
        keys = zip(texts, columns, given, strict=True)
        places[name] = [numbers.setdefault(key, len(numbers)) for key in keys]
    pairs = list(numbers)
    values = np.empty(len(pairs))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        batch = pairs[start : start + PAIRS_AT_ONCE]
        values[start : start + PAIRS_AT_ONCE] = score_batch(utility, batch, batch[0][0][:60])
    if not np.isfinite(values).all():
        wrong = int(np.flatnonzero(~np.isfinite(values))[0])
        raise UtilityError(f"utility {utility.name!r} returned {values[wrong]} for {pairs[wrong][0][:60]!r}")
    return {name: values[numbers_of] for name, numbers_of in places.items()}


def _corpus_scores(
    systems: Mapping[str, Sequence[str]], utility: Utility, references: Sequence[str] | None
) -> dict[str, tuple[float, str]] | None:
    """The corpus score of sacreBLEU and signature of each system, None where it has none or is not installed."""
    if utility.name not in CORPUS_METRICS or references is None:
        return None
    try:
        import sacrebleu.metrics as official
    except ImportError:
        return None
    options: dict[str, Any] = {field.name: getattr(utility, field.name) for field in fields(utility)}  # type: ignore[arg-type]
    if utility.name == "bleu":
        # Sentences are scored with as many orders as they have; corpora, by convention, with all four.
        options["effective_order"] = False
    found = {}
    for name, texts in systems.items():
        metric = getattr(official, CORPUS_METRICS[utility.name])(**options)
        score = metric.corpus_score(list(texts), [list(references)])
        found[name] = float(score.score), str(metric.get_signature())
    return found
