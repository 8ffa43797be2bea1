"""Several processes decide as one does, and fail as one does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from store import metric

import minrisk
from minrisk import Ledger, Segment, decode_corpus
from minrisk.decoding import Work
from minrisk.workers import parts


def segments(count: int = 60, size: int = 12) -> list[Segment]:
    return [Segment(hypotheses=[f"{n} sample {'x' * k}" for k in range(size)]) for n in range(count)]


def outcome(decisions: Any) -> list[Any]:
    return [(decision.id, decision.index, str(decision.utilities.tolist()), decision.calls) for decision in decisions]


def test_workers_decide_as_one_process_does(tmp_path: Path) -> None:
    method = "halving"
    utility = minrisk.utility(metric.similarity, label="similarity")
    alone, together, again = Ledger(), Ledger(), Ledger()
    expected = outcome(decode_corpus(segments(), utility, method, "1/2", ledger=alone))
    store = tmp_path / "scores.db"
    found = decode_corpus(segments(), utility, method, "1/2", workers=2, window=7, store=store, ledger=together)
    assert outcome(found) == expected
    assert (together.segments, together.calls, together.scored) == (alone.segments, alone.calls, alone.scored)
    assert outcome(decode_corpus(segments(), utility, method, "1/2", store=store, ledger=again)) == expected
    assert (again.scored, again.found) == (0, alone.scored)


def test_no_more_segments_are_read_than_are_worked_on() -> None:
    read: list[int] = []

    def source() -> Iterator[Segment]:
        for number, segment in enumerate(segments(400)):
            read.append(number)
            yield segment

    decisions = decode_corpus(source(), "chrf", workers=2, window=5)
    next(decisions)
    assert len(read) <= 4 * 5
    decisions.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("utility", "size", "budget", "window", "count"),
    [
        (metric.similarity, 16, 1.0, 256, 8),  # 2048 calls
        (metric.similarity, 16, "1/4", 256, 32),
        (metric.similarity, 2, 1.0, 256, 64),
        (metric.similarity, 2, 1.0, 5, 5),
        (metric.similarity, 50, 1.0, 256, 1),
        (metric.similarity, 16, "auto", 256, 64),
        (metric.similarity, 32, "auto", 256, 32),
        ("chrf", 16, 1.0, 256, 64),
    ],
)
def test_a_worker_is_given_enough_to_fill_batches(
    utility: Any, size: int, budget: Any, window: int, count: int
) -> None:
    work = Work(minrisk.Configuration(utility, "frontier" if budget == "auto" else "columns", budget), window=window)
    given = list(parts(segments(150, size), work, 7))
    assert {len(held) for held, _ in given[:-1]} == {count}
    assert [segment for held, _ in given for segment in held] == segments(150, size)
    assert [position for _, position in given] == list(range(7, 157, count))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (metric.failing, minrisk.UtilityError, r"utility 'failing', batch of .*: ConnectionError: the server is gone"),
        (metric.dying, minrisk.MinriskError, "a worker has died"),
        (metric.interrupting, KeyboardInterrupt, None),
        (lambda one, _: [0.0] * len(one), minrisk.InputError, "workers cannot be given utility '<lambda>'"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_told_here(function: Any, error: type[Exception], message: str | None) -> None:
    with pytest.raises(error, match=message):
        list(decode_corpus(segments(4), function, workers=2))


def test_bad_input_is_told_as_one_process_tells_it(tmp_path: Path) -> None:
    bad: list[Any] = [*segments(3), {"id": "bad", "hypotheses": []}]
    with pytest.raises(minrisk.InputError, match="segment '3': `hypotheses` is empty"):
        list(decode_corpus(bad, "chrf", workers=2))
    with pytest.raises(minrisk.InputError, match="a store needs a name for the function 'similarity'"):
        list(decode_corpus(segments(3), metric.similarity, workers=2, store=tmp_path / "scores.db"))
    for workers in (0, -1, True, 1.5):
        with pytest.raises(minrisk.InputError, match="`workers` must be a number of processes"):
            decode_corpus(segments(1), "chrf", workers=workers)  # type: ignore[arg-type]


def test_a_model_that_is_loaded_stays_where_it_is() -> None:
    utility = minrisk.utility("bleu")
    utility.__dict__["other"] = 1
    assert utility.__getstate__()["other"] == 1
    embedding = minrisk.utility("embedding", model="a/b")
    embedding.__dict__["_encoder"] = object()
    assert "_encoder" not in embedding.__getstate__()
