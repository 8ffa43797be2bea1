"""The cosine of sentence embeddings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from minrisk.errors import InputError, unknown_name
from minrisk.neural.batching import Placement
from minrisk.neural.encoder import Encoder
from minrisk.neural.loading import folder_of, loading, state_of
from minrisk.neural.packages import package
from minrisk.types import FloatArray, IntArray
from minrisk.utilities.base import EncodedUtility

POOLINGS = ("auto", "mean", "cls", "max", "last")
PAIRS_AT_ONCE = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Embedding(Placement, EncodedUtility):
    """Cosine of sentence embeddings, -1 to 1: any transformers encoder or sentence-transformers folder.

    model       a hub name or a folder
    pooling     mean, cls, max or last of the tokens' vectors; auto: as a sentence-transformers folder says, else mean
    max_length  tokens after which texts are cut; 0: what the model takes
    """

    name: ClassVar[str] = "embedding"
    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    pooling: Literal["auto", "mean", "cls", "max", "last"] = "auto"
    max_length: int = 0
    prefix: str = field(default="")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling not in POOLINGS:
            raise unknown_name("pooling", self.pooling, POOLINGS)
        if self.max_length < 0:
            raise InputError(f"`max_length` must be at least 1, or 0 for what the model takes, got {self.max_length}")

    def represent(self, texts: Sequence[str]) -> Sequence[FloatArray]:
        """Vectors of length 1 in double precision, so that a text is at cosine 1 to itself to the last bits."""
        sequences = self._encoder.tokenize([self._recipe.prepared(self.prefix + text) for text in texts])
        vectors = np.stack(self._encoder.run(sequences, self._pooled))
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return list(vectors / np.maximum(norms, 1e-12))

    def compare(
        self, encodings: Sequence[Any], candidates: IntArray, pseudo_references: IntArray, sources: IntArray
    ) -> FloatArray:
        table = np.stack(list(encodings))
        rows, places = np.unique(candidates, return_inverse=True)
        columns, others = np.unique(pseudo_references, return_inverse=True)
        if 4 * len(candidates) >= len(rows) * len(columns):
            return np.asarray((table[rows] @ table[columns].T)[places.ravel(), others.ravel()])
        values = np.empty(len(candidates))
        for start in range(0, len(candidates), PAIRS_AT_ONCE):
            part = slice(start, start + PAIRS_AT_ONCE)
            values[part] = np.einsum("cd,cd->c", table[candidates[part]], table[pseudo_references[part]])
        return values

    def fold(self, encodings: Sequence[Any], weights: FloatArray) -> Sequence[FloatArray]:
        """Means of unit vectors, not of unit length themselves: so a mixture's cosine is the mean of the cosines."""
        return list(np.asarray(weights, dtype=np.float64) @ np.stack(list(encodings)))

    def vectors(self, encodings: Sequence[Any]) -> FloatArray:
        return np.stack(list(encodings))

    def self_values(self, texts: Sequence[str]) -> FloatArray:
        return np.ones(len(texts))

    @cached_property
    def _recipe(self) -> _Recipe:
        with loading(self.model):
            return _recipe_of(folder_of(self.model), self.pooling)

    @cached_property
    def _encoder(self) -> Encoder:
        recipe = self._recipe
        return Encoder(str(recipe.folder), self, limit=self.max_length or recipe.limit)

    def _pooled(self, hidden: Any, mask: Any, _: Sequence[Sequence[int]]) -> Sequence[FloatArray]:
        vectors = _pool(hidden, mask, self._recipe.pooling)
        for layer in self._recipe.dense:
            vectors = layer(vectors)
        return list(vectors.double().cpu().numpy())


@dataclass(frozen=True)
class _Recipe:
    """How a folder makes embeddings: the transformer's own folder, and what comes before and after it."""

    folder: Path
    pooling: str = "mean"
    limit: int | None = None
    lowercase: bool = False
    dense: tuple[Callable[[Any], Any], ...] = ()

    def prepared(self, text: str) -> str:
        text = text.strip()
        return text.lower() if self.lowercase else text


def _recipe_of(folder: Path, pooling: str) -> _Recipe:
    """What a sentence-transformers folder says; a plain one has its tokens averaged."""
    path = folder / "modules.json"
    if not path.is_file():
        return _Recipe(folder, "mean" if pooling == "auto" else pooling)
    modules = json.loads(path.read_text(encoding="utf-8"))
    inner, found, dense = folder, "mean", []
    for module in modules:
        kind = module["type"].rpartition(".")[2]
        place = folder / module["path"]
        if kind == "Transformer":
            inner = place
        elif kind == "Pooling":
            found = _pooling_of(json.loads((place / "config.json").read_text(encoding="utf-8")))
        elif kind == "Dense":
            dense.append(_dense_of(place))
        elif kind != "Normalize":
            raise InputError(f"model folder {str(folder)!r} has a module that is not known: {module['type']}")
    settings = inner / "sentence_bert_config.json"
    said = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    chosen = found if pooling == "auto" else pooling
    return _Recipe(inner, chosen, said.get("max_seq_length"), bool(said.get("do_lower_case")), tuple(dense))


def _pooling_of(settings: dict[str, Any]) -> str:
    names = {
        "pooling_mode_cls_token": "cls",
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_max_tokens": "max",
        "pooling_mode_lasttoken": "last",
    }
    on = [names.get(key, key) for key, value in settings.items() if key.startswith("pooling_mode_") and value is True]
    on = on or [{"lasttoken": "last"}.get(settings.get("pooling_mode", ""), settings.get("pooling_mode", "mean"))]
    if len(on) != 1 or on[0] not in POOLINGS:
        raise InputError(
            f"the pooling {' + '.join(on)} is not known; set `pooling` to one of {', '.join(POOLINGS[1:])}"
        )
    return on[0]


def _dense_of(folder: Path) -> Callable[[Any], Any]:
    torch = package("torch")
    state = state_of(folder)
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    activation = getattr(torch.nn, settings.get("activation_function", "Identity").rpartition(".")[2])()

    def dense(vectors: Any) -> Any:
        weight, bias = state["linear.weight"], state.get("linear.bias")
        moved = None if bias is None else bias.to(vectors.device).float()
        return activation(torch.nn.functional.linear(vectors, weight.to(vectors.device).float(), moved))

    return dense


def _pool(hidden: Any, mask: Any, pooling: str) -> Any:
    """One vector a text (B, d), of its hidden states (B, L, d)."""
    torch = package("torch")
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), mask.sum(dim=1) - 1]
    shown = mask.unsqueeze(-1).to(hidden.dtype)
    if pooling == "max":
        return hidden.masked_fill(shown == 0, -torch.inf).amax(dim=1)
    return (hidden * shown).sum(dim=1) / shown.sum(dim=1).clamp(min=1e-9)
