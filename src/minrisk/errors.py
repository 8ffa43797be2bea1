"""Every exception that minrisk raises on purpose.

    MinriskError
    ├── InputError           an argument or a line of input is wrong        (also a ValueError)
    ├── UtilityError         a metric failed or returned unusable values    (also a RuntimeError)
    ├── MethodError          a method broke the contract of a plan          (also a RuntimeError)
    ├── StoreError           a score store is damaged, foreign or full      (also a RuntimeError)
    └── MissingExtraError    an optional dependency is not installed        (also an ImportError)

A message is one line: the place, what was expected, what was got, what to do.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable


class MinriskError(Exception):
    """Base of all errors that are meant for the user."""


class InputError(MinriskError, ValueError):
    """An argument or a line of input is wrong."""


class UtilityError(MinriskError, RuntimeError):
    """A metric failed, or returned the wrong number of values, NaN or infinity."""


class MethodError(MinriskError, RuntimeError):
    """A method asked for impossible cells, went over its budget or returned a wrong estimate."""


class StoreError(MinriskError, RuntimeError):
    """A score store cannot be read or written, or is none."""


class MissingExtraError(MinriskError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency: pip install 'minrisk[{extra}]'")
        self._given = what, extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        """On its way from another process, it is made again of what it was made of."""
        return type(self), self._given


SECRET = re.compile(r"(^|_)(key|token|secret|password)$", re.IGNORECASE)
"""What options and environment variables are called whose value nobody may see."""


def redacted(text: str) -> str:
    """A text without the secrets that stand in environment variables, whoever put them there."""
    for name, value in os.environ.items():
        if SECRET.search(name) and len(value) >= 8:
            text = text.replace(value, f"${name}")
    return text


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not known, offering the nearest one that is."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}"
    return InputError(f"unknown {kind} {name!r}; {hint}")
