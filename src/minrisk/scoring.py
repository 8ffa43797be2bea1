"""From the cells that many plans ask for to the fewest, best packed calls of a utility."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from minrisk.errors import MinriskError, UtilityError, redacted
from minrisk.store import Pairs, Store, stored
from minrisk.types import Ask, Cells, Encodings, FloatArray, Folded, IntArray, Problem
from minrisk.utilities.base import EncodedUtility, MatrixUtility, PairUtility, QualityUtility, Utility
from minrisk.utilities.mixture import Mixture

Asks = Sequence[tuple[Problem, Ask]]
CellAsks = Sequence[tuple[Problem, Cells]]
Pair = tuple[str, str, str | None]


@dataclass(slots=True)
class Ledger:
    """What a run has spent. `calls` counts cells per segment; `scored` those that really reached the metric.

    found      cells whose values were in the store
    auxiliary  cells of the other utilities that a method used, such as a coarse one
    encoded    texts that were encoded, where the utility compares encodings
    """

    segments: int = 0
    calls: int = 0
    cells: int = 0
    scored: int = 0
    found: int = 0
    auxiliary: int = 0
    encoded: int = 0
    seconds_scoring: float = 0.0
    seconds_planning: float = 0.0

    def add(self, other: Ledger) -> None:
        """Count what another run has spent as well."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def taken(self) -> Ledger:
        """What has been spent so far; from here on, this ledger counts from nothing."""
        spent = replace(self)
        self.__init__()  # type: ignore[misc]  # in place: a scorer holds it
        return spent

    @property
    def share(self) -> float:
        """Calls as a share of full MBR's."""
        return self.calls / self.cells if self.cells else 0.0


class Scorer:
    """Answers what many plans ask of one utility at once, in the cheapest way that the utility offers."""

    def __init__(self, utility: Utility, ledger: Ledger, store: Store | None = None) -> None:
        self.utility = utility
        self.ledger = ledger
        self._shelf = store.shelf(utility) if store is not None and stored(utility, store) else None
        self._memory = Memory()
        self._encodings = EncodingMemory()
        self._parts = [Scorer(part, Ledger(), store) for part in utility.parts] if isinstance(utility, Mixture) else []

    def portion(self, asks: Asks) -> int:
        """How many of these, from the first on, to answer at once: as many as pack well, and no more."""
        if isinstance(self.utility, EncodedUtility):
            costs, most = [sum(problem.shape) for problem, _ in asks], TEXTS_AT_ONCE
        else:
            pairs = BATCHES_AT_ONCE * getattr(self.utility, "batch_size", PairUtility.batch_size)
            most = CELLS_AT_ONCE if isinstance(self.utility, MatrixUtility) else pairs
            costs = [len(ask) for _, ask in asks]
        return max(1, int(np.searchsorted(np.cumsum(costs), most, side="right")))

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
            before = [(part.ledger.scored, part.ledger.found) for part in self._parts]
            of_parts = list(zip(*(part._cells(asks) for part in self._parts), strict=True))
            done = [(part.ledger.scored - s, part.ledger.found - f) for part, (s, f) in zip(self._parts, before)]
            self.ledger.scored += max(scored for scored, _ in done)
            self.ledger.found += max(found for _, found in done)
            self.ledger.encoded = sum(part.ledger.encoded for part in self._parts)
            return [self.utility.mixed(values) for values in of_parts]
        if isinstance(self.utility, PairUtility):
            return self._pooled(self.utility, asks)
        if isinstance(self.utility, EncodedUtility):
            return [values for group in _groups(asks) for values in self._compared(self.utility, group)]
        if isinstance(self.utility, MatrixUtility):
            answers = []
            for problem, cells in asks:
                with _blamed(self.utility, f"{len(cells):,} cells", problem.id):
                    answers.append(self._of_matrix(self.utility, problem, cells))
            return answers
        raise UtilityError(f"{self.utility.name!r} is no PairUtility, EncodedUtility or MatrixUtility")

    def _of_matrix(self, utility: MatrixUtility, problem: Problem, cells: Cells) -> FloatArray:
        if self._shelf is None:
            self.ledger.scored += len(cells)
            return utility.answer(problem, cells)
        texts = [*problem.candidates, *problem.pseudo_references, problem.source if utility.uses_source else None]
        sources = np.full(len(cells), len(texts) - 1)
        pairs, values = self._looked_up(texts, cells.rows, cells.columns + problem.shape[0], sources)
        unknown = np.flatnonzero(np.isnan(values))
        if len(unknown):
            values[unknown] = utility.answer(problem, Cells(cells.rows[unknown], cells.columns[unknown]))
            self._keep(pairs and pairs[unknown], values[unknown])
        return values

    def _looked_up(
        self, texts: Sequence[str | None], candidates: IntArray, references: IntArray, sources: IntArray
    ) -> tuple[Pairs | None, FloatArray]:
        """The values that the store has of pairs of positions in `texts`, NaN where it has none; and their places."""
        if self._shelf is None:
            return None, np.full(len(candidates), np.nan)
        pairs = self._shelf.pairs(texts, candidates, references, sources)
        values = self._shelf.find(pairs)
        self.ledger.found += int(np.isfinite(values).sum())
        return pairs, values

    def _keep(self, pairs: Pairs | None, values: FloatArray) -> None:
        """Count what has been scored now, and have the store keep it before it is used."""
        self.ledger.scored += len(values)
        if self._shelf is not None and pairs is not None:
            self._shelf.add(pairs, values)

    def _other(self, problem: Problem, ask: Folded | Encodings) -> FloatArray:
        if isinstance(self.utility, EncodedUtility):
            return self._other_encoded(self.utility, problem, ask)
        if isinstance(ask, Encodings):
            return self.utility.answer_encodings(problem)
        self.ledger.scored += len(ask)
        return self.utility.answer_folded(problem, ask)

    def _other_encoded(self, utility: EncodedUtility, problem: Problem, ask: Folded | Encodings) -> FloatArray:
        texts = _Interned()
        columns = texts.numbers(problem.pseudo_references)
        if isinstance(ask, Encodings):
            return utility.vectors(self._encoded(utility, texts.texts, problem.id))[columns]
        rows = texts.numbers([problem.candidates[row] for row in ask.rows])
        source = texts.number(problem.source) if utility.uses_source and problem.source is not None else -1
        encodings = self._encoded(utility, texts.texts, problem.id)
        self.ledger.scored += len(ask)
        return utility.compare_folded(encodings, rows, columns, source, ask.weights).ravel()

    def _compared(self, utility: EncodedUtility, asks: CellAsks) -> list[FloatArray]:
        """The values of the cells of several segments: what is new is encoded at once, and all is compared at once."""
        texts = _Interned()
        places: list[list[IntArray]] = [[], [], []]
        for problem, cells in asks:
            source = texts.number(problem.source) if utility.uses_source and problem.source is not None else -1
            places[0].append(texts.places(problem.candidates, cells.rows))
            places[1].append(texts.places(problem.pseudo_references, cells.columns))
            places[2].append(np.full(len(cells), source, dtype=np.int64))
        named = np.array([np.concatenate(part) for part in places])
        pairs, values = self._looked_up([*texts.texts, None], *named)  # The source -1, none, is the None at the end.
        unknown = np.flatnonzero(np.isnan(values))
        if len(unknown):
            values[unknown] = self._compared_now(utility, texts.texts, named[:, unknown], asks[0][0].id)
            self._keep(pairs and pairs[unknown], values[unknown])
        return np.split(values, np.cumsum([len(part) for part in places[0]])[:-1].tolist())

    def _compared_now(
        self, utility: EncodedUtility, texts: Sequence[str | None], named: IntArray, segment: str
    ) -> FloatArray:
        """The values of pairs: `named` (3, C) holds positions in `texts`, -1 for a source that is not there."""
        if self._shelf is not None:  # Texts whose pairs were all found are not encoded.
            used, numbers = np.unique(named, return_inverse=True)
            absent = int(used[0] < 0)
            texts, named = [texts[place] for place in used[absent:]], numbers.reshape(named.shape) - absent
        candidates, references, sources = named
        encodings = self._encoded(utility, texts, segment)
        with _blamed(utility, f"batch of {len(candidates)} pairs", segment) as place:
            values = np.asarray(utility.compare(encodings, candidates, references, sources), dtype=np.float64)
        if values.shape != (len(candidates),):
            raise UtilityError(f"{place}: expected {len(candidates)} values, got an array of shape {values.shape}")
        return values

    def _encoded(self, utility: EncodedUtility, texts: Sequence[str | None], segment: str) -> list[Any]:
        """The encodings of distinct texts, from memory or made now."""
        named = [text or "" for text in texts]
        unknown = [text for text in named if text not in self._encodings]
        if unknown:
            with _blamed(utility, f"batch of {len(unknown)} texts", segment) as place:
                made = utility.represent(unknown)
            if len(made) != len(unknown):
                raise UtilityError(f"{place}: expected {len(unknown)} encodings, got {len(made)}")
            self.ledger.encoded += len(unknown)
            self._encodings.add(unknown, made)
        encodings = [self._encodings[text] for text in named]
        self._encodings.trim()
        return encodings

    def _pooled(self, utility: PairUtility, asks: CellAsks) -> list[FloatArray]:
        texts = _Interned()
        by_source_alone = isinstance(utility, QualityUtility)
        keys = [texts.keys(problem, cells, utility.uses_source, not by_source_alone) for problem, cells in asks]
        distinct, owner, places = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
        pairs = [texts.pair(int(key)) for key in distinct]
        values = np.array([self._memory.get(pair) for pair in pairs], dtype=np.float64)
        unknown = np.flatnonzero(np.isnan(values))
        kept, values[unknown] = self._looked_up(texts.texts, *_parted(distinct[unknown]))
        missing = np.isnan(values[unknown])
        unknown, kept = unknown[missing], kept and kept[missing]
        lengths = np.array([sum(len(text or "") for text in pairs[place]) for place in unknown], dtype=np.int64)
        starts = np.cumsum([0] + [len(key) for key in keys])
        # Similar lengths together waste no padding; the longest first, so that too little memory shows at once.
        for batch in _batches(np.argsort(-lengths, kind="stable"), utility.batch_size):
            chosen = unknown[batch]
            first = asks[int(np.searchsorted(starts, owner[chosen[0]], side="right")) - 1][0]
            values[chosen] = score_batch(utility, [pairs[place] for place in chosen], first.id)
            self._keep(kept and kept[batch], values[chosen])
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


class EncodingMemory:
    """The encodings of the last texts, up to a number of bytes: methods that ask in rounds find theirs again."""

    BYTES = 1 << 31

    def __init__(self, size: int = BYTES) -> None:
        self._held: dict[str, Any] = {}
        self._room = size

    def __contains__(self, text: str) -> bool:
        return text in self._held

    def __getitem__(self, text: str) -> Any:
        # What is used goes to the end, so that what has lain unused for longest comes first.
        encoding = self._held[text] = self._held.pop(text)
        return encoding

    def add(self, texts: Sequence[str], encodings: Sequence[Any]) -> None:
        """Hold these encodings."""
        for text, encoding in zip(texts, encodings, strict=True):
            self._held[text] = encoding
            self._room -= encoding.nbytes

    def trim(self) -> None:
        """Forget what has lain unused for longest, until the rest fits."""
        for text in list(self._held) if self._room < 0 else ():
            self._room += self._held.pop(text).nbytes
            if self._room >= 0:
                return


TEXTS_AT_ONCE, BATCHES_AT_ONCE, CELLS_AT_ONCE = 4096, 8, 1 << 19
"""What is scored before values are handed back: texts encoded, batches of pairs, cells of matrices. Enough to sort by
length and to fill batches; a bound on memory, and on how long the first segment waits."""


def _groups(asks: CellAsks) -> Iterator[CellAsks]:
    """The asks in order, a few segments at a time."""
    start, texts = 0, 0
    for place, (problem, _) in enumerate(asks):
        if texts and texts + sum(problem.shape) > TEXTS_AT_ONCE:
            yield asks[start:place]
            start, texts = place, 0
        texts += sum(problem.shape)
    yield asks[start:]


@contextmanager
def _blamed(utility: Utility, what: str, segment: str) -> Iterator[str]:
    """Failures of a utility name it, what it was given, and a segment."""
    place = f"utility {utility.name!r}, {what} (segment {segment!r} among them)"
    try:
        yield place
    except MinriskError as error:
        error.add_note(place)
        raise
    except Exception as error:
        raise UtilityError(redacted(f"{place}: {type(error).__name__}: {error}")) from error


def score_batch(utility: Utility, pairs: Sequence[Pair], segment: str) -> FloatArray:
    """The values of one batch of pairs, checked for their number; failures name the segment."""
    candidates, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    sources = [pair[2] for pair in pairs]
    with _blamed(utility, f"batch of {len(pairs)} pairs", segment) as place:
        values = np.asarray(utility.score(candidates, references, sources), dtype=np.float64)
    if values.shape != (len(pairs),):
        got = len(values) if values.ndim == 1 else f"an array of shape {values.shape}"
        raise UtilityError(f"{place}: expected {len(pairs)} values, got {got}")
    return values


class _Interned:
    """Texts as numbers, so that equal pairs of many segments are found by sorting integers."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {}
        self.texts: list[str | None] = []

    def keys(self, problem: Problem, cells: Cells, with_source: bool, with_reference: bool) -> IntArray:
        """One integer a cell; 21 bits a text allow two million distinct texts in one window."""
        source = self.number(problem.source if with_source else None)
        rows = self.places(problem.candidates, cells.rows)
        # Where it does not matter, all pseudo-references are one, so that a candidate is judged once.
        columns = self.places(problem.pseudo_references, cells.columns) if with_reference else self.number("")
        return (rows << 42) | (columns << 21) | source

    def pair(self, key: int) -> Pair:
        candidate, reference, source = _parted(key)
        return self.texts[candidate] or "", self.texts[reference] or "", self.texts[source]

    def places(self, texts: Sequence[str], chosen: IntArray) -> IntArray:
        """The numbers of the texts chosen by their positions: (C,). Texts that are not chosen get none."""
        numbers = np.zeros(len(texts), dtype=np.int64)
        for place in np.unique(chosen):
            numbers[place] = self.number(texts[place])
        return numbers[chosen]

    def numbers(self, texts: Sequence[str]) -> IntArray:
        """The numbers of texts: (T,)."""
        return np.array([self.number(text) for text in texts], dtype=np.int64)

    def number(self, text: str | None) -> int:
        """The number of a text, a new one if it has none."""
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


Keys = TypeVar("Keys", int, IntArray)


def _parted(key: Keys) -> tuple[Keys, Keys, Keys]:
    """The numbers of candidate, pseudo-reference and source that make a key, or each of many."""
    mask = (1 << 21) - 1
    return key >> 42, key >> 21 & mask, key & mask


def _batches(places: IntArray, size: int) -> list[IntArray]:
    return [places[start : start + size] for start in range(0, len(places), size)]
