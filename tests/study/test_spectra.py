"""Spectra: against slow definitions, and what is left of matrices whose structure is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minrisk.errors import InputError
from minrisk.study.spectra import (
    additive_fit,
    additive_share,
    coherence,
    effective_rank,
    parts,
    read_spectra,
    spectrum,
    write_spectra,
)
from minrisk.study.store import Store


def test_nothing_is_left_of_an_additive_matrix() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.random((9, 1)) + rng.random((1, 9))
    own = np.eye(9, dtype=bool)
    with_self_pairs = np.where(own, 5.0, matrix)
    np.testing.assert_allclose(additive_fit(with_self_pairs, own), matrix, atol=1e-10)
    left = parts(with_self_pairs, own)
    assert np.abs(left["others"]).max() < 1e-10
    assert np.abs(left["additive"]).max() > 1
    assert left["mean"].mean() == pytest.approx(0, abs=1e-12)
    assert additive_share(with_self_pairs, own) == pytest.approx(1)


def test_the_additive_fit_is_the_least_squares_fit() -> None:
    rng = np.random.default_rng(1)
    matrix, own = rng.random((7, 7)), np.eye(7, dtype=bool)
    own[2, 3] = own[3, 2] = True
    rows, columns = np.nonzero(~own)
    features = np.zeros((len(rows), 14))
    features[np.arange(len(rows)), rows] = features[np.arange(len(rows)), 7 + columns] = 1
    effects = np.linalg.lstsq(features, matrix[rows, columns], rcond=None)[0]
    expected = effects[:7, None] + effects[None, 7:]
    np.testing.assert_allclose(additive_fit(matrix, own)[~own], expected[~own], atol=1e-9)


def test_one_text_alone_has_no_other_pairs() -> None:
    own = np.ones((2, 2), dtype=bool)
    assert np.isnan(additive_share(np.ones((2, 2)), own))
    assert (parts(np.ones((2, 2)), own)["others"] == 0).all()


def test_effective_rank() -> None:
    assert effective_rank(np.ones(6)) == pytest.approx(6)
    assert effective_rank(np.array([3.0, 0, 0])) == pytest.approx(1)
    assert effective_rank(np.zeros(3)) == 0


def test_coherence_lies_between_its_bounds() -> None:
    assert coherence(np.eye(8), 2) == pytest.approx(4)
    even = np.full((8, 1), 1 / np.sqrt(8))
    assert coherence(even, 1) == pytest.approx(1)
    assert coherence(even, 5) == pytest.approx(1)


@pytest.mark.parametrize("keep", [True, False])
def test_averages_are_over_segments(store: Store, tmp_path: Path, keep: bool) -> None:
    found = spectrum(store, [8, 16], keep_duplicates=keep, workers=1)
    assert [one.size for one in found] == [8, 16]
    for one in found:
        assert one.segments == 4
        assert one.singular_values["raw"].shape == (one.size,)
        assert (np.diff(one.singular_values["raw"]) <= 1e-12).all()
        assert one.effective_rank["raw"] <= one.size
        assert (one.distinct == one.size) == keep
        assert (one.coherence["raw"] >= 1 - 1e-12).all()
    written = write_spectra(found, tmp_path, "chrF")
    assert (tmp_path / "singular-values.tex").read_text().count("&") > 3
    label, values = read_spectra(tmp_path)
    assert label == "chrF"
    np.testing.assert_array_equal(values[16]["others"], found[1].singular_values["others"])
    assert all(path.exists() for path in written)
    if keep:
        again = spectrum(store, [8, 16], keep_duplicates=True, workers=2)
        np.testing.assert_array_equal(again[0].singular_values["raw"], found[0].singular_values["raw"])


def test_sizes_must_be_numbers_of_samples(store: Store) -> None:
    with pytest.raises(InputError, match="at least 2"):
        spectrum(store, [1])
