"""What all completions promise, and each against its twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import minrisk
from minrisk.errors import InputError
from minrisk.numeric import mmmf
from minrisk.numeric.als import random_factors
from minrisk.numeric.bpmf import _wishart
from minrisk.numeric.completion import ALGORITHMS, complete, complete_many, completion
from minrisk.numeric.minimize import minimized
from minrisk.numeric.sparse import Observed, observe
from minrisk.numeric.spectral import shrunk

from .twins import (
    PROBLEMS,
    additive_solution,
    biased_steps,
    margin_objective,
    plain_soft_impute,
    plain_svt,
    random_cells,
)

ALL = sorted(ALGORITHMS)
TOLERANCE = {"mmmf": 1e-3, "soft-impute": 1e-6, "svt": 1e-6}
"""Of the comparison under another scale: some iterations end a step earlier or later by rounding."""


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("factor", [100.0, -1.0, 1e-7, -3e5])
def test_scale_and_direction_make_no_difference(algorithm: str, factor: float) -> None:
    observed = random_cells(2, (25, 30), 0.3)
    plain = completion(observed, algorithm, 0)
    other = completion(observed.with_values(factor * observed.values), algorithm, 0)
    error = np.abs(other.matrix / factor - plain.matrix).max()
    assert error <= TOLERANCE.get(algorithm, 1e-8) * np.abs(plain.matrix).max()
    assert plain.converged == other.converged
    if plain.uncertainty is not None:
        np.testing.assert_allclose(other.uncertainty, abs(factor) * plain.uncertainty, rtol=1e-6)


@pytest.mark.parametrize("algorithm", ALL)
def test_same_seed_same_matrix(algorithm: str) -> None:
    observed = random_cells(4, (20, 20), 0.4)
    first, second = (completion(observed, algorithm, 7).matrix for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_give_the_same_as_one_by_one(algorithm: str, threads: int) -> None:
    problems = [random_cells(seed, (12 + seed, 15), 0.4) for seed in range(6)]
    one_by_one = [completion(problem, algorithm, seed).matrix for seed, problem in enumerate(problems)]
    many = complete_many(problems, range(6), algorithm, threads=threads)
    assert all((result.matrix == matrix).all() for result, matrix in zip(many, one_by_one, strict=True))


@settings(max_examples=15)
@pytest.mark.parametrize("algorithm", ALL)
@given(observed=PROBLEMS)
def test_every_problem_gets_a_finite_matrix_that_keeps_what_was_measured(algorithm: str, observed: Observed) -> None:
    """Rows and columns without cells, more factors than cells, a single cell: all included."""
    result = completion(observed, algorithm, 0)
    assert result.matrix.shape == observed.shape
    assert np.isfinite(result.matrix).all()
    assert (result.matrix[observed.rows, observed.columns] == observed.values).all()
    assert math.isfinite(result.objective)
    assert result.objective >= -1e-9
    if result.uncertainty is not None:
        assert (result.uncertainty[observed.rows, observed.columns] == 0.0).all()
        assert (result.uncertainty >= 0.0).all()


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("level", [0.0, 5.0, -5.0])
def test_constant_matrix(algorithm: str, level: float) -> None:
    rows, columns = np.divmod(np.random.default_rng(0).permutation(100)[:60], 10)
    result = completion(observe(np.full(60, level), rows, columns, (10, 10)), algorithm, 0, keep_observed=False)
    assert np.isfinite(result.matrix).all()
    slack = {"als": 0.1, "soft-impute": 0.3, "svt": 0.6}.get(algorithm, 1e-9)  # those shrink towards zero
    assert np.abs(result.matrix - level).max() <= slack * abs(level)


@pytest.mark.parametrize("algorithm", ALL)
def test_single_cell(algorithm: str) -> None:
    matrix = complete([3.0], [1], [2], (3, 4), algorithm)
    assert matrix[1, 2] == 3.0
    assert np.isfinite(matrix).all()


@pytest.mark.parametrize("algorithm", sorted(set(ALL) - {"bpmf"}))
def test_unconverged_says_so(algorithm: str) -> None:
    observed = random_cells(0, (40, 40), 0.4)
    few = {"svt": {"tolerance": 1e-6, "iterations": 3}}.get(algorithm, {"tolerance": 1e-12, "iterations": 3})
    result = completion(observed, algorithm, 0, **few)
    assert result.iterations == 3
    assert not result.converged
    if algorithm != "mmmf":
        enough = {"tolerance": 0.1 if algorithm == "svt" else 1e-3, "iterations": 5000}
        assert completion(observed, algorithm, 0, **enough).converged


def test_short_chain_says_that_it_has_not_converged() -> None:
    observed = random_cells(0, (40, 40), 0.05)
    assert not completion(observed, "bpmf", 0, iterations=6, burn_in=1).converged


@pytest.mark.parametrize(
    ("algorithm", "options", "error"),
    [
        ("als", {"rank": 3, "regularization": 1e-10, "iterations": 500, "tolerance": 1e-10}, 1e-6),
        ("biased", {"rank": 4, "regularization": 1e-9, "iterations": 5000, "tolerance": 1e-8}, 1e-6),
        ("soft-impute", {"regularization": 1e-7, "iterations": 500, "tolerance": 1e-9}, 0.01),
        ("svt", {"tolerance": 1e-4, "iterations": 1000}, 1e-3),
        ("bpmf", {"rank": 3, "iterations": 400}, 0.03),
    ],
)
def test_recovery_of_an_exactly_low_rank_matrix(algorithm: str, options: dict[str, float], error: float) -> None:
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 50))
    rows, columns = np.divmod(rng.permutation(2500)[:1500], 50)
    observed = observe(matrix[rows, columns], rows, columns, matrix.shape)
    result = completion(observed, algorithm, 0, keep_observed=False, **options)
    assert np.linalg.norm(result.matrix - matrix) <= error * np.linalg.norm(matrix)


@pytest.mark.parametrize("algorithm", sorted(set(ALL) - {"additive"}))  # has a twin with weights
def test_weights_say_what_to_believe(algorithm: str) -> None:
    """Cells that hold nothing but noise and hardly count leave the fit of the others nearly as it was."""
    observed = random_cells(1, (30, 30), 0.8, noise=0.0, weighted=False)
    wrong = np.arange(len(observed)) % 4 == 0
    noise = 3.0 * np.random.default_rng(0).standard_normal(len(observed))
    values = np.where(wrong, noise, observed.values)
    errors = []
    for weights in (np.ones(len(values)), np.where(wrong, 1e-3, 1.0)):
        cells = observe(values, observed.rows, observed.columns, observed.shape, weights)
        fit = completion(cells, algorithm, 0, keep_observed=False).matrix[observed.rows, observed.columns]
        errors.append(np.linalg.norm((fit - observed.values)[wrong]))
    # Svt meets every cell in the end, whatever it weighs; stopping early it is nearer to the heavy ones.
    assert errors[1] < (1.0 if algorithm == "svt" else 0.8) * errors[0]


def test_literal_reconstruction_and_raw_values() -> None:
    observed = random_cells(0, (20, 20), 0.5)
    given = (observed.values, observed.rows, observed.columns, observed.shape)
    kept = complete(*given, algorithm="als", rank=2, regularization=0.1, iterations=30, seed=0)
    literal = complete(*given, rank=2, keep_observed=False)
    assert not np.allclose(kept[observed.rows, observed.columns], literal[observed.rows, observed.columns], rtol=1e-4)
    raw = complete(100 * observed.values, *given[1:], rank=2, scaled=False, keep_observed=False)
    assert not np.allclose(raw / 100, literal, rtol=1e-3)
    assert minrisk.complete is complete


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "asl"}, "unknown completion algorithm 'asl'; did you mean 'als'"),
        ({"rnak": 3}, "unknown option of completion algorithm 'als': 'rnak'; did you mean 'rank'"),
        ({"algorithm": "svt", "rank": 3}, "unknown option of completion algorithm 'svt': 'rank'"),
        ({"rank": 0}, "`rank` must be at least 1, got 0"),
        ({"regularization": 0.0}, "`regularization` must be above zero, got 0.0"),
        ({"iterations": 0}, "`iterations` must be at least 1, got 0"),
        ({"rank": 2.5}, "`rank` must be a whole number, got 2.5"),
        ({"rank": "3"}, "`rank` must be a number, got '3'"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        complete([1.0], [0], [0], (2, 2), **options)


@pytest.mark.parametrize("seed", ["x", -1, 0.5])
def test_impossible_seeds_are_refused(seed: object) -> None:
    with pytest.raises(InputError, match="`seed` must be a whole number of at least 0 or a NumPy generator"):
        complete([1.0], [0], [0], (2, 2), seed=seed)  # type: ignore[arg-type]


def test_nothing_known_is_refused() -> None:
    with pytest.raises(InputError, match="no cell is known"):
        complete([], [], [], (2, 2))
    with pytest.raises(InputError, match="`seeds` must hold 1 seeds"):
        complete_many([random_cells(0, (3, 3), 0.5)], [])


@settings(max_examples=40)
@given(PROBLEMS, st.sampled_from([0.5, 3.0]), st.sampled_from([1.0, 10.0]))
def test_additive_equals_its_twin(observed: Observed, row_reg: float, column_reg: float) -> None:
    options = {"row_regularization": row_reg, "column_regularization": column_reg, "tolerance": 1e-12}
    result = completion(observed, "additive", 0, scaled=False, keep_observed=False, **options)
    np.testing.assert_allclose(result.matrix, additive_solution(observed, row_reg, column_reg), rtol=1e-6, atol=1e-7)


@settings(max_examples=8)
@given(st.integers(0, 999), st.integers(1, 4))
def test_biased_equals_its_twin(seed: int, iterations: int) -> None:
    observed = random_cells(seed, (9, 7), 0.6)
    options = {"rank": 2, "iterations": iterations, "tolerance": -math.inf}
    result = completion(observed, "biased", seed, scaled=False, keep_observed=False, **options)
    deviation = float(observed.values.std())
    start = random_factors(np.random.default_rng(seed), 2, 7) * math.sqrt(deviation)
    expected = biased_steps(observed, start, deviation, 1.0, 1.0, iterations)
    np.testing.assert_allclose(result.matrix, expected, rtol=1e-6, atol=1e-8)


@settings(max_examples=10)
@given(st.integers(0, 999), st.sampled_from([0.3, 0.1]))
def test_soft_impute_equals_its_twin(seed: int, regularization: float) -> None:
    """The minimum is unique: momentum and the path of shrinkage must not change where it is."""
    observed = random_cells(seed, (15, 12), 0.6)
    options = {"regularization": regularization, "iterations": 3000, "tolerance": 1e-9}
    result = completion(observed, "soft-impute", 0, scaled=False, keep_observed=False, **options)
    dense = np.zeros(observed.shape)
    dense[observed.rows, observed.columns] = observed.weights / observed.weights.max() * observed.values
    expected = plain_soft_impute(observed, regularization * np.linalg.norm(dense, 2), 1500)
    np.testing.assert_allclose(result.matrix, expected, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_svt_equals_its_twin(seed: int) -> None:
    """Of the matrices that agree with the cells, the best is unique: the size of the steps must not matter."""
    observed = random_cells(seed, (12, 10), 0.9, rank=1, noise=0.0, weighted=False)
    result = completion(observed, "svt", 0, scaled=False, keep_observed=False, tolerance=1e-4, iterations=3000)
    assert result.converged
    limit = 5.0 * math.sqrt(120 / len(observed)) * np.linalg.norm(observed.values)
    expected = plain_svt(observed, limit, 1500)
    np.testing.assert_allclose(result.matrix, expected, atol=0.01 * np.abs(expected).max())


@settings(max_examples=30)
@given(st.integers(0, 999), st.floats(0.0, 5.0))
def test_shrunk_equals_the_singular_value_decomposition(seed: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal(tuple(rng.integers(1, 20, 2)))
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    kept = np.maximum(singular - threshold, 0.0)
    result, norm = shrunk(matrix, threshold)
    np.testing.assert_allclose(result, left @ np.diag(kept) @ right, atol=1e-7)
    assert norm == pytest.approx(kept.sum(), abs=1e-6)


@settings(max_examples=10)
@given(st.integers(0, 999))
def test_margin_objective_equals_its_twin_and_its_gradient_is_the_slope(seed: int) -> None:
    observed = random_cells(seed, (6, 5), 0.7)
    graded = mmmf._graded(observed.values, 4)
    model = mmmf._Model(observed, graded.signs, 2, 0.7)
    point = np.random.default_rng(seed).standard_normal(2 * 11 + len(graded.edges))
    value, gradient = model.objective(point)
    assert value == pytest.approx(margin_objective(observed, graded.signs, *model.parts(point), 0.7))
    slope = scipy.optimize.approx_fprime(point, lambda at: model.objective(at)[0], 1e-7)
    np.testing.assert_allclose(gradient, slope, atol=1e-4)


@given(st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0, -3.0]), min_size=1, max_size=30), st.integers(2, 8))
def test_grades_separate_values_and_reverse_with_them(values: list[float], grades: int) -> None:
    array = np.array(values)
    graded, reversed_ = mmmf._graded(array, grades), mmmf._graded(-array, grades)
    np.testing.assert_allclose(reversed_.edges, -graded.edges[::-1])
    assert len(graded.edges) <= grades - 1
    assert (len(graded.edges) == 0) == (len(set(values)) == 1)
    assert (np.diff(graded.edges) > 0).all()


def test_minimiser_finds_the_minimum() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((30, 30))
    curvature, target = root @ root.T + np.eye(30), rng.standard_normal(30)

    def bowl(point: np.ndarray) -> tuple[float, np.ndarray]:
        pull = curvature @ (point - target)
        return float((point - target) @ pull) / 2, pull

    point, value, _, converged = minimized(bowl, np.zeros(30), 500, 1e-14)
    np.testing.assert_allclose(point, target, atol=1e-4)
    assert converged
    assert value < 1e-8
    assert not minimized(bowl, np.zeros(30), 3, 1e-14)[3]


def test_wishart_has_the_right_mean() -> None:
    rng = np.random.default_rng(0)
    scale = np.array([[2.0, 0.5], [0.5, 1.0]])
    mean = np.mean([_wishart(scale, 5, rng) for _ in range(4000)], axis=0)
    np.testing.assert_allclose(mean, 5 * scale, rtol=0.1)


def test_uncertainty_covers_the_truth() -> None:
    """About 95 of 100 hidden values lie within two standard deviations, where the model holds."""
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 60)) + 0.3 * rng.standard_normal((60, 60))
    flat = rng.permutation(3600)[:1200]
    rows, columns = np.divmod(flat, 60)
    result = completion(observe(matrix[rows, columns], rows, columns, matrix.shape), "bpmf", 0, rank=4)
    hidden = np.ones(matrix.shape, dtype=bool)
    hidden[rows, columns] = False
    assert result.uncertainty is not None
    covered = np.abs(result.matrix - matrix)[hidden] < 1.96 * result.uncertainty[hidden]
    assert 0.90 < covered.mean() < 0.98
