"""Drives any number of plans at once: gathers what a window of segments asks for, scores, hands the values back."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from minrisk.errors import InputError
from minrisk.scoring import Ledger, Scorer
from minrisk.session import Session
from minrisk.store import Store
from minrisk.types import TARGET, Method, Problem
from minrisk.utilities.base import Utility

WINDOW = 256
CELLS_IN_FLIGHT = 1 << 20
"""Segments and cells worked on at once: enough to fill the batches of any metric, and a bound on memory."""


def run(
    problems: Iterable[Problem],
    method: Method,
    utilities: Mapping[str, Utility],
    *,
    seed: int = 0,
    window: int = WINDOW,
    ledger: Ledger | None = None,
    store: Store | None = None,
    scorers: Mapping[str, Scorer] | None = None,
) -> Iterator[Session]:
    """The concluded session of each problem, in order; no more than a window of them is held.

    utilities  by role: `TARGET`, and those that the method declares beside it
    store      where values are looked up before they are scored, and kept when they have been
    scorers    of these utilities, where they are used for more than one run; they have ledger and store already
    """
    if window < 1:
        raise InputError(f"`window` must be at least 1 segment, got {window}")
    scorers = scorers_of(utilities, Ledger() if ledger is None else ledger, store) if scorers is None else scorers
    ledger = scorers[TARGET].ledger
    directions = {role: utility.higher_is_better for role, utility in utilities.items()}
    source = iter(problems)
    held: deque[Session] = deque()
    try:
        while True:
            begin, scoring = time.perf_counter(), ledger.seconds_scoring
            exhausted = _fill(held, source, method, directions, seed, window)
            for role, scorer in scorers.items():
                asking = [(s, s.asked) for s in held if s.asked is not None and s.asked.utility == role]
                if not asking:
                    continue
                asks = [(session.problem, asked) for session, asked in asking]
                # The first segments first: what has been scored for them is not kept waiting by the rest.
                before = scorer.ledger.seconds_scoring
                answers = scorer.answer(asks[: scorer.portion(asks)])
                if role != TARGET:
                    ledger.auxiliary += sum(len(asked) for _, asked in asks[: len(answers)])
                    ledger.seconds_scoring += scorer.ledger.seconds_scoring - before
                for (session, _), values in zip(asking, answers):
                    session.tell(values)
            ledger.seconds_planning += time.perf_counter() - begin - (ledger.seconds_scoring - scoring)
            while held and held[0].estimate is not None:
                session = held.popleft()
                ledger.segments += 1
                ledger.calls += session.calls
                ledger.cells += session.problem.size
                yield session
            if exhausted and not held:
                return
    finally:
        for session in held:
            session.close()


def scorers_of(utilities: Mapping[str, Utility], ledger: Ledger, store: Store | None = None) -> dict[str, Scorer]:
    """A scorer for each role; the ledger is that of the utility that the user named."""
    ledgers = {role: ledger if role == TARGET else Ledger() for role in utilities}
    return {role: Scorer(utility, ledgers[role], store) for role, utility in utilities.items()}


def _fill(
    held: deque[Session],
    source: Iterator[Problem],
    method: Method,
    directions: Mapping[str, bool],
    seed: int,
    window: int,
) -> bool:
    """Admit problems until the window is full; True when there are no more."""
    in_flight = sum(_weight(session.problem, directions) for session in held)
    while len(held) < window and (not held or in_flight < CELLS_IN_FLIGHT):
        problem = next(source, None)
        if problem is None:
            return True
        held.append(Session(problem, method, seed, directions))
        in_flight += _weight(problem, directions)
    return False


def _weight(problem: Problem, directions: Mapping[str, bool]) -> int:
    """Cells that a problem may have in flight: its budget, or all where other utilities are used, which have none."""
    return problem.budget if len(directions) == 1 else problem.size
