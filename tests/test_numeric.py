"""Estimates and draws against slow, readable twins."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minrisk.numeric.estimation import sampled_values
from minrisk.numeric.sampling import block, draw, inclusion_probabilities
from minrisk.problems import problem_of
from minrisk.types import Cells, FloatArray, Problem, Segment
from minrisk.utilities.chrf import ChrF
from minrisk.utilities.table import Table

WEIGHTS = st.lists(st.sampled_from([0.0, 1.0, 1.0, 2.0, 7.5]), min_size=1, max_size=9).filter(any)


def slow_sampled_values(problem: Problem, cells: Cells, values: FloatArray, stands_for: FloatArray) -> list[float]:
    """`sampled_values`, one candidate at a time."""
    rows, columns = problem.shape
    scored = {(int(r), int(c)): float(v) for r, c, v in zip(cells.rows, cells.columns, values, strict=True)}
    twin = [int(column) for column in problem.twins]
    own = {row: float(v) for row, v in enumerate(problem.self_values) if not math.isnan(v)}
    own |= {row: scored[row, twin[row]] for row in range(rows) if (row, twin[row]) in scored}
    seen = [value for (row, column), value in scored.items() if column == twin[row]]
    for row in range(rows):
        if twin[row] >= 0 and row not in own and seen:
            own[row] = sum(seen) / len(seen)
    others = {cell: value for cell, value in scored.items() if cell[1] != twin[cell[0]]}
    if len({*others, *((row, twin[row]) for row in own if (row, twin[row]) in scored or row in own)}) == rows * columns:
        full = others | {(row, twin[row]): value for row, value in own.items()}
        return [sum(problem.column_weights[c] * full[r, c] for c in range(columns)) for r in range(rows)]
    effect = dict.fromkeys(range(rows), 0.0)
    mean: dict[int, float] = {}
    for _ in range(200):
        for column in {c for _, c in others}:
            held = [value - effect[r] for (r, c), value in others.items() if c == column]
            mean[column] = sum(held) / len(held)
        for row in {r for r, _ in others}:
            parts = [(stands_for[c], value - mean[c]) for (r, c), value in others.items() if r == row]
            effect[row] = sum(weight * part for weight, part in parts) / sum(weight for weight, _ in parts)
    mass = sum(stands_for[column] for column in mean)
    level = sum(stands_for[column] * mean[column] for column in mean) / mass if mass else 0.0
    results = []
    for row in range(rows):
        if row not in {r for r, _ in others}:
            results.append(math.nan)
            continue
        deviation = effect[row]
        share = float(problem.column_weights[twin[row]]) if twin[row] >= 0 else 0.0
        own_column = mean.get(twin[row], level) if twin[row] >= 0 else level
        self_value = own.get(row, deviation + own_column)
        results.append((1 - share) * deviation + level + share * (self_value - own_column))
    return results


@given(st.data())
def test_sampled_values_against_the_slow_twin(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.sampled_from("abcdef"), min_size=2, max_size=10))
    separate = data.draw(st.one_of(st.none(), st.lists(st.sampled_from("abxyz"), min_size=1, max_size=6)))
    utility = data.draw(st.sampled_from([ChrF(), Table(values=np.zeros(1))]))
    problem = problem_of(Segment(hypotheses=texts, pseudo_references=separate), utility, Fraction(1))
    everything = [(row, column) for row in range(problem.shape[0]) for column in range(problem.shape[1])]
    free = [(row, column) for row, column in everything if not np.isnan(problem.self_values[row])]
    asked = data.draw(st.lists(st.sampled_from(everything), unique=True, min_size=1))
    asked = [cell for cell in asked if not (cell in free and problem.twins[cell[0]] == cell[1])]
    cells = Cells(np.array([r for r, _ in asked], dtype=np.int64), np.array([c for _, c in asked], dtype=np.int64))
    values = np.array(data.draw(st.lists(st.floats(-50, 50), min_size=len(asked), max_size=len(asked))))
    stands_for = np.array(data.draw(st.lists(st.floats(0.1, 5), min_size=problem.shape[1], max_size=problem.shape[1])))
    fast = sampled_values(problem, cells, values, stands_for)
    slow = slow_sampled_values(problem, cells, values, stands_for)
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-9)


def test_candidates_that_were_dropped_are_compared_on_equal_terms() -> None:
    """Later columns, scored for good candidates only, are no worse for lacking the bad ones."""
    quality, severity = np.arange(6.0), np.array([0.0, 50.0, 100.0, 150.0])
    table = quality[:, None] + severity
    segment = Segment(hypotheses=list("abcdef"), pseudo_references=list("wxyz"))
    problem = problem_of(segment, Table(values=table), Fraction(1))
    pairs = [(row, column) for row in range(6) for column in range(4) if column < 2 or row >= 4]
    cells = Cells(np.array([row for row, _ in pairs]), np.array([column for _, column in pairs]))
    values = sampled_values(problem, cells, table[cells.rows, cells.columns], np.full(4, 0.25))
    np.testing.assert_allclose(values, table.mean(axis=1), rtol=1e-9)


def test_column_effects_cancel() -> None:
    """A row judged by severe columns only is not worse than one judged by mild ones."""
    quality, severity = np.array([1.0, 2.0, 3.0]), np.array([0.0, 50.0, 100.0])
    table = quality[:, None] + severity
    segment = Segment(hypotheses=["a", "b", "c"], pseudo_references=["x", "y", "z"])
    problem = problem_of(segment, Table(values=table), Fraction(1))
    cells = Cells(np.array([0, 0, 1, 1, 2, 2]), np.array([1, 2, 0, 2, 0, 1]))
    values = sampled_values(problem, cells, table[cells.rows, cells.columns], np.full(3, 1 / 3))
    assert values.tolist() == sorted(values)


@given(WEIGHTS, st.integers(1, 9))
def test_inclusion_probabilities(weights: list[float], count: int) -> None:
    given_weights = np.array(weights)
    probabilities = inclusion_probabilities(given_weights, count)
    support = np.count_nonzero(given_weights)
    assert probabilities.max() <= 1
    assert probabilities.sum() == pytest.approx(min(count, support))
    assert ((probabilities > 0) == (given_weights > 0)).all()
    uncertain = (probabilities < 1) & (probabilities > 0)
    ratios = probabilities[uncertain] / given_weights[uncertain]
    np.testing.assert_allclose(ratios, ratios[:1].repeat(len(ratios)))


@given(WEIGHTS, st.integers(1, 9), st.integers(0, 99))
def test_draws_are_distinct_and_prefer_weight(weights: list[float], count: int, seed: int) -> None:
    given_weights = np.array(weights)
    drawn, stands_for = draw(given_weights, count, np.random.default_rng(seed))
    assert drawn.tolist() == sorted(set(drawn.tolist()))
    assert len(drawn) == min(count, len(weights))
    if count <= np.count_nonzero(given_weights):
        assert (given_weights[drawn] > 0).all()
    assert (stands_for >= given_weights - 1e-12).all()


def test_draws_meet_their_probabilities_and_their_means() -> None:
    weights = np.array([8.0, 1, 1, 1, 1, 2, 2])
    values = np.array([3.0, -1, 4, 1, -5, 9, 2])
    rng = np.random.default_rng(0)
    counts, estimates = np.zeros(7), []
    for _ in range(20_000):
        drawn, stands_for = draw(weights, 3, rng)
        counts[drawn] += 1
        estimates.append(stands_for[drawn] @ values[drawn] / weights.sum())
    np.testing.assert_allclose(counts / 20_000, inclusion_probabilities(weights, 3), atol=0.02)
    # Pareto sampling meets its probabilities nearly; the difference is largest for as few as these.
    assert np.mean(estimates) == pytest.approx(weights @ values / weights.sum(), abs=0.06)


def test_a_block_leaves_out_self_pairs_that_are_known() -> None:
    segment = Segment(hypotheses=["a", "b", "c"])
    known = problem_of(segment, ChrF(), Fraction(1))
    unknown = problem_of(segment, Table(values=np.eye(3)), Fraction(1))
    rows = columns = np.array([0, 2])
    assert [(int(r), int(c)) for r, c in zip(*cells_of(block(known, rows, columns)))] == [(0, 2), (2, 0)]
    assert len(block(unknown, rows, columns)) == 4


def cells_of(cells: Cells) -> tuple[FloatArray, FloatArray]:
    """Rows and columns."""
    return cells.rows, cells.columns  # type: ignore[return-value]
