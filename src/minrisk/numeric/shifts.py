"""Translation edit rate of many pairs of texts: edits and shifts of blocks, as sacreBLEU (after Tercom) counts them.

Edits are counted greedily: as long as moving a block of the candidate's words to where the reference has them lowers
the edit distance, the best such move is made. Which moves are tried, in which order, and when to give up follows
sacreBLEU to the letter, the beam around the diagonal of its edit distance included.

N words of the candidate, L of the reference. Distances come from `distances`: by words of bits where both texts have
at most 64 words and the beam changes nothing, else by the textbook.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from minrisk.numeric import distances

MAX_BLOCK = 10
MAX_DISTANCE = 50
MAX_CANDIDATES = 1000


@njit(cache=True, nogil=True)
def edits_with_shifts(words: Any, starts: Any, rows: Any, columns: Any, vocabulary: Any, edits: Any) -> None:
    """Fill edits (C,) that turn texts rows[c] into texts columns[c].

    Text t is words[starts[t]:starts[t + 1]], of numbers below `vocabulary`.
    """
    longest = 0
    for text in range(starts.size - 1):
        longest = max(longest, starts[text + 1] - starts[text])
    masks = np.zeros(vocabulary, np.uint64)
    table = np.empty((distances.SHORT + 1, 5), np.uint64)
    space = np.empty((2, longest), np.int64)
    alignment = np.empty((3, longest + 1), np.int64)
    for cell in range(rows.size):
        reference = words[starts[columns[cell]] : starts[columns[cell] + 1]]
        first, size, length = starts[rows[cell]], starts[rows[cell] + 1] - starts[rows[cell]], reference.size
        for place in range(size):
            space[0, place] = words[first + place]
        edits[cell] = -1
        if length == 0:
            edits[cell] = size
        elif size <= distances.SHORT and length <= distances.SHORT:
            distances.mark(reference, masks)
            no_beam = np.empty((4, 0, 0), np.int32)
            edits[cell] = _edits(space, size, reference, alignment, masks, table, no_beam)
            distances.unmark(reference, masks)
        if edits[cell] < 0:
            beam = np.empty((4, size + 1, length + 1), np.int32)
            edits[cell] = _edits(space, size, reference, alignment, masks, table, beam)


@njit(cache=True, nogil=True)
def _edits(space: Any, size: Any, reference: Any, alignment: Any, masks: Any, table: Any, beam: Any) -> Any:
    """Edits of the words space[0, :size]; -1 if `beam` is empty and would be needed.

    space      (2, >= N) the words, and room to move them
    alignment  (3, > N and L) room for `distances.align`
    """
    shifts, tried = 0, 0
    while True:
        if beam.size:
            distance = distances.fill_beam(space[0], 0, size, reference, beam, 0)
            distances.align_beam(size, reference.size, beam, alignment)
        else:
            distance = distances.fill_table(space[0], size, reference.size, masks, table)
            if distance > distances.WITHIN_BEAM:
                return -1
            distances.align_table(space[0], size, reference.size, masks, table, alignment)
        if distance == 0:
            return shifts
        gain, start, block, target, tried = _best_shift(
            space, size, reference, distance, tried, alignment, masks, table, beam
        )
        if tried >= MAX_CANDIDATES or gain <= 0:
            return shifts + distance
        _move(space[0], start, block, target, size, space[1])
        for place in range(size):
            space[0, place] = space[1, place]
        shifts += 1


@njit(cache=True, nogil=True)
def _best_shift(
    space: Any, size: Any, reference: Any, distance: Any, tried: Any, alignment: Any, masks: Any, table: Any, beam: Any
) -> Any:
    """The shift that gains most: (gain, start, length and target of the block, shifts tried).

    Of equal gains the longest block wins, then the first, then the one that goes to the first place.
    """
    length = reference.size
    best = (np.int64(0), np.int64(0), np.int64(0), np.int64(0))  # gain, block, -start, -target
    for start in range(size):
        for place in range(max(0, start - MAX_DISTANCE), min(length, start + MAX_DISTANCE + 1)):
            block = 0
            while block < MAX_BLOCK and start + block < size and place + block < length:
                if space[0, start + block] != reference[place + block]:
                    break
                block += 1
                if not _worth_a_try(start, place, block, alignment):
                    continue
                before = -1
                for target in alignment[0, place : place + block + 1]:
                    if target == before:
                        continue
                    before = target
                    tried += 1
                    after = _distance_after(start, block, target, space, size, reference, masks, table, beam)
                    shift = (np.int64(distance - after), np.int64(block), np.int64(-start), np.int64(-target))
                    if shift > best:
                        best = shift
                if tried >= MAX_CANDIDATES:
                    return best[0], -best[2], best[1], -best[3], tried
    return best[0], -best[2], best[1], -best[3], tried


@njit(cache=True, nogil=True)
def _worth_a_try(start: Any, place: Any, block: Any, alignment: Any) -> Any:
    """Whether a block has an error on either side, and does not hold the place that it would go to."""
    aligned = alignment[0, place + 1] - 1
    return (
        alignment[1, start + block] > alignment[1, start]
        and alignment[2, place + block] > alignment[2, place]
        and not start <= aligned < start + block
    )


@njit(cache=True, nogil=True)
def _distance_after(
    start: Any, block: Any, target: Any, space: Any, size: Any, reference: Any, masks: Any, table: Any, beam: Any
) -> Any:
    """The edit distance after a shift; the words before it, and what was computed for them, stay."""
    _move(space[0], start, block, target, size, space[1])
    first = min(start, target)
    if beam.size:
        return distances.fill_beam(space[1], first, size, reference, beam, 2)
    return distances.continue_table(space[1], first, size, reference.size, masks, table)


@njit(cache=True, nogil=True)
def _move(words: Any, start: Any, block: Any, target: Any, size: Any, moved: Any) -> None:
    """Fill `moved` with the words after the block words[start:start + block] went to before `target`.

    A target within the block, or right behind it, moves the block on by as many words as it lies behind the start.
    """
    if target < start:
        lower, middle, upper = target, start, start + block
    else:
        lower, middle = start, start + block
        upper = target if target > middle else min(target + block, size)
    for index in range(lower):
        moved[index] = words[index]
    place = lower
    for index in range(middle, upper):
        moved[place] = words[index]
        place += 1
    for index in range(lower, middle):
        moved[place] = words[index]
        place += 1
    for index in range(upper, size):
        moved[index] = words[index]
