"""Neural utilities at the size of the real models, with random weights: encodes and cells a second on a device.

    python benchmarks/real_size.py [--device cuda] [--dtype float32,bfloat16] [--texts 128] [--models comet,bleurt]

Speed does not depend on the values of weights. Texts are about 22 tokens long, all different. "full" is one matrix of
all texts against all, "1/16" the cells that PMBR would score of it, both with encodes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from neural import make_bleurt, make_comet, make_small

GOLDEN = Path(__file__).parents[1] / "tests" / "neural" / "golden"
WORDS = 22


def texts_of(count: int) -> list[str]:
    """Different texts of words that the tiny vocabularies know."""
    words = (GOLDEN / "bert" / "vocab.txt").read_text(encoding="utf-8").split()
    known = [word for word in words if word.isalpha() and len(word) > 1]
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(known, WORDS + int(rng.integers(-6, 7)))) for _ in range(count)]


def comet(folder: Path, _: list[str]) -> dict[str, Any]:
    """Encoder and estimator of wmt22-comet-da but for its vocabulary: 24 layers of width 1024."""
    return {"model": make_comet(folder / "model", "comet", make_small(folder / "encoder", GOLDEN / "bert", 1024, 24))}


def bleurt(folder: Path, texts: list[str]) -> dict[str, Any]:
    """BLEURT-20 but for its vocabulary: 32 layers of width 1152."""
    return {"model": make_bleurt(folder / "model", texts, 1152, 32, 18)}


def metricx(folder: Path, _: list[str]) -> dict[str, Any]:
    """MetricX-24-hybrid-large: mT5-large."""
    from transformers import MT5Config, MT5Model

    shape = json.loads((GOLDEN / "metricx" / "config.json").read_text(encoding="utf-8"))
    shape |= {"d_model": 1024, "d_ff": 2816, "d_kv": 64, "num_heads": 16, "num_layers": 24, "num_decoder_layers": 24}
    config = MT5Config(**{key: value for key, value in shape.items() if key not in ("architectures", "model_type")})
    MT5Model(config).save_pretrained(folder / "model")
    shutil.copy(GOLDEN / "metricx" / "spiece.model", folder / "model")
    return {"model": str(folder / "model"), "edition": "24"}


MODELS: dict[str, Callable[[Path, list[str]], dict[str, Any]]] = {"comet": comet, "bleurt": bleurt, "metricx": metricx}


def seconds(task: Callable[[], Any]) -> float:
    """How long a task takes."""
    begin = time.perf_counter()
    task()
    return time.perf_counter() - begin


def row(name: str, options: dict[str, Any], texts: list[str]) -> str:
    """A line of the table."""
    import minrisk

    utility = minrisk.utility(name, **options)
    source = texts[0]
    rows, columns = np.divmod(np.arange(len(texts) ** 2), len(texts))
    part = np.random.default_rng(0).permutation(len(texts) ** 2)[: len(texts) ** 2 // 16]
    given = [texts[place] for place in rows], [texts[place] for place in columns], [source] * len(rows)
    some = [[side[place] for place in part] for side in given]
    utility.score(*some)  # Kernels are chosen and texts tokenised now.
    encode = seconds(lambda: utility.represent(texts)) if name == "comet" else 0.0  # type: ignore[attr-defined]
    full, few = seconds(lambda: utility.score(*given)), seconds(lambda: utility.score(*some))
    encodes = f"{len(texts) / encode:,.0f}" if encode else "-"
    shown = [name, options["dtype"], str(len(texts)), encodes, f"{len(rows) / full:,.0f}", f"{full:.3g}", f"{few:.3g}"]
    return f"| {' | '.join(shown)} | {full / few:.1f} x |"


def main() -> None:
    """Make each model, run it, print a table."""
    import torch

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float32,bfloat16")
    parser.add_argument("--texts", default="128")
    parser.add_argument("--models", default=",".join(MODELS))
    options = parser.parse_args()
    print(
        "| model of the size of | dtype | texts | encodes/s | cells/s | full, s | 1/16, s | saved by 1/16 |", flush=True
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            with torch.device(options.device):
                made = MODELS[name](Path(folder), texts_of(2000))
            for dtype in options.dtype.split(","):
                for count in map(int, options.texts.split(",")):
                    given = {**made, "device": options.device, "dtype": dtype}
                    print(row(name, given, texts_of(count)), flush=True)


if __name__ == "__main__":
    main()
