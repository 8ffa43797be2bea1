"""Edit distances and alignments of two runs of words, in two ways that give the same.

D[i, j] is the distance of the first i of N words of the candidate from the first j of L words of the reference.

By the textbook: a beam around the diagonal, as sacreBLEU has it, in layers (4, N + 1, L + 1) of costs and operations
for the words as they are and for a trial.

By bits, for up to SHORT words (Myers 1999, Hyyrö 2003): a row of D as differences, a bit for each word of the
reference, in a table (N + 1, 5). A path with d edits is never further than d from the diagonal: up to WITHIN_BEAM
edits, no optimal path leaves the beam, and the two ways agree in the distance and in each step of the alignment.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

BEAM = 25
SHORT = 64
WITHIN_BEAM = BEAM - 2

_INFINITE = 1 << 30
_KEEP, _REPLACE, _DELETE, _INSERT, _NONE = 0, 1, 2, 3, 4

# `_nrt=False`: these functions make no arrays, and are called so often that counting references (two atomic operations
# for each array that is passed) would take most of the time.

_ONE = np.uint64(1)
_UP, _DOWN, _LAST, _SAME, _STEP = 0, 1, 2, 3, 4
"""Columns of the table. Bit j - 1 of _UP and _DOWN: D[i, j] - D[i, j - 1] is 1, -1; of _SAME: D[i, j] is
D[i - 1, j - 1]; of _STEP: D[i, j] - D[i - 1, j] is 1. _LAST: D[i, L]."""


@njit(cache=True, nogil=True, _nrt=False)
def mark(reference: Any, masks: Any) -> None:
    """Set the places of the reference's words, masks (V,): zeros before."""
    for place in range(reference.size):
        masks[reference[place]] |= _ONE << np.uint64(place)


@njit(cache=True, nogil=True, _nrt=False)
def unmark(reference: Any, masks: Any) -> None:
    """Undo `mark`."""
    for place in range(reference.size):
        masks[reference[place]] = 0


@njit(cache=True, nogil=True, _nrt=False)
def fill_table(words: Any, size: Any, length: Any, masks: Any, table: Any) -> Any:
    """Fill the table of words[:size] and return the distance."""
    up, down, last = ~np.uint64(0), np.uint64(0), np.int64(length)
    table[0, _UP], table[0, _DOWN], table[0, _LAST] = up, down, length
    for row in range(size):
        up, down, same, step, change = _next(up, down, masks[words[row]], length)
        last += change
        table[row + 1, _UP], table[row + 1, _DOWN], table[row + 1, _LAST] = up, down, last
        table[row + 1, _SAME], table[row + 1, _STEP] = same, step
    return last


@njit(cache=True, nogil=True, _nrt=False)
def continue_table(words: Any, first: Any, size: Any, length: Any, masks: Any, table: Any) -> Any:
    """The distance of words[:size], of which the first `first` are those of the table."""
    up, down, last = table[first, _UP], table[first, _DOWN], np.int64(table[first, _LAST])
    for row in range(first, size):
        up, down, _, _, change = _next(up, down, masks[words[row]], length)
        last += change
    return last


@njit(cache=True, nogil=True, _nrt=False)
def _next(up: Any, down: Any, mask: Any, length: Any) -> Any:
    """The next row: _UP, _DOWN, _SAME, _STEP, and the change of _LAST."""
    same = (((mask & up) + up) ^ up) | mask | down
    step = down | ~(same | up)
    back = same & up
    end = np.uint64(length - 1)
    change = np.int64((step >> end) & _ONE) - np.int64((back >> end) & _ONE)
    shifted = (step << _ONE) | _ONE
    return (back << _ONE) | ~(same | shifted), shifted & same, same, step, change


@njit(cache=True, nogil=True, _nrt=False)
def align_table(words: Any, size: Any, length: Any, masks: Any, table: Any, alignment: Any) -> None:
    """Fill the alignment (see `_finish`) from the table of words[:size]."""
    row, column = size, length
    while row > 0 or column > 0:
        bit = np.uint64(column - 1)
        if row == 0:
            operation = _INSERT
        elif column == 0:
            operation = _DELETE
        elif (masks[words[row - 1]] >> bit) & _ONE:
            operation = _KEEP
        elif not (table[row, _SAME] >> bit) & _ONE:
            operation = _REPLACE
        else:
            operation = _DELETE if (table[row, _STEP] >> bit) & _ONE else _INSERT
        row, column = _back(operation, row, column, alignment)
    _finish(size, length, alignment)


@njit(cache=True, nogil=True, _nrt=False)
def fill_beam(words: Any, first: Any, size: Any, reference: Any, beam: Any, layer: Any) -> Any:
    """Fill two layers, costs and operations, for words[:size], and return the distance.

    The first `first` words are those of layer 0.
    """
    length = reference.size
    ratio = length / size if size else 1.0
    width = math.ceil(ratio / 2 + BEAM) if ratio / 2 > BEAM else BEAM
    costs, operations = beam[layer], beam[layer + 1]
    for column in range(length + 1):
        costs[first, column] = beam[0, first, column] if first else column
        operations[0, column] = _INSERT
    for row in range(first + 1, size + 1):
        middle = math.floor(row * ratio)
        # Infinite as far as this row and the next one look.
        for column in range(max(0, middle - width - 1), min(length, middle + width + math.ceil(ratio) + 1) + 1):
            costs[row, column], operations[row, column] = _INFINITE, _NONE
        upper = length + 1 if row == size else min(length + 1, middle + width)
        for column in range(max(0, middle - width), upper):
            deleted = costs[row - 1, column] + 1
            if column == 0:
                costs[row, 0], operations[row, 0] = deleted, _DELETE
                continue
            equal = words[row - 1] == reference[column - 1]
            cost, operation = costs[row - 1, column - 1] + (0 if equal else 1), _KEEP if equal else _REPLACE
            if deleted < cost:
                cost, operation = deleted, _DELETE
            if costs[row, column - 1] + 1 < cost:
                cost, operation = costs[row, column - 1] + 1, _INSERT
            if cost < _INFINITE:
                costs[row, column], operations[row, column] = cost, operation
    return np.int64(costs[size, length])


@njit(cache=True, nogil=True, _nrt=False)
def align_beam(size: Any, length: Any, beam: Any, alignment: Any) -> None:
    """Fill the alignment (see `_finish`) from the layers 0 and 1."""
    row, column = size, length
    while row > 0 or column > 0:
        row, column = _back(beam[1, row, column], row, column, alignment)
    _finish(size, length, alignment)


@njit(cache=True, nogil=True, _nrt=False)
def _back(operation: Any, row: Any, column: Any, alignment: Any) -> Any:
    """Note an operation in the alignment, and go to where it came from."""
    wrong = 0 if operation == _KEEP else 1
    if operation != _DELETE:
        alignment[0, column] = row
        alignment[2, column] = wrong
        column -= 1
    if operation != _INSERT:
        alignment[1, row] = wrong
        row -= 1
    return row, column


@njit(cache=True, nogil=True, _nrt=False)
def _finish(size: Any, length: Any, alignment: Any) -> None:
    """Make sums of the errors. Then alignment (3, > N and L) is complete:

    [0, j]   how many of the candidate's words stand up to the one aligned with word j - 1 of the reference
    [1, i]   errors in the first i words of the candidate
    [2, j]   errors in the first j words of the reference
    """
    for row in range(3):
        alignment[row, 0] = 0
    for place in range(size):
        alignment[1, place + 1] += alignment[1, place]
    for place in range(length):
        alignment[2, place + 1] += alignment[2, place]
