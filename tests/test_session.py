"""A session runs one plan, keeps its books, and blames what goes wrong on its segment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import minrisk
from minrisk.problems import problem_of
from minrisk.session import Session
from minrisk.types import Cells, Estimate, Plan, Problem, Segment
from minrisk.utilities.table import Table


def problem(budget: Fraction | int = Fraction(1)) -> Problem:
    segment = Segment(id="s1", hypotheses=["a", "b", "c"])
    return problem_of(segment, Table(values=np.eye(3)), budget)


def cells(*pairs: tuple[int, int]) -> Cells:
    return Cells(np.array([row for row, _ in pairs]), np.array([column for _, column in pairs]))


@dataclass(frozen=True)
class Scripted:
    """A method whose plan is written in the test."""

    script: Callable[[Problem], Plan]

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        return self.script(problem)


def test_a_plan_may_ask_in_rounds() -> None:
    def script(problem: Problem) -> Plan:
        first = yield cells((0, 1), (0, 2))
        second = yield cells((1, 0))
        return Estimate(values=np.array([first.sum(), second[0], np.nan]))

    session = Session(problem(), Scripted(script), seed=0)
    assert session.asked is not None
    assert session.asked.columns.tolist() == [1, 2]
    session.tell(np.array([1.0, 2.0]))
    session.tell(np.array([5.0]))
    assert session.asked is None
    assert session.calls == 3
    assert session.estimate is not None
    np.testing.assert_array_equal(session.estimate.values, [3.0, 5.0, np.nan])


def test_plans_see_higher_as_better() -> None:
    def script(problem: Problem) -> Plan:
        values = yield cells((0, 1), (0, 2))
        return Estimate(values=np.array([values[0], values[1], 0.0]))

    session = Session(problem(), Scripted(script), seed=0, directions={"utility": False})
    session.tell(np.array([1.0, 2.0]))
    assert session.estimate is not None
    assert session.estimate.values.tolist() == [-1.0, -2.0, 0.0]
    assert session.transcript[0].tolist() == [1.0, 2.0]


def test_asking_for_nothing_is_answered_at_once() -> None:
    def script(problem: Problem) -> Plan:
        values = yield cells()
        return Estimate(values=np.full(3, float(len(values))))

    empty = Cells(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def empty_script(problem: Problem) -> Plan:
        values = yield empty
        return Estimate(values=np.full(3, float(len(values))))

    session = Session(problem(), Scripted(empty_script), seed=0)
    assert session.estimate is not None
    assert session.calls == 0


def faulty(*asks: Cells, estimate: object = None) -> Callable[[Problem], Plan]:
    def script(problem: Problem) -> Any:
        for ask in asks:  # noqa: UP028 - a plan is sent values, which `yield from` a tuple would not take
            yield ask
        return estimate

    return script


@pytest.mark.parametrize(
    ("script", "budget", "message"),
    [
        (faulty(cells((0, 3))), 9, "asked for cells outside of its 3 x 3 matrix"),
        (faulty(cells((-1, 0))), 9, "asked for cells outside of its 3 x 3 matrix"),
        (faulty(Cells(np.array([0, 1]), np.array([0]))), 9, "asked for cells outside of its 3 x 3 matrix"),
        (faulty(cells((0, 1), (0, 1))), 9, "asked for a cell twice"),
        (faulty(cells((0, 1)), cells((0, 1))), 9, "asked for a cell twice"),
        (faulty(cells((0, 1), (0, 2))), 1, "asked for 2 cells on a budget of 1"),
        (faulty(cells((0, 1)), cells((0, 2))), 1, "asked for 2 cells on a budget of 1"),
        (faulty(None), 9, "yielded NoneType, Cells were expected"),  # type: ignore[arg-type]
        (faulty(Cells([0], [1])), 9, "must number rows and columns by arrays"),  # type: ignore[arg-type]
        (faulty(Cells(np.zeros(1), np.ones(1))), 9, "must number rows and columns by arrays of whole numbers"),
        (faulty(estimate=Estimate(values=[1.0, 2.0, 3.0])), 9, "must return 3 values"),  # type: ignore[arg-type]
        (faulty(estimate="good"), 9, "returned str, an Estimate was expected"),
        (faulty(estimate=Estimate(values=np.zeros(2))), 9, "must return 3 values"),
        (faulty(estimate=Estimate(values=np.array([0, np.inf, 1]))), 9, "must return 3 values, finite or NaN"),
    ],
)
def test_a_method_that_breaks_the_contract(script: Callable[[Problem], Plan], budget: int, message: str) -> None:
    def play() -> None:
        session = Session(problem(budget), Scripted(script), seed=0)
        while session.asked is not None:
            session.tell(np.zeros(len(session.asked)))

    with pytest.raises(minrisk.MethodError, match=f"segment 's1': the method {message}"):
        play()


def test_an_exception_in_a_plan_names_the_segment() -> None:
    def script(problem: Problem) -> Plan:
        yield cells((0, 1))
        raise ZeroDivisionError

    session = Session(problem(), Scripted(script), seed=0)
    with pytest.raises(ZeroDivisionError) as caught:
        session.tell(np.zeros(1))
    assert caught.value.__notes__ == ["in segment 's1'"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0], "returned 1 values for 2 cells"),
        ([1.0, -1e101], r"returned -1e\+101, a finite number below 1e\+100 was expected"),
        (
            [1.0, np.nan],
            r"returned nan, a finite number below 1e\+100 was expected, for candidate 'a' against pseudo-reference 'c'",
        ),
        ([-np.inf, 1.0], "returned -inf, .* for candidate 'a' against pseudo-reference 'b'"),
    ],
)
def test_a_utility_that_breaks_the_contract(values: list[float], message: str) -> None:
    session = Session(problem(), Scripted(faulty(cells((0, 1), (0, 2)))), seed=0)
    with pytest.raises(minrisk.UtilityError, match=f"segment 's1': the utility {message}"):
        session.tell(np.array(values))
