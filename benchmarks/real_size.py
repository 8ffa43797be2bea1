"""Neural utilities at the size of the real models, with random weights: encodes and cells a second on a device.

    python benchmarks/real_size.py [--device cuda] [--dtype float32,bfloat16] [--texts 128] [--models comet,bleurt]

Speed does not depend on the values of weights. Texts are about 22 tokens long, all different. "full" is one matrix of
all texts against all, "1/16" the cells that PMBR would score of it, both with encodes.

With --memory, it counts the weights of the real models instead, which takes no memory.
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


LARGE = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "max_position_embeddings": 514}
XL = {"vocab_size": 250880, "num_attention_heads": 32, "max_position_embeddings": 514}
DEBERTA = {
    "num_hidden_layers": 12,
    "type_vocab_size": 0,
    "relative_attention": True,
    "position_buckets": 256,
    "share_att_key": True,
}
DEBERTA |= {"pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "norm_rel_ebd": "layer_norm"}
BLEURT = {"vocab_size": 250300, "input_embedding_size": 256, "hidden_size": 1152, "intermediate_size": 4608}
MT5 = {"vocab_size": 250112, "num_layers": 24, "num_decoder_layers": 24, "d_kv": 64}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "MiniLM-L6": ("Bert", {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}),
    "roberta-large, 17 layers": ("Roberta", {**LARGE, "vocab_size": 50265, "num_hidden_layers": 17}),
    "XLM-R large": ("XLMRoberta", {**LARGE, "vocab_size": 250002, "num_hidden_layers": 24}),
    "XLM-R XL": ("XLMRobertaXL", {**XL, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 36}),
    "XLM-R XXL": ("XLMRobertaXL", {**XL, "hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 48}),
    "mDeBERTa-v3-base": ("DebertaV2", {**DEBERTA, "vocab_size": 251000, "hidden_size": 768, "intermediate_size": 3072}),
    "DeBERTa-v3-base": ("DebertaV2", {**DEBERTA, "vocab_size": 128100, "hidden_size": 768, "intermediate_size": 3072}),
    "BLEURT-20": ("RemBert", {**BLEURT, "num_hidden_layers": 32, "num_attention_heads": 18}),
    "mT5 large": ("MT5", {**MT5, "d_model": 1024, "d_ff": 2816, "num_heads": 16}),
    "mT5 XL": ("MT5", {**MT5, "d_model": 2048, "d_ff": 5120, "num_heads": 32}),
    "mT5 XXL": ("MT5", {**MT5, "d_model": 4096, "d_ff": 10240, "num_heads": 64}),
}
"""The settings of the real models' config.json that decide how many weights there are."""


def memory() -> None:
    """Print what the weights take."""
    import torch
    import transformers

    print("| encoder | weights, million | float32, GB | bfloat16, GB |\n| --- | ---: | ---: | ---: |")
    for name, (kind, settings) in SHAPES.items():
        with torch.device("meta"):
            model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**settings))
        count = sum(weight.numel() for part, weight in model.named_parameters() if "pooler" not in part)
        print(f"| {name} | {count / 1e6:,.0f} | {count * 4 / 1e9:.1f} | {count * 2 / 1e9:.1f} |")


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
    parser.add_argument("--memory", action="store_true", help="count the weights of the real models and stop")
    options = parser.parse_args()
    if options.memory:
        memory()
        return
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
