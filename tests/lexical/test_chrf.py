"""ChrF against sacreBLEU."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.texts import batches, texts
from sacrebleu.metrics import CHRF

from minrisk.errors import InputError
from minrisk.utilities.chrf import ChrF

options = st.fixed_dictionaries(
    {},
    optional={
        "char_order": st.integers(0, 8),
        "word_order": st.integers(1, 3),
        "beta": st.sampled_from([0, 1, 2, 3, 0.5]),
        "lowercase": st.booleans(),
        "whitespace": st.booleans(),
        "eps_smoothing": st.booleans(),
    },
).filter(lambda chosen: chosen.get("char_order", 6) + chosen.get("word_order", 0) > 0)


@given(batches, batches, options)
def test_matrix_is_sacrebleu(candidates, pseudo_references, chosen):
    oracle = CHRF(**chosen)
    expected = [[oracle.sentence_score(one, [other]).score for other in pseudo_references] for one in candidates]
    values = ChrF(**chosen).matrix(candidates, pseudo_references)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)


@given(texts, texts)
def test_default_and_plus_plus_are_sacrebleu_bit_for_bit(candidate, pseudo_reference):
    for chosen in ({}, {"word_order": 2}):
        expected = CHRF(**chosen).sentence_score(candidate, [pseudo_reference]).score
        assert ChrF(**chosen).matrix([candidate], [pseudo_reference])[0, 0] == expected


def test_values_by_hand():
    # Of orders 1 and 2: precision (3/4 + 2/3) / 2, recall (3/3 + 2/2) / 2; F2 = 5 p r / (4 p + r).
    precision, recall = 17 / 24, 1.0
    value = ChrF(char_order=2).matrix(["abcd"], ["a bc"])[0, 0]
    assert value == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))


def test_self_values_are_100_but_for_texts_without_ngrams():
    assert ChrF().self_values(["a", "two words", "", "  "]).tolist() == [100, 100, 0, 0]


@pytest.mark.parametrize("wrong", [{"char_order": 0}, {"word_order": -1}, {"beta": -1.0}, {"beta": float("nan")}])
def test_impossible_options_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        ChrF(**wrong)
