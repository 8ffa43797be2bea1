"""BLEURT-20 in its PyTorch form: RemBERT with a linear layer on top."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.neural.batching import Packer, Placement, padded
from minrisk.neural.encoder import replicas
from minrisk.neural.linear import linear
from minrisk.neural.loading import WEIGHT_FILES, built, devices_of, dtype_of, folder_of, loading, state_of
from minrisk.neural.packages import package
from minrisk.neural.tokens import Tokens, cut_pair
from minrisk.types import FloatArray
from minrisk.utilities.base import PairUtility, Sources

SHARED = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
)
"""Settings that RemBERT has under the same name."""


@dataclass(frozen=True, kw_only=True)
class Bleurt(Placement, PairUtility):
    """BLEURT, about 0 to 1: BLEURT-20 and its distillations D3, D6 and D12, in PyTorch form.

    model  a hub name or a folder with config.json, weights and spm.model
    """

    name: ClassVar[str] = "bleurt"
    model: str = "lucadiliello/BLEURT-20"
    batch_size: int = field(default=4096, repr=False)

    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        own, others = self._network.tokens.of(candidates), self._network.tokens.of(pseudo_references)
        return np.array(self._network.scores(list(zip(others, own, strict=True))), dtype=np.float64)

    @cached_property
    def _network(self) -> _Network:
        with loading(self.model):
            return _Network(folder_of(self.model, (*WEIGHT_FILES, "spm.model")), self)


class _Network:
    """The model and its tokenizer, which is sentencepiece and nothing else."""

    def __init__(self, folder: Path, placement: Placement) -> None:
        if not (folder / "spm.model").is_file() or not (folder / "config.json").is_file():
            raise InputError(
                f"model folder {str(folder)!r} is no BLEURT-20: it needs config.json and spm.model "
                "(older BLEURT checkpoints are not supported)"
            )
        pieces = package("sentencepiece").SentencePieceProcessor(model_file=str(folder / "spm.model"))
        self.begin, self.separator = pieces.piece_to_id("[CLS]"), pieces.piece_to_id("[SEP]")
        self.tokens = Tokens(lambda texts: pieces.encode(texts))
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.limit = int(settings["max_position_embeddings"])
        devices = devices_of(placement.device)
        state = {_renamed(key): value for key, value in state_of(folder).items()}
        config = package("transformers").RemBertConfig(
            **{key: settings[key] for key in SHARED if key in settings},
            input_embedding_size=settings.get("embedding_size") or settings["hidden_size"],
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=None,
        )
        encoder = {key: value for key, value in state.items() if key.startswith(("embeddings.", "encoder."))}
        encoder = {key: value for key, value in encoder.items() if not key.endswith("position_ids")}
        model = built("RemBertModel", config, encoder, dtype_of(placement.dtype), str(folder), add_pooling_layer=False)
        model.last = model.encoder.layer[-1]
        del model.encoder.layer[-1]
        self.pooler, self.classifier = (
            tuple(state[f"{layer}.{part}"].float().to(devices[0]) for part in ("weight", "bias"))
            for layer in ("pooler.dense", "classifier")
        )
        self.packer = Packer(replicas(model, devices), devices[0].type, placement.batch_tokens)

    def scores(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[float]:
        """The score of each pair of reference and candidate."""
        cut = [cut_pair(first, second, self.limit - 3, odd_to_first=True) for first, second in pairs]
        sequences = [[self.begin, *first, self.separator, *second, self.separator] for first, second in cut]

        def work(replica: Any, batch: list[int]) -> Sequence[float]:
            numbers, mask = padded([sequences[place] for place in batch], 0, replica.device)
            types = [[0] * (len(cut[place][0]) + 2) + [1] * (len(cut[place][1]) + 1) for place in batch]
            output = replica(input_ids=numbers, attention_mask=mask, token_type_ids=padded(types, 0, replica.device)[0])
            first = first_of_last(replica.last, output.last_hidden_state, mask).float().to(self.pooler[0].device)
            scores: Sequence[float] = linear(linear(first, *self.pooler).tanh(), *self.classifier)[:, 0].tolist()
            return scores

        return self.packer.run([len(sequence) for sequence in sequences], work)


def first_of_last(layer: Any, hidden: Any, mask: Any) -> Any:
    """What the last layer makes of the first token, the only one that is looked at: (B, d), of all (B, L, d)."""
    attention, own = layer.attention.self, hidden[:, :1]
    query, key, value = (
        part(states).unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)
        for part, states in ((attention.query, own), (attention.key, hidden), (attention.value, hidden))
    )
    attend = package("torch").nn.functional.scaled_dot_product_attention
    context = attend(query, key, value, attn_mask=mask[:, None, None].bool()).transpose(1, 2).flatten(2)
    attended = layer.attention.output(context, own)
    return layer.output(layer.intermediate(attended), attended)[:, 0]


def _renamed(key: str) -> str:
    return key.removeprefix("bleurt.").replace("encoder.embedding_projection", "encoder.embedding_hidden_mapping_in")
