"""A small store that all tests of the study share."""

from __future__ import annotations

from pathlib import Path

import pytest

from minrisk.study.store import Store, build_store
from minrisk.types import Segment
from minrisk.utilities.bleu import Bleu
from minrisk.utilities.chrf import ChrF

WORDS = ["a", "small", "grey", "cat", "sat", "on", "the", "old", "red", "mat", "and", "slept", "in", "warm", "sun"]


def segments(count: int = 4, size: int = 40) -> list[Segment]:
    """Segments with duplicates: sentences that share most of their words."""
    found = []
    for number in range(count):
        texts = [
            " ".join(word for place, word in enumerate(WORDS) if (sample * (place + number + 3)) % 7 > 1)
            for sample in range(size)
        ]
        texts = [text if sample % 3 else f"{text} {sample}" for sample, text in enumerate(texts)]
        logprobs = [-0.1 * len(text) for text in texts]
        reference = " ".join(WORDS[number:])
        found.append(Segment(id=f"s{number}", hypotheses=texts, logprobs=logprobs, reference=reference))
    return found


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder: Path = tmp_path_factory.mktemp("study") / "store"
    return build_store(segments(), ChrF(), folder, metrics=[ChrF(), Bleu()], dtype="float64")
