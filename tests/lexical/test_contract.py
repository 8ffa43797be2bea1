"""What all lexical utilities promise, whatever they measure."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexical.texts import batches, texts

from minrisk.utilities import lexical
from minrisk.utilities.bleu import Bleu
from minrisk.utilities.chrf import ChrF
from minrisk.utilities.rouge import RougeL
from minrisk.utilities.ter import Ter
from minrisk.utilities.words import Jaccard, WordF1

UTILITIES = [
    ChrF(),
    ChrF(word_order=2, eps_smoothing=True),
    Bleu(),
    Bleu(tokenize="intl"),
    Ter(),
    Ter(normalized=True),
    RougeL(),
    WordF1(),
    Jaccard(),
]
each_utility = pytest.mark.parametrize("utility", UTILITIES, ids=lambda utility: utility.signature())


def made_up_sentences(size):
    rng = np.random.default_rng(0)
    words = [f"{number:x}" for number in range(40)] + [".", "a", "the", "the"]
    return [" ".join(rng.choice(words, size=rng.integers(0, 12))) for _ in range(size)]


@each_utility
@settings(max_examples=40)
@given(left=batches, right=batches)
def test_a_value_does_not_depend_on_the_other_texts(utility, left, right):
    whole = utility.matrix(left, right)
    alone = [[utility.matrix([one], [other])[0, 0] for other in right] for one in left]
    assert whole.tolist() == alone
    assert (utility.matrix(left, left)[:1] == utility.matrix(left[:1], left)).all()


@each_utility
@settings(max_examples=40)
@given(left=batches, right=batches, data=st.data())
def test_cells_and_score_are_entries_of_the_matrix(utility, left, right, data):
    cells = st.lists(st.tuples(st.integers(0, len(left) - 1), st.integers(0, len(right) - 1)), max_size=6)
    rows, columns = np.array(data.draw(cells), np.int64).reshape(-1, 2).T
    expected = utility.matrix(left, right)[rows, columns]
    assert (utility.cells(left, right, rows, columns) == expected).all()
    scored = utility.score([left[row] for row in rows], [right[column] for column in columns])
    assert (scored == expected).all()


@each_utility
@pytest.mark.parametrize("symmetric", [True, False])
def test_sparse_cells_of_many_texts(utility, symmetric):
    left = made_up_sentences(150)
    right = left if symmetric else made_up_sentences(300)[150:]
    rng = np.random.default_rng(1)
    matrix = utility.matrix(left, right)
    for size in (300, 2000, 20_000):
        rows, columns = rng.integers(0, 150, size=size), rng.integers(0, 150, size=size)
        for chosen in (rows, np.sort(rows)):
            assert (utility.cells(left, right, chosen, columns) == matrix[chosen, columns]).all()


@each_utility
def test_many_pairs_of_different_texts_are_scored_in_blocks(utility, monkeypatch):
    monkeypatch.setattr(lexical, "_CELLS", 7)
    left, right = made_up_sentences(60)[:30], made_up_sentences(60)[30:]
    assert utility.score(left, right).tolist() == utility.matrix(left, right).diagonal().tolist()


@each_utility
@given(batch=st.lists(texts, max_size=6))
def test_self_values_are_the_diagonal(utility, batch):
    assert utility.self_values(batch).tolist() == utility.matrix(batch, batch).diagonal().tolist()


@each_utility
def test_no_texts_on_one_side(utility):
    assert utility.matrix([], ["a"]).shape == (0, 1)
    assert utility.matrix(["a"], []).shape == (1, 0)
    assert utility.matrix([], []).shape == (0, 0)
    assert utility.score([], []).shape == (0,)


def test_signatures_tell_the_options():
    assert ChrF(word_order=2).signature() == (
        "chrf(char_order=6,word_order=2,beta=2,lowercase=False,whitespace=False,eps_smoothing=False)"
    )
    assert RougeL().signature() == "rouge_l"
