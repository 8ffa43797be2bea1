"""Bleu and its tokenizers against sacreBLEU."""

import builtins

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from lexical.texts import batches, texts
from sacrebleu.metrics import BLEU

from minrisk.errors import InputError, MissingExtraError
from minrisk.utilities import tokenizers
from minrisk.utilities.bleu import Bleu

OWN = ("13a", "intl", "char", "none")

options = st.fixed_dictionaries(
    {
        "tokenize": st.sampled_from(OWN),
        "smooth_method": st.sampled_from(["exp", "floor", "add-k", "none"]),
        "effective_order": st.booleans(),
    },
    optional={
        "lowercase": st.booleans(),
        "smooth_value": st.sampled_from([0, 0.01, 1, 2.5]),
        "max_ngram_order": st.sampled_from([1, 2, 3, 6, 40]),
    },
)


@given(batches, batches, options)
def test_matrix_is_sacrebleu(candidates, pseudo_references, chosen):
    oracle = BLEU(**chosen)
    expected = [[oracle.sentence_score(one, [other]).score for other in pseudo_references] for one in candidates]
    values = Bleu(**chosen).matrix(candidates, pseudo_references)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)


@given(st.lists(texts, min_size=1, max_size=8), st.sampled_from(OWN))
def test_tokenizers_are_sacrebleus(batch, name):
    oracle = BLEU(tokenize=name).tokenizer
    assert tokenizers.tokenizer(name)(batch) == [oracle(text).split() for text in batch]


@given(st.lists(st.text("a1 .,-\n", max_size=12), min_size=1, max_size=4))
def test_runs_of_stops_and_digits_are_sacrebleus(batch):
    oracle = BLEU(tokenize="13a").tokenizer
    assert tokenizers.tokenizer("13a")(batch) == [oracle(text).split() for text in batch]


def test_unicode_classes_are_those_of_regex():
    # An older `regex` knows fewer characters than the table; none of those that it knows may differ.
    known = regex.findall(r"\P{Cn}", "".join(map(chr, range(0x110000))))
    kinds = np.array([tokenizers.kind_of(character) for character in known])
    for kind in "PSN":
        in_class = set(regex.findall(rf"\p{{{kind}}}", "".join(known)))
        assert {character for character, own in zip(known, kinds) if own == kind} == in_class


def test_values_by_hand():
    # 1-grams 3/4, 2-grams 1/3, 3-grams 0/2 -> 1/4, 4-grams 0/1 -> 1/4; brevity exp(1 - 5/4).
    value = Bleu().matrix(["the cat sat down"], ["the cat then sat up"])[0, 0]
    assert value == pytest.approx(100 * (3 / 4 * 1 / 3 * 1 / 4 * 1 / 4) ** (1 / 4) * np.exp(1 - 5 / 4))


def test_other_tokenizers_come_from_sacrebleu():
    assert tokenizers.tokenizer("zh")(["你好,a"]) == [["你", "好", ",", "a"]]


def test_a_missing_sacrebleu_is_said(monkeypatch):
    real = builtins.__import__

    def without_sacrebleu(name, *rest):
        if name.startswith("sacrebleu"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_sacrebleu)
    with pytest.raises(MissingExtraError, match="tokenizer 'zh'"):
        Bleu(tokenize="zh")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tokenize": "13b"}, "did you mean '13a'"),
        ({"smooth_method": "flor"}, "did you mean 'floor'"),
        ({"smooth_value": -1}, "smooth_value"),
        ({"max_ngram_order": 0}, "max_ngram_order"),
    ],
)
def test_impossible_options_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Bleu(**wrong)
