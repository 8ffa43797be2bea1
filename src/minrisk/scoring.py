"""From the cells that many plans ask for to the fewest, best packed calls of a utility."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minrisk.errors import MinriskError, UtilityError
from minrisk.types import Ask, Cells, Encodings, FloatArray, Folded, IntArray, Problem
from minrisk.utilities.base import MatrixUtility, PairUtility, Utility
from minrisk.utilities.mixture import Mixture

Asks = Sequence[tuple[Problem, Ask]]
CellAsks = Sequence[tuple[Problem, Cells]]
Pair = tuple[str, str, str | None]


@dataclass(slots=True)
class Ledger:
    """What a run has spent. `calls` counts cells per segment; `scored` those that really reached the metric.

    auxiliary  cells of the other utilities that a method used, such as a coarse one
    """

    segments: int = 0
    calls: int = 0
    cells: int = 0
    scored: int = 0
    auxiliary: int = 0
    seconds_scoring: float = 0.0
    seconds_planning: float = 0.0

    @property
    def share(self) -> float:
        """Calls as a share of full MBR's."""
        return self.calls / self.cells if self.cells else 0.0


class Scorer:
    """Answers what many plans ask of one utility at once, in the cheapest way that the utility offers."""

    def __init__(self, utility: Utility, ledger: Ledger) -> None:
        self.utility = utility
        self.ledger = ledger
        self._memory = Memory()
        self._parts = [Scorer(part, Ledger()) for part in utility.parts] if isinstance(utility, Mixture) else []

    def answer(self, asks: Asks) -> list[FloatArray]:
        """What each ask is answered with, on the metric's own scale."""
        begin = time.perf_counter()
        cells = [(problem, ask) for problem, ask in asks if isinstance(ask, Cells)]
        values = iter(self._cells(cells) if cells else [])
        answers = [next(values) if isinstance(ask, Cells) else self._other(problem, ask) for problem, ask in asks]
        self.ledger.seconds_scoring += time.perf_counter() - begin
        return answers

    def _cells(self, asks: CellAsks) -> list[FloatArray]:
        if isinstance(self.utility, Mixture):
            before = [part.ledger.scored for part in self._parts]
            of_parts = zip(*(part._cells(asks) for part in self._parts), strict=True)
            after = [part.ledger.scored for part in self._parts]
            self.ledger.scored += max(now - then for now, then in zip(after, before, strict=True))
            return [self.utility.mixed(values) for values in of_parts]
        if isinstance(self.utility, PairUtility):
            return self._pooled(self.utility, asks)
        if isinstance(self.utility, MatrixUtility):
            self.ledger.scored += sum(len(cells) for _, cells in asks)
            return [self.utility.answer(problem, cells) for problem, cells in asks]
        raise UtilityError(f"{self.utility.name!r} is neither a PairUtility nor a MatrixUtility")

    def _other(self, problem: Problem, ask: Folded | Encodings) -> FloatArray:
        if isinstance(ask, Encodings):
            return self.utility.answer_encodings(problem)
        self.ledger.scored += len(ask)
        return self.utility.answer_folded(problem, ask)

    def _pooled(self, utility: PairUtility, asks: CellAsks) -> list[FloatArray]:
        texts = _Interned()
        keys = [texts.keys(problem, cells, utility.uses_source) for problem, cells in asks]
        distinct, owner, places = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
        pairs = [texts.pair(int(key)) for key in distinct]
        values = np.array([self._memory.get(pair) for pair in pairs], dtype=np.float64)
        unknown = np.flatnonzero(np.isnan(values))
        lengths = np.array([sum(len(text or "") for text in pairs[place]) for place in unknown], dtype=np.int64)
        starts = np.cumsum([0] + [len(key) for key in keys])
        # Similar lengths together waste no padding; the longest first, so that too little memory shows at once.
        for batch in _batches(unknown[np.argsort(-lengths, kind="stable")], utility.batch_size):
            first = asks[int(np.searchsorted(starts, owner[batch[0]], side="right")) - 1][0]
            values[batch] = score_batch(utility, [pairs[place] for place in batch], first.id)
        self.ledger.scored += len(unknown)
        self._memory.add(pairs, values)
        return np.split(values[places.ravel()], starts[1:-1].tolist())


class Memory:
    """The values of the last pairs: repeated lines lie close together in practice, and memory stays bounded."""

    SIZE = 1 << 15

    def __init__(self) -> None:
        self._recent: dict[Pair, float] = {}
        self._older: dict[Pair, float] = {}

    def get(self, pair: Pair) -> float:
        """The value of a pair, NaN if it is not remembered."""
        value = self._recent.get(pair)
        return self._older.get(pair, math.nan) if value is None else value

    def add(self, pairs: Sequence[Pair], values: FloatArray) -> None:
        """Remember these values; when one generation is full, the one before it is forgotten."""
        self._recent.update(zip(pairs, values.tolist(), strict=True))
        if len(self._recent) >= self.SIZE:
            self._older, self._recent = self._recent, {}


def score_batch(utility: PairUtility, pairs: Sequence[Pair], segment: str) -> FloatArray:
    """The values of one batch of pairs, checked for their number; failures name the segment."""
    candidates, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    sources = [pair[2] for pair in pairs]
    place = f"utility {utility.name!r}, batch of {len(pairs)} pairs (segment {segment!r} among them)"
    try:
        values = np.asarray(utility.score(candidates, references, sources), dtype=np.float64)
    except MinriskError as error:
        error.add_note(place)
        raise
    except Exception as error:
        raise UtilityError(f"{place}: {type(error).__name__}: {error}") from error
    if values.shape != (len(pairs),):
        got = len(values) if values.ndim == 1 else f"an array of shape {values.shape}"
        raise UtilityError(f"{place}: expected {len(pairs)} values, got {got}")
    return values


class _Interned:
    """Texts as numbers, so that equal pairs of many segments are found by sorting integers."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {}
        self._texts: list[str | None] = []

    def keys(self, problem: Problem, cells: Cells, with_source: bool) -> IntArray:
        """One integer a cell; 21 bits a text allow two million distinct texts in one window."""
        source = self._number(problem.source if with_source else None)
        rows = np.zeros(problem.shape[0], dtype=np.int64)
        columns = np.zeros(problem.shape[1], dtype=np.int64)
        for row in np.unique(cells.rows):
            rows[row] = self._number(problem.candidates[row])
        for column in np.unique(cells.columns):
            columns[column] = self._number(problem.pseudo_references[column])
        return (rows[cells.rows] << 42) | (columns[cells.columns] << 21) | source

    def pair(self, key: int) -> Pair:
        mask = (1 << 21) - 1
        return self._texts[key >> 42] or "", self._texts[key >> 21 & mask] or "", self._texts[key & mask]

    def _number(self, text: str | None) -> int:
        number = self._numbers.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
        return number


def _batches(places: IntArray, size: int) -> list[IntArray]:
    return [places[start : start + size] for start in range(0, len(places), size)]
