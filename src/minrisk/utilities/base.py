"""What a utility is.

A utility compares candidates with pseudo-references. It knows texts and numbers, never methods, budgets or files.
Subclass the kind that fits; the engine uses the cheapest way that the kind offers:

    PairUtility    implement `score`: equally long lists in, one value a pair out. The engine pools the pairs of many
                   segments, drops the ones already known, sorts them by length and calls `score` with batches.
    EncodedUtility implement `represent` (a text as an encoding, at its own cost) and `compare` (pairs of encodings,
                   cheap). The engine has each distinct text of a window encoded once, many segments together.
    MatrixUtility  implement `matrix` (and `cells` where a few cells can be had faster than all): cells of one
                   segment are scored together, nothing is pooled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minrisk.configuration import described
from minrisk.errors import InputError
from minrisk.types import Cells, FloatArray, Folded, IntArray, Problem

Sources = Sequence[str | None] | None


class Utility(ABC):
    """u(candidate, pseudo-reference[, source]) on the metric's own scale and in its own direction."""

    name: ClassVar[str]
    higher_is_better: bool = True
    needs_source: bool = False

    @property
    def uses_source(self) -> bool:
        """Whether values depend on the source, which may still be absent unless it is needed."""
        return self.needs_source

    @abstractmethod
    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        """The values of C pairs, given as equally long lists: (C,)."""

    @abstractmethod
    def matrix(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], source: str | None = None
    ) -> FloatArray:
        """The values of every pair: (N, K)."""

    def aggregate(
        self,
        candidates: Sequence[str],
        pseudo_references: Sequence[str],
        weights: FloatArray,
        source: str | None = None,
    ) -> FloatArray:
        """Each candidate against G virtual pseudo-references, mixtures of the real ones by `weights` (G, K): (N, G)."""
        raise InputError(
            f"utility {self.name!r} cannot fold pseudo-references into one; chrf, bleu, comet and embedding can"
        )

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """A vector for each text: (len(texts), d)."""
        raise InputError(f"utility {self.name!r} does not encode texts as vectors")

    def answer_folded(self, problem: Problem, folded: Folded) -> FloatArray:
        """The values of rows of a problem against mixtures of its pseudo-references: (R G,)."""
        rows = [problem.candidates[row] for row in folded.rows]
        return self.aggregate(rows, problem.pseudo_references, folded.weights, problem.source).ravel()

    def answer_encodings(self, problem: Problem) -> FloatArray:
        """The encodings of a problem's pseudo-references: (K, d)."""
        return self.encode(problem.pseudo_references)

    def self_values(self, texts: Sequence[str]) -> FloatArray | None:
        """u(h, h) of each text where it is known without a call, else None."""
        return None

    def files(self) -> Sequence[Path]:
        """The files whose content decides the values, such as those of a checkpoint."""
        return ()

    def __getstate__(self) -> dict[str, Any]:
        """What goes to another process: the options, not a model that is loaded already."""
        kinds = {name: getattr(type(self), name, None) for name in vars(self)}
        return {name: value for name, value in vars(self).items() if not isinstance(kinds[name], cached_property)}

    def signature(self) -> str:
        """Name and options: two utilities with equal signatures give equal values."""
        return described(self.name, self)


class PairUtility(Utility):
    """A utility that scores pairs, each at its own cost: a cross-encoder, an LLM judge, any callable."""

    batch_size: int = 1024

    def matrix(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], source: str | None = None
    ) -> FloatArray:
        lefts = [candidate for candidate in candidates for _ in pseudo_references]
        rights = list(pseudo_references) * len(candidates)
        values = self.score(lefts, rights, [source] * len(lefts))
        return values.reshape(len(candidates), len(pseudo_references))


class QualityUtility(PairUtility):
    """A utility that judges a candidate by its source alone, without any reference: a matrix of one column."""

    @property
    def uses_source(self) -> bool:
        return True

    @abstractmethod
    def quality(self, candidates: Sequence[str], sources: Sequence[str | None]) -> FloatArray:
        """The values of C candidates: (C,)."""

    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        check_pairs(candidates, pseudo_references, sources)
        return self.quality(candidates, sources if sources is not None else [None] * len(candidates))

    def matrix(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], source: str | None = None
    ) -> FloatArray:
        values = self.quality(candidates, [source] * len(candidates))
        return np.repeat(np.asarray(values)[:, None], len(pseudo_references), axis=1)


class EncodedUtility(Utility):
    """A utility that compares encodings: a text is encoded once, at a cost, and compared with many, cheaply.

    An encoding is an array, a tensor, or anything else that says its size in bytes (`nbytes`).
    """

    @abstractmethod
    def represent(self, texts: Sequence[str]) -> Sequence[Any]:
        """The encodings of texts, all different: one each."""

    @abstractmethod
    def compare(
        self, encodings: Sequence[Any], candidates: IntArray, pseudo_references: IntArray, sources: IntArray
    ) -> FloatArray:
        """The values of C pairs, given as numbers of encodings, -1 for a source that is not there: (C,)."""

    def fold(self, encodings: Sequence[Any], weights: FloatArray) -> Sequence[Any]:
        """The encodings of G virtual texts, mixtures of K real ones by `weights` (G, K)."""
        raise InputError(f"utility {self.name!r} cannot fold pseudo-references into one; comet and embedding can")

    def vectors(self, encodings: Sequence[Any]) -> FloatArray:
        """Encodings as vectors: (len(encodings), d)."""
        raise InputError(f"utility {self.name!r} does not encode texts as vectors; comet and embedding do")

    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        check_pairs(candidates, pseudo_references, sources)
        given = [None] * len(candidates) if sources is None or not self.uses_source else list(sources)
        texts, numbers = _distinct([*candidates, *pseudo_references, *(text for text in given if text is not None)])
        places = np.full(len(candidates), -1, dtype=np.int64)
        places[[text is not None for text in given]] = numbers[len(candidates) + len(pseudo_references) :]
        pairs = numbers[: len(candidates)], numbers[len(candidates) : len(candidates) + len(pseudo_references)]
        return self.compare(self.represent(texts), *pairs, places) if texts else np.empty(0)

    def matrix(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], source: str | None = None
    ) -> FloatArray:
        lefts = [candidate for candidate in candidates for _ in pseudo_references]
        values = self.score(lefts, list(pseudo_references) * len(candidates), [source] * len(lefts))
        return values.reshape(len(candidates), len(pseudo_references))

    def aggregate(
        self,
        candidates: Sequence[str],
        pseudo_references: Sequence[str],
        weights: FloatArray,
        source: str | None = None,
    ) -> FloatArray:
        known = [source] if source is not None and self.uses_source else []
        texts, numbers = _distinct([*candidates, *pseudo_references, *known])
        encodings = self.represent(texts)
        rows, columns = numbers[: len(candidates)], numbers[len(candidates) :][: len(pseudo_references)]
        return self.compare_folded(encodings, rows, columns, int(numbers[-1]) if known else -1, weights)

    def compare_folded(
        self, encodings: Sequence[Any], rows: IntArray, columns: IntArray, source: int, weights: FloatArray
    ) -> FloatArray:
        """Rows against virtual pseudo-references, mixtures of the columns by `weights` (G, K): (R, G)."""
        folded = self.fold([encodings[column] for column in columns], weights)
        virtual = np.arange(len(encodings), len(encodings) + len(folded))
        lefts, rights = np.repeat(rows, len(folded)), np.tile(virtual, len(rows))
        values = self.compare([*encodings, *folded], lefts, rights, np.full(len(lefts), source, dtype=np.int64))
        return values.reshape(len(rows), len(folded))

    def encode(self, texts: Sequence[str]) -> FloatArray:
        distinct, numbers = _distinct(texts)
        return self.vectors(self.represent(distinct))[numbers]


class MatrixUtility(Utility):
    """A utility that scores the cells of a segment together faster than one by one: chrF, BLEU, a table."""

    def cells(
        self,
        candidates: Sequence[str],
        pseudo_references: Sequence[str],
        rows: IntArray,
        columns: IntArray,
        source: str | None = None,
    ) -> FloatArray:
        """The values of the cells (rows[c], columns[c]): (C,)."""
        return self.matrix(candidates, pseudo_references, source)[rows, columns]

    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        check_pairs(candidates, pseudo_references, sources)
        lefts, rows = _distinct(candidates)
        rights, columns = _distinct(pseudo_references)
        return self.cells(lefts, rights, rows, columns)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """A text is told by its values against all texts: similar texts have similar rows."""
        return self.matrix(texts, texts)

    def answer(self, problem: Problem, cells: Cells) -> FloatArray:
        """The values of cells of a problem: (C,)."""
        if len(cells) == problem.size:
            whole = self.matrix(problem.candidates, problem.pseudo_references, problem.source)
            return whole[cells.rows, cells.columns]
        return self.cells(problem.candidates, problem.pseudo_references, cells.rows, cells.columns, problem.source)


def check_pairs(candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources) -> None:
    """Raise unless these are equally long lists, of which the last may be absent."""
    lists = [candidates, pseudo_references, *([] if sources is None else [sources])]
    if any(isinstance(given, str) for given in lists) or len({len(given) for given in lists}) > 1:
        got = " and ".join("a string" if isinstance(given, str) else f"{len(given)}" for given in lists)
        raise InputError(f"candidates, pseudo-references and sources of pairs must be equally long lists, got {got}")


def _distinct(texts: Sequence[str]) -> tuple[list[str], IntArray]:
    """The distinct texts in order of first appearance, and for each text given its number among them."""
    numbers: dict[str, int] = {}
    places = np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)
    return list(numbers), places
