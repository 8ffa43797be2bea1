"""A score store gives back what it was given, to whom it belongs, and pays for nothing twice."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minrisk
from minrisk import Ledger, PairUtility, Segment, Store, decode_corpus
from minrisk.store import scores
from minrisk.store.scores import Shelf
from minrisk.types import FloatArray

TEXTS = ["", " ", "a\x00b", "\ud800", "猫", "x" * 5000, *(f"text {number}" for number in range(30))]


def similarity(candidates: list[str], references: list[str]) -> list[float]:
    """One number for each pair, the same whenever it is asked."""
    return [len(set(one) & set(other)) + len(one) / 7 for one, other in zip(candidates, references, strict=True)]


class Counting:
    """A callable that counts the pairs that it was asked for."""

    def __init__(self) -> None:
        self.pairs = 0

    def __call__(self, candidates: list[str], references: list[str]) -> list[float]:
        self.pairs += len(candidates)
        return similarity(candidates, references)


def segments(count: int = 20, size: int = 8) -> list[Segment]:
    return [Segment(id=str(n), hypotheses=[f"{n % 15} sample {'x' * k}" for k in range(size)]) for n in range(count)]


def outcome(decisions: Any) -> list[Any]:
    return [
        (decision.index, str(decision.utilities.tolist()), decision.calls, decision.cells) for decision in decisions
    ]


def asked(shelf: Shelf, pairs: list[tuple[int, int, int | None]]) -> scores.Pairs:
    columns = [np.array([len(TEXTS) if number is None else number for number in part]) for part in zip(*pairs)]
    return shelf.pairs([*TEXTS, None], *columns)


numbers = st.integers(0, len(TEXTS) - 1)
batches = st.lists(st.lists(st.tuples(numbers, numbers, st.none() | numbers), min_size=1), min_size=1, max_size=6)


@settings(max_examples=40)
@given(batches=batches, wanted=st.lists(st.tuples(numbers, numbers, st.none() | numbers), min_size=1))
def test_a_store_is_a_dictionary(tmp_path_factory: pytest.TempPathFactory, batches: Any, wanted: Any) -> None:
    expected: dict[Any, float] = {}
    path = tmp_path_factory.mktemp("store") / "scores.db"
    for batch in batches:
        with Store(path) as store:
            shelf = store.shelf(minrisk.utility(similarity, label="s"))
            values = np.arange(len(batch)) + len(expected) + 0.1
            shelf.add(asked(shelf, batch), values)
            for pair, value in zip(batch, values.tolist()):
                expected.setdefault(pair, value)
    with Store(path) as store:
        shelf = store.shelf(minrisk.utility(similarity, label="s"))
        found = shelf.find(asked(shelf, wanted))
        np.testing.assert_array_equal(found, [expected.get(pair, np.nan) for pair in wanted])


def test_many_rows_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ROWS_AT_ONCE", 3), ("TEXTS_REMEMBERED", 4), ("KEYS_AT_ONCE", 2)):
        monkeypatch.setattr(scores, name, value)
    rng = np.random.default_rng(0)
    pairs = [(int(one), int(other), None) for one, other in rng.integers(len(TEXTS), size=(300, 2))]
    with Store(tmp_path / "scores.db") as store:
        shelf = store.shelf(minrisk.utility(similarity, label="s"))
        for start in range(0, 300, 50):
            batch = pairs[start : start + 50]
            shelf.add(asked(shelf, batch), np.array([100.0 * one + other for one, other, _ in batch]))
            found = shelf.find(asked(shelf, pairs[: start + 50]))
            assert found.tolist() == [100.0 * one + other for one, other, _ in pairs[: start + 50]]


@pytest.mark.parametrize(("method", "budget"), [("full", 1.0), ("pmbr", "1/4"), ("halving", "1/2")])
def test_the_outcome_is_the_same_with_a_cold_and_a_warm_store(tmp_path: Path, method: str, budget: Any) -> None:
    given, path = segments(), tmp_path / "scores.db"
    expected = outcome(decode_corpus(given, similarity, method, budget))
    for calls in (Counting(), Counting()):
        ledger = Ledger()
        utility = minrisk.utility(calls, label="similarity")
        assert outcome(decode_corpus(given, utility, method, budget, store=path, ledger=ledger, window=4)) == expected
        assert ledger.scored == calls.pairs
        assert ledger.calls >= ledger.scored + ledger.found
    assert calls.pairs == 0
    assert ledger.found > 0


def test_methods_and_budgets_share_what_was_scored(tmp_path: Path) -> None:
    calls = Counting()
    utility = minrisk.utility(calls, label="similarity")
    with Store(tmp_path / "scores.db") as store:
        for method, budget in (("pmbr", "1/4"), ("halving", "1/2"), ("full", 1.0), ("pmbr", "1/2")):
            list(decode_corpus(segments(), utility, method, budget, store=store))
    assert calls.pairs == 15 * 64  # Five of the twenty segments are copies of others.


def test_every_batch_is_kept_before_it_is_used(tmp_path: Path) -> None:
    calls = Counting()

    def failing(candidates: list[str], references: list[str]) -> list[float]:
        if calls.pairs >= 300:
            raise ConnectionError("the server is gone")
        return calls(candidates, references)

    path = tmp_path / "scores.db"
    with pytest.raises(minrisk.UtilityError, match="the server is gone"):
        list(decode_corpus(segments(), minrisk.utility(failing, label="s", batch_size=100), "full", store=path))
    after = Counting()
    list(decode_corpus(segments(), minrisk.utility(after, label="s"), "full", store=path))
    assert (calls.pairs, after.pairs) == (300, 15 * 64 - 300)


def test_values_that_are_not_finite_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "scores.db"
    bad = minrisk.utility(lambda candidates, _: [float("nan")] * len(candidates), label="s")
    with pytest.raises(minrisk.UtilityError, match="finite"):
        list(decode_corpus(segments(1), bad, store=path))
    calls = Counting()
    list(decode_corpus(segments(1), minrisk.utility(calls, label="s"), "full", store=path))
    assert calls.pairs == 64


def test_sources_tell_pairs_apart_only_where_they_are_used(tmp_path: Path) -> None:
    seen: list[str] = []

    def judge(candidates: list[str], references: list[str], sources: list[str]) -> list[float]:
        seen.extend(sources)
        return [len(one) + 10 * len(source) for one, source in zip(candidates, sources)]

    given = [Segment(hypotheses=["a", "bb"], source=source) for source in ("x", "yy", "x")]
    for _ in range(2):
        store = Store(tmp_path / "scores.db")
        decisions = list(decode_corpus(given, minrisk.utility(judge, label="judge"), "full", store=store, window=1))
        assert [decision.utility for decision in decisions] == [12, 22, 12]
        store.close()
    assert sorted(seen) == ["x"] * 4 + ["yy"] * 4


@dataclass(frozen=True)
class Weights(PairUtility):
    """A metric with a checkpoint: the value is a number in a file, times an option."""

    name = "weights"
    path: str = ""
    factor: float = 1.0

    def files(self) -> list[Path]:
        return [Path(self.path)]

    def score(self, candidates: Any, pseudo_references: Any, sources: Any = None) -> FloatArray:
        return np.full(len(candidates), float(Path(self.path).read_text()) * self.factor)


def test_a_utility_never_reads_what_another_checkpoint_or_option_has_said(tmp_path: Path) -> None:
    checkpoint, store = tmp_path / "model.bin", tmp_path / "scores.db"

    def said(factor: float = 1.0, path: Path = checkpoint) -> tuple[float, int]:
        ledger = Ledger()
        (decision,) = decode_corpus(segments(1), Weights(str(path), factor), "full", store=store, ledger=ledger)
        return decision.utility, ledger.scored

    checkpoint.write_text("5")
    assert [said(), said(), said(2.0), said(2.0)] == [(5, 64), (5, 0), (10, 64), (10, 0)]
    checkpoint.write_text("7")  # The same size, and perhaps within a tick of the clock.
    os.utime(checkpoint, ns=(0, 0))
    assert [said(), said()] == [(7, 64), (7, 0)]


def test_what_has_no_signature_must_be_named(tmp_path: Path) -> None:
    class Own(PairUtility):
        name = "own"

        def score(self, candidates: Any, pseudo_references: Any, sources: Any = None) -> FloatArray:
            return np.zeros(len(candidates))

    class Signed(Own):
        def signature(self) -> str:
            return "own(version=2)"

    path = tmp_path / "scores.db"
    with pytest.raises(minrisk.InputError, match=r"a store needs a name for the function 'similarity'.*label="):
        list(decode_corpus(segments(1), similarity, store=path))
    with pytest.raises(minrisk.InputError, match="make it a dataclass"):
        list(decode_corpus(segments(1), Own(), store=path))
    list(decode_corpus(segments(1), Signed(), store=path))


@pytest.mark.parametrize("matrix", [False, True])
def test_matrices_are_kept_only_where_that_is_asked_for(tmp_path: Path, matrix: bool) -> None:
    expected = outcome(decode_corpus(segments(), "chrf", "pmbr", "1/4"))
    for again in (False, True):
        ledger = Ledger()
        with Store(tmp_path / "scores.db", matrix=matrix) as store:
            assert outcome(decode_corpus(segments(), "chrf", "pmbr", "1/4", store=store, ledger=ledger)) == expected
        assert not again or ledger.found == (320 if matrix else 0)
        assert ledger.found + ledger.scored == ledger.calls == 320


def test_the_parts_of_a_mixture_are_kept(tmp_path: Path) -> None:
    from minrisk.utilities.mixture import Mixture

    calls = Counting()
    mixture = Mixture((minrisk.utility("chrf"), minrisk.utility(calls, label="s")), (0.5, 0.5))
    runs = [outcome(decode_corpus(segments(), mixture, "full", store=tmp_path / "scores.db")) for _ in range(2)]
    assert runs[0] == runs[1]
    assert calls.pairs == 15 * 64


def test_writers_at_the_same_time(tmp_path: Path) -> None:
    path, counts = tmp_path / "scores.db", [Counting() for _ in range(4)]
    expected = outcome(decode_corpus(segments(60), similarity, "full"))
    results: list[Any] = []

    def work(calls: Counting) -> None:
        utility = minrisk.utility(calls, label="s", batch_size=32)
        results.append(outcome(decode_corpus(segments(60), utility, "full", store=path, window=4)))

    threads = [threading.Thread(target=work, args=[calls]) for calls in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4
    with Store(path) as store:
        store.fold()
        (count,) = store.connection.execute("SELECT sum(length(packed) - 4) / 12 FROM cells").fetchone()
    assert count == 15 * 64
