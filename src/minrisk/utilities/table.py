"""Values that are there already: a matrix per segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from minrisk.errors import InputError, UtilityError
from minrisk.types import Cells, FloatArray, Folded, Problem
from minrisk.utilities.base import MatrixUtility, Sources


@dataclass(frozen=True, eq=False)
class Table(MatrixUtility):
    """Precomputed values: one matrix (hypotheses given x pseudo-references given), or one for each segment id.

    values  an array for a single segment, or a mapping from segment ids to arrays
    path    a file instead: .npy for a single segment, .npz with an array for each segment id
    """

    name: ClassVar[str] = "table"
    values: NDArray[np.floating] | Mapping[str, NDArray[np.floating]] | None = field(default=None, repr=False)
    path: str | None = None
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        if (self.values is None) == (self.path is None):
            raise InputError("utility 'table' needs either `values` (an array, or a mapping from ids) or a `path`")

    def answer(self, problem: Problem, cells: Cells) -> FloatArray:
        rows, columns = problem.row_positions[cells.rows], problem.column_positions[cells.columns]
        return np.asarray(self._table_of(problem)[rows, columns], dtype=np.float64)

    def answer_folded(self, problem: Problem, folded: Folded) -> FloatArray:
        """Against a mixture, a table says the mixture of its values."""
        rows, columns = problem.row_positions[folded.rows], problem.column_positions
        block = np.asarray(self._table_of(problem)[np.ix_(rows, columns)], dtype=np.float64)
        return np.asarray(block @ folded.weights.T).ravel()

    def answer_encodings(self, problem: Problem) -> FloatArray:
        """A pseudo-reference is told by its column."""
        block = self._table_of(problem)[np.ix_(problem.row_positions, problem.column_positions)]
        return np.asarray(block.T, dtype=np.float64)

    def _table_of(self, problem: Problem) -> NDArray[np.floating]:
        table = self._tables if isinstance(self._tables, np.ndarray) else self._tables.get(problem.id)
        expected = (len(problem.row_of_hypothesis), problem.columns_given)
        if table is None:
            raise InputError(f"utility 'table' has no matrix for segment {problem.id!r}")
        if np.asarray(table).dtype.kind not in "biuf":
            raise InputError(
                f"utility 'table', segment {problem.id!r}: the matrix must hold numbers, got {np.asarray(table).dtype}"
            )
        if np.shape(table) != expected:
            raise InputError(
                f"utility 'table', segment {problem.id!r}: the matrix must have the shape {expected} "
                f"(hypotheses x pseudo-references as given), got {np.shape(table)}"
            )
        return table

    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        raise UtilityError("utility 'table' holds the cells of segments and cannot score texts")

    def matrix(
        self, candidates: Sequence[str], pseudo_references: Sequence[str], source: str | None = None
    ) -> FloatArray:
        raise UtilityError("utility 'table' holds the cells of segments and cannot score texts")

    @cached_property
    def _tables(self) -> NDArray[np.floating] | Mapping[str, NDArray[np.floating]]:
        if self.path is None:
            assert self.values is not None
            return self.values if isinstance(self.values, Mapping) else np.asarray(self.values)
        try:
            loaded = np.load(Path(self.path), allow_pickle=False, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"utility 'table': cannot read {self.path!r} as .npy or .npz: {error}") from error
        return loaded if isinstance(loaded, np.ndarray) else _Archive(loaded)


class _Archive(Mapping[str, NDArray[np.floating]]):
    """An .npz file by segment id; a matrix is read when its segment comes up, and only the last few are kept."""

    def __init__(self, archive: np.lib.npyio.NpzFile) -> None:
        self._archive = archive
        self._recent: dict[str, NDArray[np.floating]] = {}

    def __getitem__(self, name: str) -> NDArray[np.floating]:
        if name not in self._recent:
            self._recent[name] = self._archive[name]
            while len(self._recent) > 64:
                del self._recent[next(iter(self._recent))]
        return self._recent[name]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._archive.files)

    def __len__(self) -> int:
        return len(self._archive.files)
