"""Designs: exact counts, nothing twice, nothing forbidden, balanced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minrisk.errors import InputError
from minrisk.numeric import designs

ALL = [designs.uniform, designs.balanced, designs.weighted]
SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 12))


@pytest.mark.parametrize("design", ALL)
@given(shape=SHAPES, share=st.floats(0, 1), seed=st.integers(0, 999), barred=st.sampled_from([0.0, 0.2, 0.7, 1.0]))
def test_exact_count_sorted_and_never_forbidden(
    design: Callable[..., Any], shape: tuple[int, int], share: float, seed: int, barred: float
) -> None:
    rng = np.random.default_rng(seed)
    forbidden = rng.random(shape) < barred
    count = round(share * int((~forbidden).sum()))
    given_as = forbidden if seed % 2 else rng.permutation(np.flatnonzero(forbidden))
    rows, columns = design(shape, count, rng, given_as)
    assert rows.dtype == columns.dtype == np.int64
    flat = rows * shape[1] + columns
    assert len(flat) == count
    assert (np.diff(flat) > 0).all()
    assert not forbidden[rows, columns].any()


@settings(max_examples=300)
@given(shape=SHAPES, share=st.floats(0, 1), seed=st.integers(0, 999), diagonal=st.booleans())
def test_balance(shape: tuple[int, int], share: float, seed: int, diagonal: bool) -> None:
    forbidden = np.eye(*shape, dtype=bool) & (diagonal and shape[0] == shape[1])
    count = round(share * int((~forbidden).sum()))
    rows, columns = designs.balanced(shape, count, np.random.default_rng(seed), forbidden)
    assert np.ptp(np.bincount(rows, minlength=shape[0])) <= 1
    assert np.ptp(np.bincount(columns, minlength=shape[1])) <= 1


@pytest.mark.parametrize("count", [512, 1024, 8192, 12000, 16256])
def test_balance_at_the_usual_size(count: int) -> None:
    rows, columns = designs.balanced((128, 128), count, np.random.default_rng(0), np.arange(128) * 129)
    assert (rows != columns).all()
    for numbers in (np.bincount(rows, minlength=128), np.bincount(columns, minlength=128)):
        assert set(numbers) <= {count // 128, -(-count // 128)}


def test_crowded_rows_get_what_they_have() -> None:
    """Row 0 and column 0 have one allowed cell each; the others share the rest."""
    forbidden = np.zeros((5, 5), dtype=bool)
    forbidden[0, 1:] = forbidden[1:, 0] = True
    rows, columns = designs.balanced((5, 5), 9, np.random.default_rng(0), forbidden)
    assert np.bincount(rows).tolist() == np.bincount(columns).tolist() == [1, 2, 2, 2, 2]


def test_no_balanced_design_exists() -> None:
    """All of columns 0 and 1 is out of reach for most rows: still the exact count, and rows balanced."""
    forbidden = np.zeros((6, 4), dtype=bool)
    forbidden[1:, :2] = True
    rows, _ = designs.balanced((6, 4), 10, np.random.default_rng(0), forbidden)
    assert np.ptp(np.bincount(rows, minlength=6)) <= 1
    assert len(rows) == 10


def test_balanced_in_proportion_to_weight() -> None:
    weights = np.array([5.0, 1.0, 1.0, 1.0, 0.0, 2.0])
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows, columns = designs.balanced((40, 6), 80, rng, column_weights=weights)
        assert (np.bincount(rows, minlength=40) == 2).all()
        numbers = np.bincount(columns, minlength=6)
        assert numbers[0] == 40
        assert numbers[4] == 0
        assert (np.abs(numbers[[1, 2, 3, 5]] - 40 * np.array([1, 1, 1, 2]) / 5) <= 1).all()


@pytest.mark.parametrize("design", [designs.uniform, designs.balanced])
def test_every_cell_is_equally_likely(design: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    times = np.zeros((6, 5))
    for _ in range(4000):
        times[design((6, 5), 9, rng)] += 1
    np.testing.assert_allclose(times / 4000, 9 / 30, atol=0.03)


def test_weighted_first_draw_is_in_proportion() -> None:
    rng = np.random.default_rng(0)
    times = np.zeros((2, 3))
    for _ in range(6000):
        times[designs.weighted((2, 3), 1, rng, None, [1, 3], [0, 1, 2])] += 1
    np.testing.assert_allclose(times / 6000, np.outer([1, 3], [0, 1, 2]) / 12, atol=0.02)


@pytest.mark.parametrize("design", ALL)
def test_same_stream_same_cells(design: Callable[..., Any]) -> None:
    first, second = (design((9, 9), 20, np.random.default_rng(5)) for _ in range(2))
    assert (first[0] == second[0]).all()
    assert (first[1] == second[1]).all()


@pytest.mark.parametrize("design", ALL)
@pytest.mark.parametrize(
    ("count", "forbidden", "message"),
    [
        (5, None, "`count` must lie between 0 and the 4 cells"),
        (-1, None, "`count` must lie between 0 and the 4 cells"),
        (4, [0], "the 3 cells that may be drawn, got 4"),
        (1, [7], r"`forbidden` must lie in \[0, 4\)"),
        (1, [[True, False]], "`forbidden` must be a boolean array"),
    ],
)
def test_impossible_requests_are_refused(design: Callable[..., Any], count: int, forbidden: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        design((2, 2), count, np.random.default_rng(0), forbidden)


@pytest.mark.parametrize("design", [designs.balanced, designs.weighted])
def test_weights_leave_too_few_cells(design: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="only 2 allowed cells"):
        design((2, 2), 3, np.random.default_rng(0), None, None, [1.0, 0.0])
    with pytest.raises(InputError, match="`column_weights` must be 2 finite numbers"):
        design((2, 2), 3, np.random.default_rng(0), None, None, [1.0, -1.0])
