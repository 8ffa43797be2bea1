"""Shrinking of singular values: what the completions by nuclear norm have in common."""

from __future__ import annotations

import numpy as np

from minrisk.types import FloatArray


def shrunk(matrix: FloatArray, threshold: float) -> tuple[FloatArray, float]:
    """The (N, K) matrix with its singular values lowered by `threshold`, none below zero, and their sum.

    By the eigenvectors V of the smaller Gram matrix, where M V = U S: several times cheaper than a singular value
    decomposition, and exact enough for singular values above the threshold.
    """
    if matrix.shape[0] < matrix.shape[1]:
        transposed, norm = shrunk(matrix.T, threshold)
        return transposed.T, norm
    squares, vectors = np.linalg.eigh(matrix.T @ matrix)
    singular = np.sqrt(np.maximum(squares, 0.0))
    kept = singular > threshold
    vectors, singular = vectors[:, kept], singular[kept]
    remaining = singular - threshold
    return (matrix @ (vectors * (remaining / singular))) @ vectors.T, float(remaining.sum())
