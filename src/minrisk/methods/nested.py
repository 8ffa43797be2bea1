"""Not a method: what methods that run another method inside share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from minrisk.types import FloatArray, IntArray, Method, Plan, Problem


def inner(method: Any) -> Method | None:
    """The method that a name, or `name(option=value)`, or a configured method stands for; None stays None."""
    from minrisk.methods import METHODS

    return cast(Method | None, METHODS.parse(method) if isinstance(method, str) else method)


def inner_plan(method: Any, problem: Problem, rng: np.random.Generator) -> Plan:
    """The plan of an inner method; by default full MBR, or PMBR where the budget does not allow for it."""
    chosen = inner(method or ("full" if problem.budget >= problem.size else "pmbr"))
    assert chosen is not None
    return chosen.plan(problem, rng)


def auxiliaries_of(method: Any) -> Mapping[str, Any]:
    """The other utilities that a method uses."""
    return getattr(inner(method), "auxiliaries", {})


def restricted(problem: Problem, rows: IntArray, columns: IntArray) -> Problem:
    """The problem of some of the candidates and pseudo-references, numbered from 0, within the same budget."""
    place = np.full(problem.shape[1] + 1, -1)
    place[columns] = np.arange(len(columns))
    twins = place[problem.twins[rows]]
    return replace(
        problem,
        candidates=[problem.candidates[row] for row in rows],
        pseudo_references=[problem.pseudo_references[column] for column in columns],
        row_weights=_normalized(problem.row_weights[rows]),
        column_weights=_normalized(problem.column_weights[columns]),
        row_positions=problem.row_positions[rows],
        column_positions=problem.column_positions[columns],
        twins=twins,
        self_values=np.where(twins >= 0, problem.self_values[rows], np.nan),
        budget=min(problem.budget, len(rows) * len(columns)),
        logprobs=None if problem.logprobs is None else problem.logprobs[rows],
        scores=None if problem.scores is None else problem.scores[rows],
    )


def _normalized(weights: FloatArray) -> FloatArray:
    total = weights.sum()
    return np.asarray(weights / total if total > 0 else np.full(len(weights), 1 / len(weights)))
