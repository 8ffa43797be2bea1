"""Any Python callable as a utility."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minrisk.errors import InputError, UtilityError
from minrisk.types import FloatArray
from minrisk.utilities.base import PairUtility, QualityUtility, Sources, check_pairs


@dataclass(frozen=True, eq=False)
class _Wrapped:
    """What both kinds of callables are configured with."""

    function: Callable[..., Any] = field(repr=False)
    higher_is_better: bool = True
    batch_size: int = field(default=1024, repr=False)
    label: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"a utility must be a name, a Utility or a callable, got {self.function!r}")
        if self.batch_size < 1:
            raise InputError(f"`batch_size` must be at least 1, got {self.batch_size}")

    @property
    def name(self) -> str:
        return str(self.label or getattr(self.function, "__qualname__", type(self.function).__qualname__))


@dataclass(frozen=True, eq=False)
class Function(_Wrapped, PairUtility):  # type: ignore[override]
    """A callable f(candidates, pseudo_references[, sources]) over equally long lists, returning one number a pair."""

    @property
    def uses_source(self) -> bool:
        """Whether the callable takes a third argument."""
        return _positional(self.function) >= 3

    def score(self, candidates: Sequence[str], pseudo_references: Sequence[str], sources: Sources = None) -> FloatArray:
        check_pairs(candidates, pseudo_references, sources)
        given = (list(candidates), list(pseudo_references), *([list(sources or [])] if self.uses_source else []))
        return _numbers(self.function(*given), self.name)


@dataclass(frozen=True, eq=False)
class QualityFunction(_Wrapped, QualityUtility):  # type: ignore[override]
    """A callable f(candidates, sources) over equally long lists, returning one number a candidate."""

    def quality(self, candidates: Sequence[str], sources: Sequence[str | None]) -> FloatArray:
        return _numbers(self.function(list(candidates), list(sources)), self.name)


def _positional(function: Callable[..., Any]) -> int:
    """How many positional arguments a callable must be given, or takes if the third is named for sources."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return 2
    places = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and (parameter.default is parameter.empty or parameter.name in ("source", "sources"))
    ]
    return len(places)


def _numbers(values: Any, name: str) -> FloatArray:
    try:
        return np.asarray(values if hasattr(values, "__len__") else list(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UtilityError(f"utility {name!r} must return numbers, got {type(values).__name__}") from error
