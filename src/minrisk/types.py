"""The data that flows through minrisk: frozen, NumPy only, no behaviour beyond checking itself.

Shapes: N distinct candidates (rows), K distinct pseudo-references (columns), C cells.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from minrisk.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One input with its samples, as given: duplicates and order are kept."""

    hypotheses: Sequence[str]
    id: str | None = None
    source: str | None = None
    pseudo_references: Sequence[str] | None = None
    logprobs: Sequence[float] | None = None
    pseudo_reference_logprobs: Sequence[float] | None = None
    weights: Sequence[float] | None = None
    scores: Sequence[float] | None = None
    reference: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "hypotheses", _texts(self.hypotheses, "hypotheses"))
        if self.pseudo_references is not None:
            object.__setattr__(self, "pseudo_references", _texts(self.pseudo_references, "pseudo_references"))
        for name in ("id", "source", "reference"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise InputError(f"`{name}` must be a string, got {_shown(value)}")
        for name, length in (
            ("logprobs", len(self.hypotheses)),
            ("scores", len(self.hypotheses)),
            ("pseudo_reference_logprobs", len(self.columns_given)),
            ("weights", len(self.columns_given)),
        ):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _numbers(getattr(self, name), name, length))

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Segment:
        """The segment of a record such as a line of JSON; keys that are not fields are left alone."""
        if not isinstance(record, Mapping):
            raise InputError(f"a segment must be an object with `hypotheses`, got {_shown(record)}")
        if record.get("hypotheses") is None:
            near = difflib.get_close_matches("hypotheses", [key for key in record if isinstance(key, str)], n=1)
            hint = f"; is {near[0]!r} meant to be `hypotheses`?" if near and near != ["hypotheses"] else ""
            raise InputError(f"a segment needs `hypotheses`, got the keys {sorted(map(str, record))}{hint}")
        known = {field.name: record[field.name] for field in fields(cls) if record.get(field.name) is not None}
        if isinstance(known.get("id"), int) and not isinstance(known["id"], bool):
            known["id"] = str(known["id"])
        return cls(**known)

    @property
    def columns_given(self) -> Sequence[str]:
        """The pseudo-references: the hypotheses themselves unless a list of its own is given."""
        return self.hypotheses if self.pseudo_references is None else self.pseudo_references


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """A segment as a method sees it: distinct texts, their weights, and the calls allowed.

    candidates, pseudo_references   N and K distinct texts, in order of first appearance
    row_weights, column_weights     (N,) and (K,): shares of the samples, each summing to 1
    row_positions, column_positions first position of each distinct text in the lists given
    row_of_hypothesis               the row of each hypothesis given; `columns_given` pseudo-references were given
    twins                           (N,) the column that holds the candidate's own text, or -1
    self_values                     (N,) u(h, h) where the utility knows it without a call, else NaN
    logprobs, scores                (N,) what the segment says of each candidate; None if it says nothing
    budget                          calls allowed, at most N K
    stream                          names the random streams of the segment
    """

    id: str
    stream: bytes
    candidates: Sequence[str]
    pseudo_references: Sequence[str]
    source: str | None
    row_weights: FloatArray
    column_weights: FloatArray
    row_positions: IntArray
    column_positions: IntArray
    row_of_hypothesis: IntArray
    columns_given: int
    twins: IntArray
    self_values: FloatArray
    budget: int
    logprobs: FloatArray | None = None
    scores: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.candidates), len(self.pseudo_references)

    @property
    def size(self) -> int:
        """How many distinct cells there are: the calls of full MBR."""
        return len(self.candidates) * len(self.pseudo_references)


TARGET = "utility"
"""The role of the utility that the user named; a method may use others, each under a role of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells that a plan wants scored: row and column numbers of equal length (C,). Answered by (C,) values."""

    rows: IntArray
    columns: IntArray
    utility: str = TARGET

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Folded:
    """Rows (R,) against virtual pseudo-references: mixtures of the real ones with weights (G, K).

    A virtual pseudo-reference costs a call a row, like a real one. Answered by (R G,) values, row by row.
    """

    rows: IntArray
    weights: FloatArray
    utility: str = TARGET

    def __len__(self) -> int:
        return len(self.rows) * len(self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class Encodings:
    """The encodings of all pseudo-references, of a utility that has them. Costs no call. Answered by (K, d)."""

    utility: str = TARGET

    def __len__(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """From here on, cells are numbered within these rows and columns: a plan runs another on a part of its problem."""

    rows: IntArray
    columns: IntArray


Ask = Cells | Folded | Encodings
"""What is put to a utility."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """What a method concludes.

    values       (N,) expected utility of each candidate; NaN: nothing is known about it
    preference   (N,) what candidates are ranked by, where that is not `values`; higher is better, NaN ranks last
    uncertainty  (N,) standard deviation of `values`, where the method has one
    matrix       (N, K) the completed utilities, where the method has them
    """

    values: FloatArray
    preference: FloatArray | None = None
    uncertainty: FloatArray | None = None
    matrix: FloatArray | None = None


Plan = Generator[Ask | Within, FloatArray, Estimate]
"""A running method: yields cells, is sent their values, returns an estimate."""


class Method(Protocol):
    """How cells are chosen and candidates valued: a frozen dataclass whose fields are its options."""

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan: ...


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry of an n-best list."""

    text: str
    index: int
    utility: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """The outcome for one segment.

    index      first position of the chosen text in the hypotheses given
    utilities  expected utility per given hypothesis on the metric's own scale; NaN: nothing is known about it
    calls      distinct cells scored; `cells` is how many there are in all
    """

    id: str
    text: str
    index: int
    utilities: FloatArray
    calls: int
    cells: int
    estimate: Estimate = field(repr=False)
    problem: Problem = field(repr=False)

    @property
    def utility(self) -> float:
        """Expected utility of the chosen text."""
        return float(self.utilities[self.index])

    def nbest(self, size: int) -> list[Choice]:
        """The `size` best distinct texts, best first; those about which nothing is known come last."""
        if size < 1:
            raise InputError(f"`size` of an n-best list must be at least 1, got {size}")
        positions = self.problem.row_positions
        order = ranking(self.estimate, self.problem.row_weights)[:size]
        return [
            Choice(self.problem.candidates[row], int(positions[row]), float(self.utilities[positions[row]]))
            for row in order
        ]


TIE = 1e-12
"""Values closer than this share of their magnitude are equal: rounding must not decide between candidates."""


def ranking(estimate: Estimate, weights: FloatArray) -> IntArray:
    """All rows, best first; equal ones in the order given. NaN ranks last, the heaviest first."""
    values = estimate.values if estimate.preference is None else estimate.preference
    known = ~np.isnan(values)
    order = np.lexsort((np.where(known, -values, -weights), ~known))
    if known.any():
        top = values[order[0]]
        tied = int(np.count_nonzero(values[known] >= top - TIE * np.abs(values[known]).max()))
        order[:tied].sort()
    return np.asarray(order, dtype=np.int64)


def _texts(value: object, name: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError(f"`{name}` must be a list of strings, got {_shown(value)}")
    if not value:
        raise InputError(f"`{name}` is empty; at least one string is needed")
    for position, text in enumerate(value):
        if not isinstance(text, str):
            raise InputError(f"`{name}` must be a list of strings, got {_shown(text)} at position {position}")
    return tuple(value)


def _numbers(value: object, name: str, length: int) -> tuple[float, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        raise InputError(f"`{name}` must be a list of numbers, got {_shown(value)}")
    if len(value) != length:
        raise InputError(f"`{name}` must hold {length} numbers, one for each text, got {len(value)}")
    for position, number in enumerate(value):
        is_number = isinstance(number, int | float | np.integer | np.floating) and not isinstance(number, bool)
        # An integer may be larger than any float, and then is not finite either.
        if not is_number or not abs(number) <= sys.float_info.max:
            raise InputError(f"`{name}` must hold finite numbers, got {_shown(number)} at position {position}")
    return tuple(float(number) for number in value)


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
