"""Ter against sacreBLEU."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lexical.texts import batches
from sacrebleu.metrics import TER

from minrisk.numeric import distances
from minrisk.utilities.ter import Ter

options = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(["normalized", "no_punct", "asian_support", "case_sensitive"], st.booleans())
)
asian = st.text("ab .,'s1-\n漢字かなカナ、。！㈱㐀｡・ﬀ〈﹏", max_size=20)


def oracle(candidates, pseudo_references, **chosen):
    metric = TER(**chosen)
    return [[metric.sentence_score(one, [other]).score for other in pseudo_references] for one in candidates]


def sentences(words, longest):
    return st.lists(st.sampled_from(words), max_size=longest).map(" ".join)


@given(batches, batches, options)
@example(["a's's b", "a ..7", "a,,7 b"], ["a's's b", "a ..7", "a,,7 b"], {"normalized": True})
@example(["a's's b"], ["a ..7", "a,,7 b"], {"normalized": True})
def test_matrix_is_sacrebleu(candidates, pseudo_references, chosen):
    values = Ter(**chosen).matrix(candidates, pseudo_references)
    np.testing.assert_allclose(values, oracle(candidates, pseudo_references, **chosen), rtol=0, atol=1e-9)


@given(st.lists(asian, min_size=1, max_size=3), options)
def test_asian_text_is_sacrebleus(texts, chosen):
    chosen |= {"asian_support": True}
    np.testing.assert_allclose(Ter(**chosen).matrix(texts, texts), oracle(texts, texts, **chosen), rtol=0, atol=1e-9)


@given(*[sentences("abcdefgh", 30)] * 2)
@example("", "a b")
@example("a b", "")
def test_shifts_are_sacrebleus(candidate, pseudo_reference):
    assert Ter().matrix([candidate], [pseudo_reference]).tolist() == oracle([candidate], [pseudo_reference])


@settings(max_examples=30)
@given(*[sentences("abcdefghijklmnopqrstuvwxyz", 110)] * 2)
def test_long_texts_and_the_beam_are_sacrebleus(candidate, pseudo_reference):
    assert Ter().matrix([candidate], [pseudo_reference]).tolist() == oracle([candidate], [pseudo_reference])


@pytest.mark.parametrize("size", [(1, 90), (90, 1), (3, 200), (64, 64), (65, 64), (64, 65)])
def test_lengths_far_apart_and_at_the_edge_are_sacrebleus(size):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), size=length)) for length in size]
    assert Ter().matrix(texts, texts).tolist() == oracle(texts, texts)


def test_the_limit_on_tries_is_sacrebleus():
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(list("abc"), size=60)) for _ in range(3)]
    assert Ter().matrix(texts, texts).tolist() == oracle(texts, texts)


@given(*[st.lists(st.integers(0, 4), max_size=20).map(lambda words: np.array(words, np.int64))] * 2)
def test_bits_and_beam_agree(words, reference):
    """Distance and alignment by bits against those by the textbook."""
    size, length = len(words), len(reference)
    if length == 0:
        return
    masks, table = np.zeros(5, np.uint64), np.empty((distances.SHORT + 1, 5), np.uint64)
    beam = np.empty((4, size + 1, length + 1), np.int32)
    alignments = np.zeros((2, 3, 22), np.int64)
    distances.mark(reference, masks)
    by_bits = distances.fill_table(words, size, length, masks, table)
    distances.align_table(words, size, length, masks, table, alignments[0])
    assert by_bits == distances.fill_beam(words, 0, size, reference, beam, 0)
    distances.align_beam(size, length, beam, alignments[1])
    assert (alignments[0] == alignments[1]).all()
    changed = words[::-1].copy()
    expected = distances.fill_beam(changed, 0, size, reference, beam, 0)
    assert distances.continue_table(changed, 0, size, length, masks, table) == expected


def test_values_by_hand():
    assert Ter().score(["b c a", "b c", "", "x"], ["a b c", "a b c d", "", ""]) == pytest.approx([100 / 3, 50, 0, 100])
    assert not Ter().higher_is_better
