"""The observed matrix: its indices, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from minrisk.errors import InputError
from minrisk.numeric.sparse import Observed, observe

from .twins import PROBLEMS


@given(PROBLEMS)
def test_both_indices_hold_every_cell(observed: Observed) -> None:
    cells = set(zip(observed.rows, observed.columns, strict=True))
    assert len(cells) == len(observed)
    for i in range(observed.shape[0]):
        start, stop = observed.row_starts[i : i + 2]
        assert set(observed.columns[start:stop]) == {column for row, column in cells if row == i}
    for j in range(observed.shape[1]):
        places = observed.by_column[observed.column_starts[j] : observed.column_starts[j + 1]]
        assert list(observed.rows[places]) == sorted(row for row, column in cells if column == j)
        assert (observed.columns[places] == j).all()


def test_cells_may_come_in_any_order() -> None:
    observed = observe([1, 2, 3], [1, 0, 1], [0, 1, 1], (2, 2), [4, 5, 6])
    assert observed.values.tolist() == [2.0, 1.0, 3.0]
    assert observed.weights.tolist() == [5.0, 4.0, 6.0]
    assert (observed.rows.tolist(), observed.columns.tolist()) == ([0, 1, 1], [1, 0, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [0, 0], [1, 1], (2, 2)), r"cell \(0, 1\) is given twice"),
        (([1.0], [2], [0], (2, 2)), r"`rows` must lie in \[0, 2\)"),
        (([1.0], [0], [-1], (2, 2)), r"`columns` must lie in \[0, 2\)"),
        (([1.0, 2.0], [0], [0], (2, 2)), "`rows` must hold 2 whole numbers"),
        (([1.0], [0.0], [0], (2, 2)), "`rows` must hold 1 whole numbers"),
        (([float("nan")], [0], [0], (2, 2)), "`values` must be finite, got nan at position 0"),
        ((["x"], [0], [0], (2, 2)), "`values` must be a list of numbers"),
        (([1.0], [0], [0], (2,)), "`shape` must be two whole numbers"),
        (([1.0], [0], [0], (0, 2)), "at least one row and one column"),
        (([1.0], [0], [0], (2, 2), [0.0]), "`weights` must be above zero"),
        (([1.0], [0], [0], (2, 2), [1.0, 1.0]), "`weights` must hold 1 numbers"),
        (([[1.0], [1.0, 2.0]], [0], [0], (2, 2)), "`values` must be a list of numbers"),
    ],
)
def test_wrong_cells_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        observe(*arguments)


def test_values_can_be_replaced() -> None:
    observed = observe([1, 2], [0, 1], [0, 1], (2, 2))
    assert observed.with_values(np.array([3.0, 4.0])).values.tolist() == [3.0, 4.0]
    assert observed.values.tolist() == [1.0, 2.0]
