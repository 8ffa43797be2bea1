"""From a segment as given to the problem a method solves: distinct texts, weights, budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np

from minrisk.budgets import calls_allowed
from minrisk.errors import InputError, unknown_name
from minrisk.seeding import digest
from minrisk.types import FloatArray, IntArray, Problem, Segment
from minrisk.utilities.base import QualityUtility, Utility

Weights = Literal["multiplicity", "logprob", "logprob-normalized"]
WEIGHTS = ("multiplicity", "logprob", "logprob-normalized")


def check_weights(weights: str) -> None:
    """Raise for a name that is no way of weighting."""
    if weights not in WEIGHTS:
        raise unknown_name("weights", weights, WEIGHTS)


def problem_of(
    segment: Segment, utility: Utility, budget: Fraction | int, weights: str = "multiplicity", position: int = 0
) -> Problem:
    """The problem of a segment; `position` names a segment that has no id of its own."""
    candidates, row_of_hypothesis, row_positions = merged(segment.hypotheses)
    if isinstance(utility, QualityUtility):
        # Nothing to compare with: a matrix of one column.
        segment = replace(segment, pseudo_references=("",), pseudo_reference_logprobs=(0.0,), weights=None)
    if segment.pseudo_references is None:
        columns, column_of_given, column_positions = candidates, row_of_hypothesis, row_positions
    else:
        columns, column_of_given, column_positions = merged(segment.pseudo_references)
    if utility.needs_source and segment.source is None:
        raise InputError(f"utility {utility.name!r} needs a `source`, and the segment has none")
    column_weights = _column_weights(segment, weights, column_of_given, len(columns))
    places = {text: column for column, text in enumerate(columns)}
    twins = np.array([places.get(text, -1) for text in candidates], dtype=np.int64)
    return Problem(
        id=str(position) if segment.id is None else segment.id,
        stream=digest((segment.id, segment.source, *segment.hypotheses, None, *(segment.pseudo_references or ()))),
        candidates=candidates,
        pseudo_references=columns,
        source=segment.source,
        row_weights=column_weights
        if columns is candidates
        else _shares(np.ones(len(segment.hypotheses)), row_of_hypothesis, len(candidates)),
        column_weights=column_weights,
        row_positions=row_positions,
        column_positions=column_positions,
        row_of_hypothesis=row_of_hypothesis,
        columns_given=len(segment.columns_given),
        twins=twins,
        self_values=_self_values(utility, candidates, twins),
        budget=calls_allowed(budget, len(candidates) * len(columns)),
        logprobs=_of_rows(segment.logprobs, row_positions),
        scores=_of_rows(segment.scores, row_positions),
    )


def against_reference(segment: Segment) -> Segment:
    """The segment with its human reference as the one pseudo-reference: for experiments."""
    if segment.reference is None:
        raise InputError("this method compares with the human `reference`, and the segment has none")
    return replace(segment, pseudo_references=[segment.reference], pseudo_reference_logprobs=None, weights=None)


def merged(texts: Sequence[str]) -> tuple[Sequence[str], IntArray, IntArray]:
    """Distinct texts in order of appearance, the number of each given text among them, first positions."""
    numbers: dict[str, int] = {}
    number_of_given = np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)
    first = np.zeros(len(numbers), dtype=np.int64)
    first[number_of_given[::-1]] = np.arange(len(texts))[::-1]
    return tuple(numbers), number_of_given, first


def _column_weights(segment: Segment, weights: str, column_of_given: IntArray, count: int) -> FloatArray:
    if segment.weights is not None:
        given = np.array(segment.weights)
        if given.min() < 0 or given.max() <= 0:
            raise InputError("`weights` must not be negative, and at least one must be above zero")
        return _shares(given, column_of_given, count)
    if weights == "multiplicity":
        return _shares(np.ones(len(column_of_given)), column_of_given, count)
    if segment.pseudo_references is None:
        logprobs, name = segment.logprobs, "logprobs"
    else:
        logprobs, name = segment.pseudo_reference_logprobs, "pseudo_reference_logprobs"
    if logprobs is None:
        raise InputError(f"weights {weights!r} need `{name}`, and the segment has none")
    scores = np.array(logprobs)
    if weights == "logprob-normalized":
        scores = scores / np.array([max(1, len(text.split(" "))) for text in segment.columns_given])
    # Equal texts have one probability, whatever the rounding of their copies: the first copy's.
    first = np.zeros(count, dtype=np.int64)
    first[column_of_given[::-1]] = np.arange(len(scores))[::-1]
    distinct = scores[first]
    with np.errstate(over="ignore"):
        probabilities = np.exp(distinct - distinct.max())
    return np.asarray(probabilities / probabilities.sum())


def _of_rows(given: Sequence[float] | None, row_positions: IntArray) -> FloatArray | None:
    """What was given for each hypothesis, for each candidate: that of its first copy."""
    return None if given is None else np.array(given)[row_positions]


def _shares(given: FloatArray, number_of_given: IntArray, count: int) -> FloatArray:
    # Shares of the largest: numbers of any size have a sum.
    totals = np.bincount(number_of_given, weights=given / given.max(), minlength=count)
    return np.asarray(totals / totals.sum())


def _self_values(utility: Utility, candidates: Sequence[str], twins: IntArray) -> FloatArray:
    known = utility.self_values(candidates)
    if known is None:
        return np.full(len(candidates), np.nan)
    oriented = known if utility.higher_is_better else -known
    return np.where(twins >= 0, oriented, np.nan)
