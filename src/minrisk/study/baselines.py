"""The paper's methods as it describes them, for its tables; the package's own variants are in the registry.

The paper takes plain means over what was scored. A self-pair is a cell like any other, so a candidate that happens to
be among the sampled pseudo-references is helped by its own perfect score: see docs/paper.md for what that does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from minrisk.configuration import described
from minrisk.decoding import utility
from minrisk.errors import InputError
from minrisk.methods import METHODS
from minrisk.methods.full import Full
from minrisk.methods.pmbr import Pmbr
from minrisk.numeric.sampling import draw
from minrisk.types import Cells, Estimate, Method, Plan, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperColumns:
    """All candidates against K random pseudo-references, plain means, self-pairs included (the paper's NxK)."""

    kind: ClassVar[str] = "sampling"

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        rows = problem.shape[0]
        scored = np.arange(min(rows, problem.budget))
        columns, stands_for = draw(problem.column_weights, max(1, problem.budget // rows), rng)
        values = yield Cells(np.repeat(scored, len(columns)), np.tile(columns, len(scored)))
        means = np.full(rows, np.nan)
        means[scored] = values.reshape(len(scored), -1) @ stands_for[columns] / stands_for[columns].sum()
        return Estimate(values=means)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperSquare:
    """Full MBR among S random samples, S^2 being the budget, self-pairs included (the paper's SxS)."""

    kind: ClassVar[str] = "sampling"

    def plan(self, problem: Problem, rng: np.random.Generator) -> Plan:
        side = math.isqrt(problem.budget)
        drawn, stands_for = draw(problem.column_weights, side, rng)
        values = yield Cells(np.repeat(drawn, side), np.tile(drawn, side))
        means = np.full(problem.shape[0], np.nan)
        means[drawn] = values.reshape(side, side) @ stands_for[drawn] / stands_for[drawn].sum()
        return Estimate(values=means)


PAPER = ("FMBR", "PMBR", "NxK", "SxS")
"""The methods of the paper's tables, by its names for them."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A method of a study under the name that tables show."""

    label: str
    method: Method

    @property
    def exact(self) -> bool:
        """Whether it scores all cells, on any budget."""
        return isinstance(self.method, Full)

    @property
    def auxiliaries(self) -> dict[str, str]:
        """The signatures of the other utilities that the method looks at, by their roles."""
        named = getattr(self.method, "auxiliaries", {})
        return {role: utility(name).signature() for role, name in named.items()}

    @property
    def signature(self) -> str:
        """The label and all options."""
        return f"{self.label}={described(type(self.method).__name__, self.method)}"


def labelled(text: str) -> tuple[str, str]:
    """The label and the rest of `label=name(option=value)`; without a label, all of it is both."""
    label, equals, rest = text.partition("=")
    return (label.strip(), rest.strip()) if equals and "(" not in label else (text, text)


def contenders(names: Sequence[str], tuned: Method | None = None) -> list[Contender]:
    """The methods that names stand for, full MBR first: the paper's names, registered ones, `label=name(option=value)`.

    tuned  takes the place of the paper's PMBR
    """
    paper: dict[str, Method] = {
        "FMBR": Full(),
        "PMBR": tuned or Pmbr(paper=True),
        "NxK": PaperColumns(),
        "SxS": PaperSquare(),
    }
    found = [Contender("FMBR", Full())]
    for name in names:
        label, rest = labelled(name)
        method = paper.get(rest) or cast(Method, METHODS.parse(rest))
        if label in [contender.label for contender in found]:
            if label == "FMBR":
                continue
            raise InputError(f"two methods of the study are called {label!r}; name one, as in: fast={rest}")
        if getattr(method, "against_reference", False):
            raise InputError(f"method {rest!r} needs the human reference and cannot be simulated")
        found.append(Contender(label, method))
    return found
