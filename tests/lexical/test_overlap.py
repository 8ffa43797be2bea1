"""n-gram extraction and overlaps against dictionaries of counts."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.texts import batches, texts

from minrisk.numeric import ngrams, overlap


def counts_of(symbols, order):
    return Counter(tuple(symbols[place : place + order]) for place in range(len(symbols) - order + 1))


def streams_of(batch, characters, words):
    streams = [ngrams.character_stream(batch, characters, whitespace=False)]
    return [*streams, ngrams.word_stream([text.split() for text in batch], words)] if words else streams


def slow_overlaps(left, right, characters, words):
    """(N, O, K) shared n-grams."""

    def orders_of(text):
        found = [counts_of("".join(text.split()), order + 1) for order in range(characters)]
        return found + [counts_of(text.split(), order + 1) for order in range(words)]

    tables = [[(one & other).total() for one, other in zip(orders_of(a), orders_of(b))] for a in left for b in right]
    return np.array(tables).reshape(len(left), len(right), characters + words).transpose(0, 2, 1)


@given(batches, st.integers(1, 7), st.integers(0, 3))
def test_features_of_a_text_are_its_occurrences(batch, characters, words):
    features = ngrams.extract(streams_of(batch, characters, words))
    orders = characters + words
    assert features.totals.shape == (len(batch), orders)
    for text in range(len(batch)):
        ids = features.ids[features.starts[text * orders] : features.starts[(text + 1) * orders]]
        assert len(set(ids)) == len(ids) == features.totals[text].sum()
        assert (np.bincount(features.orders[ids], minlength=orders) == features.totals[text]).all()


@given(batches, st.none() | batches, st.integers(1, 7), st.integers(0, 2), st.sampled_from([0, 1, 2, 64]))
def test_overlaps_are_those_of_counts(left, right, characters, words, common):
    batch = left if right is None else left + right
    columns = left if right is None else right
    expected = slow_overlaps(left, columns, characters, words)
    index = overlap.index(ngrams.extract(streams_of(batch, characters, words)), len(left), common)
    tiled = np.concatenate([counts for _, counts in overlap.tiles(index)])
    assert (tiled == expected).all()
    rows, places = (numbers.ravel() for numbers in np.indices((len(left), len(columns))))
    ((first, counts),) = overlap.cell_blocks(index, rows, places)
    assert first == 0
    assert (counts == expected.transpose(1, 0, 2).reshape(len(counts), -1)).all()


@pytest.mark.parametrize("common", [0, 4, 64])
def test_overlaps_in_several_tiles_and_blocks(monkeypatch, common):
    monkeypatch.setattr(overlap, "TILE_BYTES", 1 << 12)
    monkeypatch.setattr(overlap, "CELL_BLOCK", 100)
    rng = np.random.default_rng(0)
    words = [f"{number:x}" for number in range(60)]
    batch = [" ".join(rng.choice(words, size=rng.integers(0, 40))) for _ in range(90)]
    index = overlap.index(ngrams.extract(streams_of(batch, 6, 2)), len(batch), common)
    whole = np.concatenate([counts for _, counts in overlap.tiles(index)])
    some = rng.integers(0, 90, size=12)
    assert (whole[some] == slow_overlaps([batch[row] for row in some], batch, 6, 2)).all()
    rows, columns = np.sort(rng.integers(0, 90, size=500)), rng.integers(0, 90, size=500)
    blocks = list(overlap.cell_blocks(index, rows, columns))
    assert len(blocks) > 1
    assert (np.concatenate([counts for _, counts in blocks], axis=1) == whole[rows, :, columns].T).all()


def test_one_long_text_grows_the_tables():
    text = np.random.default_rng(0).integers(0, 1 << 30, size=20_000).astype(np.uint32)
    features = ngrams.extract([ngrams.Stream(text, np.array([20_000]), 6)])
    assert len(features.orders) == len(features.ids) == features.totals.sum()


@given(texts)
def test_white_space_is_what_split_takes_for_it(text):
    stream = ngrams.character_stream([text, text], 1, whitespace=False)
    assert stream.symbols.tolist() == [ord(character) for character in "".join(text.split())] * 2


def test_every_white_space_code_point_is_known():
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    stream = ngrams.character_stream(["a".join(spaces)], 1, whitespace=False)
    assert stream.lengths.tolist() == [len(spaces) - 1]
