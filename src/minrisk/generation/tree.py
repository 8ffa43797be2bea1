"""A cache of keys and values that holds each distinct prefix once, and attention that reads it.

The prefixes of all samples form a tree. Its trunk, common to all (the prompt; the start token of a decoder), is kept
once for all rows; of every other node, the keys and values of its token alone are kept, and the rows of a step are
gathered along their paths. The encoder's keys and values are the same for all rows, and kept once as well.

Shapes: R rows, H heads of the queries, K of the keys (K divides H), D numbers a head, P trunk, T path.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

Tensor = Any
NAME = "minrisk_tree"
UNDERSTOOD = {"scaling", "dropout", "is_causal", "sliding_window", "output_attentions", "use_cache"} | {
    "position_ids",
    "cache_position",
    "layer_idx",
}
"""Arguments of an attention that are heeded here, settled by the mask, or change nothing. Others are not folded."""


class TreeLayer(DynamicLayer):  # type: ignore[misc]
    """The keys and values of one layer: a trunk while `paths` is None, afterwards one token for each row of `paths`."""

    def __init__(self, folded: bool) -> None:
        super().__init__()
        self.folded = folded
        self.paths: Tensor = None
        self.nodes = 0
        self.store: Tensor = None

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Take the (R, K, 1, D) keys and values of new nodes in, give those that the rows see."""
        if self.paths is None:
            common: tuple[Tensor, Tensor] = super().update(key_states, value_states)
            return common
        self._append(key_states, value_states)
        rows, depth = self.paths.shape
        seen = self.store.index_select(0, self.paths.reshape(-1))
        seen = seen.view(rows, depth, 2, *seen.shape[2:]).permute(2, 0, 3, 1, 4)
        keys, values = seen[0], seen[1]
        if self.folded:
            # What attention is given besides has no place in the models' interface, so it travels on the tensor.
            keys.trunk = self.keys, self.values
            return keys, values
        pairs = (self.keys, keys), (self.values, values)
        keys, values = (torch.cat([common.expand(rows, -1, -1, -1), own], dim=2) for common, own in pairs)
        return keys, values

    def _append(self, keys: Tensor, values: Tensor) -> None:
        new = torch.stack([keys[:, :, 0], values[:, :, 0]], dim=1)
        needed = self.nodes + len(new)
        if self.store is None or needed > len(self.store):
            grown = new.new_empty((max(256, needed, 2 * self.nodes), *new.shape[1:]))
            if self.nodes:
                grown[: self.nodes] = self.store[: self.nodes]
            self.store = grown
        self.store[self.nodes : needed] = new
        self.nodes = needed

    def get_seq_length(self) -> int:
        """Tokens before those of the step under way."""
        trunk = int(super().get_seq_length())
        return trunk if self.paths is None else trunk + self.paths.shape[1] - 1


class TreeCache:
    """The cache of all layers, for a decoder alone or behind an encoder."""

    def __init__(self, layers: int, cross_attention: bool, folded: bool) -> None:
        self.layers = [TreeLayer(folded) for _ in range(layers)]
        self.folded = folded
        own = Cache(layers=self.layers)
        self.cross: Any = Cache(layers=[DynamicLayer() for _ in range(layers)]) if cross_attention else None
        self.of_model = EncoderDecoderCache(own, self.cross) if cross_attention else own
        self._encoded: list[tuple[Tensor, Tensor]] = []

    @property
    def nodes(self) -> int:
        """How many nodes there are below the trunk: the number of the next one."""
        return self.layers[0].nodes

    def enter(self, paths: Tensor) -> None:
        """Prepare for a step with rows of these (R, T) nodes, the last of which is new."""
        for layer in self.layers:
            layer.paths = paths
        if self.cross is not None and not self.folded:
            self._encoded = self._encoded or [(layer.keys, layer.values) for layer in self.cross.layers]
            for layer, (keys, values) in zip(self.cross.layers, self._encoded):
                layer.keys, layer.values = (each.expand(len(paths), -1, -1, -1) for each in (keys, values))

    def forget(self, nodes: int) -> None:
        """Drop nodes from this number on: a step that failed half-way has filled some layers only."""
        for layer in self.layers:
            layer.nodes = min(layer.nodes, nodes)


class Unfoldable(Exception):
    """The attention of a model cannot read a tree as it is."""


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, None]:
    """Attention of (R, H, 1, D) queries over what all rows share, and over what is each row's own."""
    trunk = getattr(key, "trunk", None)
    if trunk is None and (key.shape[0] == query.shape[0] or query.shape[2] != 1):
        output: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
        return output
    strange = {name for name, given in settings.items() if given is not None} - UNDERSTOOD
    if strange:
        raise Unfoldable(f"attention with {', '.join(sorted(strange))}")
    scaling = settings.get("scaling")
    query = query * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    bias = _bias(attention_mask, query.dtype)
    if trunk is None:
        scores = _shared_scores(query, key)
        weights = (scores if bias is None else scores + bias).softmax(dim=-1)
        return _shared_values(weights, value, query.shape).transpose(1, 2), None
    return _tree(query, key, value, trunk, bias).transpose(1, 2), None


def _tree(query: Tensor, keys: Tensor, values: Tensor, trunk: tuple[Tensor, Tensor], bias: Tensor | None) -> Tensor:
    """(R, H, 1, D) attention over the (1, K, P, D) trunk and the rows' own (R, K, T, D)."""
    rows, heads, _, width = query.shape
    groups = heads // keys.shape[1]
    own = query.view(rows, keys.shape[1], groups, width) @ keys.transpose(2, 3)
    scores = torch.cat([_shared_scores(query, trunk[0]), own.view(rows, heads, 1, -1)], dim=3)
    weights = (scores if bias is None else scores + bias).softmax(dim=-1)
    length = trunk[0].shape[2]
    of_rows = weights[..., length:].reshape(rows, keys.shape[1], groups, -1) @ values
    return _shared_values(weights[..., :length], trunk[1], query.shape) + of_rows.view(rows, heads, 1, -1)


def _shared_scores(query: Tensor, keys: Tensor) -> Tensor:
    """(R, H, 1, P) products with (1, K, P, D) keys that all rows share: one matrix product a head, not one a row."""
    rows, heads, _, width = query.shape
    shared = keys.shape[1]
    folded = query.view(rows, shared, heads // shared, width).transpose(0, 1).reshape(shared, -1, width)
    scores = folded @ keys[0].transpose(1, 2)
    return scores.view(shared, rows, heads // shared, -1).transpose(0, 1).reshape(rows, heads, 1, -1)


def _shared_values(weights: Tensor, values: Tensor, shape: Any) -> Tensor:
    """(R, H, 1, D) sums of (1, K, P, D) values that all rows share, by (R, H, 1, P) weights."""
    rows, heads = shape[:2]
    shared = values.shape[1]
    folded = weights.reshape(rows, shared, heads // shared, -1).transpose(0, 1).reshape(shared, -1, weights.shape[-1])
    sums = folded @ values[0]
    return sums.view(shared, rows, heads // shared, -1).transpose(0, 1).reshape(rows, heads, 1, -1)


def _bias(mask: Tensor | None, dtype: Any) -> Tensor | None:
    """What a mask adds to the scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)


def register() -> None:
    """Make the attention known to transformers."""
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
