"""Slow, readable versions of the completions, and matrices to complete."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from minrisk.numeric.sparse import Observed, observe
from minrisk.types import FloatArray


def random_cells(
    seed: int, shape: tuple[int, int], share: float, rank: int = 2, noise: float = 0.3, weighted: bool = True
) -> Observed:
    """A noisy low-rank matrix of which a share of the cells is known; at least one."""
    rng = np.random.default_rng(seed)
    count, width = shape
    matrix = rng.standard_normal((count, rank)) @ rng.standard_normal((rank, width)) + 0.5
    matrix += noise * rng.standard_normal(shape)
    flat = rng.choice(count * width, size=max(1, round(share * count * width)), replace=False)
    rows, columns = np.divmod(flat, width)
    weights = rng.uniform(0.3, 2.0, len(flat)) if weighted else None
    return observe(matrix[rows, columns], rows, columns, shape, weights)


PROBLEMS = st.builds(
    random_cells,
    seed=st.integers(0, 10**6),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    share=st.floats(0.02, 1.0),
    noise=st.sampled_from([0.0, 0.3]),
    weighted=st.booleans(),
)


def ridge(design: FloatArray, values: FloatArray, weights: FloatArray, regularization: float) -> FloatArray:
    """The weighted ridge regression of values (n,) on design (n, rank)."""
    weighted = design.T * weights
    return np.linalg.solve(weighted @ design + regularization * np.eye(design.shape[1]), weighted @ values)


def als_steps(
    observed: Observed, columns: FloatArray, regularization: float, iterations: int
) -> tuple[FloatArray, FloatArray, float]:
    """Algorithm 1 of the paper, line by line; factors (N, rank), (K, rank) and the objective."""
    (count, width), rank = observed.shape, len(columns)
    x, y = np.zeros((count, rank)), columns.T.copy()
    for j in range(width):
        if not (observed.columns == j).any():
            y[j] = 0.0
    for _ in range(iterations):
        for i in range(count):
            row = observed.rows == i
            x[i] = ridge(y[observed.columns[row]], observed.values[row], observed.weights[row], regularization)
        for j in range(width):
            column = observed.columns == j
            y[j] = ridge(x[observed.rows[column]], observed.values[column], observed.weights[column], regularization)
    residual = observed.values - np.einsum("cr,cr->c", x[observed.rows], y[observed.columns])
    size = np.square(x).sum() + np.square(y).sum()
    return x, y, float(observed.weights @ np.square(residual)) + regularization * size


def additive_solution(observed: Observed, row_regularization: float, column_regularization: float) -> FloatArray:
    """The additive model's matrix, from one dense system of equations."""
    count, width = observed.shape
    design = np.zeros((len(observed), 1 + count + width))
    design[:, 0] = 1.0
    design[np.arange(len(observed)), 1 + observed.rows] = 1.0
    design[np.arange(len(observed)), 1 + count + observed.columns] = 1.0
    penalty = np.diag([0.0] + [row_regularization] * count + [column_regularization] * width)
    weighted = design.T * observed.weights
    solution = np.linalg.solve(weighted @ design + penalty, weighted @ observed.values)
    return solution[0] + solution[1 : 1 + count, None] + solution[None, 1 + count :]


def biased_steps(
    observed: Observed,
    columns: FloatArray,
    regularization: float,
    row_regularization: float,
    column_regularization: float,
    iterations: int,
) -> FloatArray:
    """The matrix of the biased model after some iterations, with loops."""
    count, width = observed.shape
    cells = list(zip(observed.rows, observed.columns, observed.values, observed.weights, strict=True))
    a, b = np.zeros(count), np.zeros(width)
    c = float(np.average(observed.values, weights=observed.weights))
    x, y = np.zeros((count, len(columns))), columns.T
    for _ in range(iterations):
        for _ in range(5):
            old_c = c
            for i in range(count):
                total = sum(w * (m - x[r] @ y[k] - old_c - b[k]) for r, k, m, w in cells if r == i)
                a[i] = total / (sum(w for r, _, _, w in cells if r == i) + row_regularization)
            for j in range(width):
                total = sum(w * (m - x[r] @ y[k] - old_c - a[r]) for r, k, m, w in cells if k == j)
                b[j] = total / (sum(w for _, k, _, w in cells if k == j) + column_regularization)
            c = sum(w * (m - x[r] @ y[k] - a[r] - b[k]) for r, k, m, w in cells) / observed.weights.sum()
        effects = c + a[:, None] + b[None, :]
        rest = observed.with_values(observed.values - effects[observed.rows, observed.columns])
        x, y, _ = als_steps(rest, y.T, regularization, 1)
    return effects + x @ y.T


def plain_soft_impute(observed: Observed, limit: float, iterations: int) -> FloatArray:
    """Fill in, decompose, shrink, repeat."""
    weights = observed.weights / observed.weights.max()
    matrix = np.zeros(observed.shape)
    for _ in range(iterations):
        filled = matrix.copy()
        for i, j, value, weight in zip(observed.rows, observed.columns, observed.values, weights, strict=True):
            filled[i, j] += weight * (value - matrix[i, j])
        left, singular, right = np.linalg.svd(filled, full_matrices=False)
        matrix = left @ np.diag(np.maximum(singular - limit, 0.0)) @ right
    return matrix


def plain_svt(observed: Observed, limit: float, iterations: int) -> FloatArray:
    """Uzawa's iteration from zero with steps of 1, which always converges."""
    dual = np.zeros(observed.shape)
    weights = observed.weights / observed.weights.max()
    for _ in range(iterations):
        left, singular, right = np.linalg.svd(dual, full_matrices=False)
        matrix = left @ np.diag(np.maximum(singular - limit, 0.0)) @ right
        residual = observed.values - matrix[observed.rows, observed.columns]
        dual[observed.rows, observed.columns] += weights * residual
    return matrix


def margin_objective(
    observed: Observed, signs: FloatArray, x: FloatArray, y: FloatArray, thresholds: FloatArray, regularization: float
) -> float:
    """The objective of maximum-margin factorization, one hinge at a time; x (rank, N), y (rank, K)."""
    total = 0.0
    for cell, (i, j) in enumerate(zip(observed.rows, observed.columns, strict=True)):
        for grade, threshold in enumerate(thresholds):
            margin = signs[cell, grade] * (x[:, i] @ y[:, j] - threshold)
            hinge = 0.5 - margin if margin <= 0 else 0.5 * (1 - margin) ** 2 if margin < 1 else 0.0
            total += observed.weights[cell] * hinge
    return total + regularization * (np.square(x).sum() + np.square(y).sum()) / 2
