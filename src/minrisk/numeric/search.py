"""The search for the best row with few cells: model, contest and bookkeeping together. Higher is better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minrisk.numeric.contest import chances, column_order, draws_of, harmonic, next_cells, survivors, topped_up
from minrisk.numeric.estimation import is_self_pair
from minrisk.numeric.features import Features
from minrisk.numeric.mixed import SYMMETRIC, Model, Scored, Variances
from minrisk.numeric.symmetry import image_correlation
from minrisk.numeric.tournament import survivors_first
from minrisk.types import BoolArray, Cells, Estimate, FloatArray, Problem

MODELLED = 64
"""Columns that the model attends to: a text that has met them all is known well; more cost more than they tell."""
SAFE = 0.9
"""Share of the cells that the best rows get alike, fewer rows each round as in sequential halving; the rest goes by
the chances that the model gives. Where the model is wrong, no harm is done."""
LEFT = 4
"""Rows left in the last round."""
SPREAD = 0.6
"""Share of the first cells that all rows get alike."""
TRIED = 0.25
"""A row can be chosen when it has been seen this often, as a share of how often the `LEFT` most seen rows have: one
lucky cell, which the model takes at its word, is no reason to choose."""
DRAWS = 256
PAIRS = 2
"""Cells whose mirror images are scored too, to see whether the utility is symmetric."""
SAME = 1e-3
"""Mirror images that differ by less than this share of a standard deviation are equal."""
UNSEEN = 0.7
"""Correlation of a text's effects as candidate and as pseudo-reference while nothing is known of it."""
DIGITS = 9
"""Values in units of their deviation are rounded to so many digits: the metric's scale must not decide anything."""


class Search:
    """Says which cells to score next, is told their values, and values all rows.

    known, matrix  (N, K) which values are known, scored or mirrored or self-pairs, and what they are
    seen           (N,) cells of each row known but its self-pair
    means          (N,) expected utility of each row in units of `unit`: a mean and a deviation of values
    draws          (N, DRAWS) what the rows may be worth, drawn together
    """

    def __init__(self, problem: Problem, features: Features, rounds: int, rng: np.random.Generator) -> None:
        self.problem, self.features = problem, features
        self.rounds, self.round = rounds, 0
        self.known = np.zeros(problem.shape, dtype=np.bool_)
        self.matrix = np.zeros(problem.shape)
        self.seen = np.zeros(problem.shape[0])
        self.unit: tuple[float, float] | None = None
        self.means = np.full(problem.shape[0], np.nan)
        self.draws = np.empty((problem.shape[0], 0))
        # Of columns that are as good as each other, any: which of them must not depend on the order given.
        shuffled = rng.permutation(problem.shape[1])
        self._order = shuffled[column_order(problem.column_weights[shuffled], features.right[shuffled])]
        self._scored = Scored.nothing(features, np.sort(self._order[:MODELLED]))
        unknown = problem.shape[0] + sum(features.sizes) + len(self._scored.columns)
        self._normals = rng.standard_normal((unknown, DRAWS))
        self._square = np.array_equal(problem.twins, np.arange(problem.shape[1]))
        self._symmetric = False
        self._variances = Variances(symmetry=UNSEEN if self._square else 0.0)
        rows = np.flatnonzero(problem.twins >= 0)
        self._twins = rows, problem.twins[rows]
        self._own = problem.self_values[rows]
        self._spread = np.full(problem.shape[0], np.nan)

    def next(self, count: int) -> Cells:
        """The cells to score next: `count`, or fewer if no more are open."""
        shares, have, open_ = self._shares(), self.seen.copy(), ~self.known
        open_[self._twins] = False
        parts = [self._own_pair(count)]
        left = count - len(parts[0])
        first = self.unit is None
        pairs = PAIRS if first and self._square and count >= 4 * PAIRS else 0
        while left > pairs and open_.any():
            wanted = topped_up(have, open_.sum(axis=1).astype(np.float64), shares, left - pairs)
            cells = Cells(*next_cells(open_, self._order, wanted))
            if self._symmetric or (first and self._square):
                cells = _without_images(cells, self.problem.shape[1])
            parts.append(cells)
            left -= len(cells)
            open_[cells.rows, cells.columns] = False
            have += np.bincount(cells.rows, minlength=len(have))
            if self._symmetric:
                open_[cells.columns, cells.rows] = False
                have += np.bincount(cells.columns, minlength=len(have))
        if pairs:
            parts.append(self._images(_joined(parts[1:]), open_))
        elif left > 0:
            own = np.flatnonzero(np.isnan(self._own))[len(parts[0]) :][:left]
            parts.append(Cells(self._twins[0][own], self._twins[1][own]))
        return _joined(parts)

    def tell(self, cells: Cells, values: FloatArray) -> None:
        """The values of what was asked for."""
        self.round += 1
        selfs = is_self_pair(self.problem, cells)
        self._own[np.searchsorted(self._twins[0], cells.rows[selfs])] = values[selfs]
        if not np.isnan(self._own).all():
            usual = float(np.nanmean(self._own))
            self.known[self._twins] = True
            self.matrix[self._twins] = np.where(np.isnan(self._own), usual, self._own)
        rows, columns, values = cells.rows[~selfs], cells.columns[~selfs], values[~selfs]
        self.known[rows, columns], self.matrix[rows, columns] = True, values
        if self.unit is None and len(values):
            spread = float(values.std())
            self.unit = float(values.mean()), spread if spread > 1e-12 * np.abs(values).max() else 1.0
            if self._square:
                self._look_for_symmetry()
        if self._symmetric:
            self.known[columns, rows], self.matrix[columns, rows] = True, values
        self.seen = self.known.sum(axis=1).astype(np.float64)
        self.seen[self._twins[0]] -= self.known[self._twins]
        if self.unit is not None:
            standard = np.round((values - self.unit[0]) / self.unit[1], DIGITS)
            self._scored = self._scored.extended(self.features, rows, columns, standard)
            self._believe()

    def doubt(self, tolerance: float) -> float:
        """How likely the choice is to lose more than `tolerance` of the best row's gain over the average one."""
        best, choice = self.draws.max(axis=0), self.draws[int(np.argmax(np.where(self._tried(), self.means, -np.inf)))]
        return float(np.mean(best - choice > tolerance * (best - self.draws.mean(axis=0))))

    def estimate(self) -> Estimate:
        """What is known of every row."""
        weights = self.problem.column_weights
        if self.unit is None:
            return Estimate(values=np.full(len(self.seen), np.nan))
        mean, deviation = self.unit
        exact = self.known.all(axis=1)
        values = np.where(exact, np.einsum("ij,j->i", self.matrix, weights), mean + deviation * self.means)
        nothing = self.seen == 0
        values = np.where(nothing, np.nan, values)
        return Estimate(
            values=values,
            preference=survivors_first(values, self._tried().astype(np.int64)),
            uncertainty=np.where(nothing, np.nan, np.where(exact, 0.0, deviation * self._spread)),
        )

    def _tried(self) -> BoolArray:
        """Which rows have been seen often enough to be chosen."""
        return np.asarray(self.seen >= max(TRIED * np.sort(self.seen)[-LEFT:][0], 1.0))

    def _believe(self) -> None:
        """Values and draws of all rows from all that is known."""
        assert self.unit is not None
        weights, mean, deviation = self.problem.column_weights, *self.unit
        unit = self._scored.deviation()
        scored = self._scored.deviations(self.features, unit)
        model = Model(self.features, scored, self._variances, self.problem.twins)
        # What this round says of the variances serves the next one.
        self._variances = model.refined()
        means, common, own = model.sums(np.where(self.known, 0.0, weights))
        means, common, own = unit * means, unit * common, unit**2 * own
        of_known = np.where(self.known, (self.matrix - mean) / deviation, 0.0) @ weights
        self.means = np.round(of_known + means, DIGITS)
        self._spread = np.sqrt(np.einsum("iq,iq->i", common, common) + own)
        self.draws = draws_of(self.means, common, own, self._normals)

    def _shares(self) -> FloatArray:
        """The share of all cells so far that each row is due."""
        if self.unit is None:
            beforehand = self.features.expected if self.features.expected.any() else self.problem.row_weights
            return (1.0 - SPREAD) * harmonic(beforehand) + SPREAD / len(beforehand)
        rows = len(self.means)
        kept = max(LEFT, rows * (LEFT / rows) ** (self.round / max(self.rounds - 1, 1)))
        return (1.0 - SAFE) * chances(self.draws) + SAFE * survivors(self.means, kept)

    def _own_pair(self, count: int) -> Cells:
        """A self-pair where the utility knows none, so that candidates' own weights can be counted."""
        asked = np.empty(0, dtype=np.int64)
        if count >= 4 * PAIRS and np.isnan(self._own).all():
            asked = np.argsort(-self.problem.column_weights[self._twins[1]], kind="stable")[:1]
        return Cells(self._twins[0][asked], self._twins[1][asked])

    def _images(self, cells: Cells, open_: BoolArray) -> Cells:
        """Mirror images of a few of the cells: of those whose texts differ most."""
        unlike = np.abs(self.features.row_means[cells.rows] - self.features.row_means[cells.columns])
        unlike[~open_[cells.columns, cells.rows]] = -1.0
        chosen = np.argsort(-unlike, kind="stable")[:PAIRS]
        chosen = chosen[unlike[chosen] >= 0]
        return Cells(cells.columns[chosen], cells.rows[chosen])

    def _look_for_symmetry(self) -> None:
        """From cells scored both ways: whether images are equal, and how far texts' effects correlate."""
        assert self.unit is not None
        both = np.triu(self.known & self.known.T, 1)
        first, second = self.matrix[both] / self.unit[1], self.matrix.T[both] / self.unit[1]
        if len(first) >= PAIRS and np.abs(first - second).max() < SAME:
            self._symmetric = True
            self.known |= self.known.T
            self.matrix = np.where(self.known & (self.matrix == 0), self.matrix.T, self.matrix)
        correlation = image_correlation(first - second, 1.0)
        self._variances = replace(self._variances, symmetry=SYMMETRIC if self._symmetric else min(correlation, UNSEEN))


def _without_images(cells: Cells, columns: int) -> Cells:
    """Without the cells below the diagonal whose mirror images are among them."""
    flat, images = cells.rows * columns + cells.columns, cells.columns * columns + cells.rows
    kept = (cells.rows <= cells.columns) | ~np.isin(images, flat)
    return Cells(cells.rows[kept], cells.columns[kept])


def _joined(parts: list[Cells]) -> Cells:
    return Cells(np.concatenate([part.rows for part in parts]), np.concatenate([part.columns for part in parts]))
