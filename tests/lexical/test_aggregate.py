"""Values against virtual pseudo-references of expected n-gram counts."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.texts import batches

from minrisk.errors import InputError
from minrisk.utilities.bleu import Bleu
from minrisk.utilities.chrf import ChrF

ONE_HOT = [ChrF(), ChrF(word_order=2, eps_smoothing=True), Bleu(), Bleu(smooth_method="add-k", effective_order=False)]


def expected_counts(texts, shares, order):
    counts = Counter()
    for text, share in zip(texts, shares):
        for place in range(len(text) - order + 1):
            counts[tuple(text[place : place + order])] += share
    return counts


def matches(candidate, texts, shares, order):
    """Matches, and the n-grams of the candidate and of the virtual pseudo-reference."""
    own, virtual = expected_counts([candidate], [1], order), expected_counts(texts, shares, order)
    return sum(min(count, virtual[gram]) for gram, count in own.items()), own.total(), virtual.total()


def slow_chrf(candidate, texts, shares):
    strip = ["".join(text.split()) for text in texts]
    counts = [matches("".join(candidate.split()), strip, shares, order) for order in range(1, 7)]
    both = [(match / own, match / virtual) for match, own, virtual in counts if own > 0 and virtual > 0]
    precision, recall = np.mean(both, axis=0) if both else (0, 0)
    return 100 * 5 * precision * recall / (4 * precision + recall) if precision + recall else 0


def slow_bleu(candidate, texts, shares):
    words = [text.split() for text in texts]
    own, logarithms, halvings = candidate.split(), [], 1
    length = sum(share * len(text) for text, share in zip(words, shares))
    for order in range(1, 5):
        match, total, _ = matches(own, words, shares, order)
        if total == 0 or (order == 1 and match == 0):
            break
        halvings *= 1 if match else 2
        logarithms.append(math.log(match / total if match else 1 / (halvings * total)))
    return 100 * math.exp(np.mean(logarithms) + min(0, 1 - length / len(own))) if logarithms else 0


def drawn_shares(data, size):
    shares = np.array(data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)), float)
    return shares / shares.sum()


@given(batches, batches, st.data())
def test_values_are_those_of_expected_counts(candidates, pseudo_references, data):
    weights = np.stack([drawn_shares(data, len(pseudo_references)) for _ in range(2)])
    for utility, slow in ((ChrF(), slow_chrf), (Bleu(tokenize="none"), slow_bleu)):
        expected = [[slow(one, pseudo_references, shares) for shares in weights] for one in candidates]
        values = utility.aggregate(candidates, pseudo_references, weights)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("utility", ONE_HOT, ids=lambda utility: utility.signature())
@given(candidates=batches, pseudo_references=batches)
def test_one_hot_weights_give_the_matrix(utility, candidates, pseudo_references):
    for columns in (pseudo_references, candidates):
        values = utility.aggregate(candidates, columns, np.eye(len(columns)))
        assert values.tolist() == utility.matrix(candidates, columns).tolist()


@pytest.mark.parametrize("weights", [[1.0], [[0.5]], [[0.5, 0.6]], [[-0.5, 1.5]], [[float("nan"), 1]]])
def test_wrong_weights_are_refused(weights):
    with pytest.raises(InputError, match="weights"):
        ChrF().aggregate(["a"], ["a", "b"], np.array(weights))
