"""COMET: a regression on the embeddings of source, candidate and reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.neural.batching import Placement
from minrisk.neural.comet import Checkpoint
from minrisk.neural.linear import linear
from minrisk.neural.loading import loading
from minrisk.neural.packages import package
from minrisk.types import FloatArray, IntArray
from minrisk.utilities.base import EncodedUtility

PAIRS_AT_ONCE = {"cpu": 512}
"""Pairs whose features are held at a time; elsewhere more."""


@dataclass(frozen=True, kw_only=True)
class Comet(Placement, EncodedUtility):
    """COMET, about 0 to 1: wmt22-comet-da, wmt20-comet-da, cometinho and any other RegressionMetric checkpoint.

    model    a hub name or a folder with hparams.yaml and checkpoints/model.ckpt
    encoder  where configuration and tokenizer of the encoder are, if not where hparams.yaml says (pretrained_model)
    """

    name: ClassVar[str] = "comet"
    needs_source = True
    model: str = "Unbabel/wmt22-comet-da"
    encoder: str | None = None

    def represent(self, texts: Sequence[str]) -> Sequence[Any]:
        checkpoint = self._checkpoint
        sequences = [checkpoint.special(text) for text in checkpoint.tokens.of(texts)]
        return checkpoint.run(sequences, self._sentences)

    def compare(
        self, encodings: Sequence[Any], candidates: IntArray, pseudo_references: IntArray, sources: IntArray
    ) -> FloatArray:
        if (sources < 0).any():
            raise InputError("utility 'comet' needs a `source`, and a pair has none")
        torch = package("torch")
        with torch.inference_mode():
            table = torch.stack(list(encodings))
            return self._head.scores(table, candidates, pseudo_references, sources)

    def fold(self, encodings: Sequence[Any], weights: FloatArray) -> Sequence[Any]:
        torch = package("torch")
        table = torch.stack(list(encodings))
        return list(torch.as_tensor(weights, dtype=table.dtype, device=table.device) @ table)

    def vectors(self, encodings: Sequence[Any]) -> FloatArray:
        return np.stack([encoding.double().cpu().numpy() for encoding in encodings])

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        with loading(self.model):
            return Checkpoint(self.model, self, ("regression_metric",), self.encoder)

    @cached_property
    def _head(self) -> SplitHead:
        with loading(self.model):
            return SplitHead(self._checkpoint)

    def _sentences(self, hidden: Sequence[Any], mask: Any, numbers: Any, _: Sequence[int]) -> Sequence[Any]:
        return list(sentence_vectors(self._checkpoint, hidden, mask, numbers))


def sentence_vectors(checkpoint: Checkpoint, hidden: Sequence[Any], mask: Any, numbers: Any) -> Any:
    """One vector a text (B, d), pooled as the checkpoint says."""
    pool = checkpoint.settings.get("pool", "avg")
    shown = ((numbers != checkpoint.tokenizer.pad_token_id) & (mask > 0)).unsqueeze(-1).float()
    if pool == "cls":
        return checkpoint.mixed(hidden, mask, lambda layer: layer[:, 0])
    if pool == "avg":
        count = mask.sum(dim=1, keepdim=True)
        return checkpoint.mixed(hidden, mask, lambda layer: (layer * shown).sum(dim=1) / count)
    if pool == "max":
        hide = shown == 0
        return checkpoint.mixed(hidden, mask, lambda mix: mix.masked_fill(hide, -np.inf).amax(dim=1), linear=False)
    raise InputError(f"pooling {pool!r} of this COMET checkpoint is not known; avg, cls and max are")


class SplitHead:
    """COMET's estimator on [h, r, h*r, |h-r|, h*s, |h-s|], its first layer cut into blocks of columns.

    What depends on the candidate and the source alone is multiplied once for each of them, what depends on the
    reference once for each reference, and h*r and |h-r|, being the same for (h, r) and (r, h), once for both.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        torch = package("torch")
        self.estimator = checkpoint.estimator
        weight, self.bias = self.estimator.layers[0]
        own, reference, *pair, by_source, from_source = weight.chunk(6, dim=1)
        self.of_candidate = torch.cat([own, by_source, from_source], dim=1)
        self.of_reference = reference.contiguous()
        self.of_pair = torch.cat(pair, dim=1)
        self.pairs_at_once = PAIRS_AT_ONCE.get(weight.device.type, 1 << 14)

    def scores(self, table: Any, candidates: IntArray, references: IntArray, sources: IntArray) -> FloatArray:
        """The scores of C pairs of rows of the table (T, d): (C,)."""
        torch = package("torch")
        count = len(table)
        left, left_places = np.unique(candidates * count + sources, return_inverse=True)
        right, right_places = np.unique(references, return_inverse=True)
        low, high = np.minimum(candidates, references), np.maximum(candidates, references)
        both, pair_places = np.unique(low * count + high, return_inverse=True)
        own, source = table[left // count], table[left % count]
        of_left = linear(torch.cat([own, own * source, (own - source).abs()], dim=1), self.of_candidate, self.bias)
        of_right = linear(table[right], self.of_reference)
        order = np.argsort(pair_places.ravel(), kind="stable")
        ends = np.searchsorted(pair_places.ravel()[order], np.arange(len(both)), side="right")
        values = np.empty(len(candidates))
        start = 0
        for first in range(0, len(both), self.pairs_at_once):
            keys = both[first : first + self.pairs_at_once]
            one, other = table[keys // count], table[keys % count]
            of_pair = linear(torch.cat([one * other, (one - other).abs()], dim=1), self.of_pair)
            end = int(ends[first + len(keys) - 1])
            cells = order[start:end]
            hidden = of_pair[pair_places.ravel()[cells] - first]
            hidden += of_left[left_places.ravel()[cells]]
            hidden += of_right[right_places.ravel()[cells]]
            values[cells] = self.estimator.after_first(hidden).double().cpu().numpy()
            start = end
        return values
