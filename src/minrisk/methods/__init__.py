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
    },
)
