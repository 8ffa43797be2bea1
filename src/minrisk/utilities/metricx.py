"""MetricX-23 and MetricX-24: mT5 that predicts an error score, lower being better."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from minrisk.errors import InputError, unknown_name
from minrisk.neural.batching import Packer, Placement, padded
from minrisk.neural.encoder import replicas
from minrisk.neural.loading import (
    WEIGHT_FILES,
    config_of,
    devices_of,
    dtype_of,
    folder_of,
    loading,
    pretrained,
    row_of,
    tokenizer_of,
)
from minrisk.neural.packages import package
from minrisk.neural.tokens import Tokens
from minrisk.types import FloatArray
from minrisk.utilities.base import PairUtility, QualityUtility, Sources

ANSWER = 250089
"""The number of <extra_id_10>, whose logit is the score."""
LENGTHS = {"23": 1024, "24": 1536}
WORST = 25.0
EDITIONS = ("auto", "23", "24")


@dataclass(frozen=True, kw_only=True)
class _MetricX(Placement):
    """What the two utilities share."""

    higher_is_better = False
    model: str = "google/metricx-24-hybrid-large-v2p6"
    tokenizer: str = "google/mt5-xl"
    edition: Literal["auto", "23", "24"] = "auto"
    clamp: bool = True
    max_length: int = 0
    batch_size: int = field(default=4096, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.edition not in EDITIONS:
            raise unknown_name("edition", self.edition, EDITIONS)
        if self.max_length < 0:
            raise InputError(f"`max_length` must be at least 1, or 0 for the official one, got {self.max_length}")
        if self.dtype == "float16":
            raise InputError("`dtype` float16 overflows in mT5; use bfloat16, float32 or auto")

    @cached_property
    def _edition(self) -> str:
        """The edition: its number in the name of the model says it."""
        if self.edition != "auto":
            return self.edition
        found = re.search(r"metricx[-_]?(23|24)", self.model.lower())
        if found is None:
            raise InputError(f"`edition` of model {self.model!r} is not clear from its name; set edition=23 or 24")
        return found.group(1)

    @cached_property
    def _network(self) -> _Network:
        with loading(self.model):
            return _Network(self, self.max_length or LENGTHS[self._edition])

    def _scores(self, parts: Sequence[Sequence[str]]) -> FloatArray:
        scores = np.array(self._network.scores(parts), dtype=np.float64)
        return np.clip(scores, 0.0, WORST) if self.clamp else scores


@dataclass(frozen=True, kw_only=True)
class MetricX(_MetricX, PairUtility):
    """MetricX, 0 (best) to 25 (worst): MetricX-23 and MetricX-24-hybrid, all sizes, lower is better.

    model       a hub name or a folder; bfloat16 checkpoints keep their type with dtype=auto
    tokenizer   a hub name or a folder with mT5's tokenizer; the model's own folder is tried first
    edition     23 or 24: how input is written; auto: as the model's name says
    clamp       the official score ends at 0 and 25; without, a completed matrix sees no artificial ties
    max_length  tokens after which input is cut; 0: 1024 for 23, 1536 for 24
    """

    name: ClassVar[str] = "metricx"

    @property
    def uses_source(self) -> bool:
        return self._edition == "24"

    @property
    def needs_source(self) -> bool:  # type: ignore[override]
        """MetricX-24 reads the source too."""
        return self._edition == "24"

    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        pairs = zip(candidates, pseudo_references, strict=True)
        if self._edition == "23":
            return self._scores([(f"candidate: {own}", f"reference: {other}") for own, other in pairs])
        given = [None] * len(candidates) if sources is None else list(sources)
        if None in given:
            raise InputError("utility 'metricx' (24) needs a `source`, and a pair has none")
        return self._scores(
            [
                (f"source: {source}", f"candidate: {own}", f"reference: {other}")
                for (own, other), source in zip(pairs, given, strict=True)
            ]
        )


@dataclass(frozen=True, kw_only=True)
class MetricXQuality(_MetricX, QualityUtility):
    """MetricX without references, 0 (best) to 25 (worst): MetricX-23-QE and MetricX-24-hybrid, lower is better.

    Options as of `metricx`.
    """

    name: ClassVar[str] = "metricx_qe"
    needs_source = True

    def quality(self, candidates: Sequence[str], sources: Sequence[str | None]) -> FloatArray:
        if None in sources:
            raise InputError("utility 'metricx_qe' needs a `source`, and a candidate has none")
        pairs = list(zip(candidates, sources, strict=True))
        if self._edition == "23":
            return self._scores([(f"candidate: {own}", f"source: {source}") for own, source in pairs])
        return self._scores([(f"source: {source}", f"candidate: {own}") for own, source in pairs])


class _Network:
    """Encoder, one step of the decoder, and the one row of the output layer that is needed."""

    def __init__(self, options: _MetricX, limit: int) -> None:
        folder = folder_of(options.model, (*WEIGHT_FILES, "*.model"))
        config = config_of(options.model)
        if config.model_type != "mt5":
            raise InputError(f"model {options.model!r} is a {config.model_type}; MetricX is an mt5")
        self.limit = limit
        self.tokenize = _tokenizer(options)
        devices = devices_of(options.device)
        model = pretrained(options.model, "MT5Model", dtype_of(options.dtype, half=False))
        row = row_of(folder, "lm_head.weight", ANSWER)
        if row is None:
            row = model.shared.weight[ANSWER].float()
        # Read from the file: some versions of transformers overrule this setting.
        tied = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("tie_word_embeddings")
        self.answer = (row * config.d_model**-0.5 if tied else row).to(devices[0])
        self.packer = Packer(replicas(model, devices), devices[0].type, options.batch_tokens)

    def scores(self, parts: Sequence[Sequence[str]]) -> list[float]:
        """The score of each input, given in parts between which a space stands."""
        torch = package("torch")
        # The official code cuts with the final </s> in place, then takes the last token away.
        sequences = [numbers[: self.limit - 1] for numbers in self.tokenize(parts)]

        def work(replica: Any, batch: list[int]) -> Sequence[float]:
            numbers, mask = padded([sequences[place] for place in batch], 0, replica.device)
            begin = torch.zeros((len(batch), 1), dtype=torch.int64, device=replica.device)
            output = replica(input_ids=numbers, attention_mask=mask, decoder_input_ids=begin, use_cache=False)
            scores: Sequence[float] = (output.last_hidden_state[:, 0].float().to(self.answer) @ self.answer).tolist()
            return scores

        return self.packer.run([len(sequence) for sequence in sequences], work)


Tokenize = Callable[[Sequence[Sequence[str]]], list[list[int]]]


def _tokenizer(options: _MetricX) -> Tokenize:
    """Inputs in parts to tokens without </s>; each part is tokenised once, where no token crosses a space."""
    own = folder_of(options.model, (*WEIGHT_FILES, "*.model"))
    folder = own if (own / "spiece.model").is_file() else folder_of(options.tokenizer, ("*.json", "*.model"))
    if (folder / "spiece.model").is_file():
        pieces = package("sentencepiece").SentencePieceProcessor(model_file=str(folder / "spiece.model"))
        crossing = any("▁" in pieces.id_to_piece(number).strip("▁") for number in range(pieces.get_piece_size()))
        encode: Callable[[list[str]], list[list[int]]] = pieces.encode
    else:
        loaded, crossing = tokenizer_of(str(folder)), True

        def encode(texts: list[str]) -> list[list[int]]:
            found: list[list[int]] = loaded(texts, add_special_tokens=False)["input_ids"]
            return found

    tokens = Tokens(encode)
    if crossing:
        return lambda parts: [list(numbers) for numbers in tokens.of([" ".join(texts) for texts in parts])]

    def tokenize(parts: Sequence[Sequence[str]]) -> list[list[int]]:
        found = iter(tokens.of([text for texts in parts for text in texts]))
        return [[number for _ in texts for number in next(found)] for texts in parts]

    return tokenize
