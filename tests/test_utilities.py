"""Every utility keeps every promise; tables and callables in detail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import minrisk
from minrisk.testing import UtilitySuite
from minrisk.utilities.chrf import ChrF
from minrisk.utilities.function import Function
from minrisk.utilities.mixture import Mixture
from minrisk.utilities.table import Table


def overlap(candidates: Sequence[str], pseudo_references: Sequence[str]) -> list[float]:
    """Shared words over all words."""
    scores = []
    for candidate, reference in zip(candidates, pseudo_references, strict=True):
        one, other = set(candidate.split()), set(reference.split())
        scores.append(len(one & other) / max(1, len(one | other)))
    return scores


class TestChrF(UtilitySuite):
    utility = ChrF()


class TestChrFPlusPlus(UtilitySuite):
    utility = ChrF(word_order=2)


class TestFunction(UtilitySuite):
    utility = Function(overlap)


class TestFunctionLowerIsBetter(UtilitySuite):
    utility = Function(lambda candidates, references: 1 - np.array(overlap(candidates, references)), False)


class TestMixture(UtilitySuite):
    utility = minrisk.utility("0.7*chrf + 0.3*ter(normalized=true)")
    tolerance = 1e-12


class TestMixtureWithACallable(UtilitySuite):
    utility = Mixture((ChrF(), Function(overlap)), (1.0, 50.0))
    tolerance = 1e-12


def test_a_mixture_counts_lower_is_better_with_a_minus() -> None:
    mixture = minrisk.utility("2*chrf + ter + 0.5*bleu(smooth_method=floor, smooth_value=0.1)")
    parts = [
        minrisk.utility("chrf"),
        minrisk.utility("ter"),
        minrisk.utility("bleu", smooth_method="floor", smooth_value=0.1),
    ]
    expected = sum(
        weight * part.score(["a b c"], ["a b d"]) for weight, part in zip((2.0, -1.0, 0.5), parts, strict=True)
    )
    np.testing.assert_allclose(mixture.score(["a b c"], ["a b d"]), expected)
    named = [f"{weight}*{part.signature()}" for weight, part in zip((2.0, 1.0, 0.5), parts, strict=True)]
    assert mixture.signature() == f"mixture({'+'.join(named)})"


def test_a_mixture_pools_the_pairs_of_its_parts() -> None:
    sizes: list[int] = []

    def noting(candidates: list[str], references: list[str]) -> list[float]:
        sizes.append(len(candidates))
        return overlap(candidates, references)

    mixture = Mixture((ChrF(), Function(noting)), (1.0, 50.0))
    segments = [minrisk.Segment(hypotheses=[f"{n} a", f"{n} b", f"{n} c"]) for n in range(10)]
    ledger = minrisk.Ledger()
    decisions = list(minrisk.decode_corpus(segments, mixture, ledger=ledger))
    assert sizes == [90]
    assert ledger.scored == ledger.calls == 90
    for segment, decision in zip(segments, decisions, strict=True):
        expected = mixture.matrix(segment.hypotheses, segment.hypotheses).mean(axis=1)
        np.testing.assert_allclose(decision.utilities, expected)


def test_a_mixture_judges_a_candidate_by_its_source_once() -> None:
    judged: list[str] = []

    def quality(candidates: list[str], sources: list[str]) -> list[float]:
        judged.extend(candidates)
        return [float(len(text)) for text in candidates]

    mixture = Mixture((ChrF(), minrisk.utility(quality, quality=True)), (1.0, 1.0))
    texts = ["a b", "a c", "b c d"]
    decision = minrisk.decode(texts, mixture, source="x")
    assert sorted(judged) == texts
    np.testing.assert_allclose(decision.utilities, ChrF().matrix(texts, texts).mean(axis=1) + np.array([3.0, 3.0, 5.0]))
    np.testing.assert_allclose(mixture.matrix(texts, texts, "x").mean(axis=1), decision.utilities)
    assert len(judged) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.5*chrf + 0.5*blue", "did you mean 'bleu'"),
        ("half*chrf + bleu", "a mixture must look like"),
        ("chrf(word_order=2", "must look like name or name"),
        ("chrf(word_orders=2)", "did you mean 'word_order'"),
        ("0*chrf + bleu", "must be above zero"),
        ("chrF++", r"chrF\+\+ is chrf\(word_order=2\), got 'chrF\+\+'"),
        ("chrf + 0.5*", "a mixture must look like .* got 'chrf . 0.5.'"),
    ],
)
def test_bad_mixtures(text: str, message: str) -> None:
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.utility(text)


TEXTS = ["a b c", "a b", "c d", "a b c"]


def test_callable_gets_equally_long_lists_of_strings() -> None:
    batches: list[tuple[object, object]] = []

    def noting(candidates: list[str], references: list[str]) -> list[float]:
        batches.append((candidates, references))
        return overlap(candidates, references)

    decision = minrisk.decode(TEXTS, noting)
    assert decision.calls == 9
    for candidates, references in batches:
        assert isinstance(candidates, list)
        assert isinstance(references, list)
        assert len(candidates) == len(references)
        assert all(isinstance(text, str) for text in candidates + references)
    assert sum(len(candidates) for candidates, _ in batches) == 9


@pytest.mark.parametrize("source", ["quelle", None])
def test_callable_with_a_third_argument_gets_the_sources(source: str | None) -> None:
    seen: list[object] = []

    def judge(candidates: list[str], references: list[str], sources: list[str | None]) -> list[float]:
        seen.extend(sources)
        return overlap(candidates, references)

    minrisk.decode(TEXTS, judge, source=source)
    assert seen == [source] * 9


def test_an_option_of_a_callable_is_not_taken_for_the_sources() -> None:
    def scaled(candidates: list[str], references: list[str], scale: float = 2.0) -> list[float]:
        return [scale * value for value in overlap(candidates, references)]

    assert minrisk.decode(TEXTS, scaled, source="x").utility == pytest.approx(
        2 * minrisk.decode(TEXTS, overlap).utility
    )


def test_batches_are_no_larger_than_asked() -> None:
    sizes = []

    def noting(candidates: list[str], references: list[str]) -> list[float]:
        sizes.append(len(candidates))
        return overlap(candidates, references)

    minrisk.decode(TEXTS, minrisk.utility(noting, batch_size=4))
    assert sizes == [4, 4, 1]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda count: [0.5] * (count - 1), r"expected 9 values, got 8"),
        (lambda count: [[0.5]] * count, r"expected 9 values, got an array of shape \(9, 1\)"),
        (lambda count: 0.5, r"must return numbers|object is not iterable"),
        (lambda count: ["high"] * count, r"must return numbers, got list"),
        (lambda count: [float("nan")] * count, r"segment 'news-1': the utility returned nan"),
        (lambda count: [float("inf")] * count, r"segment 'news-1': the utility returned inf"),
    ],
)
def test_what_a_callable_returns_is_checked(returned: object, message: str) -> None:
    def broken(candidates: list[str], references: list[str]) -> object:
        return returned(len(candidates))  # type: ignore[operator]

    with pytest.raises(minrisk.UtilityError, match=message):
        minrisk.decode(TEXTS, broken, id="news-1")


def test_an_exception_of_a_callable_names_the_segment() -> None:
    def down(candidates: list[str], references: list[str]) -> list[float]:
        raise ConnectionError("server is gone")

    with pytest.raises(minrisk.UtilityError, match=r"segment 'news-1'.*ConnectionError: server is gone") as caught:
        minrisk.decode(TEXTS, down, id="news-1")
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_a_configured_utility_takes_no_options() -> None:
    with pytest.raises(minrisk.InputError, match="configured already"):
        minrisk.utility(ChrF(), word_order=2)


def test_options_are_checked_by_name_and_type() -> None:
    assert minrisk.utility("chrf", word_order="2") == ChrF(word_order=2)
    with pytest.raises(minrisk.InputError, match="did you mean 'word_order'"):
        minrisk.utility("chrf", word_orders=2)
    with pytest.raises(minrisk.InputError, match="`word_order` of utility 'chrf' must be int, got 'two'"):
        minrisk.utility("chrf", word_order="two")
    for wrong in (2.0, True, None, [2], np.ones(2)):
        with pytest.raises(minrisk.InputError, match="`word_order` of utility 'chrf' must be int, got"):
            minrisk.utility("chrf", word_order=wrong)
    assert minrisk.utility("chrf", word_order=np.int64(2), beta=1, lowercase=True) == ChrF(2 * 3, 2, 1.0, True)
    with pytest.raises(minrisk.InputError, match="`rank` of method 'pmbr' must be int, got \\[1\\]"):
        minrisk.method("pmbr", rank=[1])
    with pytest.raises(minrisk.InputError, match="a name or an object with a `plan`, got <class"):
        minrisk.method(type(minrisk.method("pmbr")))


def test_orders_that_would_fill_the_memory_are_refused() -> None:
    assert minrisk.utility("chrf", char_order=10_000).score(["ab"], ["ab"]) == [100.0]
    for name, option in (("chrf", "char_order"), ("chrf", "word_order"), ("bleu", "max_ngram_order")):
        with pytest.raises(minrisk.InputError, match=f"{option}`.*10000, got"):
            minrisk.utility(name, **{option: 10**9})


class TestTable:
    """Values that are there already."""

    matrix = np.arange(16.0).reshape(4, 4)

    def test_given_positions_count(self) -> None:
        decision = minrisk.decode(["a", "b", "a", "c"], minrisk.utility("table", values=self.matrix))
        assert decision.cells == 9
        weights = np.array([0.5, 0.25, 0.25])
        np.testing.assert_allclose(decision.utilities[3], self.matrix[3][[0, 1, 3]] @ weights)
        assert decision.text == "c"

    @pytest.mark.parametrize("suffix", [".npy", ".npz"])
    def test_from_a_file(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"values{suffix}"
        if suffix == ".npy":
            np.save(path, self.matrix)
        else:
            np.savez(path, **{"0": self.matrix})
        decision = minrisk.decode(["a", "b", "c", "d"], minrisk.utility("table", path=str(path)))
        np.testing.assert_allclose(decision.utilities, self.matrix.mean(axis=1))

    def test_lower_is_better(self) -> None:
        table = Table(values=self.matrix, higher_is_better=False)
        decision = minrisk.decode(["a", "b", "c", "d"], table)
        assert decision.text == "a"
        assert decision.utility == self.matrix[0].mean()

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (np.zeros((3, 4)), r"segment '0': the matrix must have the shape \(4, 4\).*got \(3, 4\)"),
            ({"other": np.zeros((4, 4))}, "has no matrix for segment '0'"),
            (np.full((4, 4), np.nan), "returned nan"),
        ],
    )
    def test_bad_tables(self, values: object, message: str) -> None:
        with pytest.raises(minrisk.MinriskError, match=message):
            minrisk.decode(["a", "b", "c", "d"], minrisk.utility("table", values=values))

    def test_bad_files(self, tmp_path: Path) -> None:
        (tmp_path / "text.npz").write_text("not an archive")
        for name in ("text.npz", "missing.npy"):
            with pytest.raises(minrisk.InputError, match="cannot read"):
                minrisk.decode(["a"], minrisk.utility("table", path=str(tmp_path / name)))
        with pytest.raises(minrisk.InputError, match="either `values`"):
            minrisk.utility("table")
