"""Minimum Bayes Risk decoding that needs a fraction of the metric calls.

    import minrisk

    decision = minrisk.decode(["A cat sat.", "A cat sat down.", "Dogs!"], utility="chrf")
    decision.text, decision.calls

Names are imported on first use, so that `import minrisk` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from minrisk.version import __version__

if TYPE_CHECKING:
    from minrisk.decoding import Configuration, decode, decode_corpus, method, utility
    from minrisk.errors import InputError, MethodError, MinriskError, MissingExtraError, StoreError, UtilityError
    from minrisk.formats import read_segments
    from minrisk.numeric.completion import complete
    from minrisk.scoring import Ledger
    from minrisk.selection import select
    from minrisk.store import Store
    from minrisk.types import Cells, Choice, Decision, Estimate, Method, Plan, Problem, Segment
    from minrisk.utilities.base import MatrixUtility, PairUtility, Utility

_HOMES = {
    "decoding": ("Configuration", "decode", "decode_corpus", "method", "utility"),
    "errors": ("InputError", "MethodError", "MinriskError", "MissingExtraError", "StoreError", "UtilityError"),
    "formats": ("read_segments",),
    "numeric.completion": ("complete",),
    "scoring": ("Ledger",),
    "selection": ("select",),
    "store": ("Store",),
    "types": ("Cells", "Choice", "Decision", "Estimate", "Method", "Plan", "Problem", "Segment"),
    "utilities.base": ("MatrixUtility", "PairUtility", "Utility"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Cells",
    "Choice",
    "Configuration",
    "Decision",
    "Estimate",
    "InputError",
    "Ledger",
    "MatrixUtility",
    "Method",
    "MethodError",
    "MinriskError",
    "MissingExtraError",
    "PairUtility",
    "Plan",
    "Problem",
    "Segment",
    "Store",
    "StoreError",
    "Utility",
    "UtilityError",
    "__version__",
    "complete",
    "decode",
    "decode_corpus",
    "method",
    "read_segments",
    "select",
    "utility",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'minrisk' has no attribute {name!r}")
    return getattr(import_module(f"minrisk.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
