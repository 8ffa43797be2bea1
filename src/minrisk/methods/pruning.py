"""Confidence-based pruning: more pseudo-references for fewer candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.numeric.sampling import block, draw, prefix_stands_for, random_order
from minrisk.numeric.tournament import Tally, bootstrap_wins, survivors_first, value_all
from minrisk.types import Estimate, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """Drop the candidates that a bootstrap says cannot win, round by round (confidence pruning).

    Cheng and Vlachos 2023, "Faster Minimum Bayes Risk Decoding with Confidence-based Pruning".

    confidence  a candidate stays while it beats the leader in more than 1 - confidence of the resamplings; 1 keeps all
    first       pseudo-references of the first round; each round has `growth` times as many
    bootstraps  resamplings of the pseudo-references that have been scored

    Stops on its own before the budget is spent, so that a full budget is full MBR only with confidence 1.
    """

    kind: ClassVar[str] = "adaptive"
    confidence: float = 0.99
    first: int = 8
    growth: float = 2.0
    bootstraps: int = 500

    def __post_init__(self) -> None:
        if not 0 < self.confidence <= 1:
            raise InputError(f"`confidence` of method 'pruning' must be in (0, 1], got {self.confidence}")
        if self.first < 1 or not 1 < self.growth < math.inf or self.bootstraps < 1:
            raise InputError(
                "method 'pruning' needs `first` and `bootstraps` of at least 1 and a finite `growth` above 1"
            )

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        order = random_order(problem.column_weights, rng)
        alive = np.arange(problem.shape[0])
        if problem.budget < len(alive):
            alive = draw(problem.row_weights, problem.budget, rng)[0]
        rounds = np.zeros(problem.shape[0], dtype=np.int64)
        tally, done, used = Tally(), 0, 0
        while True:
            goal = max(self.first, math.ceil(min(done * self.growth, len(order))))
            affordable = done + (problem.budget - used) // len(alive)
            upto = min(goal, affordable, len(order))
            if upto == done:
                break
            cells = block(problem, alive, order[done:upto])
            tally.add(cells, (yield cells))
            used, done = used + len(cells), upto
            rounds[alive] += 1
            stands_for = prefix_stands_for(problem.column_weights, done)
            if self.confidence < 1 and len(alive) > 1:
                leader, wins = bootstrap_wins(problem, alive, order[:done], tally, stands_for, self.bootstraps, rng)
                stays = wins > 1 - self.confidence
                stays[leader] = True
                alive = alive[stays]
            if len(alive) == 1:
                break
        rounds[alive] += 1
        values = value_all(problem, tally, prefix_stands_for(problem.column_weights, max(done, 1)))
        return Estimate(values=values, preference=survivors_first(values, rounds))
