"""Not a method: the second half of those that judge all candidates cheaply, and the best of them well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minrisk.numeric.estimation import sampled_values
from minrisk.numeric.sampling import block, draw
from minrisk.numeric.tournament import staged
from minrisk.types import Estimate, FloatArray, Plan, Problem


def refine(
    problem: Problem, stages: Sequence[FloatArray], keep: int | None, budget: int, rng: np.random.Generator
) -> Plan:
    """Score the candidates that the last of the stages prefers, against as many pseudo-references as are paid for.

    stages  (N,) each: the cheap judgements so far, the best one last
    keep    candidates to score; by default as many as can meet every pseudo-reference, and two at least
    budget  calls left
    """
    rows, columns = problem.shape
    kept = min(rows, keep if keep is not None else max(2, budget // columns), budget)
    if kept < 1:
        return Estimate(values=np.full(rows, np.nan), preference=staged(stages))
    order = np.argsort(-staged(stages), kind="stable")
    drawn, stands_for = draw(problem.column_weights, min(columns, budget // kept), rng)
    cells = block(problem, np.sort(order[:kept]), drawn)
    values = yield cells
    fine = sampled_values(problem, cells, values, stands_for)
    return Estimate(values=fine, preference=staged([*stages, fine]))
