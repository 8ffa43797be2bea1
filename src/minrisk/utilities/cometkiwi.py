"""COMETKiwi: quality estimation without references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from minrisk.errors import InputError
from minrisk.neural.batching import Placement
from minrisk.neural.comet import Checkpoint
from minrisk.neural.loading import loading
from minrisk.neural.packages import package
from minrisk.types import FloatArray
from minrisk.utilities.base import QualityUtility
from minrisk.utilities.comet import sentence_vectors

PAIRS_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True)
class CometKiwi(Placement, QualityUtility):
    """COMETKiwi, about 0 to 1, judges by the source alone: wmt22-cometkiwi-da, wmt23-cometkiwi-da-xl and -xxl.

    Other COMET models without references, such as wmt20-comet-qe-da, are taken too.

    model    a hub name (gated: accept the licence there) or a folder with hparams.yaml and checkpoints/model.ckpt
    encoder  where configuration and tokenizer of the encoder are, if not where hparams.yaml says (pretrained_model)
    """

    name: ClassVar[str] = "cometkiwi"
    needs_source = True
    model: str = "Unbabel/wmt22-cometkiwi-da"
    encoder: str | None = None
    batch_size: int = field(default=PAIRS_AT_ONCE, repr=False)

    def quality(self, candidates: Sequence[str], sources: Sequence[str | None]) -> FloatArray:
        given = [source for source in sources if source is not None]
        if len(given) < len(candidates):
            raise InputError("utility 'cometkiwi' needs a `source`, and a candidate has none")
        if self._checkpoint.settings["class_identifier"] == "unified_metric":
            return self._joint(candidates, given)
        return self._separate(candidates, given)

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        known = ("unified_metric", "referenceless_regression_metric")
        with loading(self.model):
            checkpoint = Checkpoint(self.model, self, known, self.encoder)
        segments = checkpoint.settings.get("input_segments", ["mt", "src"])
        if "src" not in segments or segments[0] != "mt":
            raise InputError(f"model {self.model!r} compares {' with '.join(segments)}, which is no quality estimation")
        return checkpoint

    def _joint(self, candidates: Sequence[str], sources: Sequence[str]) -> FloatArray:
        """Candidate and source in one sequence."""
        checkpoint = self._checkpoint
        pairs = list(zip(checkpoint.tokens.of(candidates), checkpoint.tokens.of(sources), strict=True))
        return joint_scores(checkpoint, pairs)

    def _separate(self, candidates: Sequence[str], sources: Sequence[str]) -> FloatArray:
        """Candidate and source each on their own, compared as [h, s, h*s, |h-s|]."""
        checkpoint, torch = self._checkpoint, package("torch")
        numbers: dict[str, int] = {}
        places = [numbers.setdefault(text, len(numbers)) for text in (*candidates, *sources)]
        sequences = [checkpoint.special(text) for text in checkpoint.tokens.of(list(numbers))]
        vectors = checkpoint.run(sequences, lambda *given: list(sentence_vectors(checkpoint, *given[:3])))
        values = np.empty(len(candidates))
        with torch.inference_mode():
            for start in range(0, len(candidates), PAIRS_AT_ONCE):
                part = slice(start, start + PAIRS_AT_ONCE)
                own = torch.stack([vectors[place] for place in places[: len(candidates)][part]])
                source = torch.stack([vectors[place] for place in places[len(candidates) :][part]])
                features = torch.cat([own, source, own * source, (own - source).abs()], dim=1)
                values[part] = checkpoint.estimator(features).double().cpu().numpy()
        return values


def joint_scores(checkpoint: Checkpoint, texts: Sequence[Sequence[Sequence[int]]]) -> FloatArray:
    """The scores of joined texts, the candidate first, from the mix of their first tokens."""

    def finish(hidden: Sequence[Any], mask: Any, *_: Any) -> Sequence[float]:
        scores: Sequence[float] = checkpoint.estimator(first_tokens(checkpoint, hidden, mask)).tolist()
        return scores

    sequences = [checkpoint.special(*parts) for parts in texts]
    return np.array(checkpoint.run(sequences, finish, types_of(checkpoint, texts, sequences)), dtype=np.float64)


def types_of(
    checkpoint: Checkpoint, texts: Sequence[Sequence[Sequence[int]]], sequences: Sequence[Sequence[int]]
) -> list[list[int]] | None:
    """The types of the tokens of joined texts, where the encoder has types."""
    if not checkpoint.kind.types:
        return None
    return [checkpoint.types(parts[0], len(whole)) for parts, whole in zip(texts, sequences, strict=True)]


def first_tokens(checkpoint: Checkpoint, hidden: Sequence[Any], mask: Any) -> Any:
    """The mix of the first tokens of all layers: (B, d)."""
    return checkpoint.mixed(hidden, mask, lambda layer: layer[:, 0])
