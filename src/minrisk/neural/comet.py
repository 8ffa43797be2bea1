"""Checkpoints of COMET's models: the encoder, the mix of its layers, the estimator on top."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from minrisk.errors import InputError
from minrisk.neural.batching import Packer, Placement, padded
from minrisk.neural.encoder import replicas
from minrisk.neural.linear import linear
from minrisk.neural.loading import built, config_of, devices_of, dtype_of, folder_of, state_of, tokenizer_of
from minrisk.neural.packages import package
from minrisk.neural.tokens import Tokens, plain


@dataclass(frozen=True)
class Kind:
    """What sets an encoder of COMET's apart: its class, how many separators stand between texts, types of tokens."""

    model: str
    separators: int
    types: bool = False
    tokenizer: str | None = None
    pooler: bool = False


KINDS = {
    "XLM-RoBERTa": Kind("XLMRobertaModel", 2, pooler=True),
    "XLM-RoBERTa-XL": Kind("XLMRobertaXLModel", 2, pooler=True),
    "BERT": Kind("BertModel", 1, types=True, pooler=True),
    "MiniLM": Kind("BertModel", 2, tokenizer="xlm-roberta-base", pooler=True),
    "RemBERT": Kind("RemBertModel", 1, pooler=True),
    "DeBERTa": Kind("AutoModel", 1),
}
LITE = {
    "class_identifier": "xcomet_metric",
    "encoder_model": "DeBERTa",
    "pretrained_model": "microsoft/mdeberta-v3-base",
    "sent_layer": "mix",
    "layer_transformation": "softmax",
    "layer_norm": False,
    "word_layer": 8,
    "hidden_sizes": [3072, 1024],
    "activations": "Tanh",
    "final_activation": None,
}
"""XCOMET-lite comes without hparams.yaml."""


class Checkpoint:
    """A model of COMET's, whatever its class: hidden states, mixed and pooled, and what stands on top of them."""

    def __init__(self, model: str, placement: Placement, classes: Sequence[str], encoder: str | None = None) -> None:
        self.folder = folder_of(model)
        self.settings, state = _contents(self.folder)
        found = self.settings.get("class_identifier")
        if found not in classes:
            raise InputError(f"model {model!r} is a {found}; this utility takes {' or '.join(classes)}")
        name = self.settings.get("encoder_model", "XLM-RoBERTa")
        if name not in KINDS:
            raise InputError(f"model {model!r} has an encoder {name!r}; known: {', '.join(KINDS)}")
        self.kind = KINDS[name]
        source = encoder or _beside(self.folder, str(self.settings["pretrained_model"]))
        self.devices = devices_of(placement.device)
        config = config_of(source)
        self.limit = int(config.max_position_embeddings) - 2
        self.tokenizer = tokenizer_of(encoder or self.kind.tokenizer or source)
        loaded = built(
            self.kind.model,
            config,
            {key.removeprefix("encoder.model."): value for key, value in state.items() if _of_encoder(key)},
            dtype_of(placement.dtype),
            model,
            **({"add_pooling_layer": False} if self.kind.pooler else {}),
        )
        self.packer = Packer(replicas(loaded, self.devices), self.devices[0].type, placement.batch_tokens)
        self.state = {
            key: value.float().to(self.device) for key, value in state.items() if not key.startswith("encoder.")
        }
        self.mix = self._mix()
        self.estimator = Estimator(self.state, self.settings)

    @property
    def device(self) -> Any:
        """Where results are put."""
        return self.devices[0]

    @cached_property
    def tokens(self) -> Tokens:
        """Texts without special tokens, cut as the official code cuts them: two tokens short of what would fit."""
        return plain(self.tokenizer, self.limit - 4)

    def _mix(self) -> Any:
        """The weight of each layer, the embeddings' first: (L + 1,)."""
        torch = package("torch")
        layer = self.settings.get("sent_layer", self.settings.get("layer", "mix"))
        count = self.packer.replicas[0].config.num_hidden_layers + 1
        if layer != "mix":
            return torch.nn.functional.one_hot(torch.tensor(int(layer)), count).float().to(self.device)
        scalars = torch.cat([self.state[f"layerwise_attention.scalar_parameters.{place}"] for place in range(count)])
        # A patched name means that the option was never passed on when the model was trained.
        sparse = self.settings.get("layer_transformation") == "sparsemax"
        weights = sparsemax(scalars) if sparse else scalars.softmax(dim=0)
        return weights * self.state["layerwise_attention.gamma"]

    @property
    def normalized(self) -> bool:
        """Whether each layer is normalised, over all of a text's tokens, before it is mixed."""
        layer = self.settings.get("sent_layer", self.settings.get("layer", "mix"))
        return bool(self.settings.get("layer_norm")) and layer == "mix"

    def special(self, *texts: Sequence[int]) -> list[int]:
        """Texts as one sequence, with special tokens around and between, cut at its end to what fits."""
        begin, separator = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        filler = self.tokenizer.pad_token_id
        joined = [begin]
        for place, text in enumerate(texts):
            joined += [separator] * (self.kind.separators if place else 0)
            joined += [number for number in text if number != filler] if len(texts) > 1 else list(text)
        return [*joined, separator][: self.limit]

    def types(self, first: Sequence[int], length: int) -> list[int]:
        """The types of tokens of a joined sequence: of the first text with its special tokens, and of the rest."""
        own = len(first) + 2
        return ([0] * own + [1] * max(0, length - own))[:length]

    def run(
        self, sequences: Sequence[Sequence[int]], finish: Callable[..., Sequence[Any]], types: Any = None
    ) -> list[Any]:
        """What `finish` makes of all hidden states [(B, T, d)], mask and numbers (B, T) of the sequences of a batch."""

        def work(replica: Any, batch: list[int]) -> Sequence[Any]:
            numbers, mask = padded([sequences[place] for place in batch], self.tokenizer.pad_token_id, replica.device)
            given = {}
            if types is not None:
                given["token_type_ids"] = padded([types[place] for place in batch], 1, replica.device)[0]
            output = replica(
                input_ids=numbers, attention_mask=mask, output_hidden_states=True, return_dict=True, **given
            )
            hidden = [layer.float().to(self.device) for layer in output.hidden_states]
            return finish(hidden, mask.to(self.device), numbers.to(self.device), batch)

        return self.packer.run([len(sequence) for sequence in sequences], work)

    def mixed(self, hidden: Sequence[Any], mask: Any, pool: Callable[[Any], Any], *, linear: bool = True) -> Any:
        """The pooled mix of layers; what is linear is pooled before it is mixed, which is far less work."""
        total: Any = 0.0
        for weight, layer in zip(self.mix, hidden, strict=True):
            if weight == 0:
                continue
            piece = pool(layer) if linear else layer
            if self.normalized:
                shown = mask.unsqueeze(-1).float()
                count = mask.sum(dim=1) * layer.shape[-1]
                mean = ((layer * shown).sum(dim=(1, 2)) / count)[:, None, None]
                variance = (((layer - mean) * shown) ** 2).sum(dim=(1, 2)) / count
                deviation = (variance + 1e-12).sqrt()[:, None, None]
                piece = (piece - mean) / deviation if piece.ndim == 3 else (piece - mean[:, 0]) / deviation[:, 0]
            total = total + weight * piece
        return total if linear else pool(total)


class Estimator:
    """A feed-forward network: linear layers, an activation after each but the last."""

    def __init__(self, state: dict[str, Any], settings: dict[str, Any]) -> None:
        places = sorted({int(key.split(".")[2]) for key in state if key.startswith("estimator.ff.")})
        if not places or places != list(range(0, 3 * len(places), 3)):
            raise InputError(
                f"a checkpoint of COMET has layers estimator.ff.0, .3, .6 and so on; this one has {places}"
            )
        self.layers = [(state[f"estimator.ff.{place}.weight"], state[f"estimator.ff.{place}.bias"]) for place in places]
        self.activation = _activation(str(settings.get("activations", "Tanh")))
        final = settings.get("final_activation")
        self.final = _activation(str(final)) if final else None

    def __call__(self, features: Any) -> Any:
        """Scores (B,) of features (B, f)."""
        weight, bias = self.layers[0]
        return self.after_first(linear(features, weight, bias))

    def after_first(self, hidden: Any) -> Any:
        """Scores (B,) of what the first linear layer gives (B, h)."""
        for weight, bias in self.layers[1:]:
            hidden = linear(self.activation(hidden), weight, bias)
        return (self.final(hidden) if self.final else hidden).squeeze(-1)


def _activation(name: str) -> Callable[[Any], Any]:
    if name.title() == "Tanh":
        # tanh(x) = 2 sigmoid(2 x) - 1, which on a CPU is several times as fast as torch's own.
        return lambda values: (2 * values).sigmoid_().mul_(2).sub_(1)
    layer: Callable[[Any], Any] = getattr(package("torch").nn, name.title())()
    return layer


def sparsemax(scores: Any) -> Any:
    """The point of the simplex nearest to `scores` (n,): softmax with zeros (Martins and Astudillo 2016)."""
    torch = package("torch")
    ordered = scores.sort(descending=True).values
    places = torch.arange(1, len(scores) + 1, device=scores.device)
    totals = ordered.cumsum(dim=0) - 1
    support = int((places * ordered > totals).sum())
    return (scores - totals[support - 1] / support).clamp(min=0)


def _contents(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and weights of a checkpoint."""
    path = folder / "hparams.yaml"
    if not path.is_file():
        path = folder / "config.json"
        state = state_of(folder) if path.is_file() else {}
        if "estimator.ff.0.weight" not in state:
            raise InputError(f"model folder {str(folder)!r} is no checkpoint of COMET: it has no hparams.yaml")
        # What PyTorchModelHubMixin writes holds only what was given when the model was made.
        given = json.loads(path.read_text(encoding="utf-8"))
        return {**LITE, **{key: value for key, value in given.items() if key in LITE}}, state
    settings = package("yaml").safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(settings, dict):
        raise InputError(f"{str(path)!r} holds no settings of COMET")
    checkpoint = folder / "checkpoints" / "model.ckpt"
    if not checkpoint.is_file():
        raise InputError(f"model folder {str(folder)!r} has no checkpoints/model.ckpt")
    try:
        return settings, _weights(checkpoint)["state_dict"]
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise InputError(f"{str(checkpoint)!r} cannot be read: {reason}") from error


def _weights(path: Path) -> dict[str, Any]:
    """What torch saved, without running code of the file's."""
    torch = package("torch")
    if not zipfile.is_zipfile(path):  # From before torch 1.6: such files cannot be mapped into memory.
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    try:
        return dict(torch.load(path, map_location="cpu", weights_only=True, mmap=True))
    except pickle.UnpicklingError:
        # Settings of old trainers are of classes that may not be here. Nothing reads them: plain dictionaries will do.
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        with torch.serialization.safe_globals([(OrderedDict, name) for name in names]):
            return dict(torch.load(path, map_location="cpu", weights_only=True, mmap=True))


def _of_encoder(key: str) -> bool:
    """Weights that the encoder without a pooler has; old checkpoints also hold the positions, which are no weights."""
    return key.startswith("encoder.model.") and ".pooler." not in key and not key.endswith("position_ids")


def _beside(folder: Path, name: str) -> str:
    """A local encoder may lie in the folder of the checkpoint or next to it."""
    near = (place for place in (folder / name, folder.parent / name) if place.is_dir())
    return str(next(near, name))
