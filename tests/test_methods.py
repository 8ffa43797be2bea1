"""Every method keeps every promise, and does what its paper says."""

from __future__ import annotations

import numpy as np
import pytest

import minrisk
from minrisk.methods.aggregate import Aggregate
from minrisk.methods.aggregate_to_fine import AggregateToFine
from minrisk.methods.centroid import Centroid
from minrisk.methods.coarse_to_fine import CoarseToFine
from minrisk.methods.columns import Columns
from minrisk.methods.frontier import Frontier
from minrisk.methods.full import Full
from minrisk.methods.halving import Halving
from minrisk.methods.map import Map
from minrisk.methods.mbr_bon import MbrBon
from minrisk.methods.pmbr import Pmbr
from minrisk.methods.prefilter import Prefilter
from minrisk.methods.pruning import Pruning
from minrisk.methods.random import Random
from minrisk.methods.rerank import Rerank
from minrisk.methods.square import Square
from minrisk.testing import MethodSuite, random_table, recorded, waived_needlessly
from minrisk.types import Segment
from minrisk.utilities.chrf import ChrF
from minrisk.utilities.table import Table


class TestFull(MethodSuite):
    method = Full()
    samples = False


class TestColumns(MethodSuite):
    method = Columns()


class TestSquare(MethodSuite):
    method = Square()


class TestPmbr(MethodSuite):
    method = Pmbr()


class TestPmbrAsPublished(MethodSuite):
    method = Pmbr(paper=True)
    exact = False
    scale_free = False
    fair = False
    shy = False

    def test_full_budget_is_full_mbr(self) -> None:
        """Nearly, as its values are means of a reconstruction; and where the rank is as low as the method takes it."""
        rng = np.random.default_rng(0)
        for number in range(5):
            table = rng.random((12, 3)) @ rng.random((3, 12))
            texts = [f"{number} {row}" for row in range(12)]
            decision = minrisk.decode(texts, Table(values=table), Pmbr(paper=True, regularization=1e-6), 1.0)
            np.testing.assert_allclose(decision.utilities, table.mean(axis=1), rtol=1e-3)
            assert decision.index == int(np.argmax(table.mean(axis=1)))

    def test_scale_does_not_matter_if_the_regularization_goes_with_it(self) -> None:
        """Lambda is on the scale of the values."""
        table = random_table(16, 16, np.random.default_rng(0))
        texts = [f"text {row}" for row in range(16)]
        plain, scaled = (
            minrisk.decode(texts, Table(values=scale * table), Pmbr(paper=True, regularization=0.1 * scale), 0.5)
            for scale in (1.0, 100.0)
        )
        np.testing.assert_allclose(scaled.utilities, 100 * plain.utilities, rtol=1e-2)


class TestPmbrBalanced(MethodSuite):
    method = Pmbr(design="balanced")


class TestPmbrWeighted(MethodSuite):
    method = Pmbr(design="weighted")


class TestPmbrMirrored(MethodSuite):
    method = Pmbr(mirrored=True)


class TestPmbrSoftImpute(MethodSuite):
    method = Pmbr(completion="soft-impute")


class TestPmbrAdditive(MethodSuite):
    method = Pmbr(completion="additive")


class TestPruning(MethodSuite):
    method = Pruning()
    exact = False

    def test_full_budget_is_full_mbr(self) -> None:
        """Where one candidate is better than the others by far; the values are those of what was scored."""
        rng = np.random.default_rng(3)
        for number in range(10):
            table = random_table(24, 24, rng)
            table[number] += 3 * table.std()
            decision = minrisk.decode([f"text {row}" for row in range(24)], Table(values=table), "pruning", 1.0)
            assert decision.index == number
            assert decision.calls < decision.cells


class TestPruningNothing(MethodSuite):
    method = Pruning(confidence=1.0)


class TestHalving(MethodSuite):
    method = Halving()


class TestHalvingFrequentFirst(MethodSuite):
    method = Halving(order="frequent")


class TestFrontier(MethodSuite):
    method = Frontier()


class TestFrontierWithoutSurrogate(MethodSuite):
    method = Frontier(surrogate=None)


class TestCoarseToFine(MethodSuite):
    method = CoarseToFine()
    random = False


class TestAggregate(MethodSuite):
    method = Aggregate()
    random = False


class TestAggregateInGroups(MethodSuite):
    method = Aggregate(groups=4)
    random = False


class TestAggregateToFine(MethodSuite):
    method = AggregateToFine()
    random = False
    exact = False

    def test_full_budget_is_full_mbr(self) -> None:
        """For all candidates but those for which the first step has used up the calls."""
        table = random_table(12, 12, np.random.default_rng(3))
        decision = minrisk.decode([f"text {row}" for row in range(12)], Table(values=table), self.method, 1.0)
        judged = ~np.isnan(decision.utilities)
        assert judged.sum() == 11
        np.testing.assert_allclose(decision.utilities[judged], table.mean(axis=1)[judged])
        assert decision.index == int(np.argmax(table.mean(axis=1)))


class TestAggregateToFineWithAnotherUtility(MethodSuite):
    method = AggregateToFine(coarse="chrf")
    random = False


class TestCentroid(MethodSuite):
    method = Centroid()
    random = False


class TestRerank(MethodSuite):
    method = Rerank(by="scores")
    exact = False
    shy = False
    random = False


class TestPrefilter(MethodSuite):
    method = Prefilter(keep=5, method="columns")
    exact = False


class TestPrefilterKeepingAll(MethodSuite):
    method = Prefilter(keep=1000)


class TestMbrBon(MethodSuite):
    method = MbrBon(method="columns")
    exact = False
    scale_free = False


class TestMap(MethodSuite):
    method = Map()
    exact = False
    shy = False
    random = False


class TestRandom(MethodSuite):
    method = Random()
    exact = False
    shy = False
    random = False

    def test_ties_go_to_the_earliest(self) -> None:
        """Not here: among equal candidates every one is drawn some time."""
        hypotheses = [f"text {row}" for row in range(4)]
        table = Table(values=np.zeros((4, 4)))
        chosen = {minrisk.decode(hypotheses, table, Random(), seed=seed).text for seed in range(40)}
        assert chosen == set(hypotheses)


SUITES = [suite for suite in MethodSuite.__subclasses__() if suite.__module__ == __name__]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.__name__)
def test_no_promise_is_waived_needlessly(suite: type[MethodSuite]) -> None:
    assert waived_needlessly(suite) == []


def segments(count: int, size: int = 12) -> list[Segment]:
    """Segments of sentences that resemble each other, with scores, probabilities and a reference."""
    rng = np.random.default_rng(4)
    words = "the a man woman dog in blue red shirt hat reads sees paper and park today"
    made = []
    for number in range(count):
        texts = [" ".join(rng.choice(words.split(), size=8)) for _ in range(size)]
        scores = rng.normal(size=size).tolist()
        made.append(
            Segment(id=str(number), hypotheses=texts, scores=scores, logprobs=scores, reference=texts[3] + " x")
        )
    return made


def test_oracle_is_the_best_against_the_reference() -> None:
    for segment, decision in zip(segments(5), minrisk.decode_corpus(segments(5), "chrf", "oracle"), strict=True):
        scores = ChrF().matrix(segment.hypotheses, [segment.reference or ""])[:, 0]
        assert decision.index == int(np.argmax(scores))
        assert decision.utility == scores.max()
        assert decision.calls == decision.cells == len(segment.hypotheses)
    with pytest.raises(minrisk.InputError, match="segment '0': this method compares with the human `reference`"):
        list(minrisk.decode_corpus([Segment(hypotheses=["a"])], "chrf", "oracle"))


def test_map_and_rerank_go_by_what_is_given() -> None:
    for name in ("map", minrisk.method("rerank", by="scores"), minrisk.method("rerank", by="logprobs")):
        for segment, decision in zip(segments(5), minrisk.decode_corpus(segments(5), "chrf", name), strict=True):
            assert segment.scores is not None
            assert decision.index == int(np.argmax(segment.scores))
            assert decision.calls == 0
            assert np.isnan(decision.utility)
            order = [choice.index for choice in decision.nbest(3)]
            assert order == np.argsort(segment.scores)[::-1][:3].tolist()


def length(candidates: list[str], sources: list[str]) -> list[float]:
    """A quality that can be seen."""
    return [float(len(text)) for text in candidates]


def test_what_methods_go_by_can_be_given_for_one_segment() -> None:
    texts = ["a b", "a c", "b d"]
    assert minrisk.decode(texts, method="map", logprobs=[-3.0, -1.0, -2.0]).index == 1
    assert minrisk.decode(texts, method="rerank(by=scores)", scores=[0.1, 0.2, 0.9]).index == 2
    assert minrisk.decode(texts, method="oracle", reference="a b").index == 0
    own = {"pseudo_references": ["a c", "b d"], "pseudo_reference_logprobs": [-9.0, -0.1]}
    assert minrisk.decode(texts, weights="logprob", logprobs=[-1.0, -9.0, -9.0], **own).index == 2


def test_a_quality_utility_is_a_matrix_of_one_column() -> None:
    quality = minrisk.utility(length, quality=True)
    segment = segments(1)[0]
    for name, budget in (("full", 1.0), ("rerank", 1.0), ("columns", 1.0), ("pmbr", 1.0)):
        decision = minrisk.decode(segment.hypotheses, quality, name, budget, source="x")
        assert decision.cells == decision.calls == len(segment.hypotheses)
        assert len(decision.text) == max(map(len, segment.hypotheses))


def test_rerank_and_prefilter_by_a_quality_utility() -> None:
    quality = minrisk.utility(length, quality=True)
    segment = segments(1)[0]
    decision = minrisk.decode(segment.hypotheses, "chrf", minrisk.method("rerank", by=quality))
    assert len(decision.text) == max(map(len, segment.hypotheses))
    assert decision.calls == 0
    kept = minrisk.decode(segment.hypotheses, "chrf", minrisk.method("prefilter", by=quality, keep=3))
    known = np.flatnonzero(~np.isnan(kept.utilities))
    assert sorted(known) == sorted(np.argsort([-len(text) for text in segment.hypotheses], kind="stable")[:3])
    full = minrisk.decode(segment.hypotheses, "chrf")
    np.testing.assert_allclose(kept.utilities[known], full.utilities[known])
    assert kept.calls == 36


def test_prefilter_may_compare_among_the_kept_only() -> None:
    segment = segments(1)[0]
    method = minrisk.method("prefilter", keep=4, references="kept")
    (decision,) = minrisk.decode_corpus([segment], "chrf", method)
    assert segment.scores is not None
    kept = sorted(np.argsort(segment.scores)[-4:])
    alone = minrisk.decode([segment.hypotheses[row] for row in kept], "chrf")
    np.testing.assert_allclose(decision.utilities[kept], alone.utilities)
    assert decision.calls == 16


def test_a_prefilter_within_a_prefilter() -> None:
    rng = np.random.default_rng(0)
    table, scores, logprobs = rng.random((20, 20)), rng.normal(size=20), rng.normal(size=20)
    segment = Segment(hypotheses=[f"text {row}" for row in range(20)], scores=scores, logprobs=logprobs)
    method = Prefilter(by="scores", keep=8, method=Prefilter(by="logprobs", keep=3))
    decision = next(minrisk.decode_corpus([segment], Table(values=table), method))
    first = np.argsort(-scores)[:8]
    kept = first[np.argsort(-logprobs[first])[:3]]
    assert decision.index == kept[np.argmax(table[kept].mean(axis=1))]
    np.testing.assert_allclose(decision.utilities[kept], table[kept].mean(axis=1))


def test_mbr_bon_adds_rewards_to_utilities() -> None:
    segment = segments(1)[0]
    assert segment.scores is not None
    full = minrisk.decode(segment.hypotheses, "chrf")
    for beta in (0.0, 0.1, 1.0, 100.0):
        (decision,) = minrisk.decode_corpus([segment], "chrf", minrisk.method("mbr_bon", beta=beta))
        assert decision.index == int(np.argmax(np.array(segment.scores) + beta * full.utilities))
        np.testing.assert_allclose(decision.utilities, full.utilities)


@pytest.mark.parametrize("name", ["rerank", "map", "prefilter", "mbr_bon"])
def test_what_is_needed_is_asked_for(name: str) -> None:
    with pytest.raises(minrisk.InputError, match=r"quality utility|are needed by this method"):
        minrisk.decode(["a", "b"], "chrf", name)


def test_aggregation_is_one_call_a_candidate() -> None:
    segment = segments(1)[0]
    decision = minrisk.decode(segment.hypotheses, "chrf", "aggregate")
    expected = ChrF().aggregate(segment.hypotheses, segment.hypotheses, np.full((1, 12), 1 / 12))[:, 0]
    np.testing.assert_allclose(decision.utilities, expected)
    assert decision.calls == 12
    with pytest.raises(minrisk.InputError, match="cannot fold pseudo-references"):
        minrisk.decode(["a", "b"], length, "aggregate")


def test_as_many_groups_as_pseudo_references_are_full_mbr() -> None:
    segment = segments(1)[0]
    decision = minrisk.decode(segment.hypotheses, "chrf", minrisk.method("aggregate", groups=12))
    np.testing.assert_allclose(decision.utilities, minrisk.decode(segment.hypotheses, "chrf").utilities)


def test_centroids_weigh_clusters_by_all_their_members() -> None:
    """A peer weighed clusters by the probabilities of the first few pseudo-references only, and chose the rest's."""
    table = np.where(np.arange(10)[:, None] // 5 == np.arange(10)[None, :] // 5, 1.0, 0.0)
    weights = [1.0] * 5 + [99.0] * 5
    for method in (minrisk.method("centroid", clusters=2), minrisk.method("centroid", clusters=4)):
        decision = minrisk.decode([str(row) for row in range(10)], Table(values=table), method, weights=weights)
        assert decision.index >= 5
        assert decision.utility == pytest.approx(0.99)


def test_pruning_with_more_in_the_nbest_list_than_survive() -> None:
    """A peer gave NaN for all candidates when fewer survived than were asked for."""
    texts = [f"text {row}" for row in range(64)]
    table = np.random.default_rng(0).normal(size=(64, 64)) * 0.1 + np.arange(64)[:, None]
    decision = minrisk.decode(texts, Table(values=table), "pruning")
    assert decision.calls < decision.cells / 4
    assert len({choice.text for choice in decision.nbest(40)}) == 40
    assert decision.nbest(40)[0].index == 63
    assert np.isfinite([choice.utility for choice in decision.nbest(40)]).all()


def test_pruning_looks_at_scored_columns_only() -> None:
    """A peer's baseline bootstrapped over columns that had not been paid for."""
    texts = [f"text {row}" for row in range(32)]
    table = random_table(32, 32, np.random.default_rng(1))
    utility = recorded(values=table)
    first = minrisk.decode(texts, utility, "pruning", 300)
    unseen = np.ones((32, 32), dtype=bool)
    for _, rows, columns in utility.asked:
        unseen[rows, columns] = False
    changed = np.where(unseen, 1e6, table)
    again = minrisk.decode(texts, Table(values=changed), "pruning", 300)
    assert again.text == first.text
    np.testing.assert_array_equal(again.utilities, first.utilities)


@pytest.mark.parametrize("name", ["pruning", "halving"])
def test_who_was_dropped_does_not_win(name: str) -> None:
    """A peer's baseline took the best of all candidates, those that were pruned on a few lucky columns among them."""
    texts = [f"text {row}" for row in range(32)]
    dropped = 0
    for seed in range(10):
        utility = recorded(values=random_table(32, 32, np.random.default_rng(seed)))
        decision = minrisk.decode(texts, utility, name, 400, seed=seed)
        met = np.bincount([row for _, rows, _ in utility.asked for row in rows], minlength=32)
        # A survivor's self-pair may be among the columns, and need not be scored.
        assert met[decision.index] >= met.max() - 1
        dropped += int((met < met.max() - 1).sum())
    assert dropped > 50


def test_halving_compares_on_shared_columns() -> None:
    """Severe and mild columns do not decide who stays."""
    texts = [f"text {row}" for row in range(64)]
    severity = np.random.default_rng(2).normal(size=64) * 100
    table = np.arange(64.0)[:, None] / 64 + severity
    for budget in ("1/32", "1/16", "1/8"):
        references = [f"reference {column}" for column in range(64)]
        decision = minrisk.decode(texts, Table(values=table), "halving", budget, pseudo_references=references)
        assert decision.index == 63


def test_halving_pays_for_one_self_pair_at_most() -> None:
    texts = [f"text {row}" for row in range(32)]
    utility = recorded(values=random_table(32, 32, np.random.default_rng(1)))
    minrisk.decode(texts, utility, "halving", "1/2")
    selfs = [
        row for _, rows, columns in utility.asked for row, column in zip(rows, columns, strict=True) if row == column
    ]
    assert len(selfs) == 1


def test_coarse_cells_are_no_calls() -> None:
    ledger = minrisk.Ledger()
    decisions = list(minrisk.decode_corpus(segments(3), "bleu", "coarse_to_fine", "1/4", ledger=ledger))
    assert ledger.auxiliary == 3 * 144
    assert ledger.calls == sum(decision.calls for decision in decisions) <= 3 * 36


def test_coarse_to_fine_is_exact_among_the_best_of_the_coarse_utility() -> None:
    segment = segments(1)[0]
    decision = minrisk.decode(segment.hypotheses, "bleu", minrisk.method("coarse_to_fine", keep=3))
    coarse = minrisk.decode(segment.hypotheses, "chrf").utilities
    fine = minrisk.decode(segment.hypotheses, "bleu").utilities
    kept = np.argsort(-coarse)[:3]
    assert decision.index == kept[np.argmax(fine[kept])]
    np.testing.assert_allclose(decision.utilities[kept], fine[kept])
    assert [choice.index for choice in decision.nbest(12)][3:] == np.argsort(-coarse)[3:].tolist()


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.__name__)
@pytest.mark.parametrize("budget", [1, 5, 17, 0.5, 0.9])
def test_weights_may_vanish(suite: type[MethodSuite], budget: float) -> None:
    """Model probabilities are often zero, or nearly so, beside that of the most probable text."""
    hypotheses = ["a b", "a c", "b c", "c", "a b c"]
    for logprobs in ([0.0, -1e9, -1e9, -700.0, -745.0], [-1e9, 0.0, -1e9, -1e9, -1e9]):
        segment = Segment(hypotheses=hypotheses, logprobs=logprobs, scores=[1.0] * 5, reference="a b")
        decision = next(
            minrisk.decode_corpus(
                [segment], "chrf", suite.method, budget if suite.samples else 1.0, weights="logprob", seed=1
            )
        )
        assert decision.calls <= decision.problem.budget


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pruning", {"confidence": 0.0}, "`confidence` of method 'pruning' must be in"),
        ("pruning", {"growth": 1.0}, "`growth` above 1"),
        ("pruning", {"growth": float("inf")}, "a finite `growth` above 1"),
        ("halving", {"order": "frequents"}, "did you mean 'frequent'"),
        ("coarse_to_fine", {"keep": 0}, "`keep` of method 'coarse_to_fine' must be at least 1"),
        ("coarse_to_fine", {"coarse": "chr"}, "did you mean 'chrf'"),
        ("aggregate", {"groups": 0}, "`groups` of method 'aggregate' must be at least 1"),
        ("centroid", {"clusters": 0}, "`clusters` of method 'centroid' must be at least 1"),
        ("prefilter", {"keep": 0}, "`keep` of method 'prefilter' must be at least 1"),
        ("prefilter", {"method": "colums"}, "did you mean 'columns'"),
        ("pmbr", {"design": "balance"}, "did you mean 'balanced'"),
        ("pmbr", {"completion": "sv"}, "did you mean 'svt'"),
        ("pmbr", {"completion": "additive", "rank": 3}, "has no `rank`"),
        ("pmbr", {"regularization": 0.0}, "`regularization` of method 'pmbr' must be above zero"),
    ],
)
def test_bad_options(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.decode(["a", "b"], "chrf", minrisk.method(name, **options))
