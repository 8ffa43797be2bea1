"""A partly observed matrix, its cells indexed by row and by column, and what a completion of it consists of.

Shapes: N rows, K columns, C observed cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minrisk.errors import InputError
from minrisk.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """C distinct observed cells of an (N, K) matrix, sorted by row, then column.

    values, weights   (C,) what was measured, and how much each cell counts in a fit (above zero)
    rows, columns     (C,) where
    row_starts        (N + 1,) the cells of row i are [row_starts[i] : row_starts[i + 1]]
    by_column         (C,) the same cells sorted by column, then row
    column_starts     (K + 1,) the cells of column j are by_column[column_starts[j] : column_starts[j + 1]]
    """

    shape: tuple[int, int]
    values: FloatArray
    rows: IntArray
    columns: IntArray
    weights: FloatArray
    row_starts: IntArray
    by_column: IntArray
    column_starts: IntArray

    def __len__(self) -> int:
        return len(self.values)

    def with_values(self, values: FloatArray) -> Observed:
        """The same cells holding other values, given in the order of this object."""
        return Observed(
            self.shape,
            values,
            self.rows,
            self.columns,
            self.weights,
            self.row_starts,
            self.by_column,
            self.column_starts,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Completion:
    """A completed matrix and how it came about.

    matrix       (N, K)
    objective    what the algorithm minimises, at its end; on the values as it was given them
    iterations   how many it took
    converged    whether it came to rest by its own criterion, which is relative to the data
    uncertainty  (N, K) standard deviation of each cell, where the algorithm has one
    """

    matrix: FloatArray
    objective: float
    iterations: int
    converged: bool
    uncertainty: FloatArray | None = None


def observe(
    values: ArrayLike,
    rows: ArrayLike,
    columns: ArrayLike,
    shape: Sequence[int],
    weights: ArrayLike | None = None,
) -> Observed:
    """The observed matrix of C cells given in any order; wrong, repeated or non-finite ones are an InputError."""
    count, width = _checked_shape(shape)
    numbers = _checked_numbers(values, "values")
    row = _checked_positions(rows, "rows", len(numbers), count)
    column = _checked_positions(columns, "columns", len(numbers), width)
    weight = np.ones(len(numbers)) if weights is None else _checked_numbers(weights, "weights", len(numbers))
    if weight.size and weight.min() <= 0:
        raise InputError(f"`weights` must be above zero, got {weight.min()}; leave out cells that do not count")
    flat = row * width + column
    order = np.argsort(flat, kind="stable")
    repeated = np.flatnonzero(np.diff(flat[order]) == 0)
    if repeated.size:
        cell = order[repeated[0]]
        raise InputError(f"cell ({row[cell]}, {column[cell]}) is given twice; give every cell at most once")
    row, column = row[order], column[order]
    return Observed(
        (count, width),
        numbers[order],
        row,
        column,
        weight[order],
        _starts(row, count),
        # NumPy sorts integers of 16 bits by counting, twenty times as fast.
        np.argsort(column.astype(np.uint16) if width <= 1 << 16 else column, kind="stable"),
        _starts(column, width),
    )


def _starts(positions: IntArray, size: int) -> IntArray:
    starts = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(positions, minlength=size), out=starts[1:])
    return starts


def _checked_shape(shape: Sequence[int]) -> tuple[int, int]:
    try:
        count, width = (int(size) for size in shape)
    except (TypeError, ValueError):
        raise InputError(f"`shape` must be two whole numbers (rows, columns), got {shape!r}") from None
    if count < 1 or width < 1:
        raise InputError(f"`shape` must hold at least one row and one column, got {(count, width)}")
    return count, width


def _checked_numbers(given: ArrayLike, name: str, length: int | None = None) -> FloatArray:
    array = _array(given, name)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "fiu"):
        raise InputError(f"`{name}` must be a list of numbers, got an array of {array.dtype} shaped {array.shape}")
    if length is not None and len(array) != length:
        raise InputError(f"`{name}` must hold {length} numbers, one for each value, got {len(array)}")
    numbers = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(numbers).all():
        position = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InputError(f"`{name}` must be finite, got {numbers[position]} at position {position}")
    return numbers


def _checked_positions(given: ArrayLike, name: str, length: int, size: int) -> IntArray:
    array = _array(given, name)
    if array.shape != (length,) or (length and array.dtype.kind not in "iu"):
        raise InputError(
            f"`{name}` must hold {length} whole numbers, one for each value, "
            f"got an array of {array.dtype} shaped {array.shape}"
        )
    positions = array.astype(np.int64)
    if length and (positions.min() < 0 or positions.max() >= size):
        raise InputError(f"`{name}` must lie in [0, {size}), got values from {positions.min()} to {positions.max()}")
    return positions


def check_at_least(name: str, value: float, least: float) -> None:
    """An InputError unless `value` is a number from `least` on."""
    if not least <= value < float("inf"):
        raise InputError(f"`{name}` must be at least {least}, got {value}")


def check_count(name: str, value: float, least: int) -> None:
    """An InputError unless `value` is a whole number from `least` on."""
    check_at_least(name, value, least)
    if value != int(value):
        raise InputError(f"`{name}` must be a whole number, got {value}")


def check_positive(name: str, value: float) -> None:
    """An InputError unless `value` is a number above zero."""
    if not 0 < value < float("inf"):
        raise InputError(f"`{name}` must be above zero, got {value}")


def _array(given: ArrayLike, name: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(given)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must be a list of numbers: {error}") from None
