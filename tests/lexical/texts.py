"""Texts for the tests of the lexical utilities: any Unicode, and texts that have much in common."""

from __future__ import annotations

from hypothesis import strategies as st

wild = st.text(st.characters(exclude_categories=()), max_size=12)
similar = st.text("aabs  .,1-'é\t\n\x00\u3000\ud800", max_size=30)
words = st.lists(
    st.sampled_from(
        ["the", "The", "cat", "sat", "on", "mat", "a", "(a)", "1,000.5", "x-1", "don't", "’s", "«ça»", "."]
    ),
    max_size=14,
).map(" ".join)
marked_up = st.lists(
    st.sampled_from(
        [
            "&quot;",
            "&amp;",
            "&lt;",
            "&gt;",
            "&amp;lt;",
            "<skipped>",
            "<skip",
            "ped>",
            "-\n",
            "\n",
            "$",
            "٣",
            "a",
            " ",
            "…",
        ]
    ),
    max_size=10,
).map("".join)
texts = st.one_of(words, similar, wild, marked_up, st.sampled_from(["", " ", "\n \t", "a", ".", "ab" * 40]))
batches = st.lists(texts, min_size=1, max_size=5)
