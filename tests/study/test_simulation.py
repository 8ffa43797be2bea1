"""Trials, records, their summary and the tables made of them."""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from study.conftest import segments

from minrisk.errors import InputError
from minrisk.methods import METHODS
from minrisk.methods.pmbr import Pmbr
from minrisk.numeric.sampling import draw
from minrisk.problems import problem_of
from minrisk.seeding import stream
from minrisk.study.baselines import PAPER, Contender, PaperColumns, PaperSquare, contenders
from minrisk.study.records import Records, Shard
from minrisk.study.report import write_tables
from minrisk.study.simulation import Design, paper_sizes, run_shard, simulate
from minrisk.study.store import Store, build_store, import_matrices
from minrisk.study.summary import bootstrap, compared, higher_is_better, summarize
from minrisk.study.tables import Table, decimals, latex, markdown, results
from minrisk.study.trials import concluded, draw_samples, full_values, outcomes
from minrisk.study.tuning import Grid
from minrisk.types import Cells, Estimate, FloatArray, Plan, Problem, Segment
from minrisk.utilities.bleu import Bleu
from minrisk.utilities.chrf import ChrF

DESIGN = Design(sizes=(12, 16), budgets=("1/8", "1/2"), trials=6, seed=3)


@pytest.fixture(scope="module")
def records(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Records:
    return simulate(store, tmp_path_factory.mktemp("records"), DESIGN, workers=1)


@pytest.mark.parametrize("keep", [True, False])
def test_a_trial_is_a_problem_like_any_other(store: Store, keep: bool) -> None:
    segment = segments()[2]
    drawn = draw_samples(store.pool(2), 25, 1, 4, keep)
    texts = [segment.hypotheses[position] for position in drawn.positions]
    if keep:
        assert len(texts) == 25
        assert drawn.problem.budget == 625
        np.testing.assert_allclose(drawn.problem.column_weights, 1 / 25)
    else:
        positions = drawn.positions[drawn.problem.row_of_hypothesis]
        given = [segment.hypotheses[position] for position in positions]
        expected = problem_of(Segment(hypotheses=given), ChrF(), Fraction(1))
        assert list(expected.candidates) == texts
        for name in ("column_weights", "row_weights", "row_positions", "row_of_hypothesis", "twins", "budget"):
            np.testing.assert_array_equal(getattr(drawn.problem, name), getattr(expected, name))
    np.testing.assert_allclose(drawn.matrix * 100, ChrF().matrix(texts, texts), rtol=1e-12)


def test_trials_differ_and_can_be_repeated(store: Store) -> None:
    pool = store.pool(0)
    positions = [
        draw_samples(pool, 20, seed, trial, True).positions for seed, trial in ((0, 0), (0, 0), (0, 1), (1, 0))
    ]
    np.testing.assert_array_equal(positions[0], positions[1])
    assert len(set(positions[0].tolist())) == 20
    assert (positions[0] != positions[2]).any()
    assert (positions[0] != positions[3]).any()
    with pytest.raises(InputError, match="41 samples"):
        draw_samples(pool, 41, 0, 0, True)


def test_the_papers_baselines_are_plain_means(store: Store) -> None:
    drawn = draw_samples(store.pool(1), 32, 0, 0, keep_duplicates=True)
    problem = replace(drawn.problem, budget=256)
    columns = concluded(problem, drawn.matrix, Contender("x", PaperColumns()), 5)
    assert columns.calls == 256
    assert columns.estimate is not None
    # Which eight columns were drawn: the means are those of one set, self-pairs included.
    drawn_columns = draw(problem.column_weights, 8, stream(5, problem.stream, "plan"))[0]
    np.testing.assert_allclose(columns.estimate.values, drawn.matrix[:, drawn_columns].mean(axis=1))
    square = concluded(problem, drawn.matrix, Contender("x", PaperSquare()), 5)
    assert square.calls == 256
    assert square.estimate is not None
    known = np.flatnonzero(~np.isnan(square.estimate.values))
    assert len(known) == 16
    np.testing.assert_allclose(square.estimate.values[known], drawn.matrix[np.ix_(known, known)].mean(axis=1))


def test_baselines_with_all_cells_are_full_mbr(store: Store) -> None:
    drawn = draw_samples(store.pool(1), 20, 0, 0, keep_duplicates=False)
    for method in (PaperColumns(), PaperSquare()):
        estimate = concluded(drawn.problem, drawn.matrix, Contender("x", method), 5).estimate
        assert estimate is not None
        np.testing.assert_allclose(estimate.values, full_values(drawn))


def test_a_budget_below_one_column_is_kept(store: Store) -> None:
    drawn = draw_samples(store.pool(1), 20, 0, 0, keep_duplicates=True)
    session = concluded(replace(drawn.problem, budget=7), drawn.matrix, Contender("x", PaperColumns()), 5)
    assert session.calls == 7


def test_names_of_methods() -> None:
    found = contenders(["PMBR", "fast=pmbr(rank=5)", "columns", "FMBR"], tuned=Pmbr(rank=7))
    assert [contender.label for contender in found] == ["FMBR", "PMBR", "fast", "columns"]
    assert found[1].method == Pmbr(rank=7)
    assert found[2].method == Pmbr(rank=5)
    assert contenders(PAPER)[1].method == Pmbr(paper=True)
    with pytest.raises(InputError, match="two methods"):
        contenders(["columns", "columns"])
    with pytest.raises(InputError, match="columns"):
        contenders(["colums"])
    with pytest.raises(InputError, match="needs the human reference"):
        contenders(["oracle"])


def test_methods_that_ask_for_more_than_cells_are_refused(store: Store) -> None:
    drawn = draw_samples(store.pool(1), 20, 0, 0, keep_duplicates=False)
    with pytest.raises(InputError, match="Folded"):
        outcomes(drawn, contenders(["aggregate"]), [Fraction(1, 2)], 0)


def test_records_say_what_was_chosen(store: Store, records: Records) -> None:
    given = segments()
    for size in records.sizes:
        for number, arrays in enumerate(records.of_segments(size, ["choice", "calls", "rank", "regret", "expected"])):
            assert arrays["choice"].shape == (6, 7)
            assert (arrays["regret"][:, 0] == 0).all()
            assert (arrays["rank"][:, 0] == 1).all()
            assert (arrays["regret"] >= 0).all()
            for trial in range(6):
                drawn = draw_samples(store.pool(number), size, 3, trial, keep_duplicates=False)
                cells = drawn.problem.size
                assert (arrays["calls"][trial, 1:4] <= np.ceil(cells / 8)).all()
                values = full_values(drawn) * 100
                texts = [given[number].hypotheses[position] for position in drawn.positions]
                for run in range(7):
                    chosen = given[number].hypotheses[int(arrays["choice"][trial, run])]
                    assert arrays["expected"][trial, run] == pytest.approx(values[texts.index(chosen)], rel=1e-6)


def test_scores_are_those_of_the_chosen_texts(store: Store, records: Records) -> None:
    for number, arrays in enumerate(records.of_segments(12, ["choice", "score.bleu"])):
        index = store.samples(number)["index"]
        expected = store.scores("bleu")[number][index[arrays["choice"].astype(int)]]
        np.testing.assert_allclose(arrays["score.bleu"], expected, rtol=1e-6)


def test_processes_blocks_and_interruptions_change_nothing(store: Store, records: Records, tmp_path: Path) -> None:
    few = simulate(store, tmp_path, replace(DESIGN, trials=2, sizes=(16,)), workers=2)
    assert few.about["trials"] == 2
    (tmp_path / "records" / "N16" / "00001.00000.npz").unlink()
    told: list[tuple[int, int | None]] = []
    simulate(store, tmp_path, DESIGN, workers=2, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    again = Records.open(tmp_path)
    assert again.seconds > 0
    for size in (12, 16):
        for left, right in zip(
            records.of_segments(size, ["choice", "expected"]), again.of_segments(size, ["choice", "expected"])
        ):
            np.testing.assert_array_equal(left["choice"], right["choice"])
            np.testing.assert_array_equal(left["expected"], right["expected"])


def test_what_is_there_is_not_done_again(store: Store, records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> float:
        raise AssertionError

    monkeypatch.setattr("minrisk.study.simulation.run_shard", never)
    simulate(store, records.folder, DESIGN, workers=1)
    with pytest.raises(InputError, match="holds another study"):
        simulate(store, records.folder, replace(DESIGN, seed=4), workers=1)


def test_a_study_that_was_interrupted_is_not_summed_up(store: Store, tmp_path: Path) -> None:
    records = Records.create(tmp_path, DESIGN.about(store))
    run_shard(store.folder, records.folder, DESIGN, Shard(12, 0, 0, 6))
    with pytest.raises(InputError, match="not complete"):
        Records.open(tmp_path)


def test_methods_that_go_by_scores_and_exact_ones(tmp_path: Path) -> None:
    given = [replace(one, scores=[float(len(text)) for text in one.hypotheses]) for one in segments()]
    store = build_store(given, ChrF(), tmp_path / "store")
    design = replace(DESIGN, methods=("rerank(by=scores)", "full", "NxK"), sizes=(12,), trials=2)
    records = simulate(store, tmp_path / "records", design, workers=1)
    assert records.budgets == ["1/8", "1/2"]
    place = records.runs.index(("rerank(by=scores)", "1/8"))
    for number, arrays in enumerate(records.of_segments(12, ["choice", "regret"])):
        assert (arrays["regret"][:, records.runs.index(("full", "1"))] == 0).all()
        for trial in range(2):
            drawn = draw_samples(store.pool(number), 12, 3, trial, keep_duplicates=False)
            lengths = [len(given[number].hypotheses[position]) for position in drawn.positions]
            assert len(given[number].hypotheses[int(arrays["choice"][trial, place])]) == max(lengths)
    assert "| full |" in markdown(results(records, summarize(records), ["expected"]))


def test_segments_can_be_left_out(store: Store, tmp_path: Path) -> None:
    design = replace(DESIGN, sizes=(12,), trials=1, without=("s1", "s3"))
    assert simulate(store, tmp_path, design, workers=1).about["segments"] == [0, 2]
    with pytest.raises(InputError, match="nothing"):
        simulate(store, tmp_path, replace(design, without=("nothing",)))


def test_lower_is_better_and_other_units(tmp_path: Path, store: Store) -> None:
    matrices = {str(number): 100 - store.values(number)[:14, :14].astype(float) for number in range(2)}
    np.savez(tmp_path / "errors.npz", **matrices)
    lower = import_matrices(
        tmp_path / "errors.npz", tmp_path / "store", higher_is_better=False, unit=100, dtype="float64"
    )
    design = Design(methods=("NxK", "columns"), sizes=(10,), budgets=("1/4",), trials=3, unit=50.0)
    records = simulate(lower, tmp_path / "records", design, workers=1)
    for number, arrays in enumerate(records.of_segments(10, ["expected", "regret"])):
        for trial in range(3):
            drawn = draw_samples(lower.pool(number), 10, 0, trial, keep_duplicates=False)
            table = matrices[str(number)][np.ix_(drawn.rows, drawn.rows)]
            assert arrays["expected"][trial, 0] == pytest.approx(table.mean(axis=1).min(), rel=1e-6)
            np.testing.assert_allclose(
                arrays["regret"][trial], arrays["expected"][trial] - arrays["expected"][trial, 0], atol=1e-4
            )


def test_a_summary_is_means_over_segments_and_trials(records: Records) -> None:
    summary = summarize(records)[1]
    all_values = np.array([arrays["expected"] for arrays in records.of_segments(16, ["expected"])])
    place = records.runs.index(("NxK", "1/2"))
    assert summary.size == 16
    assert summary.mean("NxK", "1/2", "expected") == pytest.approx(all_values[:, :, place].mean())
    corpus = all_values[:, :, place].mean(axis=0)
    assert summary.deviation("NxK", "1/2", "expected") == pytest.approx(corpus.std(ddof=1))
    assert summary.mean("FMBR", "1/8", "expected") == summary.mean("FMBR", "1", "expected")
    with pytest.raises(InputError, match="unknown run"):
        summary.place("NxK", "1/3")


def test_the_bootstrap_tells_what_differs_from_what_does_not(records: Records) -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=200)
    clear = bootstrap(base + 0.5, base + 0.1 * rng.normal(size=200))
    assert clear.p < 0.001
    assert clear.low < 0.5 < clear.high
    noise = [bootstrap(base, base + rng.normal(size=200), seed).p for seed in range(60)]
    assert 0.2 < np.mean(noise) < 0.8
    assert bootstrap(base, base).p == 1
    with pytest.raises(InputError, match="same segments"):
        bootstrap(base, base[1:])
    assert len(compared(summarize(records)[0], "PMBR", "NxK", records.budgets, "regret")) == 2


def test_tables_are_in_the_papers_layout(records: Records, tmp_path: Path) -> None:
    table = results(records, summarize(records), ["score.bleu", "score.chrf"])
    assert table.head == ["1/8", "1/2"]
    text = markdown(table)
    assert "| | | 1/8 BLEU | 1/8 chrF | 1/2 BLEU | 1/2 chrF |" in text
    assert text.count("| FMBR |") == 2
    assert all("**" not in line for line in text.splitlines() if "FMBR" in line)
    for label, rows in table.blocks:
        assert label in ("N=12", "N=16")
        for column in range(4):
            shown = [float(cells[column][0]) for name, cells in rows if name != "FMBR"]
            best = [float(cells[column][0]) for name, cells in rows if cells[column][1]]
            assert set(best) == {max(shown)}
    tex = latex(table)
    assert "\\multirow{4}{*}" in tex
    assert tex.count("\\cmidrule{2-6}") == 2
    written = write_tables(records, tmp_path)
    assert {path.suffix for path in written} == {".md", ".tex", ".csv"}
    lines = (tmp_path / "summary.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 7 * len(summarize(records)[0].corpus)
    with (tmp_path / "results.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["", "", *(f"{budget} {metric}" for budget in ("1/8", "1/2") for metric in ("BLEU", "chrF"))]
    cells = [[label, name, *(text for text, _ in given)] for label, rows in table.blocks for name, given in rows]
    assert rows == cells


def test_symbols_in_latex() -> None:
    table = Table("", ["σ1² share"], [""], [("", [("50% of {a_b}\\c^2", [("1.0 ±0.1", True)])])])
    tex = latex(table)
    assert "$\\sigma_1$$^2$ share" in tex
    assert " & 50\\% of \\{a\\_b\\}\\textbackslash{}c\\textasciicircum{}2 & \\textbf{1.0 $\\pm$0.1} \\\\" in tex
    assert "multirow" not in tex
    assert "budget" not in tex


def test_all_pairs_of_methods_are_compared(records: Records, tmp_path: Path) -> None:
    write_tables(records, tmp_path)
    with (tmp_path / "comparisons.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 6 * 2  # sizes, measures, pairs of four methods, budgets
    summary = summarize(records)[0]
    row = next(row for row in rows if (row["method"], row["other"], row["budget"]) == ("NxK", "SxS", "1/2"))
    found = compared(summary, "NxK", "SxS", ["1/2"], row["measure"])[0]
    assert (row["size"], row["measure"]) == ("12", "expected")
    assert float(row["difference"]) == pytest.approx(found.difference, rel=1e-5, abs=1e-12)
    assert float(row["p"]) == pytest.approx(found.p, rel=1e-5)


def test_as_many_decimals_as_the_scale_needs(store: Store, records: Records, tmp_path: Path) -> None:
    summaries = summarize(records)
    assert [decimals(summaries, name) for name in ("expected", "regret", "rank", "agreement")] == [2, 3, 2, 3]
    shares = {str(number): np.asarray(store.values(number)) / 100 for number in range(2)}
    np.savez(tmp_path / "shares.npz", **{name: matrix[:14, :14] for name, matrix in shares.items()})
    small = import_matrices(tmp_path / "shares.npz", tmp_path / "store")
    design = Design(methods=("NxK", "SxS"), sizes=(10,), budgets=("1/4",), trials=2)
    found = summarize(simulate(small, tmp_path / "records", design, workers=1))
    assert [decimals(found, name) for name in ("expected", "regret")] == [4, 5]


def test_records_as_lines(records: Records) -> None:
    lines = "".join(records.rows()).splitlines()
    assert lines[0].startswith("size,segment,trial,method,budget,choice,calls")
    assert len(lines) == 1 + 2 * 4 * 6 * 7


def test_directions() -> None:
    assert higher_is_better("expected", True)
    assert not higher_is_better("expected", False)
    assert not higher_is_better("score.ter", True, ["ter"])
    assert higher_is_better("score.ter", True)
    assert not higher_is_better("rank", True)


@pytest.mark.parametrize("wrong", [{"trials": 0}, {"sizes": ()}, {"sizes": (0,)}, {"unit": 0.0}])
def test_wrong_designs_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Design(**wrong)  # type: ignore[arg-type]


def test_sizes_that_fit() -> None:
    assert paper_sizes(100) == (32, 64)


def test_budgets_and_sizes_count_once() -> None:
    design = Design(budgets=("1/8", 0.125, "2/16", 16), sizes=(8, 4, 8))
    assert design.shares == [Fraction(1, 8), 16]
    assert design.sizes == (8, 4)
    assert Design(budgets="1/8").shares == [Fraction(1, 8)]


@pytest.mark.parametrize("budgets", [(), ("auto",), ("1/0",), (0,)])
def test_a_study_needs_budgets_in_numbers(budgets: tuple[str | int, ...]) -> None:
    with pytest.raises(InputError, match="budget"):
        Design(budgets=budgets)
    with pytest.raises(InputError, match="budget"):
        Grid(budgets=budgets)


def test_measures_that_are_not_there(records: Records) -> None:
    with pytest.raises(InputError, match="did you mean 'expected'"):
        compared(summarize(records)[0], "PMBR", "NxK", ["1/8"], "expeced")


def test_some_segments_must_be_left(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no segment is left"):
        simulate(store, tmp_path, replace(DESIGN, without=tuple(store.ids)), workers=1)
    assert not list(tmp_path.iterdir())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Scores a column after the other, prefers the last row, and stops early if nothing tells the rows apart."""

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        rows = np.arange(problem.shape[0])
        values = np.zeros(len(rows))
        for column in rng.permutation(problem.shape[1])[: problem.budget // len(rows)]:
            values += yield Cells(rows, np.full(len(rows), column))
            if np.ptp(values) == 0:
                break
        return Estimate(values=values, preference=rows.astype(float))


def test_any_method_that_is_registered_can_be_simulated(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS._entries, "ladder", f"{__name__}:Ladder")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Ladder.__module__])
    design = Design(methods=("ladder",), sizes=(10,), budgets=("1/2",), trials=2)
    records = simulate(store, tmp_path, design, workers=1)
    assert records.methods == ["FMBR", "ladder"]
    for arrays in records.of_segments(10, ["calls", "regret"]):
        assert (arrays["calls"][:, 1] > 0).all()


def test_methods_may_look_at_other_utilities(store: Store, tmp_path: Path) -> None:
    design = Design(methods=("coarse_to_fine", "halving"), sizes=(12,), budgets=("1/4",), trials=2)
    with pytest.raises(InputError, match=r"'coarse_to_fine' looks at chrf\(.*`minrisk study matrix`"):
        simulate(build_store(segments(), Bleu(), tmp_path / "bleu"), tmp_path / "x", design, workers=1)
    bleu = Store.open(tmp_path / "bleu")
    records = simulate(bleu, tmp_path / "records", design, others=[store], workers=1)
    alone = simulate(store, tmp_path / "alone", design, workers=1)
    for number, arrays in enumerate(records.of_segments(12, ["choice", "calls"])):
        for trial in range(2):
            drawn = draw_samples(store.pool(number), 12, 0, trial, keep_duplicates=False)
            texts = [segments()[number].hypotheses[position] for position in drawn.positions]
            plan = coarse_to_fine(texts, drawn.problem.column_weights, drawn.problem.size)
            assert segments()[number].hypotheses[int(arrays["choice"][trial, 1])] == plan
            assert arrays["calls"][trial, 1] <= -(-drawn.problem.size // 4)
    # The same utility may be both.
    assert all((arrays["regret"][:, 1] == 0).all() for arrays in alone.of_segments(12, ["regret"]))
    other = [replace(segment, hypotheses=[*segment.hypotheses[1:], "new"]) for segment in segments()]
    with pytest.raises(InputError, match="segment 's0': other samples than in"):
        simulate(build_store(other, ChrF(), tmp_path / "o"), tmp_path / "y", design, others=[bleu], workers=1)
    with pytest.raises(InputError, match="holds other segments"):
        simulate(bleu, tmp_path / "y", design, others=[build_store(segments(2), ChrF(), tmp_path / "p")], workers=1)


def coarse_to_fine(texts: list[str], weights: FloatArray, size: int) -> str:
    """By hand: chrF keeps as many as a quarter of all cells can pay for, BLEU chooses among them."""
    kept = np.argsort(-(ChrF().matrix(texts, texts) @ weights), kind="stable")[: -(-size // 4) // len(texts)]
    values = Bleu().matrix([texts[row] for row in np.sort(kept)], texts) @ weights
    return texts[int(np.sort(kept)[np.argmax(values)])]
