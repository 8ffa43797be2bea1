"""Alternating least squares against its twin, and against the faults of its best known rival."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minrisk.numeric import designs
from minrisk.numeric.als import als, factorized, spectral_factors
from minrisk.numeric.completion import completion
from minrisk.numeric.ridge import both_sides, sample_side, solve_side, work_space
from minrisk.numeric.sparse import Observed, observe
from minrisk.types import FloatArray

from .twins import PROBLEMS, als_steps, random_cells


@settings(max_examples=60)
@given(PROBLEMS, st.integers(1, 12), st.sampled_from([0.01, 0.1, 2.0]), st.integers(1, 4), st.integers(0, 99))
def test_equals_its_twin(observed: Observed, rank: int, regularization: float, iterations: int, seed: int) -> None:
    start = np.random.default_rng(seed).standard_normal((rank, observed.shape[1]))
    fit = factorized(observed, start, regularization, iterations, -math.inf)
    x, y, objective = als_steps(observed, start, regularization, iterations)
    np.testing.assert_allclose(fit.rows.T @ fit.columns, x @ y.T, rtol=1e-6, atol=1e-8)
    assert fit.objective == pytest.approx(objective, rel=1e-6, abs=1e-9)
    assert fit.iterations == iterations


def test_rows_deeper_than_what_is_taken_up_at_a_time() -> None:
    observed = random_cells(3, (50, 90), 0.9)
    start = np.random.default_rng(0).standard_normal((20, 90))
    fit = factorized(observed, start, 0.1, 2, -math.inf)
    x, y, _ = als_steps(observed, start, 0.1, 2)
    np.testing.assert_allclose(fit.rows.T @ fit.columns, x @ y.T, rtol=1e-7, atol=1e-9)


@settings(max_examples=20)
@given(PROBLEMS, st.integers(1, 6), st.integers(0, 99))
def test_sampled_rows_follow_their_normal_distribution(observed: Observed, rank: int, seed: int) -> None:
    """Given the same normal numbers, a row is mean + (inverse root of the precision) times them."""
    rng = np.random.default_rng(seed)
    fixed = rng.standard_normal((rank, observed.shape[1]))
    normal = rng.standard_normal((rank, observed.shape[0]))
    root = np.tril(rng.standard_normal((rank, rank))) + 2 * np.eye(rank)
    prior, shift = root @ root.T, rng.standard_normal(rank)
    drawn = normal.copy()
    sample_side(both_sides(observed)[0], fixed, drawn, prior[np.tril_indices(rank)], shift, work_space(rank))
    for i in range(observed.shape[0]):
        row = observed.rows == i
        design, weights = fixed[:, observed.columns[row]], observed.weights[row]
        precision = prior + (design * weights) @ design.T
        mean = np.linalg.solve(precision, shift + design @ (weights * observed.values[row]))
        expected = mean + np.linalg.solve(np.linalg.cholesky(precision).T, normal[:, i])
        np.testing.assert_allclose(drawn[:, i], expected if row.any() else normal[:, i], rtol=1e-8, atol=1e-8)


def test_ridge_objectives_add_up() -> None:
    observed = random_cells(5, (30, 20), 0.3)
    fixed = np.random.default_rng(0).standard_normal((4, 20))
    solved = np.zeros((4, 30))
    objective = solve_side(both_sides(observed)[0], fixed, solved, 0.5, work_space(4))
    residual = observed.values - (solved.T @ fixed)[observed.rows, observed.columns]
    assert objective == pytest.approx(observed.weights @ np.square(residual) + 0.5 * np.square(solved).sum())


def low_rank(seed: int, size: int, rank: int, share: float) -> tuple[Observed, FloatArray]:
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((size, rank)) @ rng.standard_normal((rank, size))
    rows, columns = designs.balanced((size, size), int(share * size * size), rng)
    return observe(matrix[rows, columns], rows, columns, matrix.shape), matrix


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_recovers_an_exactly_low_rank_matrix(rank: int) -> None:
    observed, matrix = low_rank(rank, 80, rank, 0.4)
    options = {"rank": rank, "regularization": 1e-10, "iterations": 500, "tolerance": 1e-10}
    result = completion(observed, "als", 0, keep_observed=False, **options)
    assert np.linalg.norm(result.matrix - matrix) < 1e-6 * np.linalg.norm(matrix)
    assert result.converged


def utilities(scale: float) -> Observed:
    """Values between 0 and `scale`, as a metric on that scale would give them."""
    rng = np.random.default_rng(0)
    matrix = 0.6 + 0.1 * rng.standard_normal((128, 1)) + 0.05 * rng.standard_normal((128, 128))
    rows, columns = designs.uniform((128, 128), 2048, rng)
    return observe(scale * matrix[rows, columns], rows, columns, matrix.shape)


def test_does_not_stop_after_one_iteration_on_0_to_100_metrics() -> None:
    """A first loss above some constant must not end the iteration: rival's fault 1."""
    raw = completion(utilities(100.0), "als", 0, scaled=False, iterations=10, tolerance=0.0)
    assert raw.iterations == 10
    small, large = (completion(utilities(scale), "als", 0) for scale in (1.0, 100.0))
    assert small.iterations == large.iterations > 1


def test_row_without_cells_is_no_bonus_in_either_direction() -> None:
    """On standardised values an unknown row is completed with the mean, not with the best error there is: fault 2."""
    known = random_cells(0, (40, 40), 0.3, weighted=False)
    kept = known.rows != 7
    values = known.values[kept]
    values = (values - values.mean()) / values.std()
    observed = observe(values, known.rows[kept], known.columns[kept], known.shape)
    for sign in (1.0, -1.0):
        means = completion(observed.with_values(sign * observed.values), "als", 0).matrix.mean(axis=1)
        assert means[7] == 0.0
        assert means.min() < 0.0 < means.max()


def test_shrinkage_and_tolerance_do_not_depend_on_the_scale() -> None:
    """Rival's fault 3."""
    one, hundred = (completion(utilities(scale), "als", 0) for scale in (1.0, 100.0))
    np.testing.assert_allclose(100.0 * one.matrix, hundred.matrix, rtol=1e-9)
    assert one.objective == pytest.approx(hundred.objective)
    assert one.converged == hundred.converged


def test_work_is_proportional_to_the_observed_cells() -> None:
    """Rival's fault 8: what the kernel reads grows with the cells, not with rows times columns."""
    rng = np.random.default_rng(0)
    rows, columns = designs.balanced((400, 400), 4000, rng)
    for groups in both_sides(observe(np.ones(4000), rows, columns, (400, 400))):
        assert len(groups.targets) <= 1.2 * 4000


def test_start_and_objective_are_those_of_the_first_solved_side() -> None:
    """Rival's fault 9: only Y needs a start, of either sign; float64 throughout; the objective costs no product."""
    observed = random_cells(1, (30, 30), 0.5)
    result = als(observed, np.random.default_rng(0), iterations=3, tolerance=-math.inf)
    start = spectral_factors(observed, np.random.default_rng(0), 10)
    assert (start < 0).any()
    x, y, objective = als_steps(observed, start, 0.1, 3)
    np.testing.assert_allclose(result.matrix, x @ y.T, rtol=1e-7, atol=1e-9)
    assert result.objective == pytest.approx(objective)
    assert result.matrix.dtype == np.float64


@given(PROBLEMS, st.integers(1, 50))
@settings(max_examples=30)
def test_start_has_the_leading_directions(observed: Observed, rank: int) -> None:
    """After three power iterations, its product with the cells is nearly as large as that of the singular vectors."""
    start = spectral_factors(observed, np.random.default_rng(0), rank)
    dense = np.zeros(observed.shape)
    dense[observed.rows, observed.columns] = observed.weights * observed.values
    shared = min(rank, *observed.shape)
    lengths = np.linalg.norm(start[:shared], axis=1)
    vectors = start[:shared][lengths > 1e-6 * lengths.max()] / lengths[lengths > 1e-6 * lengths.max(), None]
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(len(vectors)), atol=1e-9)
    share = observed.weights.sum() / dense.size
    np.testing.assert_allclose(
        np.square(lengths), np.linalg.norm(dense @ _units(start[:shared]).T, axis=0) / share, atol=1e-9
    )
    best = np.linalg.norm(np.linalg.svd(dense, compute_uv=False)[:shared])
    assert np.linalg.norm(dense @ vectors.T) >= 0.75 * best


def _units(vectors: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


def test_starts_balanced() -> None:
    """Thirty iterations come as near to the minimum as a thousand do: a lopsided start needs hundreds."""
    rng = np.random.default_rng(0)
    matrix = 0.6 + 0.06 * (rng.standard_normal((128, 1)) + rng.standard_normal((1, 128)))
    rows, columns = designs.uniform(matrix.shape, 4096, rng)
    observed = observe(matrix[rows, columns], rows, columns, matrix.shape)
    few, many = (als(observed, rng, iterations=n, tolerance=-math.inf).objective for n in (30, 1000))
    assert few <= 1.01 * many


@given(PROBLEMS, st.integers(1, 8))
@settings(max_examples=30)
def test_objective_never_rises(observed: Observed, rank: int) -> None:
    rng = np.random.default_rng(0)
    start = rng.standard_normal((rank, observed.shape[1]))
    objectives = [factorized(observed, start, 0.1, n, -math.inf).objective for n in range(1, 6)]
    for before, after in itertools.pairwise(objectives):
        assert after <= before * (1 + 1e-9) + 1e-12
