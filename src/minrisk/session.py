"""The only place that runs plans: asks, checks, tells. Everything that goes wrong is blamed on its segment."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from minrisk.errors import MethodError, UtilityError
from minrisk.seeding import stream
from minrisk.types import Cells, Estimate, FloatArray, IntArray, Method, Problem


class Session:
    """One plan at work on one problem.

    `asked` holds the cells that the plan waits for, or None when it has concluded; then `estimate` is set.
    Values are told on the metric's own scale; the plan sees them with higher meaning better.
    """

    def __init__(self, problem: Problem, method: Method, seed: int, higher_is_better: bool = True) -> None:
        self.problem = problem
        self.asked: Cells | None = None
        self.estimate: Estimate | None = None
        self.calls = 0
        self.transcript: list[FloatArray] = []
        self._sign = 1.0 if higher_is_better else -1.0
        self._scored: list[IntArray] = []
        self._plan = method.plan(problem, stream(seed, problem.stream, "plan"))
        self._advance(None)

    def tell(self, values: FloatArray) -> None:
        """Hand the plan the values of the cells it asked for, and note what it asks next."""
        assert self.asked is not None, "the plan has concluded"
        values = np.asarray(values, dtype=np.float64)
        self._check_values(self.asked, values)
        self.calls += len(self.asked)
        self.transcript.append(values)
        self._advance(values * self._sign)

    def close(self) -> None:
        """Abandon the plan."""
        self._plan.close()

    def _advance(self, values: FloatArray | None) -> None:
        try:
            asked = next(self._plan) if values is None else self._plan.send(values)
            while len(asked) == 0:
                asked = self._plan.send(np.empty(0))
        except StopIteration as stop:
            self.asked = None
            self.estimate = self._checked(stop.value)
            return
        except Exception as error:
            error.add_note(f"in segment {self.problem.id!r}")
            raise
        self._check_cells(asked)
        self.asked = asked

    def _check_cells(self, cells: Cells) -> None:
        rows, columns = self.problem.shape
        in_range = (
            len(cells.rows) == len(cells.columns)
            and cells.rows.min() >= 0
            and cells.rows.max() < rows
            and cells.columns.min() >= 0
            and cells.columns.max() < columns
        )
        if not in_range:
            raise self._fault(f"asked for cells outside of its {rows} x {columns} matrix")
        flat = cells.rows * columns + cells.columns
        self._scored.append(flat)
        everything = flat if len(self._scored) == 1 else np.concatenate(self._scored)
        if len(everything) > self.problem.budget:
            raise self._fault(f"asked for {len(everything)} cells on a budget of {self.problem.budget}")
        ordered = np.sort(everything)
        if (ordered[1:] == ordered[:-1]).any():
            raise self._fault("asked for a cell twice")

    def _check_values(self, cells: Cells, values: FloatArray) -> None:
        if values.shape != (len(cells),):
            raise UtilityError(
                f"segment {self.problem.id!r}: the utility returned {values.size} values for {len(cells)} cells"
            )
        if np.isfinite(values).all():
            return
        place = int(np.flatnonzero(~np.isfinite(values))[0])
        candidate = self.problem.candidates[cells.rows[place]]
        reference = self.problem.pseudo_references[cells.columns[place]]
        raise UtilityError(
            f"segment {self.problem.id!r}: the utility returned {values[place]}, a finite number was expected, "
            f"for candidate {_short(candidate)} against pseudo-reference {_short(reference)}"
        )

    def _checked(self, estimate: object) -> Estimate:
        if not isinstance(estimate, Estimate):
            raise self._fault(f"returned {type(estimate).__name__}, an Estimate was expected")
        if estimate.values.shape != (self.problem.shape[0],) or np.isinf(estimate.values).any():
            raise self._fault(f"must return {self.problem.shape[0]} values, finite or NaN")
        return estimate

    def _fault(self, what: str) -> MethodError:
        return MethodError(f"segment {self.problem.id!r}: the method {what}")


def replay(
    problem: Problem, method: Method, seed: int, transcript: Iterable[FloatArray], higher_is_better: bool = True
) -> Session:
    """The session that recorded answers lead to; it goes on from there if the plan has more to ask."""
    session = Session(problem, method, seed, higher_is_better)
    for values in transcript:
        session.tell(values)
    return session


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
