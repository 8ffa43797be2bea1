"""The grid search: one path equals many runs, losses are the paper's, what is written can be read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from minrisk.errors import InputError
from minrisk.methods.pmbr import Pmbr
from minrisk.study.als_path import values_along_path
from minrisk.study.baselines import Contender
from minrisk.study.store import Store
from minrisk.study.trials import concluded, draw_samples, outcomes
from minrisk.study.tuning import Grid, losses, tune, tuned_method

ITERATIONS = [1, 2, 5, 6, 9, 30, 80]


@pytest.mark.parametrize("paper", [True, False])
@pytest.mark.parametrize("design", ["uniform", "balanced"])
@pytest.mark.parametrize("calls", [60, 300])
def test_a_path_holds_what_separate_runs_come_to(store: Store, paper: bool, design: str, calls: int) -> None:
    drawn = draw_samples(store.pool(1), 30, 5, 0, keep_duplicates=False)
    problem = replace(drawn.problem, budget=min(calls, drawn.problem.size))
    method = Pmbr(rank=4, regularization=0.15, design=design, paper=paper)
    along = values_along_path(method, problem, drawn.matrix, 3, ITERATIONS)
    for iterations, values in zip(ITERATIONS, along, strict=True):
        alone = concluded(problem, drawn.matrix, Contender("x", replace(method, iterations=iterations)), 3)
        assert alone.estimate is not None
        np.testing.assert_array_equal(values, alone.estimate.values)


def test_a_path_of_equal_values_is_their_mean(store: Store) -> None:
    drawn = draw_samples(store.pool(1), 10, 5, 0, keep_duplicates=True)
    problem = replace(drawn.problem, budget=40, self_values=np.full(10, np.nan))
    found = values_along_path(Pmbr(), problem, np.full((10, 10), 0.25), 3, [1, 2])
    for values in found:
        assert np.allclose(values[~np.isnan(values)], 0.25)


def test_the_loss_is_the_mean_place_of_the_full_choice(store: Store) -> None:
    grid = Grid((0.1, 0.2), (3, 5), (4, 8), size=20, budgets=("1/4", "1/2"), held_out=2, trials=2, seed=7)
    tuned = tune(store, grid, workers=1)
    assert tuned.loss.shape == (2, 2, 2, 2)
    method = Pmbr(rank=5, regularization=0.1, iterations=8)
    places = []
    for name in tuned.held_out:
        for trial in range(2):
            drawn = draw_samples(store.pool(store.ids.index(name)), 20, 7, trial, keep_duplicates=False)
            places.append(outcomes(drawn, [Contender("x", method)], grid_shares(), 7)[1])
    expected = np.mean([[outcome.rank for outcome in found] for found in places], axis=0)
    found = tuned.loss_of(method)
    assert found is not None
    np.testing.assert_allclose(found, expected)
    assert tuned.loss_of(Pmbr(rank=4)) is None
    best = tuned.loss_of(tuned.method)
    assert best is not None
    assert best.mean() == tuned.loss.mean(axis=-1).min()
    assert len(losses(tuned, [("a", method), ("b", Pmbr(rank=4))])) == 1


def grid_shares() -> list:  # type: ignore[type-arg]
    from fractions import Fraction

    return [Fraction(1, 4), Fraction(1, 2)]


def test_processes_change_nothing(store: Store) -> None:
    grid = Grid((0.1,), (3,), (4, 6), size=16, budgets=("1/4",), held_out=3, trials=1)
    alone, spread = tune(store, grid, workers=1), tune(store, grid, workers=2)
    np.testing.assert_array_equal(alone.loss, spread.loss)
    assert alone.method == spread.method
    assert len(alone.of_budget) == 1


def test_a_tuned_configuration_can_be_read(store: Store, tmp_path: Path) -> None:
    grid = Grid((0.1,), (3,), (4,), size=16, budgets=("1/4",), held_out=2, trials=1, paper=True)
    tuned = tune(store, grid, workers=1)
    tuned.save(tmp_path / "tuned.json", store)
    method, held_out = tuned_method(tmp_path / "tuned.json", store.unit)
    assert method == Pmbr(rank=3, regularization=0.1, iterations=4, paper=True)
    assert held_out == tuned.held_out
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="tuned configuration"):
        tuned_method(tmp_path / "other.json")


def test_a_tuned_configuration_is_for_the_metrics_own_scale(store: Store, tmp_path: Path) -> None:
    grid = Grid((0.1,), (3,), (60,), size=16, budgets=("1/2",), held_out=1, trials=1, paper=True)
    tune(store, grid, workers=1).save(tmp_path / "tuned.json", store)
    own, of_unit = tuned_method(tmp_path / "tuned.json")[0], tuned_method(tmp_path / "tuned.json", 100)[0]
    assert own.regularization == pytest.approx(10)
    drawn = draw_samples(store.pool(1), 30, 5, 0, keep_duplicates=True)
    problem = replace(drawn.problem, budget=500)
    found = [
        concluded(problem, matrix, Contender("x", method), 3).estimate
        for matrix, method in ((drawn.matrix * 100, own), (drawn.matrix, of_unit))
    ]
    assert found[0] is not None
    assert found[1] is not None
    np.testing.assert_allclose(found[0].values / 100, found[1].values, atol=0.02)
    tune(store, replace(grid, paper=False), workers=1).save(tmp_path / "safe.json", store)
    assert tuned_method(tmp_path / "safe.json")[0].regularization == 0.1


@pytest.mark.parametrize("wrong", [{"ranks": ()}, {"held_out": 0}, {"trials": 0}])
def test_wrong_grids_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Grid(**wrong)  # type: ignore[arg-type]


def test_more_segments_than_there_are_cannot_be_held_out(store: Store) -> None:
    with pytest.raises(InputError, match="10 segments"):
        tune(store, Grid(size=8))


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"method": "halving", "options": {}},
        {"method": "pmbr"},
        {"method": "pmbr", "options": {"paper": True}},
        {"method": "pmbr", "options": {"paper": True, "regularization": "much"}},
        {"method": "pmbr", "options": {"paper": True, "regularization": 0.1}, "unit": []},
        {"method": "pmbr", "options": {"rank": 3}, "held_out": 5},
        {"method": "pmbr", "options": {"rank": -1}},
        {"method": "pmbr", "options": {"runk": 3}},
    ],
)
def test_what_is_no_tuned_configuration_is_refused(content: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError):
        tuned_method(path)
