"""Metrics: one file per utility.

To add one: write `utilities/name.py` with a subclass of `PairUtility`, `EncodedUtility` or `MatrixUtility` (see
CONTRIBUTING), and name it here.
"""

from __future__ import annotations

from minrisk.registry import Registry

UTILITIES = Registry(
    "utility",
    {
        "chrf": "minrisk.utilities.chrf:ChrF",
        "bleu": "minrisk.utilities.bleu:Bleu",
        "ter": "minrisk.utilities.ter:Ter",
        "rouge_l": "minrisk.utilities.rouge:RougeL",
        "word_f1": "minrisk.utilities.words:WordF1",
        "jaccard": "minrisk.utilities.words:Jaccard",
        "embedding": "minrisk.utilities.embedding:Embedding",
        "bertscore": "minrisk.utilities.bertscore:BertScore",
        "comet": "minrisk.utilities.comet:Comet",
        "cometkiwi": "minrisk.utilities.cometkiwi:CometKiwi",
        "xcomet": "minrisk.utilities.xcomet:XComet",
        "xcomet_qe": "minrisk.utilities.xcomet:XCometQuality",
        "metricx": "minrisk.utilities.metricx:MetricX",
        "metricx_qe": "minrisk.utilities.metricx:MetricXQuality",
        "bleurt": "minrisk.utilities.bleurt:Bleurt",
        "cross_encoder": "minrisk.utilities.cross_encoder:CrossEncoder",
        "nli": "minrisk.utilities.cross_encoder:Nli",
        "table": "minrisk.utilities.table:Table",
    },
)
