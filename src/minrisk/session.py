"""The only place that runs plans: asks, checks, tells. Everything that goes wrong is blamed on its segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from minrisk.errors import MethodError, UtilityError
from minrisk.seeding import stream
from minrisk.types import (
    TARGET,
    Ask,
    Cells,
    Encodings,
    Estimate,
    FloatArray,
    Folded,
    IntArray,
    Method,
    Problem,
    Within,
)

LARGEST = 1e100
"""Values are summed and squared; beyond this that would overflow."""

HIGHER: Mapping[str, bool] = {TARGET: True}


class Session:
    """One plan at work on one problem.

    `asked` holds what the plan waits for, or None when it has concluded; then `estimate` is set. Values are told on the
    metric's own scale; the plan sees them with higher meaning better. `directions` says of each role whether higher is.
    """

    def __init__(self, problem: Problem, method: Method, seed: int, directions: Mapping[str, bool] = HIGHER) -> None:
        self.problem = problem
        self.asked: Ask | None = None
        self.estimate: Estimate | None = None
        self.calls = 0
        self.transcript: list[FloatArray] = []
        self.directions = directions
        self._scored: list[IntArray] = []
        self._within: Within | None = None
        self._plan = method.plan(problem, stream(seed, problem.stream, "plan"))
        self._advance(None)

    def tell(self, values: FloatArray) -> None:
        """Hand the plan what it asked for, and note what it asks next."""
        asked = self.asked
        assert asked is not None, "the plan has concluded"
        values = np.asarray(values, dtype=np.float64)
        self._check_values(asked, values)
        self.transcript.append(values)
        if isinstance(asked, Encodings):
            self._advance(values if self._within is None else values[self._within.columns])
        else:
            self._advance(values if self.directions[asked.utility] else 0.0 - values)

    def close(self) -> None:
        """Abandon the plan."""
        self._plan.close()

    def _advance(self, values: FloatArray | None) -> None:
        try:
            asked = next(self._plan) if values is None else self._plan.send(values)
            while isinstance(asked, Within) or (isinstance(asked, Ask) and len(asked) == 0):
                if isinstance(asked, Within):
                    self._within = asked if self._within is None else _nested(asked, self._within)
                asked = self._plan.send(np.empty(0))
        except StopIteration as stop:
            self.asked = None
            self.estimate = self._checked(stop.value)
            return
        except Exception as error:
            error.add_note(f"in segment {self.problem.id!r}")
            raise
        asked = asked if self._within is None else _translated(asked, self._within, self.problem.shape[1])
        self._check(asked)
        self.asked = asked

    def _check(self, asked: Ask) -> None:
        if not isinstance(asked, Ask):
            raise self._fault(f"yielded {type(asked).__name__}, Cells were expected")
        if asked.utility not in self.directions:
            raise self._fault(f"asked for a utility under the role {asked.utility!r}, which it has not declared")
        if isinstance(asked, Encodings):
            return
        self._check_places(asked)
        if asked.utility != TARGET:
            return
        if self.calls + len(asked) > self.problem.budget:
            raise self._fault(f"asked for {self.calls + len(asked)} cells on a budget of {self.problem.budget}")
        self.calls += len(asked)
        if isinstance(asked, Cells):
            self._scored.append(asked.rows * self.problem.shape[1] + asked.columns)
            scored = np.concatenate(self._scored)
            # Cells that come in order need no sorting.
            ordered = scored if (scored[1:] > scored[:-1]).all() else np.sort(scored)
            if (ordered[1:] == ordered[:-1]).any():
                raise self._fault("asked for a cell twice")

    def _check_places(self, asked: Cells | Folded) -> None:
        rows, columns = self.problem.shape
        for places in (asked.rows, asked.columns if isinstance(asked, Cells) else asked.rows):
            if not (isinstance(places, np.ndarray) and places.ndim == 1 and places.dtype.kind in "iu"):
                raise self._fault("must number rows and columns by arrays of whole numbers")
        fits = asked.rows.min() >= 0 and asked.rows.max() < rows
        if isinstance(asked, Folded):
            fits &= asked.weights.shape[1:] == (columns,) and np.allclose(asked.weights.sum(axis=1), 1)
        else:
            fits &= len(asked.rows) == len(asked.columns) and asked.columns.min() >= 0 and asked.columns.max() < columns
        if not fits:
            raise self._fault(f"asked for cells outside of its {rows} x {columns} matrix")

    def _check_values(self, asked: Ask, values: FloatArray) -> None:
        place = f"segment {self.problem.id!r}: the utility"
        if isinstance(asked, Encodings):
            if values.ndim != 2 or len(values) != self.problem.shape[1] or not np.isfinite(values).all():
                raise UtilityError(f"{place} must encode {self.problem.shape[1]} texts as finite vectors")
            return
        if values.shape != (len(asked),):
            raise UtilityError(f"{place} returned {values.size} values for {len(asked)} cells")
        usable = np.abs(values) < LARGEST
        if usable.all():
            return
        wrong = int(np.flatnonzero(~usable)[0])
        if isinstance(asked, Cells):
            candidate = self.problem.candidates[asked.rows[wrong]]
            against = f"pseudo-reference {_short(self.problem.pseudo_references[asked.columns[wrong]])}"
        else:
            candidate = self.problem.candidates[asked.rows[wrong // len(asked.weights)]]
            against = "a mixture of pseudo-references"
        raise UtilityError(
            f"{place} returned {values[wrong]}, a finite number below {LARGEST:g} was expected, "
            f"for candidate {_short(candidate)} against {against}"
        )

    def _checked(self, estimate: object) -> Estimate:
        if not isinstance(estimate, Estimate):
            raise self._fault(f"returned {type(estimate).__name__}, an Estimate was expected")
        for values in (estimate.values, estimate.values if estimate.preference is None else estimate.preference):
            if not isinstance(values, np.ndarray) or values.shape != (self.problem.shape[0],) or np.isinf(values).any():
                raise self._fault(f"must return {self.problem.shape[0]} values, finite or NaN, as an array")
        return estimate

    def _fault(self, what: str) -> MethodError:
        return MethodError(f"segment {self.problem.id!r}: the method {what}")


def replay(
    problem: Problem,
    method: Method,
    seed: int,
    transcript: Iterable[FloatArray],
    directions: Mapping[str, bool] = HIGHER,
) -> Session:
    """The session that recorded answers lead to; it goes on from there if the plan has more to ask."""
    session = Session(problem, method, seed, directions)
    for values in transcript:
        session.tell(values)
    return session


def _nested(part: Within, within: Within) -> Within:
    """A part of a part, in the numbers of the whole problem."""
    return Within(within.rows[part.rows], within.columns[part.columns])


def _translated(asked: Ask, within: Within, columns: int) -> Ask:
    """The same ask in the numbers of the whole problem."""
    if isinstance(asked, Cells):
        return replace(asked, rows=within.rows[asked.rows], columns=within.columns[asked.columns])
    if isinstance(asked, Folded):
        weights = np.zeros((len(asked.weights), columns))
        weights[:, within.columns] = asked.weights
        return replace(asked, rows=within.rows[asked.rows], weights=weights)
    return asked


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
