"""From a decision to several texts: the best ones, different good ones, or ones that stand for all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minrisk.decoding import utility as configured
from minrisk.errors import InputError, unknown_name
from minrisk.numeric.choosing import diverse, medoids
from minrisk.seeding import stream
from minrisk.types import Choice, Decision, FloatArray
from minrisk.utilities.base import Utility

SELECTIONS = ("best", "diverse", "medoids")


def select(
    decision: Decision,
    size: int,
    selection: str = "best",
    *,
    similarity: Any = "chrf",
    penalty: float = 0.5,
    steps: int = 20,
    seed: int = 0,
) -> list[Choice]:
    """Several distinct texts of a decision.

    selection   "best": the n-best list. "diverse": highest mean utility less `penalty` x mean similarity among the
                texts (Jinnai et al. 2024, "Generating Diverse and High-Quality Texts by Minimum Bayes Risk Decoding");
                candidates about which nothing is known are left out. "medoids": texts such that all samples are similar
                to one of them
    similarity  the utility that says how alike two candidates are; its calls are not counted
    steps       of the local search of "diverse"
    """
    if selection not in SELECTIONS:
        raise unknown_name("selection", selection, SELECTIONS)
    if size < 1:
        raise InputError(f"`size` of a selection must be at least 1, got {size}")
    if not 0 <= penalty < math.inf:
        raise InputError(f"`penalty` of a selection must be at least 0 and finite, got {penalty}")
    if selection == "best":
        return decision.nbest(size)
    problem = decision.problem
    rows = np.flatnonzero(~np.isnan(decision.estimate.values))
    if selection == "medoids" or not len(rows):
        rows = np.arange(problem.shape[0])
    alike = _alike(configured(similarity), [problem.candidates[int(row)] for row in rows])
    if selection == "medoids":
        chosen = rows[medoids(alike, problem.row_weights[rows], size)]
    else:
        quality = np.nan_to_num(decision.estimate.values[rows])
        rng = stream(seed, problem.stream, "diverse")
        chosen = rows[diverse(quality, alike, size, penalty, steps, rng)]
    positions = problem.row_positions[chosen]
    return [
        Choice(problem.candidates[int(row)], int(position), float(decision.utilities[position]))
        for row, position in zip(chosen, positions, strict=True)
    ]


def _alike(utility: Utility, texts: list[str]) -> FloatArray:
    """Similarities, higher being more alike whatever the utility's direction."""
    matrix = utility.matrix(texts, texts)
    return matrix if utility.higher_is_better else -matrix
