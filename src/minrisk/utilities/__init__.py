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
        "table": "minrisk.utilities.table:Table",
    },
)
