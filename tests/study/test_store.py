"""The matrix store: values of the utility, duplicates once, resumed, refused where it does not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from study.conftest import segments

from minrisk.cli.callables import named_utility
from minrisk.cli.main import main
from minrisk.errors import InputError
from minrisk.study.source import prepared_store
from minrisk.study.store import Store, build_store, import_matrices, slug
from minrisk.types import Segment
from minrisk.utilities.bleu import Bleu
from minrisk.utilities.chrf import ChrF
from minrisk.utilities.function import Function
from minrisk.utilities.table import Table


def test_values_are_the_utilitys(store: Store) -> None:
    assert store.ids == ["s0", "s1", "s2", "s3"]
    assert store.unit == 100
    assert store.metrics == ["bleu", "chrf"]
    for number, segment in enumerate(segments()):
        index = store.samples(number)["index"]
        expected = ChrF().matrix(segment.hypotheses, segment.hypotheses)
        np.testing.assert_allclose(store.values(number)[np.ix_(index, index)], expected, rtol=1e-14)
        assert len(store.values(number)) == len(set(segment.hypotheses)) < len(segment.hypotheses)
        assert isinstance(store.values(number).base, np.memmap)
        bleu = Bleu().matrix(segment.hypotheses, [segment.reference or ""])[:, 0]
        np.testing.assert_allclose(store.scores("bleu")[number][index], bleu)
        pool = store.pool(number)
        np.testing.assert_allclose(pool.matrix * 100, store.values(number))
        distinct = list(dict.fromkeys(segment.hypotheses))
        np.testing.assert_allclose(pool.self_values * 100, ChrF().self_values(distinct))
        assert pool.logprobs is not None
        np.testing.assert_allclose(pool.logprobs, segment.logprobs or [])


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    calls: list[str] = []

    def judge(candidates: list[str], references: list[str]) -> list[float]:
        calls.append(candidates[0])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return [float(len(set(left.split()) & set(right.split()))) for left, right in zip(candidates, references)]

    utility = Function(judge)
    with pytest.raises(KeyboardInterrupt):
        build_store(segments(), utility, tmp_path / "store")
    with pytest.raises(InputError, match="not complete"):
        Store.open(tmp_path / "store")
    done = build_store(segments(), utility, tmp_path / "store")
    assert len(calls) == 5
    whole = build_store(segments(), utility, tmp_path / "whole")
    assert done.signature == whole.signature
    np.testing.assert_array_equal(done.values(2), whole.values(2))
    changed = [replace(segment, hypotheses=[*segment.hypotheses[:-1], "new"]) for segment in segments()]
    calls.clear()
    again = build_store(changed, Function(judge), tmp_path / "store", limit=2)
    assert len(calls) == 2
    assert again.signature != done.signature
    assert again.ids == ["s0", "s1"]


def test_what_is_said_of_samples_may_change_without_their_matrices(tmp_path: Path) -> None:
    build_store(segments(1), ChrF(), tmp_path)
    written = (tmp_path / "00000.npy").stat().st_mtime_ns
    changed = [replace(one, logprobs=None, scores=[1.0] * len(one.hypotheses)) for one in segments(1)]
    pool = build_store(changed, ChrF(), tmp_path).pool(0)
    assert pool.logprobs is None
    assert pool.scores is not None
    assert pool.scores.tolist() == [1.0] * 40
    assert (tmp_path / "00000.npy").stat().st_mtime_ns == written


def test_a_folder_of_other_values_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match="holds other matrices"):
        build_store(segments(), ChrF(char_order=4), store.folder)


def test_only_the_pool_is_used(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    store = build_store(
        segments(), ChrF(), tmp_path, pool=10, limit=2, progress=lambda done, total: told.append((done, total))
    )
    assert told == [(1, 2), (2, 2)]
    assert len(store.samples(0)["index"]) == 10
    assert store.values(0).dtype == np.float32


def test_a_table_is_stored_without_its_duplicates(tmp_path: Path) -> None:
    given = segments(2)
    tables = {str(one.id): ChrF().matrix(one.hypotheses, one.hypotheses) for one in given}
    store = build_store(given, Table(values=tables), tmp_path, pool=20, dtype="float64")
    size = len(set(given[0].hypotheses[:20]))
    assert store.values(0).shape == (size, size)
    distinct = list(dict.fromkeys(given[0].hypotheses))[:size]
    np.testing.assert_allclose(store.values(0), ChrF().matrix(distinct, distinct))
    assert store.unit == 1


def test_matrices_from_elsewhere(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    matrices = {"a": rng.random((5, 5)), "b": rng.random((7, 7))}
    np.savez(tmp_path / "given.npz", **matrices)
    store = import_matrices(tmp_path / "given.npz", tmp_path / "store", higher_is_better=False, unit=2.0)
    assert store.ids == ["a", "b"]
    np.testing.assert_allclose(store.pool(1).matrix, -matrices["b"] / 2, rtol=1e-6)
    assert np.isnan(store.pool(1).self_values).all()
    np.save(tmp_path / "stack.npy", rng.random((3, 4, 4)))
    assert import_matrices(tmp_path / "stack.npy", tmp_path / "stacked").ids == ["0", "1", "2"]
    np.save(tmp_path / "wrong.npy", rng.random((3, 4)))
    with pytest.raises(InputError, match="square"):
        import_matrices(tmp_path / "wrong.npy", tmp_path / "other")
    with pytest.raises(InputError, match="npz"):
        import_matrices(tmp_path / "absent.npy", tmp_path / "other")


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        (Segment(hypotheses=["a", "b"], pseudo_references=["c"]), "pseudo_references"),
        (Segment(hypotheses=["a", "b"], weights=[1, 2]), "leave `weights` out"),
        (Segment(hypotheses=["a", "b"]), "human `reference`"),
    ],
)
def test_segments_that_do_not_fit_are_named(segment: Segment, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        build_store([segment], ChrF(), tmp_path, metrics=[Bleu()])
    assert caught.value.__notes__ == ["in segment '0'"]


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nan"):
        build_store([Segment(hypotheses=["a", "b"])], Function(lambda a, b: [np.nan] * len(a)), tmp_path)
    with pytest.raises(InputError, match="float16"):
        build_store([Segment(hypotheses=["a", "b"])], ChrF(), tmp_path, dtype="float16")


def test_names_of_files() -> None:
    assert slug("pmbr(rank=8, x)/N") == "pmbr-rank=8-x-N"


def test_matrices_that_changed_are_taken_anew(tmp_path: Path) -> None:
    for shift in (0.0, 1.0):
        np.save(tmp_path / "values.npy", np.arange(18.0).reshape(2, 3, 3) + shift)
        store = import_matrices(tmp_path / "values.npy", tmp_path / "store")
        np.testing.assert_array_equal(store.values(1), np.arange(9.0, 18.0).reshape(3, 3) + shift)


def test_a_function_that_changed_is_asked_again(tmp_path: Path) -> None:
    script = tmp_path / "judge.py"
    for value in (1.0, 2.0):
        script.write_text(f"def judge(left, right):\n    return [{value}] * len(left)\n")
        utility = named_utility(f"{script}:judge", {})
        store = build_store(segments(1), utility, tmp_path / "store", metrics={"own": utility})
        assert store.values(0)[0, 0] == store.scores("own")[0][0] == value


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((0, 4, 4)), "at least one matrix"),
        (np.zeros(4), "must be square"),
        (np.full((1, 2, 2), "a"), "must hold numbers"),
        (np.ones((1, 2, 2), dtype=complex), "must hold numbers"),
        (np.full((1, 2, 2), 1e300), "beyond what float32 holds"),
    ],
)
def test_arrays_that_are_no_matrices_are_refused(values: np.ndarray[Any, Any], message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "values.npy", values)
    with pytest.raises(InputError, match=message):
        import_matrices(tmp_path / "values.npy", tmp_path / "store")


def test_files_that_are_no_arrays_are_named(tmp_path: Path) -> None:
    build_store(segments(1), ChrF(), tmp_path)
    (tmp_path / "00000.npy").write_bytes(b"text")
    with pytest.raises(InputError, match=r"00000\.npy: cannot be read: it does not hold arrays of NumPy"):
        Store.open(tmp_path).values(0)
    (tmp_path / "store.json").write_text('{"ids": ["s0"]}')
    with pytest.raises(InputError, match="not complete"):
        Store.open(tmp_path)


def test_segments_have_ids_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two segments have the id 's0'"):
        build_store(segments(1) * 2, ChrF(), tmp_path)


@pytest.mark.parametrize("wrong", [{"pool": 0}, {"limit": 0}, {"limit": -1}])
def test_nothing_to_compute_is_said(wrong: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 1"):
        build_store(segments(1), ChrF(), tmp_path, **wrong)
    with pytest.raises(InputError, match="no segments"):
        build_store([], ChrF(), tmp_path)


def test_units_are_above_zero(store: Store) -> None:
    for unit in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="`unit` must be above zero"):
            store.pool(0, unit=unit)


@pytest.mark.parametrize("options", [{"limit": 2}, {"metrics": [ChrF()]}, {"values": "values.npz"}])
def test_what_a_store_cannot_heed_is_refused(options: dict[str, Any], store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"`{next(iter(options))}` goes with a samples file"):
        prepared_store(store.folder, tmp_path, ChrF(), **options)
    assert main(["study", "spectrum", str(store.folder), "--utility", "bleu", "-o", str(tmp_path)]) == 2


@pytest.mark.parametrize(
    ("kind", "limit", "total"), [("file", None, 3), ("list", None, 3), ("stream", None, None), ("file", 2, 2)]
)
def test_how_much_is_left_is_told(kind: str, limit: int | None, total: int | None, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(f'{{"hypotheses": ["a", "b {number}"]}}\n' for number in range(3)), encoding="utf-8")
    samples: dict[str, Any] = {"file": path, "list": segments(3), "stream": iter(segments(3))}
    told: list[tuple[int, int | None]] = []
    build_store(samples[kind], ChrF(), tmp_path, limit=limit, progress=lambda *given: told.append(given))
    assert told == [(done, total) for done in range(1, (limit or 3) + 1)]
