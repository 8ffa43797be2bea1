"""A Gaussian model of a utility matrix: what the cells scored so far say of every row's mean. Pure functions.

A cell is the sum of a regression on what is known of it beforehand, an effect of its row, an effect of its column, and
a rest of its own:

    u(i, j) = f(i, j) theta + r_i + c_j + e_ij

All of them are Gaussian around 0, their variances estimated from the cells (empirical Bayes). A text has an effect as
a candidate and one as a pseudo-reference, correlated as far as the utility is symmetric. docs/frontier.md derives it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from minrisk.numeric.features import Features
from minrisk.types import FloatArray, IntArray

FLAT = 100.0
"""Variance of what is hardly known at all, beside values of unit variance."""
LEAST = 1e-6
"""No variance goes below this."""
SYMMETRIC = 0.999
"""Correlation of a text's two effects where u(h, r) = u(r, h); 1 would leave nothing to invert."""
MOST = 0.95
"""The same where it is not."""
EXPECTED = 0.5
"""Deviations of a value that one of the surrogate leads to expect before anything is scored."""
BELIEF = 2.0
"""How many coefficients the variances believed beforehand count for."""


@dataclass(frozen=True, slots=True)
class Variances:
    """Of each group of coefficients, of row and column effects, and of the rest; `symmetry` correlates effects."""

    groups: tuple[float, ...] = (FLAT, 0.25, 0.2, 0.12, 0.12, 0.4)
    row: float = 0.06
    column: float = 0.06
    rest: float = 0.1
    symmetry: float = 0.5


@dataclass(frozen=True, slots=True)
class Scored:
    """What the model needs of the cells scored: no self-pairs, each cell once.

    columns    (J,) the columns that the model attends to
    counts     (N, J) 1 where a cell is scored
    gram       (p, p) of the features of the cells; `moments` (p,) their products with the values
    row_sums, column_sums  (N,) and (J,) of the values; `squares` the sum of their squares
    """

    columns: IntArray
    counts: FloatArray
    gram: FloatArray
    moments: FloatArray
    row_sums: FloatArray
    column_sums: FloatArray
    squares: float

    @classmethod
    def nothing(cls, features: Features, columns: IntArray) -> Scored:
        """Before anything is scored."""
        rows, p = len(features.left), sum(features.sizes)
        sums = np.zeros(rows), np.zeros(len(columns))
        return cls(columns, np.zeros((rows, len(columns))), np.zeros((p, p)), np.zeros(p), *sums, 0.0)

    def extended(self, features: Features, rows: IntArray, columns: IntArray, values: FloatArray) -> Scored:
        """With more cells (C,); those of other columns are left out."""
        place = np.full(len(features.right), -1)
        place[self.columns] = np.arange(len(self.columns))
        kept = place[columns] >= 0
        rows, columns, values = rows[kept], columns[kept], values[kept]
        counts, places = self.counts.copy(), place[columns]
        counts[rows, places] = 1.0
        design = features.of_cells(rows, columns)
        return replace(
            self,
            counts=counts,
            gram=self.gram + design.T @ design,
            moments=self.moments + values @ design,
            row_sums=self.row_sums + np.bincount(rows, values, len(self.row_sums)),
            column_sums=self.column_sums + np.bincount(places, values, len(self.column_sums)),
            squares=self.squares + float(values @ values),
        )

    def __len__(self) -> int:
        return round(float(self.gram[0, 0]))

    def deviation(self) -> float:
        """Standard deviation of the values; 1 where they are all the same."""
        mean = self.moments[0] / max(len(self), 1)
        square = self.squares / max(len(self), 1) - mean**2
        return float(np.sqrt(square)) if square > LEAST else 1.0

    def deviations(self, features: Features, unit: float) -> Scored:
        """Values divided by `unit`, less what the surrogate leads to expect; without columns that have no cell."""
        used = self.counts.any(axis=0)
        columns, counts = self.columns[used], self.counts[:, used]
        surrogate = np.where(counts > 0, features.surrogate[:, columns], 0.0)
        return replace(
            self,
            columns=columns,
            counts=counts,
            moments=self.moments / unit - EXPECTED * self.gram[1],
            row_sums=self.row_sums / unit - EXPECTED * surrogate.sum(axis=1),
            column_sums=self.column_sums[used] / unit - EXPECTED * surrogate.sum(axis=0),
            squares=self.squares / unit**2 - EXPECTED * (2 * self.moments[1] / unit - EXPECTED * self.gram[1, 1]),
        )


@dataclass(frozen=True)
class Model:
    """The posterior of coefficients and effects, given variances.

    Coefficients and the effects of scored columns, q in all, are solved for; row effects follow, each from its own.
    partners  (N,) the column of the same text, or -1
    """

    features: Features
    scored: Scored
    variances: Variances
    partners: IntArray

    @cached_property
    def _twins(self) -> tuple[IntArray, IntArray]:
        """Rows whose text is a scored column, and the places of those columns."""
        place = np.full(len(self.features.right) + 1, -1)
        place[self.scored.columns] = np.arange(len(self.scored.columns))
        places = place[self.partners]
        rows = np.flatnonzero(places >= 0)
        return rows, places[rows]

    @cached_property
    def _of_coefficients(self) -> FloatArray:
        """The variance of each coefficient beforehand: (p,)."""
        return np.repeat(self.variances.groups, self.features.sizes)

    @cached_property
    def _feature_sums(self) -> tuple[FloatArray, FloatArray]:
        """The features of the scored cells, summed for each row (N, p) and for each column (J, p)."""
        given = self.scored.counts, self.scored.columns
        return self.features.summed_over_columns(*given), self.features.summed_over_rows(*given)

    @cached_property
    def _precisions(self) -> tuple[FloatArray, FloatArray]:
        """Prior precisions of row effects (N,) and of column effects (J,)."""
        variances, rho = self.variances, self.variances.symmetry
        rows = np.full(len(self.features.left), 1.0 / variances.row)
        columns = np.full(len(self.scored.columns), 1.0 / variances.column)
        sharper = 1.0 / (1.0 - rho**2)
        rows[self._twins[0]] *= sharper
        columns[self._twins[1]] *= sharper
        return rows, columns

    @cached_property
    def _system(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Precision of each row effect (N,), how it answers to all else (N, q), root of all else's covariance (q, q):
        R with R' R the covariance; and what all else is (q,).
        """
        scored, rest = self.scored, self.variances.rest
        row_prior, column_prior = self._precisions
        of_rows, of_columns = self._feature_sums
        p = len(scored.gram)
        coupling = np.concatenate((of_rows, scored.counts), axis=1) / rest
        rows, places = self._twins
        rho = self.variances.symmetry
        coupling[rows, p + places] -= rho / (1.0 - rho**2) / np.sqrt(self.variances.row * self.variances.column)
        row = scored.counts.sum(axis=1) / rest + row_prior
        system = np.empty((coupling.shape[1], coupling.shape[1]))
        system[:p, :p] = scored.gram / rest + np.diag(1.0 / self._of_coefficients)
        system[p:, :p] = of_columns / rest
        system[:p, p:] = system[p:, :p].T
        system[p:, p:] = np.diag(scored.counts.sum(axis=0) / rest + column_prior)
        scaled = coupling / row[:, None]
        system -= coupling.T @ scaled
        right = np.concatenate((scored.moments, scored.column_sums)) / rest - scaled.T @ (scored.row_sums / rest)
        root = np.linalg.inv(np.linalg.cholesky(system))
        return row, scaled, root, root.T @ (root @ right)

    @cached_property
    def _answers(self) -> FloatArray:
        """How each row effect answers to independent deviations of all else: (N, q)."""
        _, scaled, root, _ = self._system
        return np.asarray(scaled @ root.T)

    @cached_property
    def coefficients(self) -> FloatArray:
        """(p,)."""
        return self._system[3][: len(self.scored.gram)]

    @cached_property
    def column_effects(self) -> FloatArray:
        """(K,): of columns that are not scored, what the effects of the same texts as rows make likely."""
        effects = np.zeros(len(self.features.right))
        known = np.flatnonzero(self.partners >= 0)
        ratio = self.variances.symmetry * np.sqrt(self.variances.column / self.variances.row)
        effects[self.partners[known]] = ratio * self.row_effects[known]
        effects[self.scored.columns] = self._system[3][len(self.scored.gram) :]
        return effects

    @cached_property
    def row_effects(self) -> FloatArray:
        """(N,)."""
        row, scaled, _, solution = self._system
        return self.scored.row_sums / self.variances.rest / row - scaled @ solution

    def sums(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of each row, the cells summed by `weights` (N, K): means (N,), and deviations as (N, q) common ones, each
        with a variance of 1, and (N,) variances of the row's own.
        """
        columns = self.scored.columns
        row, scaled, root, _ = self._system
        of_features, total = self.features.summed_over_columns(weights), weights.sum(axis=1)
        means = (
            of_features @ self.coefficients
            + EXPECTED * of_features[:, 1]
            + weights @ self.column_effects
            + total * self.row_effects
        )
        common = np.concatenate((of_features, weights[:, columns]), axis=1) - total[:, None] * scaled
        common = common @ root.T
        own = total**2 / row + self.variances.rest * np.einsum("ij,ij->i", weights, weights)
        unused = weights.copy()
        unused[:, columns] = 0.0
        own += self.variances.column * (1.0 - self.variances.symmetry**2) * np.einsum("ij,ij->i", unused, unused)
        return means, common, own

    def refined(self) -> Variances:
        """The variances that the posterior speaks for: a step of expectation maximisation."""
        row, _, root, solution = self._system
        p, believed = len(self.scored.gram), Variances()
        squares = np.square(solution) + np.einsum("kq,kq->q", root, root)
        of_rows = np.square(self.row_effects) + 1.0 / row + np.square(self._answers).sum(axis=1)
        ends = np.cumsum(self.features.sizes)
        groups = [
            _estimate(squares[end - size : end], before)
            for size, end, before in zip(self.features.sizes, ends, believed.groups, strict=True)
        ]
        # How many of the numbers the cells determine: all of them, less what is left of their variances beforehand.
        scales = np.concatenate((self._of_coefficients, np.full(len(solution) - p, self.variances.column)))
        determined = float((1.0 - (squares - np.square(solution)) / scales).sum())
        determined += float((1.0 - (of_rows - np.square(self.row_effects)) / self.variances.row).sum())
        rest = self._residual_squares() + self.variances.rest * max(determined, 0.0)
        row_variance, column_variance = _estimate(of_rows, believed.row), _estimate(squares[p:], believed.column)
        if self.variances.symmetry == SYMMETRIC:
            # Two effects that are one have one variance; two estimates would drift apart.
            groups[3] = groups[4] = (groups[3] + groups[4]) / 2
            row_variance = column_variance = (row_variance + column_variance) / 2
        return replace(
            self.variances,
            groups=(FLAT, *groups[1:]),
            row=row_variance,
            column=column_variance,
            symmetry=self._symmetry(),
            rest=max((rest + BELIEF * believed.rest) / (len(self.scored) + BELIEF), LEAST),
        )

    def _symmetry(self) -> float:
        """How far the two effects of a text correlate, as the posterior has it."""
        before, (rows, places) = self.variances.symmetry, self._twins
        if before in (0.0, SYMMETRIC):
            return before
        _, _, root, solution = self._system
        p = len(self.scored.gram)
        together = self.row_effects[rows] * solution[p + places]
        together -= np.einsum("iq,qi->i", self._answers[rows], root[:, p + places])
        scale = float(np.sqrt(self.variances.row * self.variances.column))
        correlation = (float(together.sum()) / scale + BELIEF * before) / (len(rows) + BELIEF)
        return float(np.clip(correlation, LEAST, MOST))

    def _residual_squares(self) -> float:
        scored, coefficients = self.scored, self.coefficients
        columns, rows = self.column_effects[scored.columns], self.row_effects
        of_rows, of_columns = self._feature_sums
        fitted = coefficients @ scored.gram @ coefficients
        fitted += 2.0 * (
            columns @ of_columns @ coefficients + rows @ of_rows @ coefficients + rows @ scored.counts @ columns
        )
        fitted += scored.counts.sum(axis=0) @ columns**2 + scored.counts.sum(axis=1) @ rows**2
        agreement = coefficients @ scored.moments + rows @ scored.row_sums + columns @ scored.column_sums
        return max(float(scored.squares - 2.0 * agreement + fitted), 0.0)


def _estimate(squares: FloatArray, believed: float) -> float:
    """A variance from expected squares; drawn towards what was believed."""
    return max((float(squares.sum()) + BELIEF * believed) / (len(squares) + BELIEF), LEAST)
