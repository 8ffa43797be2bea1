"""A real model, and samples of it that were drawn by others; skipped where they are not at hand."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from scipy.stats import chi2_contingency  # noqa: E402

from minrisk.generation.local import LocalModel, Place  # noqa: E402
from minrisk.generation.sources import Source  # noqa: E402
from minrisk.generation.wish import Wish  # noqa: E402
from minrisk.neural.loading import tokenizer_of  # noqa: E402

SHARED = Path(__file__).parents[2] / "../shared"
MODEL, SAMPLES = SHARED / "models/multi30k-de-en", SHARED / "data/test16.jsonl.gz"
LOW_ENTROPY = (119, 126, 150, 20, 42)
"""Segments with 19 to 24 distinct texts among 1024 samples."""

if not (MODEL.exists() and SAMPLES.exists()):
    pytest.skip(f"no model at {MODEL} or no samples at {SAMPLES}", allow_module_level=True)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Our samples of each segment, and theirs."""
    with gzip.open(SAMPLES, "rt", encoding="utf-8") as file:
        theirs = [json.loads(line) for line in file]
    theirs = [theirs[number] for number in LOW_ENTROPY]
    model = LocalModel(Place(name=str(MODEL), device="cpu"))
    ours = model.records([Source(record["source"], record["id"]) for record in theirs], Wish(samples=1024))
    return list(zip(ours, theirs))


def test_samples_are_like_those_that_others_drew(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    for ours, theirs in pairs:
        counts = [Counter(record["hypotheses"]) for record in (ours, theirs)]
        frequent = [text for text in counts[0] | counts[1] if counts[0][text] + counts[1][text] >= 10]
        table = np.array([[count[text] for text in frequent] for count in counts])
        assert chi2_contingency(np.column_stack([table, 1024 - table.sum(axis=1)])).pvalue > 1e-3


def test_logprobs_are_those_of_a_plain_pass(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    plain = transformers.MarianMTModel.from_pretrained(MODEL, dtype=torch.float32).eval()
    tokenizer = tokenizer_of(str(MODEL))
    for ours, _ in pairs:
        text, count = Counter(ours["hypotheses"]).most_common(1)[0]
        labels = tokenizer(text_target=[text], return_tensors="pt").input_ids
        with torch.inference_mode():
            logits = plain(**tokenizer([ours["source"]], return_tensors="pt"), labels=labels).logits[0].double()
        full = logits.log_softmax(dim=1)
        truncated = full.where(full.exp() >= 0.02, -torch.inf).log_softmax(dim=1)
        place = ours["hypotheses"].index(text)
        assert count > 50
        for name, logprobs in (("logprobs", full), ("logprobs_sampling", truncated)):
            expected = float(logprobs[range(labels.shape[1]), labels[0]].sum())
            assert ours[name][place] == pytest.approx(expected, abs=1e-4)


def test_stored_logprobs_are_ours_up_to_the_rounding_of_the_weights(
    pairs: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    for ours, theirs in pairs:
        stored = dict(zip(theirs["hypotheses"], theirs["logprobs"]))
        frequent = [text for text, count in Counter(ours["hypotheses"]).items() if count >= 20]
        for text in frequent:
            assert ours["logprobs"][ours["hypotheses"].index(text)] == pytest.approx(stored[text], abs=0.01)
