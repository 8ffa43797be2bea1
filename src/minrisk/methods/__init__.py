"""How cells are chosen and candidates valued: one file per method.

To add one: write `methods/name.py` with a frozen dataclass (see CONTRIBUTING), and name it here.
"""

from __future__ import annotations

from minrisk.registry import Registry

METHODS = Registry(
    "method",
    {
        "full": "minrisk.methods.full:Full",
        "columns": "minrisk.methods.columns:Columns",
        "square": "minrisk.methods.square:Square",
        "pmbr": "minrisk.methods.pmbr:Pmbr",
        "pruning": "minrisk.methods.pruning:Pruning",
        "halving": "minrisk.methods.halving:Halving",
        "frontier": "minrisk.methods.frontier:Frontier",
        "coarse_to_fine": "minrisk.methods.coarse_to_fine:CoarseToFine",
        "aggregate": "minrisk.methods.aggregate:Aggregate",
        "aggregate_to_fine": "minrisk.methods.aggregate_to_fine:AggregateToFine",
        "centroid": "minrisk.methods.centroid:Centroid",
        "rerank": "minrisk.methods.rerank:Rerank",
        "prefilter": "minrisk.methods.prefilter:Prefilter",
        "mbr_bon": "minrisk.methods.mbr_bon:MbrBon",
        "map": "minrisk.methods.map:Map",
        "random": "minrisk.methods.random:Random",
        "oracle": "minrisk.methods.oracle:Oracle",
    },
)
