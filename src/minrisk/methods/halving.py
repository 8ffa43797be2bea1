"""Correlated sequential halving: the better half goes on to more pseudo-references."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.errors import unknown_name
from minrisk.numeric.estimation import is_self_pair, sampled_values
from minrisk.numeric.sampling import block, draw, prefix_stands_for, random_order
from minrisk.numeric.tournament import Tally, survivors_first, value_all
from minrisk.types import Cells, Estimate, IntArray, Plan, Problem

ORDERS = ("random", "frequent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Halving:
    """Score all candidates on shared columns, keep the better half, again on a strict budget (AMBR).

    Jinnai and Ariu 2024, "Hyperparameter-Free Approach for Faster Minimum Bayes Risk Decoding".

    order  of the pseudo-references: random (in proportion to weight, as sampled) or frequent (the heaviest first)

    All candidates of a round meet the same pseudo-references, which is what cancels their severity. Self-pairs are not
    scored, but for a single one that tells their value where the utility does not know it. A budget for all cells
    scores them all.
    """

    kind: ClassVar[str] = "adaptive"
    order: str = "random"

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise unknown_name("order", self.order, ORDERS)

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        order = self._ordered(problem, rng)
        alive = np.arange(problem.shape[0])
        if problem.budget < len(alive):
            alive = draw(problem.row_weights, problem.budget, rng)[0]
        rounds = np.zeros(problem.shape[0], dtype=np.int64)
        tally, done, used = Tally(), 0, 0
        halvings = max(1, math.ceil(math.log(len(alive)))) if len(alive) > 1 else 1
        while done < len(order):
            share = (
                problem.budget // len(alive)
                if problem.budget >= problem.size
                else problem.budget // len(alive) // halvings
            )
            columns = min(max(1, share), (problem.budget - used) // len(alive), len(order) - done)
            if columns < 1:
                break
            cells = self._without_self_pairs(
                problem, block(problem, alive, order[done : done + columns]), first=not done
            )
            tally.add(cells, (yield cells))
            used, done = used + len(cells), done + columns
            rounds[alive] += 1
            if len(alive) == 1:
                break
            stands_for = prefix_stands_for(problem.column_weights, done)
            now = sampled_values(problem, *tally.among(alive), stands_for)[alive]
            alive = alive[~(now < np.nanmedian(now))] if not np.isnan(now).all() else alive
        rounds[alive] += 1
        values = value_all(problem, tally, prefix_stands_for(problem.column_weights, max(done, 1)))
        return Estimate(values=values, preference=survivors_first(values, rounds))

    def _ordered(self, problem: Problem, rng: np.random.Generator) -> IntArray:
        order = random_order(problem.column_weights, rng)
        if self.order == "random":
            return order
        return order[np.argsort(-problem.column_weights[order], kind="stable")]

    def _without_self_pairs(self, problem: Problem, cells: Cells, first: bool) -> Cells:
        """The cells less the self-pairs; of the first round, one is kept."""
        if problem.budget >= problem.size:
            return cells
        dropped = is_self_pair(problem, cells)
        if first:
            dropped[np.flatnonzero(dropped)[:1]] = False
        return Cells(cells.rows[~dropped], cells.columns[~dropped])
