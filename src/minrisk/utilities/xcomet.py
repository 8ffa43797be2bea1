"""XCOMET and UniTE: candidate, source and reference read together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from minrisk.errors import InputError
from minrisk.neural.batching import Placement
from minrisk.neural.comet import Checkpoint
from minrisk.neural.loading import loading
from minrisk.neural.tokens import Recent
from minrisk.types import FloatArray
from minrisk.utilities.base import PairUtility, QualityUtility, Sources
from minrisk.utilities.cometkiwi import first_tokens, types_of

PENALTIES = np.array([0, 1, 5, 10])
"""Of no error, a minor, a major and a critical one."""
SCORE_WEIGHTS = (0.12, 0.33, 0.33)
SPAN_WEIGHTS = (0.1667, 0.3333, 0.5)
"""Of [candidate, source], [candidate, reference] and [candidate, source, reference]."""
MQM_WEIGHT = 0.22

Text = tuple[int, ...]
Texts = tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the model says of one input: a score, and for each of the candidate's tokens, the probability of labels."""

    score: float
    labels: NDArray[np.float32] | None


@dataclass(frozen=True, kw_only=True)
class _XComet(Placement):
    """What the two utilities share."""

    model: str = "Unbabel/XCOMET-XL"
    encoder: str | None = None
    batch_size: int = field(default=4096, repr=False)

    def _values(
        self, candidates: Sequence[str], references: Sequence[str | None], sources: Sequence[str | None]
    ) -> FloatArray:
        """The values of C candidates, each with a reference, a source, or both: (C,)."""
        numbers = self._tokens((*candidates, *references, *sources))
        parts = zip(candidates, references, sources, strict=True)
        inputs = [self._inputs(*(numbers[text] for text in texts)) for texts in parts]
        readings = self._readings(inputs)
        return np.array([self._value([readings[texts] for texts in group]) for group in inputs], dtype=np.float64)

    def _tokens(self, texts: Sequence[str | None]) -> dict[str | None, Text | None]:
        given = list(dict.fromkeys(text for text in texts if text is not None))
        found = zip(given, self._checkpoint.tokens.of(given), strict=True)
        return {None: None, **{text: tuple(numbers) for text, numbers in found}}

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        with loading(self.model):
            checkpoint = Checkpoint(self.model, self, ("xcomet_metric", "unified_metric"), self.encoder)
            if self._spans(checkpoint):
                # What is looked up only when texts are read.
                checkpoint.mix[int(checkpoint.settings["word_layer"])], checkpoint.state["hidden2tag.weight"]
        if not self._spans(checkpoint) and checkpoint.settings.get("input_segments") == ["mt", "src"]:
            raise InputError(f"model {self.model!r} does not look at references; use the utility 'cometkiwi'")
        return checkpoint

    @cached_property
    def _known(self) -> Recent:
        """Readings of candidate and source, which many pairs share."""
        return Recent()

    @staticmethod
    def _spans(checkpoint: Checkpoint) -> bool:
        return bool(checkpoint.settings["class_identifier"] == "xcomet_metric")

    def _inputs(self, candidate: Text | None, reference: Text | None, source: Text | None) -> list[Texts]:
        """What is read for a candidate: one input, or three where there is both a reference and a source."""
        own: Any = candidate
        if reference is None:
            return [(own, source)]  # type: ignore[list-item]
        if source is None or self._checkpoint.settings.get("input_segments") == ["mt", "ref"]:
            return [(own, reference)]
        return [(own, source), (own, reference), (own, source, reference)]

    def _readings(self, inputs: Sequence[Sequence[Texts]]) -> dict[Texts, Reading]:
        """The reading of each input of each pair, done now or remembered."""
        found = {texts: self._known.get(texts) for group in inputs for texts in group}
        unknown = [texts for texts, reading in found.items() if reading is None]
        checkpoint = self._checkpoint
        sequences = [checkpoint.special(*texts) for texts in unknown]
        made = checkpoint.run(
            sequences,
            lambda hidden, mask, _, batch: self._finish(hidden, mask, [len(unknown[place][0]) for place in batch]),
            types_of(checkpoint, unknown, sequences),
        )
        for texts, reading in zip(unknown, made, strict=True):
            found[texts] = reading
        for group in inputs:
            if len(group) == 3:
                self._known.put(group[0], found[group[0]])
        return found

    def _finish(self, hidden: Sequence[Any], mask: Any, lengths: Sequence[int]) -> list[Reading]:
        """The readings of a batch, given how many tokens each candidate has."""
        checkpoint = self._checkpoint
        scores = checkpoint.estimator(first_tokens(checkpoint, hidden, mask)).tolist()
        if not self._spans(checkpoint):
            return [Reading(score, None) for score in scores]
        words = hidden[int(checkpoint.settings["word_layer"])]
        logits = words @ checkpoint.state["hidden2tag.weight"].T + checkpoint.state["hidden2tag.bias"]
        labels = logits.softmax(dim=-1).cpu().numpy()
        # The candidate comes first in every input, between two special tokens.
        return [
            Reading(score, of_text[: length + 2].copy())
            for score, of_text, length in zip(scores, labels, lengths, strict=True)
        ]

    def _value(self, readings: Sequence[Reading]) -> float:
        """The official score of the readings of a pair, three with a source and one without."""
        alone = len(readings) == 1
        if readings[0].labels is None:
            return sum(reading.score for reading in readings) / len(readings)
        weights = (sum(SCORE_WEIGHTS),) if alone else SCORE_WEIGHTS
        score = sum(weight * min(reading.score, 1.0) for weight, reading in zip(weights, readings, strict=True))
        labels = sum(
            weight * reading.labels
            for weight, reading in zip((1.0,) if alone else SPAN_WEIGHTS, readings, strict=True)
            if reading.labels is not None
        )
        return score + MQM_WEIGHT * mqm(np.asarray(labels).argmax(axis=1))


@dataclass(frozen=True, kw_only=True)
class XComet(_XComet, PairUtility):
    """XCOMET, 0 to 1, with error spans: XCOMET-XL, XCOMET-XXL, XCOMET-lite; UniTE checkpoints too.

    Three readings a pair; the one of candidate and source is done once a candidate. Without a source only the one of
    candidate and reference is left.

    model    a hub name (XL and XXL are gated: accept the licence there) or a folder
    encoder  where configuration and tokenizer of the encoder are, if not where hparams.yaml says (pretrained_model)
    """

    name: ClassVar[str] = "xcomet"

    @property
    def uses_source(self) -> bool:
        return True

    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        return self._values(candidates, pseudo_references, [None] * len(candidates) if sources is None else sources)


@dataclass(frozen=True, kw_only=True)
class XCometQuality(_XComet, QualityUtility):
    """XCOMET without references, 0 to 1: judges by the source alone; options as of `xcomet`."""

    name: ClassVar[str] = "xcomet_qe"
    needs_source = True

    def quality(self, candidates: Sequence[str], sources: Sequence[str | None]) -> FloatArray:
        if None in sources:
            raise InputError("utility 'xcomet_qe' needs a `source`, and a candidate has none")
        return self._values(candidates, [None] * len(candidates), sources)


def mqm(labels: NDArray[np.integer]) -> float:
    """Quality by the errors of a text, 0 to 1, of the label of each token (0: none, else the severity).

    Errors are runs of labelled tokens, as severe as their first; one that is still open at the end is not counted.
    """
    wrong = labels > 0
    begins = np.flatnonzero(wrong & ~np.concatenate(([False], wrong[:-1])))
    if len(begins) and wrong[-1]:
        begins = begins[:-1]
    return float(25 - min(25, PENALTIES[labels[begins]].sum())) / 25
