"""What to score next, against slow twins that do the same one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from minrisk.numeric.contest import OWN, column_order, harmonic, next_cells, topped_up
from minrisk.types import FloatArray, IntArray


def order_by_covariance(weights: FloatArray, coordinates: FloatArray) -> list[int]:
    """Columns by the variance of the weighted sum that each takes away, the covariance of columns written out."""
    covariance = coordinates @ coordinates.T + OWN * np.eye(len(weights))
    left, picked = list(range(len(weights))), []
    while left:
        with_sum = covariance @ weights
        gains = [with_sum[column] ** 2 / covariance[column, column] for column in left]
        best = left[int(np.argmax(np.round(np.array(gains) / max(gains), 9)))]
        picked.append(best)
        left.remove(best)
        covariance = covariance - np.outer(covariance[best], covariance[best]) / covariance[best, best]
    return picked


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(0, 4))
def test_columns_that_tell_the_most_come_first(seed: int, count: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    weights, coordinates = rng.dirichlet(np.ones(count)), rng.normal(size=(count, width))
    assert column_order(weights, coordinates).tolist() == order_by_covariance(weights, coordinates)


def test_without_coordinates_the_heaviest_come_first() -> None:
    weights = np.array([0.1, 0.4, 0.2, 0.3])
    assert column_order(weights, np.zeros((4, 0))).tolist() == [1, 3, 2, 0]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.floats(0.01, 1)), min_size=1, max_size=12),
    st.integers(0, 60),
)
def test_cells_are_shared_out_fairly(rows: list[tuple[int, int, float]], count: int) -> None:
    """All are given out, and each row is within one cell of its share of a total, topped up, never cut."""
    have, most, shares = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    given_out = topped_up(have, most, shares, count)
    assert given_out.sum() == min(count, most.sum())
    assert (given_out >= 0).all()
    assert (given_out <= most).all()
    # What is given grows linearly with the total between the totals where a row begins or ceases to get cells.
    bends = np.unique(np.concatenate((have / shares, (have + most) / shares)))
    sums = [np.clip(bend * shares - have, 0, most).sum() for bend in bends]
    total = np.interp(given_out.sum(), sums, bends)
    fair = np.clip(total * shares - have, 0, most)
    assert (np.abs(given_out - fair) <= 1 + 1e-6).all()


def test_the_next_cells_are_the_first_open_ones() -> None:
    open_ = np.array([[True, False, True], [True, True, True], [False, False, False]])
    order: IntArray = np.array([2, 0, 1])
    rows, columns = next_cells(open_, order, np.array([1, 2, 5]))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [(0, 2), (1, 2), (1, 0)]


def test_harmonic_shares_fall_with_rank() -> None:
    np.testing.assert_allclose(harmonic(np.array([0.5, 2.0, 1.0])), np.array([2, 6, 3]) / 11)
