"""Scores the tiny checkpoints with the official packages and writes scores.json.

Run where make_models.py runs, with a copy of the MetricX repository (google-research/metricx) to import from:

    python make_scores.py METRICX_REPOSITORY

Batches hold one pair each: bert-score takes a maximum over its padding where it has some.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from texts import CANDIDATES, CORPUS, REFERENCES, SOURCES

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
PAIRS = list(zip(CANDIDATES, REFERENCES, strict=True))


def comet_scores(name: str, columns: Sequence[str]) -> list[float]:
    """What a COMET model predicts, given `columns` of mt, ref and src."""
    from comet import load_from_checkpoint
    from mbrs.metrics.xcomet import XCOMETLiteMetric

    if name == "xcomet-lite":
        model = XCOMETLiteMetric.from_pretrained(str(HERE / name)).eval()
    else:
        model = load_from_checkpoint(str(HERE / name / "checkpoints" / "model.ckpt")).eval()
    given = {"mt": CANDIDATES, "ref": REFERENCES, "src": SOURCES}
    scores = []
    for place in range(len(CANDIDATES)):
        sample = [{column: given[column][place] for column in columns}]
        batch = model.prepare_sample(sample, stage="predict")
        with torch.no_grad():
            scores.append(float(model.predict_step(batch)["scores"].reshape(-1)[0]))
    return scores


def bleurt_scores() -> list[float]:
    """What bleurt-pytorch predicts."""
    from bleurt_pytorch import BleurtForSequenceClassification
    from bleurt_pytorch.bleurt.tokenization_bleurt_sp import BleurtSPTokenizer

    model = BleurtForSequenceClassification.from_pretrained(HERE / "bleurt").eval()
    tokenizer = BleurtSPTokenizer(str(HERE / "bleurt" / "spm.model"))
    scores = []
    for candidate, reference in PAIRS:
        batch = tokenizer([reference], [candidate], truncation=True, max_length=48, return_tensors="pt")
        with torch.no_grad():
            scores.append(float(model(**batch).logits[0, 0]))
    return scores


def bert_scores(layer: int, *, idf: bool = False, **options: Any) -> dict[str, list[float]]:
    """Precision, recall and F1 of the bert-score package."""
    import bert_score
    from bert_score.utils import get_idf_dict, get_tokenizer

    given: Any = False
    model = str(HERE / "bert")
    if idf:
        given = get_idf_dict(list(CORPUS), get_tokenizer(model), nthreads=0)
        given = defaultdict(lambda: math.log(len(CORPUS) + 1), given)
    found: dict[str, list[float]] = {"precision": [], "recall": [], "f1": []}
    for candidate, reference in PAIRS:
        scores = bert_score.score(
            [candidate],
            [reference],
            model_type=model,
            num_layers=layer,
            idf=given,
            device="cpu",
            nthreads=0,
            **options,
        )
        for values, score in zip(found.values(), scores, strict=True):
            values.append(float(score[0]))
    return found


def metricx_scores(repository: str) -> dict[str, list[float]]:
    """What the official code of MetricX-23 and -24 predicts, for both, with and without references."""
    from models import expanded_metricx

    sys.path.insert(0, repository)
    from metricx24.models import MT5ForRegression
    from transformers import AutoTokenizer

    folder = expanded_metricx(HERE / "metricx", Path(os.environ.get("TMPDIR", "/tmp")) / "minrisk-metricx")
    model = MT5ForRegression.from_pretrained(folder, torch_dtype="auto").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found: dict[str, list[float]] = {}
    for name, limit in (("24", 120), ("24-qe", 120), ("23", 80), ("23-qe", 80)):
        found[name] = []
        for candidate, reference, source in zip(CANDIDATES, REFERENCES, SOURCES, strict=True):
            text = {
                "24": f"source: {source} candidate: {candidate} reference: {reference}",
                "24-qe": f"source: {source} candidate: {candidate}",
                "23": f"candidate: {candidate} reference: {reference}",
                "23-qe": f"candidate: {candidate} source: {source}",
            }[name]
            numbers = tokenizer(text, max_length=limit, truncation=True)["input_ids"][:-1]
            with torch.no_grad():
                # Caches of later versions of transformers do not fit the code; nothing is cached in a single step.
                mask = torch.ones(1, len(numbers))
                output = model(input_ids=torch.tensor([numbers]), attention_mask=mask, use_cache=False)
            found[name].append(float(output.predictions[0]))
    return found


def cross_encoder_scores() -> dict[str, list[list[float]]]:
    """The logits of a sequence classifier, by transformers alone."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(HERE / "nli").eval()
    tokenizer = AutoTokenizer.from_pretrained(HERE / "nli")
    logits = []
    for candidate, reference in PAIRS:
        batch = tokenizer([reference], [candidate], truncation=True, max_length=40, return_tensors="pt")
        with torch.no_grad():
            logits.append(model(**batch).logits[0].tolist())
    return {"reference, candidate": logits}


def main(repository: str) -> None:
    """Everything into one file."""
    os.chdir(HERE)
    whole, quality = ("src", "mt", "ref"), ("src", "mt")
    scores = {
        "comet": comet_scores("comet", whole),
        "comet-norm": comet_scores("comet-norm", whole),
        "comet-qe": comet_scores("comet-qe", quality),
        "cometkiwi": comet_scores("cometkiwi", quality),
        "cometkiwi-xl": comet_scores("cometkiwi-xl", quality),
        "unite": comet_scores("unite", whole),
        "xcomet": comet_scores("xcomet", whole),
        "xcomet without source": comet_scores("xcomet", ("mt", "ref")),
        "xcomet without reference": comet_scores("xcomet", quality),
        "xcomet-lite": comet_scores("xcomet-lite", whole),
        "bleurt": bleurt_scores(),
        "bertscore": bert_scores(2),
        "bertscore idf": bert_scores(3, idf=True),
        "bertscore baseline": bert_scores(2, rescale_with_baseline=True, lang="en", baseline_path="baseline.csv"),
        "metricx": metricx_scores(repository),
        "nli": cross_encoder_scores(),
    }
    (HERE / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
