"""What a cell tells about its mirror image."""

from __future__ import annotations

import numpy as np
import pytest

from minrisk.errors import InputError
from minrisk.numeric.completion import completion
from minrisk.numeric.sparse import Observed, observe
from minrisk.numeric.symmetry import reflected, symmetry_weight
from minrisk.types import FloatArray


def cells_of(matrix: FloatArray, share: float, seed: int = 0) -> Observed:
    rows, columns = np.nonzero(np.random.default_rng(seed).random(matrix.shape) < share)
    return observe(matrix[rows, columns], rows, columns, matrix.shape)


def matrix_with(asymmetry: float, size: int = 60) -> FloatArray:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((size, size))
    return (noise + noise.T) / np.sqrt(2) + asymmetry * rng.standard_normal((size, size))


def test_weight_follows_the_symmetry() -> None:
    exact, near, loose, none = (symmetry_weight(cells_of(matrix_with(a), 0.6)) for a in (0.0, 0.2, 0.7, 20.0))
    assert 0.9 < exact <= 1.0
    assert exact > near > loose > none
    assert none < 0.01
    rng = np.random.default_rng(0).standard_normal((60, 60))
    assert symmetry_weight(cells_of(rng - rng.T, 0.6)) == 0.0


def test_weight_is_free_of_scale_shift_and_direction() -> None:
    observed = cells_of(matrix_with(0.3), 0.3)
    for factor, shift in ((100.0, 0.0), (-1.0, 0.0), (3.0, -7.0)):
        moved = observed.with_values(factor * observed.values + shift)
        assert symmetry_weight(moved) == pytest.approx(symmetry_weight(observed))


def test_few_pairs_give_a_cautious_weight() -> None:
    observed = observe([1.0, 2.0, 5.0], [0, 1, 2], [1, 2, 0], (3, 3))
    assert symmetry_weight(observed) == pytest.approx((2 / 3) * 0.1 / (0.1 + 2 / 3))


def test_images_are_added_where_nothing_is_known() -> None:
    observed = observe([1.0, 2.0, 3.0, 4.0], [0, 1, 1, 2], [1, 0, 2, 2], (3, 3), [1.0, 1.0, 2.0, 1.0])
    both = reflected(observed, 0.25)
    assert list(zip(both.rows, both.columns, both.values, both.weights, strict=True)) == [
        (0, 1, 1.0, 1.0),
        (1, 0, 2.0, 1.0),
        (1, 2, 3.0, 2.0),
        (2, 1, 3.0, 0.5),
        (2, 2, 4.0, 1.0),
    ]
    assert reflected(observed, 0.0) is observed
    assert len(reflected(observed)) == 5


def test_constant_values_are_symmetric() -> None:
    assert symmetry_weight(observe([1.0, 1.0], [0, 1], [1, 0], (2, 2))) > 0.0


def test_only_square_matrices_have_images() -> None:
    with pytest.raises(InputError, match="only a square matrix"):
        reflected(observe([1.0], [0], [1], (2, 3)))
    with pytest.raises(InputError, match="`weight` must lie between 0 and 1"):
        reflected(observe([1.0], [0], [1], (2, 2)), 1.5)


@pytest.mark.parametrize("algorithm", ["als", "bpmf", "soft-impute"])
def test_images_help_the_fit_and_are_not_taken_for_measurements(algorithm: str) -> None:
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((60, 2))
    matrix = factors @ factors.T + 0.2 * rng.standard_normal((60, 60))
    observed = cells_of(matrix, 0.12)
    errors = []
    for mirrored in (False, True):
        result = completion(observed, algorithm, 0, mirrored=mirrored).matrix
        assert (result[observed.rows, observed.columns] == observed.values).all()
        errors.append(np.linalg.norm(result - matrix))
    assert errors[1] < 0.9 * errors[0]
    images = observed.columns, observed.rows
    assert not np.isclose(result[images], observed.values).all()
