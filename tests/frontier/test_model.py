"""The model of a utility matrix, against conditioning a Gaussian on what was scored, cell by cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minrisk.numeric.features import Features, features_of, nothing
from minrisk.numeric.mixed import EXPECTED, FLAT, Model, Scored, Variances
from minrisk.types import FloatArray, IntArray

VARIANCES = Variances(groups=(FLAT, 0.3, 0.2, 0.1, 0.15, 0.25), row=0.3, column=0.2, rest=0.4, symmetry=0.6)


def conditioned(
    features: Features,
    partners: IntArray,
    variances: Variances,
    cells: IntArray,
    values: FloatArray,
    weights: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Means and covariances of all rows' weighted sums, from the covariance of all cells written out: (N,), (N, N)."""
    count, width = weights.shape
    rows, columns = np.repeat(np.arange(count), width), np.tile(np.arange(width), count)
    design = features.of_cells(rows, columns)
    covariance = (design * np.repeat(variances.groups, features.sizes)) @ design.T
    covariance += variances.row * (rows[:, None] == rows) + variances.column * (columns[:, None] == columns)
    both = variances.symmetry * np.sqrt(variances.row * variances.column)
    image = partners[rows][:, None] == columns
    covariance += both * (image.astype(float) + image.T)
    covariance += variances.rest * np.eye(len(rows))
    gain = covariance[:, cells] @ np.linalg.inv(covariance[np.ix_(cells, cells)])
    expected = EXPECTED * design[:, 1]
    mean = expected + gain @ (values - expected[cells])
    left = covariance - gain @ covariance[cells]
    total = np.zeros((count, len(rows)))
    total[rows, np.arange(len(rows))] = weights.ravel()
    return total @ mean, total @ left @ total.T


def example(
    seed: int, count: int, width: int, share: float
) -> tuple[Features, IntArray, IntArray, FloatArray, FloatArray]:
    """Features, partners, scored cells by number, their values, weights that are 0 where a cell is scored."""
    rng = np.random.default_rng(seed)
    partners = np.where(np.arange(count) < width, np.arange(count), -1)
    features = features_of(rng.normal(size=(count, width)), rng.dirichlet(np.ones(width)), partners)
    scored = rng.random((count, width)) < share
    scored[0, 0] = True
    weights = np.where(scored, 0.0, rng.random((count, width)))
    cells = np.flatnonzero(scored)
    return features, partners, cells, rng.normal(size=len(cells)), weights


def model_of(features: Features, partners: IntArray, cells: IntArray, values: FloatArray, width: int) -> Model:
    """The same by the fast way, the cells told in two parts."""
    scored = Scored.nothing(features, np.arange(width))
    for part in (slice(0, len(cells) // 2), slice(len(cells) // 2, None)):
        scored = scored.extended(features, cells[part] // width, cells[part] % width, values[part])
    return Model(features, scored.deviations(features, 1.0), VARIANCES, partners)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.integers(1, 7), st.floats(0.05, 0.9))
def test_means_are_those_of_a_conditioned_gaussian(seed: int, count: int, width: int, share: float) -> None:
    features, partners, cells, values, weights = example(seed, count, width, share)
    means, _, _ = model_of(features, partners, cells, values, width).sums(weights)
    expected, _ = conditioned(features, partners, VARIANCES, cells, values, weights)
    np.testing.assert_allclose(means, expected, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.integers(1, 6))
def test_covariances_too_where_every_column_is_scored(seed: int, count: int, width: int) -> None:
    features, partners, cells, _, weights = example(seed, count, width, 0.4)
    cells = np.union1d(cells, np.arange(width))
    weights.ravel()[cells] = 0.0
    values = np.random.default_rng(seed).normal(size=len(cells))
    means, common, own = model_of(features, partners, cells, values, width).sums(weights)
    expected, covariance = conditioned(features, partners, VARIANCES, cells, values, weights)
    np.testing.assert_allclose(means, expected, atol=1e-6)
    np.testing.assert_allclose(common @ common.T + np.diag(own), covariance, atol=1e-6)


def test_cells_of_columns_that_the_model_does_not_attend_to_are_left_out() -> None:
    features = nothing(3, 4)
    some = Scored.nothing(features, np.array([0, 2]))
    every = some.extended(features, np.array([0, 1, 2]), np.array([0, 1, 2]), np.array([1.0, 5.0, 2.0]))
    fewer = some.extended(features, np.array([0, 2]), np.array([0, 2]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(every.counts, fewer.counts)
    assert (len(every), every.squares) == (len(fewer), fewer.squares) == (2, 5.0)


def test_variances_are_found() -> None:
    """From many cells of a matrix made by the model, every variance comes within a factor of 1.5."""
    rng = np.random.default_rng(0)
    count = 60
    truth = Variances(groups=(FLAT, 0.25, 0.2, 0.12, 0.12, 0.4), row=0.5, column=0.2, rest=0.05, symmetry=0.0)
    features = nothing(count, count)
    table = rng.normal(scale=truth.row**0.5, size=(count, 1)) + rng.normal(scale=truth.column**0.5, size=count)
    table += rng.normal(scale=truth.rest**0.5, size=(count, count))
    cells = rng.choice(count * count, 1500, replace=False)
    scored = Scored.nothing(features, np.arange(count)).extended(
        features, cells // count, cells % count, table.ravel()[cells]
    )
    variances = Variances(symmetry=0.0)
    for _ in range(30):
        variances = Model(features, scored.deviations(features, 1.0), variances, np.full(count, -1)).refined()
    for name in ("row", "column", "rest"):
        assert getattr(variances, name) == pytest.approx(getattr(truth, name), rel=0.5)


@pytest.mark.parametrize("square", [True, False])
def test_coordinates_tell_a_matrix_of_low_rank(square: bool) -> None:
    """But for its means: products of coordinates, one number each, give it back."""
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(40, 5)), rng.normal(size=(50, 5))
    matrix = left @ left.T if square else left @ right.T
    twins = np.arange(40) if square else np.full(40, -1)
    features = features_of(matrix, np.full(matrix.shape[1], 1 / matrix.shape[1]), twins)
    centred = matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean()
    products = np.einsum("id,jd->ijd", features.left, features.right).reshape(-1, features.left.shape[1])
    guess = products @ np.linalg.lstsq(products, centred.ravel(), rcond=None)[0]
    np.testing.assert_allclose(guess, centred.ravel(), atol=1e-6 * np.abs(centred).max())


def test_a_surrogate_that_says_nothing_is_no_number() -> None:
    features = features_of(np.full((5, 5), 3.0), np.full(5, 0.2), np.arange(5))
    for numbers in (features.surrogate, features.row_means, features.column_means, features.left, features.right):
        np.testing.assert_array_equal(numbers, 0.0)
