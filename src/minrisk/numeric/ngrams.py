"""n-grams of texts as exact integer ids.

A text is a run of symbols (code points or word numbers). What comes out is its *features*: the k-th occurrence of an
n-gram in a text is the feature (n-gram, k), so that a feature is in a text at most once and the clipped overlap of two
texts is the size of an intersection: min(a, b) = sum_k [a >= k][b >= k].

An n-gram is found by the pair (id of its first n - 1 symbols, last symbol) in a hash table that compares whole keys:
no two n-grams ever share an id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from minrisk.types import IntArray

_EMPTY = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_MIXER = np.uint64(0x9E37_79B9_7F4A_7C15)
_FIRST_ROOT = 0xFFFF_FF00
_FIRST_CAPACITY = 1 << 11
_ORDER, _LONGER, _CURSOR, _TEXT = 0, 1, 2, 3


class Stream(NamedTuple):
    """T texts as symbols, and up to which order their n-grams count.

    symbols  (S,) uint32, text after text
    lengths  (T,) symbols of each text
    order    longest n-gram
    """

    symbols: NDArray[np.uint32]
    lengths: IntArray
    order: int


class Features(NamedTuple):
    """The features of T texts over O orders (the orders of all streams, one after the other).

    ids     (M,) int32 feature numbers, text after text, within a text order after order
    starts  (T * O + 1,) where order o of text t begins in `ids`: entry t * O + o
    orders  (F,) int32 the order of each feature
    longer  (F,) int32 the feature of the n-gram's next occurrence in a text, -1 where no text has another one
    totals  (T, O) n-grams of each text
    """

    ids: NDArray[np.int32]
    starts: IntArray
    orders: NDArray[np.int32]
    longer: NDArray[np.int32]
    totals: IntArray


def character_stream(texts: Sequence[str], order: int, whitespace: bool) -> Stream:
    """Code points of the texts, white space (as `str.split` knows it) kept or left out."""
    joined = "".join(texts)
    symbols = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    if whitespace:
        symbols = symbols.copy()  # which may be written to, unlike bytes: one type for the kernel
    else:
        kept = ~_SPACES[np.minimum(symbols, len(_SPACES) - 1)]
        ends = np.concatenate(([0], np.cumsum(kept)))[np.concatenate(([0], np.cumsum(lengths)))]
        symbols, lengths = symbols[kept], np.diff(ends)
    return Stream(symbols, lengths, order)


def word_stream(texts: Sequence[Sequence[str]], order: int) -> Stream:
    """Texts given as lists of words; equal words get equal numbers."""
    numbers: dict[str, int] = {}
    symbols = [numbers.setdefault(word, len(numbers)) for words in texts for word in words]
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return Stream(np.array(symbols, dtype=np.uint32), lengths, order)


def extract(streams: Sequence[Stream]) -> Features:
    """The features of T texts, each given as one run of symbols a stream."""
    texts = len(streams[0].lengths)
    totals = totals_of(streams)
    starts = np.concatenate(([0], np.cumsum(totals)))
    ids = np.empty(starts[-1], np.int32)
    grams = np.empty(max(int(stream.lengths.max(initial=0)) for stream in streams), np.int64)
    table = np.full((2 * _FIRST_CAPACITY, 2), _EMPTY, np.uint64)
    nodes = np.empty((_FIRST_CAPACITY, 4), np.int32)
    used, first_order = 0, 0
    for number, stream in enumerate(streams):
        text, position = 0, 0
        while text < texts:
            text, position, used = _extract(
                *stream, number, totals.shape[1], first_order, starts, text, position, grams, table, nodes, used, ids
            )
            if text < texts:
                table, nodes = _grown(table, nodes, used + int(stream.lengths[text]) * stream.order)
        first_order += stream.order
    return Features(ids, starts, nodes[:used, _ORDER].copy(), nodes[:used, _LONGER].copy(), totals)


def _grown(
    table: NDArray[np.uint64], nodes: NDArray[np.int32], needed: int
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Room for `needed` nodes: a table never more than half full, and nodes."""
    capacity = len(nodes)
    while capacity < needed:
        capacity *= 2
    larger = np.full((2 * capacity, 2), _EMPTY, np.uint64)
    _rehash(table, larger)
    return larger, np.concatenate((nodes, np.empty((capacity - len(nodes), 4), np.int32)))


def totals_of(streams: Sequence[Stream]) -> IntArray:
    """How many n-grams each text has of each order: (T, O)."""
    totals = [np.maximum(stream.lengths[:, None] - np.arange(stream.order), 0) for stream in streams]
    return np.concatenate(totals, axis=1)


# `str.split` separates at the same code points as `str.isspace` names; none is beyond U+3000.
_SPACES = np.array([chr(code).isspace() for code in range(0x3002)])


# Kernels keep to loops over arrays made by NumPy: the array functions of numba cost seconds of compilation.
@njit(cache=True, nogil=True)
def _extract(
    symbols: Any, lengths: Any, order: Any, stream: Any, orders: Any, first_order: Any, starts: Any, text: Any,
    position: Any, grams: Any, table: Any, nodes: Any, used: Any, ids: Any,
) -> Any:  # fmt: skip
    """Fill the features of the texts of a stream from `text` on, which begins at `position`, as far as there is room.

    The first text that is not done, where it begins, and how many nodes are used.
    """
    while text < lengths.size and used + lengths[text] * order <= nodes.shape[0]:
        length = lengths[text]
        for place in range(length):
            grams[place] = _FIRST_ROOT + stream
        for shorter in range(min(order, length)):
            run = text * orders + first_order + shorter
            used = _extend(
                symbols, position + shorter, length - shorter, grams, first_order + shorter, text, table, nodes, used,
                ids, starts[run],
            )  # fmt: skip
        position += length
        text += 1
    return text, position, used


@njit(cache=True, nogil=True)
def _extend(
    symbols: Any, first: Any, size: Any, grams: Any, order: Any, text: Any, table: Any, nodes: Any, used: Any,
    ids: Any, start: Any,
) -> Any:  # fmt: skip
    """Lengthen the n-grams of one text, grams (size,), by a symbol each; write their features to ids[start:].

    A node is a feature: of its n-gram's first occurrence in a text (found through the table) or of a later one (found
    through _LONGER of the one before). _TEXT and _CURSOR: where an n-gram was seen last, and as which feature.
    Returns how many nodes there are now.
    """
    mask = np.uint64(table.shape[0] - 1)
    shift = _shift(table)
    for place in range(size):
        key = np.uint64(grams[place]) << np.uint64(32) | np.uint64(symbols[first + place])
        slot = (key * _MIXER) >> shift
        while table[slot, 0] != key and table[slot, 0] != _EMPTY:
            slot = (slot + np.uint64(1)) & mask
        if table[slot, 0] == _EMPTY:
            table[slot, 0] = key
            table[slot, 1] = np.uint64(used)
            used = _new_node(nodes, used, order)
        gram = np.int64(table[slot, 1])
        grams[place] = gram
        feature = gram
        if nodes[gram, _TEXT] == text:
            before = nodes[gram, _CURSOR]
            feature = np.int64(nodes[before, _LONGER])
            if feature < 0:
                feature = used
                nodes[before, _LONGER] = feature
                used = _new_node(nodes, used, order)
        nodes[gram, _TEXT] = text
        nodes[gram, _CURSOR] = feature
        ids[start + place] = feature
    return used


@njit(cache=True, nogil=True)
def _new_node(nodes: Any, used: Any, order: Any) -> Any:
    nodes[used, _ORDER] = order
    nodes[used, _LONGER] = -1
    nodes[used, _CURSOR] = -1
    nodes[used, _TEXT] = -1
    return used + 1


@njit(cache=True, nogil=True)
def _shift(table: Any) -> Any:
    """How far a mixed key is shifted to fall into the table, whose size is a power of two."""
    bits = 0
    while 1 << bits < table.shape[0]:
        bits += 1
    return np.uint64(64 - bits)


@njit(cache=True, nogil=True)
def _rehash(table: Any, larger: Any) -> None:
    """Put the entries of a table into a larger one."""
    mask = np.uint64(larger.shape[0] - 1)
    shift = _shift(larger)
    for entry in range(table.shape[0]):
        key = table[entry, 0]
        if key != _EMPTY:
            slot = (key * _MIXER) >> shift
            while larger[slot, 0] != _EMPTY:
                slot = (slot + np.uint64(1)) & mask
            larger[slot, 0] = key
            larger[slot, 1] = table[entry, 1]
