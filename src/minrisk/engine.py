"""Drives any number of plans at once: gathers what a window of segments asks for, scores, hands the values back."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator

from minrisk.errors import InputError
from minrisk.scoring import Ledger, Scorer
from minrisk.session import Session
from minrisk.types import Method, Problem
from minrisk.utilities.base import Utility

WINDOW = 256
CELLS_IN_FLIGHT = 1 << 20
"""Segments and cells worked on at once: enough to fill the batches of any metric, and a bound on memory."""


def run(
    problems: Iterable[Problem],
    method: Method,
    utility: Utility,
    *,
    seed: int = 0,
    window: int = WINDOW,
    ledger: Ledger | None = None,
) -> Iterator[Session]:
    """The concluded session of each problem, in order; no more than a window of them is held."""
    if window < 1:
        raise InputError(f"`window` must be at least 1 segment, got {window}")
    ledger = Ledger() if ledger is None else ledger
    scorer = Scorer(utility, ledger)
    source = iter(problems)
    held: deque[Session] = deque()
    try:
        while True:
            begin, scoring = time.perf_counter(), ledger.seconds_scoring
            exhausted = _fill(held, source, method, utility.higher_is_better, seed, window)
            asking = [session for session in held if session.asked is not None]
            if asking:
                answers = scorer.answer([(session.problem, session.asked) for session in asking if session.asked])
                for session, values in zip(asking, answers, strict=True):
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


def _fill(
    held: deque[Session],
    source: Iterator[Problem],
    method: Method,
    higher_is_better: bool,
    seed: int,
    window: int,
) -> bool:
    """Admit problems until the window is full; True when there are no more."""
    in_flight = sum(session.problem.budget for session in held)
    while len(held) < window and (not held or in_flight < CELLS_IN_FLIGHT):
        problem = next(source, None)
        if problem is None:
            return True
        held.append(Session(problem, method, seed, higher_is_better))
        in_flight += problem.budget
    return False
