"""Word F1, Jaccard and ROUGE-L against their definitions and the rouge-score package."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lexical.texts import batches, texts
from rouge_score.rouge_scorer import RougeScorer

from minrisk.errors import InputError
from minrisk.numeric import edits
from minrisk.utilities.rouge import RougeL
from minrisk.utilities.words import Jaccard, WordF1

LIST = st.lists(st.integers(0, 3), max_size=150)


@given(texts, texts)
def test_word_f1_is_its_definition(candidate, pseudo_reference):
    left, right = Counter(candidate.split()), Counter(pseudo_reference.split())
    total = left.total() + right.total()
    expected = 2 * (left & right).total() / total if total else 1
    assert WordF1().matrix([candidate], [pseudo_reference])[0, 0] == expected


@given(texts, texts)
def test_jaccard_is_its_definition(candidate, pseudo_reference):
    left, right = set(candidate.split()), set(pseudo_reference.split())
    expected = len(left & right) / len(left | right) if left | right else 1
    assert Jaccard().matrix([candidate], [pseudo_reference])[0, 0] == expected


def test_words_by_tokenizer_and_in_lower_case():
    assert WordF1(lowercase=True).score(["A b"], ["a B"])[0] == 1
    assert Jaccard(tokenize="13a").score(["a b."], ["a b"])[0] == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="tokenizer"):
        WordF1(tokenize="words")


@given(batches, batches)
def test_rouge_l_is_rouge_score(candidates, pseudo_references):
    oracle = RougeScorer(["rougeL"])
    expected = [
        [oracle.score(target=other, prediction=one)["rougeL"].fmeasure for other in pseudo_references]
        for one in candidates
    ]
    assert RougeL().matrix(candidates, pseudo_references).tolist() == expected


def slow_common_subsequence(left, right):
    table = np.zeros((len(left) + 1, len(right) + 1), int)
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            table[i + 1, j + 1] = table[i, j] + 1 if one == other else max(table[i, j + 1], table[i + 1, j])
    return table[-1, -1]


@given(st.lists(LIST, min_size=1, max_size=4))
@example([[0] * 64, [0] * 65, [0, 1] * 64, [1] * 128])
def test_common_subsequences_of_any_length(lists):
    starts = np.concatenate(([0], np.cumsum([len(words) for words in lists]))).astype(np.int64)
    words = np.array([word for words in lists for word in words], np.int64)
    rows, columns = (numbers.ravel() for numbers in np.indices((len(lists), len(lists))))
    lengths = np.empty(len(rows), np.int64)
    edits.common_subsequences(words, starts, rows, columns, 4, lengths)
    expected = [slow_common_subsequence(lists[row], lists[column]) for row, column in zip(rows, columns)]
    assert lengths.tolist() == expected
