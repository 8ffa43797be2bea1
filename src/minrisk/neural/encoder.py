"""A transformer that turns texts into hidden states, whichever it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from minrisk.errors import InputError
from minrisk.neural.batching import Packer, Placement, padded
from minrisk.neural.loading import config_of, devices_of, dtype_of, pretrained, tokenizer_of
from minrisk.neural.packages import package
from minrisk.neural.tokens import clean

Finish = Callable[[Any, Any, Sequence[Sequence[int]]], Sequence[Any]]
"""Given hidden states (B, L, d), their mask (B, L) and the tokens of B texts: a result for each text."""

LONGEST = 100_000
"""Tokenizers that know no limit say a very large number."""


class Encoder:
    """The hidden states of texts, from the last layer, or from the first `layers` alone."""

    def __init__(
        self, model: str, placement: Placement, *, layers: int | None = None, limit: int | None = None, **options: Any
    ) -> None:
        self.config = config_of(model)
        self.tokenizer = tokenizer_of(model, **options)
        self.devices = devices_of(placement.device)
        self.limit = limit or self._limit()
        loaded = pretrained(model, _kind(self.config), dtype_of(placement.dtype))
        if getattr(self.config, "is_encoder_decoder", False):
            loaded = loaded.get_encoder()
        if layers is not None:
            shorten(loaded, layers, model)
        self.packer = Packer(replicas(loaded, self.devices), self.devices[0].type, placement.batch_tokens)
        self._filler = self.tokenizer.pad_token_id or 0

    @property
    def device(self) -> Any:
        """Where results are put."""
        return self.devices[0]

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers of the tokens, special ones included, cut to the longest that the model takes."""
        found: list[list[int]] = self.tokenizer(
            [clean(text) for text in texts], truncation=True, max_length=self.limit, return_attention_mask=False
        )["input_ids"]
        return found

    def run(self, sequences: Sequence[Sequence[int]], finish: Finish) -> list[Any]:
        """What `finish` makes of the hidden states of each sequence, in order."""

        def work(replica: Any, batch: list[int]) -> Sequence[Any]:
            chosen = [sequences[place] for place in batch]
            numbers, mask = padded(chosen, self._filler, replica.device)
            hidden = replica(input_ids=numbers, attention_mask=mask, return_dict=True).last_hidden_state
            return finish(hidden.float().to(self.device), mask.to(self.device), chosen)

        return self.packer.run([len(sequence) for sequence in sequences], work)

    def _limit(self) -> int:
        known = int(self.tokenizer.model_max_length)
        if known <= LONGEST:
            return known
        positions = getattr(self.config, "max_position_embeddings", None) or 512
        # Models of the RoBERTa family count positions from the number of the padding token on.
        offset = (self.config.pad_token_id or 0) + 1 if "roberta" in self.config.model_type else 0
        return int(positions) - offset


def replicas(model: Any, devices: Sequence[Any]) -> list[Any]:
    """The model on each device."""
    return [(model if place == 0 else copy.deepcopy(model)).to(device) for place, device in enumerate(devices)]


def shorten(model: Any, layers: int, name: str) -> None:
    """Leave out all but the first layers: what comes after them would be computed in vain."""
    count = next(
        (
            getattr(model.config, key)
            for key in ("num_hidden_layers", "num_layers", "encoder_layers", "n_layers")
            if hasattr(model.config, key)
        ),
        None,
    )
    if count is None or not 0 <= layers <= count:
        raise InputError(f"`layer` must be a layer of {name!r}, 0 to {count}, got {layers}")
    stacks = [
        part for part in model.modules() if isinstance(part, package("torch").nn.ModuleList) and len(part) == count
    ]
    if stacks:
        del stacks[0][layers:]
    model.config.num_hidden_layers = layers


def _kind(config: Any) -> str:
    """Encoders of T5's family have no use for their decoders."""
    kinds = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "umt5": "UMT5EncoderModel"}
    return kinds.get(config.model_type, "AutoModel")
