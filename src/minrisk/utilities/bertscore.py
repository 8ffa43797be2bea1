"""BERTScore, equal to the bert-score package."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from minrisk.errors import InputError, unknown_name
from minrisk.neural.batching import Placement
from minrisk.neural.encoder import Encoder
from minrisk.neural.loading import config_of
from minrisk.neural.matching import TokenVectors, matched
from minrisk.neural.packages import package
from minrisk.types import FloatArray, IntArray
from minrisk.utilities.base import EncodedUtility

SCORES = ("f1", "precision", "recall")
LAYERS = {
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "bert-base-multilingual-cased": 9,
    "bert-base-chinese": 8,
    "roberta-base": 10,
    "roberta-large": 17,
    "roberta-large-mnli": 19,
    "distilbert-base-uncased": 5,
    "distilroberta-base": 5,
    "xlm-roberta-base": 9,
    "xlm-roberta-large": 17,
    "microsoft/deberta-base-mnli": 9,
    "microsoft/deberta-large-mnli": 18,
    "microsoft/deberta-xlarge-mnli": 40,
    "microsoft/mdeberta-v3-base": 10,
}
"""The layer that agrees best with people, as the authors of the metric found out; others take the last."""


@dataclass(frozen=True, kw_only=True)
class BertScore(Placement, EncodedUtility):
    """Greedy matching of contextual token vectors (BERTScore), about 0 to 1: any encoder, layer, idf, rescaling.

    model     a hub name or a folder of any transformers encoder
    layer     whose vectors are compared; none: the metric's own choice for the model, else the last
    score_type  f1, precision or recall
    idf       a file of sentences, one a line, whose rare words count more
    baseline  rescale by what unrelated texts score: a file of the bert-score package (LAYER,P,R,F), or a number
    """

    name: ClassVar[str] = "bertscore"
    model: str = "roberta-large"
    layer: int | None = None
    score_type: Literal["f1", "precision", "recall"] = "f1"
    idf: str | None = None
    baseline: str | float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.score_type not in SCORES:
            raise unknown_name("score_type", self.score_type, SCORES)

    def represent(self, texts: Sequence[str]) -> Sequence[TokenVectors]:
        sequences = self._encoder.tokenize([text.strip() for text in texts])
        return self._encoder.run(sequences, self._token_vectors)

    def compare(
        self, encodings: Sequence[Any], candidates: IntArray, pseudo_references: IntArray, sources: IntArray
    ) -> FloatArray:
        with package("torch").inference_mode():
            precision, recall = matched(encodings, candidates, pseudo_references)
        # A text without a word, or of words of no weight, scores 0 against all.
        worth = np.array([bool(encoding.weights.any()) for encoding in encodings])
        both = worth[candidates] & worth[pseudo_references]
        total = precision + recall
        f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total != 0)
        place = {"precision": 0, "recall": 1, "f1": 2}[self.score_type]
        values = np.where(both, (precision, recall, f1)[place], 0.0)
        offset = self._offset[place]
        return (values - offset) / (1 - offset)

    @cached_property
    def _layer(self) -> int:
        if self.layer is not None:
            return self.layer
        config = config_of(self.model)
        known = LAYERS.get(self.model.rstrip("/"))
        return int(config.num_hidden_layers if known is None else known)

    @cached_property
    def _encoder(self) -> Encoder:
        kind = config_of(self.model).model_type
        # The package encodes with a space before the first word where the model tells words at the start apart.
        options = {"add_prefix_space": True} if kind in ("roberta", "gpt2") else {}
        return Encoder(self.model, self, layers=self._layer, **options)

    @cached_property
    def _weight_of_token(self) -> tuple[dict[int, float], float]:
        """The weight of each token, and that of all others."""
        tokenizer = self._encoder.tokenizer
        if self.idf is None:
            return {number: 0.0 for number in (tokenizer.cls_token_id, tokenizer.sep_token_id) if number is not None}, 1
        try:
            documents = Path(self.idf).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"utility 'bertscore': cannot read the sentences of `idf` {self.idf!r}: {error}"
            ) from error
        tokens = self._encoder.tokenize([line.strip() for line in documents])
        counts = Counter(number for sequence in tokens for number in set(sequence))
        total = len(documents) + 1
        return {number: math.log(total / (count + 1)) for number, count in counts.items()}, math.log(total)

    @cached_property
    def _offset(self) -> tuple[float, float, float]:
        """What unrelated texts score: precision, recall, F1."""
        if self.baseline is None:
            return 0.0, 0.0, 0.0
        try:
            found = (float(self.baseline),) * 3
        except ValueError:
            found = self._row_of(str(self.baseline))
        if not all(-1 <= offset < 1 for offset in found):
            raise InputError(f"utility 'bertscore': `baseline` must be below 1, what equal texts score, got {found[2]}")
        return found

    def _row_of(self, path: str) -> tuple[float, float, float]:
        """What a file of the bert-score package says of the layer."""
        try:
            with open(path, encoding="utf-8", newline="") as file:
                rows = {int(row["LAYER"]): row for row in csv.DictReader(file)}
            row = rows[self._layer]
            return float(row["P"]), float(row["R"]), float(row["F"])
        except (OSError, KeyError, ValueError) as error:
            raise InputError(
                f"utility 'bertscore': `baseline` must be a number or a file LAYER,P,R,F with layer {self._layer}, "
                f"got {self.baseline!r}: {error}"
            ) from error

    def _token_vectors(self, hidden: Any, mask: Any, sequences: Sequence[Sequence[int]]) -> Sequence[TokenVectors]:
        torch = package("torch")
        known, other = self._weight_of_token
        vectors = hidden / hidden.norm(dim=-1, keepdim=True)
        made = []
        for row, sequence in enumerate(sequences):
            weights = torch.tensor([known.get(number, other) for number in sequence], dtype=torch.float32)
            total = weights.sum()
            if total > 0:
                weights /= total
            made.append(TokenVectors(vectors[row, : len(sequence)].clone(), weights.to(vectors.device)))
        return made
