"""The engine packs, remembers, counts, and holds no more than its window."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

import minrisk
from minrisk import Ledger, Segment, decode_corpus
from minrisk.methods.columns import Columns
from minrisk.types import FloatArray
from minrisk.utilities.chrf import ChrF
from minrisk.utilities.function import Function


def similarity(candidates: list[str], references: list[str]) -> list[float]:
    """One number for each pair, the same whenever it is asked."""
    return [len(set(one) & set(other)) + len(one) / 100 for one, other in zip(candidates, references, strict=True)]


class Noting:
    """A callable that keeps what it was asked."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, str]]] = []

    def __call__(self, candidates: list[str], references: list[str]) -> list[float]:
        self.batches.append(list(zip(candidates, references, strict=True)))
        return similarity(candidates, references)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [pair for batch in self.batches for pair in batch]


def segments(count: int, size: int = 6) -> list[Segment]:
    return [Segment(id=str(n), hypotheses=[f"{n} sample {k}" for k in range(size)]) for n in range(count)]


def test_pairs_of_many_segments_share_batches() -> None:
    noting = Noting()
    decisions = list(decode_corpus(segments(10), noting, window=10))
    assert [len(batch) for batch in noting.batches] == [360]
    assert sum(decision.calls for decision in decisions) == 360


def test_a_pair_that_two_segments_share_is_scored_once_and_counted_for_both() -> None:
    noting, ledger = Noting(), Ledger()
    texts = ["a", "b", "c"]
    twice = [Segment(id="1", hypotheses=texts), Segment(id="2", hypotheses=[*texts, "d"])]
    decisions = list(decode_corpus(twice, noting, ledger=ledger))
    assert len(noting.pairs) == len(set(noting.pairs)) == 16
    assert [decision.calls for decision in decisions] == [9, 16]
    assert (ledger.calls, ledger.scored, ledger.cells, ledger.segments) == (25, 16, 25, 2)


def test_pairs_are_remembered_beyond_the_window() -> None:
    noting = Noting()
    list(decode_corpus([Segment(hypotheses=["a", "b"])] * 5, noting, window=1))
    assert len(noting.pairs) == 4


def test_the_source_tells_pairs_apart_only_for_metrics_that_use_it() -> None:
    two = [Segment(hypotheses=["a", "b"], source="x"), Segment(hypotheses=["a", "b"], source="y")]
    seen: list[str] = []

    def judge(candidates: list[str], references: list[str], sources: list[str]) -> list[float]:
        seen.extend(sources)
        return similarity(candidates, references)

    list(decode_corpus(two, judge))
    assert sorted(seen) == ["x"] * 4 + ["y"] * 4
    noting = Noting()
    list(decode_corpus(two, noting))
    assert len(noting.pairs) == 4


def test_batches_hold_pairs_of_similar_length() -> None:
    noting = Noting()
    texts = [letter * size for size in (1, 50, 2, 49, 3, 48) for letter in "ab"]
    list(decode_corpus([Segment(hypotheses=texts)], minrisk.utility(noting, batch_size=36)))
    lengths = [len(one) + len(other) for one, other in noting.pairs]
    assert lengths == sorted(lengths, reverse=True)


def test_decisions_come_in_order_and_as_soon_as_the_window_allows() -> None:
    admitted: list[int] = []

    def source() -> Iterator[Segment]:
        for number, segment in enumerate(segments(100)):
            admitted.append(number)
            yield segment

    decisions = decode_corpus(source(), similarity, window=4)
    first = next(decisions)
    assert first.id == "0"
    assert len(admitted) <= 8
    assert [decision.id for decision in decisions] == [str(number) for number in range(1, 100)]


def test_the_first_decisions_do_not_wait_for_the_whole_window() -> None:
    noting = Noting()
    decisions = decode_corpus(segments(40), Function(noting, batch_size=16), window=40)
    next(decisions)
    assert len(noting.pairs) == 3 * 36  # As many segments as eight batches of 16 have room for.
    assert len(list(decisions)) == 39
    assert len(noting.batches) < 100  # 36 pairs a segment, 3 segments at a time: seven batches each.


def test_cells_in_flight_bound_the_window_too() -> None:
    admitted: list[int] = []

    def source() -> Iterator[Segment]:
        for number, segment in enumerate(segments(6, size=800)):
            admitted.append(number)
            yield segment

    table = np.zeros((800, 800))
    next(decode_corpus(source(), minrisk.utility("table", values={str(n): table for n in range(6)}), window=256))
    assert len(admitted) <= 3


def test_memory_does_not_grow_with_the_corpus() -> None:
    def peak(count: int) -> int:
        rng = np.random.default_rng(0)
        many = (
            Segment(id=str(n), hypotheses=[f"{word} {n}" for word in rng.integers(1 << 30, size=16)])
            for n in range(count)
        )
        tracemalloc.start()
        for _ in decode_corpus(many, Function(similarity), Columns(), 0.25, window=8):
            pass
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return held

    peak(10)
    # Two generations of pairs are full after 1024 segments of 64 calls; four times as many must not need more.
    assert peak(4400) < 1.15 * peak(1100)


def test_an_error_stops_everything_and_says_where() -> None:
    given = [*segments(3), {"id": "bad", "hypotheses": []}]
    decisions = decode_corpus(given, similarity, window=1)
    assert [next(decisions).id for _ in range(3)] == ["0", "1", "2"]
    with pytest.raises(minrisk.InputError, match="segment '3': `hypotheses` is empty"):
        next(decisions)


def test_a_matrix_that_fails_is_blamed_on_its_segment() -> None:
    """As words of a megabyte each are for TER, which wants a table of all their places."""

    class Large(ChrF):
        def matrix(self, *texts: object, **options: object) -> FloatArray:
            raise MemoryError("too large")

    with pytest.raises(
        minrisk.UtilityError, match=r"'chrf', 4 cells \(segment 'big' among them\): MemoryError: too lar"
    ):
        minrisk.decode(["a", "b"], Large(), id="big")


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_holds_a_segment_at_least(window: int) -> None:
    with pytest.raises(minrisk.InputError, match="`window` must be at least 1"):
        list(decode_corpus(segments(1), similarity, window=window))


def test_stopping_early_closes_the_plans() -> None:
    closed: list[str] = []

    class Watched:
        def plan(self, problem: minrisk.Problem, rng: np.random.Generator) -> minrisk.Plan:
            try:
                yield minrisk.Cells(np.array([0]), np.array([0]))
                yield minrisk.Cells(np.array([0]), np.array([1]))
                return minrisk.Estimate(values=np.zeros(problem.shape[0]))
            finally:
                closed.append(problem.id)

    decisions = decode_corpus(segments(4), similarity, Watched(), window=2)
    next(decisions)
    decisions.close()  # type: ignore[attr-defined]
    assert len(closed) >= 2
