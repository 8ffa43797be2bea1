"""Longest common subsequences of many pairs of texts, 64 words a step.

A text is a run of word numbers. The row's words are bits of a mask for each word of the vocabulary; a column's word
then moves a whole row of the dynamic programme at once (Crochemore, Iliopoulos, Pinzon and Reid 2001; Hyyrö 2004):
with V all ones at first, V <- (V + (V & M)) | (V & ~M), and the length is the number of zeros in V.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from minrisk.numeric.overlap import popcount


@njit(cache=True, nogil=True)
def common_subsequences(words: Any, starts: Any, rows: Any, columns: Any, vocabulary: Any, lengths: Any) -> None:
    """Fill lengths (C,) for the cells (rows[c], columns[c]), which come with equal rows together.

    Text t is words[starts[t]:starts[t + 1]], of numbers below `vocabulary`.
    """
    longest = 1
    for row in rows:
        longest = max(longest, starts[row + 1] - starts[row])
    blocks = (longest + 63) // 64
    masks = np.zeros((vocabulary, blocks), np.uint64)
    state = np.empty(blocks, np.uint64)
    masked = np.int64(-1)
    for cell in range(rows.size):
        row, column = rows[cell], columns[cell]
        if row != masked:
            if masked >= 0:
                for place in range(starts[masked], starts[masked + 1]):
                    masks[words[place], (place - starts[masked]) >> 6] = 0
            for place in range(starts[row], starts[row + 1]):
                bit = np.uint64(place - starts[row])
                masks[words[place], bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
            masked = row
        size = starts[row + 1] - starts[row]
        if size <= 64:
            lengths[cell] = _in_one_block(words, starts[column], starts[column + 1], masks)
        else:
            lengths[cell] = _in_blocks(words, starts[column], starts[column + 1], masks, (size + 63) // 64, state)


@njit(cache=True, nogil=True)
def _in_one_block(words: Any, first: Any, last: Any, masks: Any) -> Any:
    state = ~np.uint64(0)
    for place in range(first, last):
        match = state & masks[words[place], 0]
        state = (state + match) | (state - match)
    return np.int64(popcount(~state))


@njit(cache=True, nogil=True)
def _in_blocks(words: Any, first: Any, last: Any, masks: Any, blocks: Any, state: Any) -> Any:
    for block in range(blocks):
        state[block] = ~np.uint64(0)
    for place in range(first, last):
        carry = np.uint64(0)
        for block in range(blocks):
            before = state[block]
            match = before & masks[words[place], block]
            total = before + match
            overflow = np.uint64(total < before)
            total += carry
            overflow |= np.uint64(total < carry)
            state[block] = total | (before - match)
            carry = overflow
    length = np.int64(0)
    for block in range(blocks):
        length += np.int64(popcount(~state[block]))
    return length
