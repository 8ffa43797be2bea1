"""Cross-encoders: any model that classifies a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from minrisk.errors import InputError, unknown_name
from minrisk.neural.batching import Packer, Placement, padded
from minrisk.neural.encoder import LONGEST, replicas
from minrisk.neural.loading import devices_of, dtype_of, loading, pretrained, tokenizer_of
from minrisk.neural.packages import package
from minrisk.neural.tokens import cut_pair, pair_layout, plain
from minrisk.types import FloatArray
from minrisk.utilities.base import PairUtility, Sources

ORDERS = ("reference_first", "candidate_first", "both")
ACTIVATIONS = ("auto", "softmax", "sigmoid", "none")


@dataclass(frozen=True, kw_only=True)
class CrossEncoder(Placement, PairUtility):
    """A sequence classifier's value for the pair: any cross-encoder with one label or many.

    model       a hub name or a folder
    label       name or number of the label whose value counts; needed where there are several
    activation  softmax, sigmoid or none on the logits; auto: softmax of several labels, sigmoid of one
    order       reference_first, candidate_first, or both: the mean of the two
    """

    name: ClassVar[str] = "cross_encoder"
    model: str = "cross-encoder/stsb-distilroberta-base"
    label: str | int | None = None
    activation: Literal["auto", "softmax", "sigmoid", "none"] = "auto"
    order: Literal["reference_first", "candidate_first", "both"] = "reference_first"
    max_length: int = 0
    batch_size: int = field(default=4096, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in ORDERS:
            raise unknown_name("order", self.order, ORDERS)
        if self.activation not in ACTIVATIONS:
            raise unknown_name("activation", self.activation, ACTIVATIONS)

    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        network = self._network
        pairs = [(pseudo_references, candidates)] if self.order != "candidate_first" else []
        pairs += [(candidates, pseudo_references)] if self.order != "reference_first" else []
        scored = [network.scores(first, second) for first, second in pairs]
        return np.asarray(np.array(scored, dtype=np.float64).reshape(len(pairs), len(candidates)).mean(axis=0))

    @cached_property
    def _network(self) -> _Network:
        with loading(self.model):
            return _Network(self)


@dataclass(frozen=True, kw_only=True)
class Nli(CrossEncoder):
    """The probability that the pseudo-reference entails the candidate, 0 to 1: any NLI cross-encoder.

    With order=both, the mean of the two directions. Options as of `cross_encoder`.
    """

    name: ClassVar[str] = "nli"
    model: str = "cross-encoder/nli-deberta-v3-base"
    label: str | int | None = "entailment"


class _Network:
    """A classifier and its tokenizer."""

    def __init__(self, options: CrossEncoder) -> None:
        tokenizer = tokenizer_of(options.model)
        model = pretrained(options.model, "AutoModelForSequenceClassification", dtype_of(options.dtype))
        devices = devices_of(options.device)
        self.layout = pair_layout(tokenizer)
        self.filler = tokenizer.pad_token_id or 0
        known = options.max_length or int(tokenizer.model_max_length)
        self.room = (known if known <= LONGEST else int(model.config.max_position_embeddings)) - self.layout.specials
        if self.room < 2:
            raise InputError(f"`max_length` must leave room for two texts, got {options.max_length}")
        self.tokens = plain(tokenizer, self.room)
        self.typed = getattr(model.config, "type_vocab_size", 0) > 1
        self.label = _label_of(options, model.config)
        self.activation = options.activation
        if options.activation == "auto":
            self.activation = "softmax" if model.config.num_labels > 1 else "sigmoid"
        self.packer = Packer(replicas(model, devices), devices[0].type, options.batch_tokens)

    def scores(self, first: Sequence[str], second: Sequence[str]) -> list[float]:
        """The value of each pair."""
        tokens = zip(self.tokens.of(first), self.tokens.of(second), strict=True)
        pairs = [cut_pair(one, other, self.room) for one, other in tokens]
        sequences = [self.layout.joined(*pair) for pair in pairs]

        def work(replica: Any, batch: list[int]) -> Sequence[float]:
            numbers, mask = padded([sequences[place] for place in batch], self.filler, replica.device)
            given = {}
            if self.typed:
                types = [self.layout.types_of(*pairs[place]) for place in batch]
                given["token_type_ids"] = padded(types, 0, replica.device)[0]
            logits = replica(input_ids=numbers, attention_mask=mask, **given).logits.float()
            return self._values(logits)

        return self.packer.run([len(sequence) for sequence in sequences], work)

    def _values(self, logits: Any) -> list[float]:
        torch = package("torch")
        if self.activation == "softmax":
            logits = logits.softmax(dim=-1)
        elif self.activation == "sigmoid":
            logits = torch.sigmoid(logits)
        values: list[float] = logits[:, self.label].tolist()
        return values


def _label_of(options: CrossEncoder, config: Any) -> int:
    """The number of the label that counts."""
    names = {str(name).lower(): int(number) for number, name in config.id2label.items()}
    if options.label is None:
        if config.num_labels == 1:
            return 0
        raise InputError(f"model {options.model!r} has {config.num_labels} labels; set `label` to {' or '.join(names)}")
    given = str(options.label).lower()
    if given.isdigit() and int(given) < config.num_labels:
        return int(given)
    if given not in names:
        raise unknown_name(f"label of model {options.model!r}:", options.label, names)
    return names[given]
