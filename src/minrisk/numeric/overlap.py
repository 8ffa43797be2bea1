"""Clipped n-gram overlaps of many pairs of texts at once.

Features (see `ngrams`) that many columns have are bits: rows and columns are packed 64 features a word and a pair
costs one AND and one population count a word. Features that few columns have are lists, and features that no row or
no column has are dropped. Every count is an exact integer, so a pair's overlap depends on nothing but its two texts.

Shapes: R rows, C columns, O orders, W words of common features, order after order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from minrisk.numeric.ngrams import Features
from minrisk.types import IntArray

_ONE = np.uint64(1)

COMMON = 64
"""A feature that at least one in COMMON columns has is a bit: there a population count beats walking a list."""

COMMON_OF_CELLS = 128
"""The same where only some cells are wanted: there the lists that a row has to walk serve few columns."""

TILE_BYTES = 1 << 19
"""Counts of one tile of rows: half of a usual second-level cache."""

CELL_BLOCK = 1 << 12
"""Cells whose counts are handed over at once (more where there are more columns)."""


class Side(NamedTuple):
    """The texts of one side.

    bits         (T, W) uint64 which common features a text has
    rare         (M,) int32 the rare features of each text, order after order
    rare_starts  (T * O + 1,) where order o of text t begins in `rare`: entry t * O + o
    """

    bits: NDArray[np.uint64]
    rare: NDArray[np.int32]
    rare_starts: IntArray


class Index(NamedTuple):
    """Rows and columns ready for counting overlaps.

    words    (O + 1,) where the words of each order begin
    rare     how many distinct rare features there are
    totals   (O, R) n-grams of each row where the rows are the columns too, else None
    """

    rows: Side
    columns: Side
    words: IntArray
    rare: int
    totals: IntArray | None


@intrinsic
def popcount(_typing: Any, _word: Any) -> Any:
    """The population count of a uint64, as an instruction that vectorises where the machine can."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), build


def index(features: Features, rows: int, common: int = COMMON) -> Index:
    """The first `rows` texts against the rest; against themselves where there is no rest."""
    texts = len(features.totals)
    first_column = 0 if rows == texts else rows
    places, words, rare = _places_of(features, rows, first_column, common)
    left = _packed(features, 0, rows, places, words)
    if rows == texts:
        return Index(left, left, words, rare, features.totals.T)
    return Index(left, _packed(features, first_column, texts, places, words), words, rare, None)


def tiles(index: Index) -> Iterator[tuple[int, NDArray[np.int32]]]:
    """The overlaps of all pairs, a few rows at a time: (first row, counts (rows, O, C))."""
    rows, columns, orders = len(index.rows.bits), len(index.columns.bits), len(index.words) - 1
    postings = _postings(index.columns, orders, index.rare)
    column_bits = np.ascontiguousarray(index.columns.bits.T)
    shared = np.empty(columns, np.uint64)
    height = max(1, TILE_BYTES // (4 * orders * columns))
    for first in range(0, rows, height):
        counts = np.empty((min(height, rows - first), orders, columns), np.int32)
        _count_tile(*index.rows, first, column_bits, index.words, *postings, shared, counts)
        if index.totals is not None:
            places = np.arange(len(counts))
            counts[places, :, first + places] = index.totals[:, first + places].T
        yield first, counts


def cell_blocks(index: Index, rows: IntArray, columns: IntArray) -> Iterator[tuple[int, NDArray[np.int32]]]:
    """The overlaps of the cells (rows[c], columns[c]), equal rows together: (first cell, counts (O, cells))."""
    orders = len(index.words) - 1
    postings = _postings(index.columns, orders, index.rare)
    numbers = (index.words, *index.rows[1:], *index.columns[1:], *postings)
    arrays = index.rows.bits, index.columns.bits, *(_unsigned(array) for array in numbers)
    marks = np.zeros(index.rare, np.uint8)
    rare_counts = np.zeros((len(index.columns.bits), orders), np.int32)
    size = max(CELL_BLOCK, len(rare_counts))
    for first in range(0, len(rows), size):
        some_rows, some_columns = rows[first : first + size], columns[first : first + size]
        counts = np.empty((orders, len(some_rows)), np.int32)
        _count_cells(*arrays, _unsigned(some_rows), _unsigned(some_columns), marks, rare_counts, counts)
        if index.totals is not None:
            diagonal = some_rows == some_columns
            counts[:, diagonal] = index.totals[:, some_rows[diagonal]]
        yield first, counts


def by_row(rows: IntArray) -> NDArray[np.int32]:
    """The cells in an order that keeps equal rows together: (C,)."""
    order = np.empty(len(rows), np.int32)
    starts = np.zeros(int(rows.max(initial=0)) + 3, np.int64)
    _invert(rows.astype(np.int32), np.arange(len(rows) + 1), 1, order, starts)
    return order


def _unsigned(numbers: NDArray[Any]) -> NDArray[Any]:
    """For kernels: signed numbers may count from the end, and asking whether they do keeps a loop from vectorising."""
    return numbers.view(f"u{numbers.itemsize}")


def _places_of(
    features: Features, rows: int, first_column: int, common: int
) -> tuple[NDArray[np.int32], IntArray, int]:
    """Where each feature goes (F,), where the words of each order begin (O + 1,), and how many features are rare.

    A place >= 0 is a bit, -1 is nowhere, <= -2 is the rare feature -2 - place.
    """
    texts, orders = features.totals.shape
    holders = np.zeros((2, len(features.orders)), np.int32)
    places = np.empty(len(features.orders), np.int32)
    words = np.zeros(orders + 1, np.int64)
    rare = _place(
        _unsigned(features.ids), _unsigned(features.starts), features.orders, rows * orders, first_column * orders,
        holders, texts - first_column, common, places, words, np.zeros(orders, np.int64),
    )  # fmt: skip
    return places, words, rare


def _packed(features: Features, first: int, last: int, places: NDArray[np.int32], words: IntArray) -> Side:
    """The texts first..last-1."""
    orders = features.totals.shape[1]
    starts = features.starts[first * orders : last * orders + 1]
    bits = np.zeros((last - first, words[-1]), np.uint64)
    rare = np.empty(starts[-1] - starts[0], np.int32)
    rare_starts = np.zeros(len(starts), np.int64)
    _pack(_unsigned(features.ids), _unsigned(starts), orders, places, bits, rare, rare_starts)
    return Side(bits, rare[: rare_starts[-1]], rare_starts)


def _postings(side: Side, orders: int, size: int) -> tuple[NDArray[np.int32], IntArray]:
    """The texts that have each rare feature, feature after feature, and where each feature begins (size + 1,)."""
    texts = np.empty(len(side.rare), np.int32)
    starts = np.zeros(size + 2, np.int64)
    _invert(side.rare, side.rare_starts, orders, texts, starts)
    return texts, starts


@njit(cache=True, nogil=True)
def _place(
    ids: Any, starts: Any, feature_orders: Any, row_runs: Any, column_run: Any, holders: Any, columns: Any,
    common: Any, places: Any, words: Any, bits: Any,
) -> Any:  # fmt: skip
    """Fill `places` (F,) and `words` (O + 1,); `holders` (2, F) and `bits` (O,) are zeros. Number of rare features.

    Where rows and columns are the same texts, a feature of one text matters to that text alone: nowhere.
    """
    for entry in range(starts[0], starts[row_runs]):
        holders[0, ids[entry]] += 1
    for entry in range(starts[column_run], starts[-1]):
        holders[1, ids[entry]] += 1
    rare = 0
    for feature in range(places.size):
        order = feature_orders[feature]
        rows_with, columns_with = holders[0, feature], holders[1, feature]
        if rows_with == 0 or columns_with == 0 or (column_run == 0 and rows_with == 1):
            places[feature] = -1
        elif columns_with * common >= columns:
            places[feature] = bits[order]
            bits[order] += 1
        else:
            places[feature] = -2 - rare
            rare += 1
    for order in range(bits.size):
        words[order + 1] = words[order] + (bits[order] + 63) // 64
    for feature in range(places.size):
        if places[feature] >= 0:
            places[feature] += 64 * words[feature_orders[feature]]
    return rare


@njit(cache=True, nogil=True)
def _pack(ids: Any, starts: Any, orders: Any, places: Any, bits: Any, rare: Any, rare_starts: Any) -> None:
    """Fill a `Side`; `bits` and `rare_starts` are zeros, `rare` has room for all features."""
    used = 0
    for run in range(starts.size - 1):
        text = run // orders
        for entry in range(starts[run], starts[run + 1]):
            place = places[ids[entry]]
            if place >= 0:
                bit = np.uint64(place)
                bits[text, bit >> np.uint64(6)] |= _ONE << (bit & np.uint64(63))
            elif place < -1:
                rare[used] = -2 - place
                used += 1
        rare_starts[run + 1] = used


@njit(cache=True, nogil=True)
def _invert(rare: Any, rare_starts: Any, orders: Any, texts: Any, starts: Any) -> None:
    """Fill `texts` (M,) and `starts`, given as zeros, of which all but the last one are the result."""
    for entry in range(rare.size):
        starts[rare[entry] + 2] += 1
    for feature in range(2, starts.size):
        starts[feature] += starts[feature - 1]
    for run in range(rare_starts.size - 1):
        for entry in range(rare_starts[run], rare_starts[run + 1]):
            texts[starts[rare[entry] + 1]] = run // orders
            starts[rare[entry] + 1] += 1


@njit(cache=True, nogil=True)
def _count_tile(
    bits: Any, rare: Any, rare_starts: Any, top: Any, column_bits: Any, words: Any, texts: Any, text_starts: Any,
    shared: Any, counts: Any,
) -> None:  # fmt: skip
    """Fill the overlaps of the rows from `top` on with all columns, counts (rows, O, C).

    `column_bits` is (W, C), `texts` and `text_starts` the postings of the rare features, `shared` (C,) room to add.
    """
    rows, orders, columns = counts.shape
    for row in range(rows):
        for order in range(orders):
            for column in range(columns):
                shared[column] = 0
            _add_common(bits, top + row, column_bits, words[order], words[order + 1], shared)
            run = (top + row) * orders + order
            for entry in range(rare_starts[run], rare_starts[run + 1]):
                for posting in range(text_starts[rare[entry]], text_starts[rare[entry] + 1]):
                    shared[texts[posting]] += np.uint64(1)
            for column in range(columns):
                counts[row, order, column] = shared[column]


@njit(cache=True, nogil=True)
def _add_common(bits: Any, row: Any, column_bits: Any, first: Any, last: Any, shared: Any) -> None:
    """Add to shared (C,) the common features of the words first..last-1 that the row has too."""
    word = first
    while word + 4 <= last:
        one, two, three, four = bits[row, word], bits[row, word + 1], bits[row, word + 2], bits[row, word + 3]
        for column in range(shared.size):
            shared[column] += (
                popcount(one & column_bits[word, column])
                + popcount(two & column_bits[word + 1, column])
                + popcount(three & column_bits[word + 2, column])
                + popcount(four & column_bits[word + 3, column])
            )
        word += 4
    while word < last:
        one = bits[row, word]
        for column in range(shared.size):
            shared[column] += popcount(one & column_bits[word, column])
        word += 1


@njit(cache=True, nogil=True)
def _count_cells(
    left: Any, right: Any, words: Any, row_rare: Any, row_starts: Any, column_rare: Any, column_starts: Any,
    texts: Any, text_starts: Any, rows: Any, columns: Any, marks: Any, rare_counts: Any, counts: Any,
) -> None:  # fmt: skip
    """Fill the overlaps of cells, counts (O, cells), which come with equal rows together.

    All numbers that index are unsigned. `marks` and `rare_counts` (C, O) are zeros before and after.
    """
    orders, cells = np.uint64(counts.shape[0]), np.uint64(counts.shape[1])
    first = np.uint64(0)
    while first < cells:
        row, last, listed = rows[first], first, np.uint64(0)
        while last < cells and rows[last] == row:
            listed += column_starts[(columns[last] + _ONE) * orders] - column_starts[columns[last] * orders]
            last += _ONE
        posted = np.uint64(0)
        for entry in range(row_starts[row * orders], row_starts[(row + _ONE) * orders]):
            posted += text_starts[row_rare[entry] + _ONE] - text_starts[row_rare[entry]]
        posts = posted < listed
        if posts:
            _add_posted(row, orders, row_rare, row_starts, texts, text_starts, posts, rare_counts)
        else:
            _add_listed(row, columns, first, last, row_rare, row_starts, column_rare, column_starts, marks, rare_counts)
        for cell in range(first, last):
            column = columns[cell]
            for order in range(orders):
                shared = np.uint64(rare_counts[column, order])
                for word in range(words[order], words[order + _ONE]):
                    shared += popcount(left[row, word] & right[column, word])
                counts[order, cell] = shared
        if posts:
            _add_posted(row, orders, row_rare, row_starts, texts, text_starts, not posts, rare_counts)
        else:
            for cell in range(first, last):
                for order in range(orders):
                    rare_counts[columns[cell], order] = 0
        first = last


@njit(cache=True, nogil=True)
def _add_posted(
    row: Any, orders: Any, rare: Any, starts: Any, texts: Any, text_starts: Any, add: Any, rare_counts: Any
) -> None:
    """Count a row's rare features in every column, rare_counts (C, O), by walking their postings; or undo it."""
    for order in range(orders):
        run = row * orders + order
        for entry in range(starts[run], starts[run + _ONE]):
            feature = rare[entry]
            for posting in range(text_starts[feature], text_starts[feature + _ONE]):
                text = texts[posting]
                rare_counts[text, order] = rare_counts[text, order] + 1 if add else 0


@njit(cache=True, nogil=True)
def _add_listed(
    row: Any, columns: Any, first: Any, last: Any, row_rare: Any, row_starts: Any, column_rare: Any,
    column_starts: Any, marks: Any, rare_counts: Any,
) -> None:  # fmt: skip
    """Count a row's rare features in columns[first:last], rare_counts (C, O), by walking what these columns have."""
    orders = np.uint64(rare_counts.shape[1])
    for entry in range(row_starts[row * orders], row_starts[(row + _ONE) * orders]):
        marks[row_rare[entry]] = 1
    for cell in range(first, last):
        column = columns[cell]
        for order in range(orders):
            run = column * orders + order
            shared = 0
            for entry in range(column_starts[run], column_starts[run + _ONE]):
                shared += marks[column_rare[entry]]
            rare_counts[column, order] = shared
    for entry in range(row_starts[row * orders], row_starts[(row + _ONE) * orders]):
        marks[row_rare[entry]] = 0
