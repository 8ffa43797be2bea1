"""One trial: samples drawn from a pool, and what each method chooses among them on each budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import itemgetter
from types import MappingProxyType

import numpy as np

from minrisk.budgets import Budget, calls_allowed, parse_budget
from minrisk.errors import InputError
from minrisk.numeric.estimation import expected_utilities
from minrisk.seeding import digest, stream
from minrisk.session import Session
from minrisk.study.baselines import Contender
from minrisk.study.store import Pool
from minrisk.types import TARGET, Cells, Estimate, FloatArray, IntArray, Problem, ranking


@dataclass(frozen=True, slots=True)
class Drawn:
    """Samples drawn from a pool.

    problem    with the budget of full MBR
    matrix     (N, N) all its utilities
    others     the same of other utilities, by their signatures
    positions  (N,) the sample of the pool that each candidate is
    rows       (N,) the distinct text of the pool that each candidate is
    """

    problem: Problem
    matrix: FloatArray
    positions: IntArray
    rows: IntArray
    others: dict[str, FloatArray]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a method came to.

    choice  the row of the problem
    calls   cells scored
    rank    place of full MBR's choice among all rows as the method ranks them, the first being 1: the paper's loss
    """

    choice: int
    calls: int
    rank: int


def draw_samples(pool: Pool, size: int, seed: int, trial: int, keep_duplicates: bool) -> Drawn:
    """`size` samples of the pool without replacement: the same for a seed, a segment and a trial, whatever else.

    Equal texts become one candidate that weighs as much as they do, or stay apart with `keep_duplicates`.
    """
    if size > len(pool.index):
        raise InputError(f"segment {pool.id!r}: {size} samples cannot be drawn from a pool of {len(pool.index)}")
    name = digest((pool.id, str(size), str(trial)))
    positions = stream(seed, name, "samples").permutation(len(pool.index))[:size]
    of_sample = np.arange(size)
    first = of_sample
    if not keep_duplicates:
        _, first, of_sample = np.unique(pool.index[positions], return_index=True, return_inverse=True)
        order = np.argsort(first)
        first, place = first[order], np.empty_like(order)
        place[order] = np.arange(len(order))
        of_sample = place[of_sample]
    positions_of_rows = positions[first]
    rows = pool.index[positions_of_rows]
    weights = np.bincount(of_sample) / size
    block = np.ix_(rows, rows)
    texts = _names(rows.tolist())
    problem = Problem(
        id=pool.id,
        stream=name,
        candidates=texts,
        pseudo_references=texts,
        source=None,
        row_weights=weights,
        column_weights=weights,
        row_positions=first,
        column_positions=first,
        row_of_hypothesis=of_sample,
        columns_given=size,
        twins=np.arange(len(rows)),
        self_values=pool.self_values[rows],
        budget=len(rows) ** 2,
        logprobs=None if pool.logprobs is None else pool.logprobs[positions_of_rows],
        scores=None if pool.scores is None else pool.scores[positions_of_rows],
    )
    others = {name: matrix[block] for name, matrix in pool.others.items()}
    return Drawn(problem, pool.matrix[block], positions_of_rows, rows, others)


def full_values(drawn: Drawn) -> FloatArray:
    """The expected utilities of full MBR: (N,)."""
    return expected_utilities(drawn.matrix, drawn.problem.column_weights)


def outcomes(
    drawn: Drawn, contenders: Sequence[Contender], budgets: Sequence[Fraction | int], seed: int
) -> tuple[FloatArray, list[Outcome]]:
    """Full MBR's values (N,), and an outcome for each method on each budget; exact methods have one, without any."""
    values = full_values(drawn)
    problem = drawn.problem
    best = int(ranking(Estimate(values=values), problem.row_weights)[0])
    found = [Outcome(best, problem.size, 1) for contender in contenders if contender.exact]
    for budget in budgets:
        limited = replace(problem, budget=calls_allowed(budget, problem.size))
        for contender in contenders:
            if not contender.exact:
                session = concluded(limited, drawn.matrix, contender, seed, drawn.others)
                assert session.estimate is not None
                order = ranking(session.estimate, problem.row_weights)
                place = int(np.flatnonzero(order == best)[0]) + 1
                found.append(Outcome(int(order[0]), session.calls, place))
    return values, found


def concluded(
    problem: Problem,
    matrix: FloatArray,
    contender: Contender,
    seed: int,
    others: Mapping[str, FloatArray] = MappingProxyType({}),
) -> Session:
    """The session of a method on a problem whose utilities are all at hand."""
    tables = {TARGET: matrix} | {role: others[signature] for role, signature in contender.auxiliaries.items()}
    session = Session(problem, contender.method, seed, dict.fromkeys(tables, True))
    while session.asked is not None:
        asked = session.asked
        if not isinstance(asked, Cells):
            raise InputError(
                f"method {contender.label!r} asks for {type(asked).__name__}, which a matrix does not hold"
            )
        session.tell(tables[asked.utility][asked.rows, asked.columns])
    return session


def shares_of(budgets: Sequence[Budget]) -> list[Fraction | int]:
    """Budgets as numbers, each once; every trial of a study is given the same ones."""
    shares: dict[Fraction | int, None] = {}
    for budget in [budgets] if isinstance(budgets, str) else budgets:
        if budget == "auto":
            raise InputError("a study compares methods on equal budgets, shares or numbers of calls; got 'auto'")
        shares[parse_budget(budget)] = None
    if not shares:
        raise InputError("`budgets` is empty; at least one is needed")
    return list(shares)


def runs(contenders: Sequence[Contender], budgets: Sequence[Fraction | int]) -> list[tuple[str, str]]:
    """The (label, budget) of each outcome, in the order of `outcomes`."""
    named = [(contender.label, "1") for contender in contenders if contender.exact]
    limited = [contender.label for contender in contenders if not contender.exact]
    return named + [(label, str(budget)) for budget in budgets for label in limited]


def _names(rows: list[int]) -> tuple[str, ...]:
    """What stands for the texts, which methods do not read."""
    while len(_NAMES) <= max(rows):
        _NAMES.append(f"text {len(_NAMES)}")
    return tuple(itemgetter(*rows)(_NAMES)) if len(rows) > 1 else (_NAMES[rows[0]],)


_NAMES: list[str] = []
