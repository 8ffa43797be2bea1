"""Budgets: how many calls a segment may cost."""

from __future__ import annotations

import math
import numbers
from fractions import Fraction

from minrisk.errors import InputError

Budget = float | Fraction | int | str

AUTO = "auto"
"""As many calls as it takes to be sure enough of the choice."""

EXPECTED = (
    "a budget is a share of the cells in (0, 1] such as 1/16 or 0.25, a whole number of calls such as 1024, or auto"
)


def parse_budget(budget: Budget) -> Fraction | int:
    """A share of the cells as a Fraction, or an absolute number of calls as an int."""
    value = _from_text(budget) if isinstance(budget, str) else budget
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"{EXPECTED}; got {budget!r}")
    if isinstance(value, numbers.Integral):
        if value < 1:
            raise InputError(f"{EXPECTED}; got {budget!r}")
        return int(value)
    if not math.isfinite(value) or not 0 < value <= 1:
        raise InputError(f"{EXPECTED}; got {budget!r}")
    # 0.1 means a tenth, not the binary number next to it, so that 100 cells allow 10 calls and not 11.
    return value if isinstance(value, Fraction) else Fraction(float(value)).limit_denominator(10**9)


def calls_allowed(budget: Fraction | int, size: int) -> int:
    """Calls allowed for a segment of `size` distinct cells: never more than there are."""
    return min(budget, size) if isinstance(budget, int) else max(1, math.ceil(budget * size))


def _from_text(text: str) -> Fraction | int:
    try:
        if "/" in text:
            return Fraction(text.replace(" ", ""))
        return Fraction(text) if not text.strip().isdecimal() else int(text)
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f"{EXPECTED}; got {text!r}") from error
