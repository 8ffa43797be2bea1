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
from minrisk.numeric.overlap import popcount

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
    now, moved = np.empty(longest, np.int64), np.empty(longest, np.int64)
    alignment = np.empty((3, longest + 1), np.int64)
    no_beam = np.empty((4, 0, 0), np.int32)
    for cell in range(rows.size):
        reference = words[starts[columns[cell]] : starts[columns[cell] + 1]]
        first, size, length = starts[rows[cell]], starts[rows[cell] + 1] - starts[rows[cell]], reference.size
        for place in range(size):
            now[place] = words[first + place]
        edits[cell] = -1
        if length == 0:
            edits[cell] = size
        elif size <= distances.SHORT and length <= distances.SHORT:
            distances.mark(reference, masks)
            edits[cell] = _edits(now, moved, size, reference, alignment, masks, table, no_beam)
            distances.unmark(reference, masks)
        if edits[cell] < 0:
            beam = np.empty((4, size + 1, length + 1), np.int32)
            edits[cell] = _edits(now, moved, size, reference, alignment, masks, table, beam)


@njit(cache=True, nogil=True, _nrt=False)
def _edits(now: Any, moved: Any, size: Any, reference: Any, alignment: Any, masks: Any, table: Any, beam: Any) -> Any:
    """Edits of the words now[:size]; -1 if `beam` is empty and would be needed.

    `moved` has room for the words, `alignment` (3, > N and L) for an alignment (see `distances`).
    """
    shifts, tried = 0, 0
    while True:
        if beam.size:
            distance = distances.fill_beam(now, 0, size, reference, beam, 0)
            distances.align_beam(size, reference.size, beam, alignment)
        else:
            distance = distances.fill_table(now, size, reference.size, masks, table)
            if distance > distances.WITHIN_BEAM:
                return -1
            distances.align_table(now, size, reference.size, masks, table, alignment)
        if distance == 0:
            return shifts
        gain, start, block, target, tried = _best_shift(
            now, moved, size, reference, distance, tried, alignment, masks, table, beam
        )
        if tried >= MAX_CANDIDATES or gain <= 0:
            return shifts + distance
        _move(now, start, block, target, size, moved)
        for place in range(size):
            now[place] = moved[place]
        shifts += 1


@njit(cache=True, nogil=True, _nrt=False)
def _best_shift(
    now: Any,
    moved: Any,
    size: Any,
    reference: Any,
    distance: Any,
    tried: Any,
    alignment: Any,
    masks: Any,
    table: Any,
    beam: Any,
) -> Any:
    """The shift that gains most: (gain, start, length and target of the block, shifts tried).

    Of equal gains the longest block wins, then the first, then the one that goes to the first place.
    """
    best = (np.int64(0), np.int64(0), np.int64(0), np.int64(0))  # gain, block, -start, -target
    for start in range(size):
        if alignment[1, min(start + MAX_BLOCK, size)] == alignment[1, start]:
            continue
        upper = min(reference.size, start + MAX_DISTANCE + 1)
        place = _next_place(now[start], max(0, start - MAX_DISTANCE), upper, reference, masks, beam)
        while place < upper:
            best, tried = _best_block(
                best, start, place, now, moved, size, reference, distance, tried, alignment, masks, table, beam
            )
            if tried >= MAX_CANDIDATES:
                return best[0], -best[2], best[1], -best[3], tried
            place = _next_place(now[start], place + 1, upper, reference, masks, beam)
    return best[0], -best[2], best[1], -best[3], tried


@njit(cache=True, nogil=True, _nrt=False)
def _next_place(word: Any, place: Any, upper: Any, reference: Any, masks: Any, beam: Any) -> Any:
    """The first place from `place` on where the reference has the word, `upper` or more if there is none before."""
    if beam.size:
        while place < upper and reference[place] != word:
            place += 1
        return place
    if place >= upper:
        return upper
    later = masks[word] >> np.uint64(place)
    return place + np.int64(popcount((later & -later) - np.uint64(1))) if later else upper


@njit(cache=True, nogil=True, _nrt=False)
def _best_block(
    best: Any, start: Any, place: Any, now: Any, moved: Any, size: Any, reference: Any, distance: Any, tried: Any,
    alignment: Any, masks: Any, table: Any, beam: Any,
) -> Any:  # fmt: skip
    """The best shift so far or of the blocks that begin at `start`, and at `place` in the reference; shifts tried."""
    most = min(MAX_BLOCK, size - start, reference.size - place)
    block = 0
    while block < most and now[start + block] == reference[place + block]:
        block += 1
        if not _worth_a_try(start, place, block, alignment):
            continue
        before = np.int64(-1)
        for offset in range(block + 1):
            target = alignment[0, place + offset]
            if target == before:
                continue
            before = target
            tried += 1
            after = _distance_after(start, block, target, now, moved, size, reference, masks, table, beam)
            shift = (np.int64(distance - after), np.int64(block), np.int64(-start), np.int64(-target))
            if shift > best:
                best = shift
        if tried >= MAX_CANDIDATES:
            break
    return best, tried


@njit(cache=True, nogil=True, _nrt=False)
def _worth_a_try(start: Any, place: Any, block: Any, alignment: Any) -> Any:
    """Whether a block has an error on either side, and does not hold the place that it would go to."""
    aligned = alignment[0, place + 1] - 1
    return (
        alignment[1, start + block] > alignment[1, start]
        and alignment[2, place + block] > alignment[2, place]
        and not start <= aligned < start + block
    )


@njit(cache=True, nogil=True, _nrt=False)
def _distance_after(
    start: Any,
    block: Any,
    target: Any,
    now: Any,
    moved: Any,
    size: Any,
    reference: Any,
    masks: Any,
    table: Any,
    beam: Any,
) -> Any:
    """The edit distance after a shift; the words before it, and what was computed for them, stay."""
    _move(now, start, block, target, size, moved)
    first = min(start, target)
    if beam.size:
        return distances.fill_beam(moved, first, size, reference, beam, 2)
    return distances.continue_table(moved, first, size, reference.size, masks, table)


@njit(cache=True, nogil=True, _nrt=False)
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
