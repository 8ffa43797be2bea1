"""What is known of cells before any is scored, from the values of a cheap utility. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minrisk.types import FloatArray, IntArray

WIDTH = 24
"""Coordinates of a text at most: more tell little, on sentences and on paragraphs."""
SWEEPS = 4
"""Multiplications that turn a random subspace towards the leading one; what is left to turn is beyond use."""


@dataclass(frozen=True, slots=True)
class Features:
    """Numbers that may tell the value of a cell, each of about unit size over the matrix.

    surrogate  (N, K) a cheap utility
    expected   (N,) its expected utility of each candidate
    row_means, column_means  (N,) and (K,) of it
    left, right  (N, d) and (K, d) coordinates: texts near each other are alike to the cheap utility
    """

    surrogate: FloatArray
    expected: FloatArray
    row_means: FloatArray
    column_means: FloatArray
    left: FloatArray
    right: FloatArray

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many numbers are of each kind: level, surrogate, means, rows, columns, products."""
        width = self.left.shape[1]
        return (1, 1, 2, width, width, width)

    def of_cells(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """(C, p)."""
        left, right = self.left[rows], self.right[columns]
        first = np.ones(len(rows)), self.surrogate[rows, columns], self.row_means[rows], self.column_means[columns]
        return np.column_stack((*first, left, right, left * right))

    def summed_over_columns(self, weights: FloatArray, columns: IntArray | slice = slice(None)) -> FloatArray:
        """For each row, the sum over some columns by `weights` (N, columns): (N, p)."""
        total, right = weights.sum(axis=1), weights @ self.right[columns]
        surrogate = np.einsum("ij,ij->i", weights, self.surrogate[:, columns])
        means = total * self.row_means, weights @ self.column_means[columns]
        return np.column_stack((total, surrogate, *means, total[:, None] * self.left, right, self.left * right))

    def summed_over_rows(self, weights: FloatArray, columns: IntArray | slice = slice(None)) -> FloatArray:
        """For each of some columns, the sum over rows by `weights` (N, columns): (columns, p)."""
        total, left, right = weights.sum(axis=0), weights.T @ self.left, self.right[columns]
        surrogate = np.einsum("ij,ij->j", weights, self.surrogate[:, columns])
        means = weights.T @ self.row_means, total * self.column_means[columns]
        return np.column_stack((total, surrogate, *means, left, total[:, None] * right, left * right))


def features_of(matrix: FloatArray, column_weights: FloatArray, twins: IntArray) -> Features:
    """From the (N, K) values of a cheap utility.

    twins  (N,) the column of the same text, or -1: that cell says nothing of how a text fares among others
    """
    square = np.array_equal(twins, np.arange(matrix.shape[1]))
    if square:
        # The order of a pair is the surrogate's own affair: chrF counts recall twice, another utility may not.
        matrix = (matrix + matrix.T) / 2
    others = np.ones(matrix.shape)
    known = np.flatnonzero(twins >= 0)
    others[known, twins[known]] = 0.0
    level = _ratio((others * matrix).sum(), others.sum())
    deviations = matrix - level
    spread = _ratio(1.0, float(np.sqrt(_ratio((others * np.square(deviations)).sum(), others.sum()))))
    row_means = _ratio((others * deviations) @ column_weights, others @ column_weights)
    column_means = _ratio((others * deviations).sum(axis=0), others.sum(axis=0))
    left, right = _coordinates(matrix, square)
    expected = matrix @ column_weights
    return Features(deviations * spread, expected, _unit(row_means), _unit(column_means), left, right)


def nothing(rows: int, columns: int) -> Features:
    """Where there is no cheap utility."""
    width = np.zeros((rows, 0)), np.zeros((columns, 0))
    return Features(np.zeros((rows, columns)), np.zeros(rows), np.zeros(rows), np.zeros(columns), *width)


def _coordinates(matrix: FloatArray, symmetric: bool) -> tuple[FloatArray, FloatArray]:
    """Coordinates whose products tell the (N, K) matrix but for its means: (N, d) and (K, d) of unit mean square."""
    centred = matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean()
    width = min(WIDTH, *matrix.shape)
    # The leading subspace by block iteration: a full decomposition would cost more than all else where N is large.
    basis = np.random.default_rng(0).standard_normal((matrix.shape[1], min(width + 8, *matrix.shape)))
    for _ in range(SWEEPS):
        basis = np.linalg.qr(centred.T @ (centred @ basis))[0]
    if symmetric:
        values, vectors = np.linalg.eigh(basis.T @ centred @ basis)
        leading = np.argsort(-np.abs(values), kind="stable")[:width]
        left = right = (basis @ vectors[:, leading]) * np.sqrt(np.abs(values[leading]))
    else:
        rows, values, columns = np.linalg.svd(centred @ basis, full_matrices=False)
        scale = np.sqrt(values[:width])
        left, right = rows[:, :width] * scale, (basis @ columns.T)[:, :width] * scale
    return left * _ratio(1.0, _size(left)), right * _ratio(1.0, _size(right))


def _size(coordinates: FloatArray) -> float:
    return float(np.sqrt(np.square(coordinates).sum(axis=1).mean()))


def _unit(values: FloatArray) -> FloatArray:
    return np.asarray((values - values.mean()) * _ratio(1.0, float(values.std())))


def _ratio(above: FloatArray | float, below: FloatArray | float) -> FloatArray:
    """Their ratio, 0 where there is (but for rounding) nothing below."""
    return np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=np.asarray(below) > 1e-9)
