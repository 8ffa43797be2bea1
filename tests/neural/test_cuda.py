"""On a GPU, where there is one: scores as on the CPU, and memory that does not suffice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `neural` is not installed")
pytest.importorskip("transformers", reason="the extra `neural` is not installed")

import torch
from neural.golden.texts import CANDIDATES, REFERENCES, SOURCES
from neural.models import GOLDEN, expanded_metricx

import minrisk

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
UTILITIES = (
    ("comet", "comet"),
    ("comet", "comet-norm"),
    ("cometkiwi", "comet-qe"),
    ("cometkiwi", "cometkiwi"),
    ("cometkiwi", "cometkiwi-xl"),
    ("xcomet", "unite"),
    ("xcomet", "xcomet"),
    ("xcomet", "xcomet-lite"),
    ("xcomet_qe", "xcomet"),
    ("bleurt", "bleurt"),
    ("bertscore", "bert"),
    ("embedding", "bert"),
    ("nli", "nli"),
    ("metricx", "metricx"),
    ("metricx_qe", "metricx"),
)
TOLERANCE = {"float32": 1e-4, "bfloat16": 0.05}
"""Of the range of scores. Weights are random and large, so that 8 bits leave little of a score's second digit."""


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(("name", "folder"), UTILITIES)
def test_scores_are_those_of_the_cpu(name: str, folder: str, dtype: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": str(GOLDEN / folder)}
    if folder == "metricx":
        options = {"model": str(expanded_metricx(GOLDEN / folder, tmp_path)), "edition": "24", "clamp": False}
    cpu, cuda = (
        minrisk.utility(name, device=device, dtype=dtype, **options).score(CANDIDATES, REFERENCES, SOURCES)
        for device in ("cpu", "cuda")
    )
    spread = max(1.0, float(np.ptp(cpu)))
    np.testing.assert_allclose(cuda, cpu, rtol=0, atol=TOLERANCE[dtype] * spread)


def test_out_of_memory_halves_the_batch() -> None:
    """The memory that torch may use is made small, and the batch holds all texts."""
    texts = [f"{number} dogs run across the wet grass near the old bridge and bark" for number in range(30000)]
    given = texts, texts[::-1], texts
    options: dict[str, Any] = {"model": str(GOLDEN / "comet")}
    expected = minrisk.utility("comet", device="cpu", **options).score(*given)
    small = minrisk.utility("comet", device="cuda", batch_tokens=10**8, **options)
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_allocated() + 300 * 2**20) / total)
    try:
        found = small.score(*given)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert small._checkpoint.packer.budget < 10**8  # type: ignore[attr-defined]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
