"""Metrics: one file per utility.

To add one: write `utilities/name.py` with a subclass of `PairUtility` or `MatrixUtility` (see CONTRIBUTING), and name
it here.
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
        "table": "minrisk.utilities.table:Table",
    },
)
