"""What is wanted for each source, whoever makes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

from minrisk.errors import InputError
from minrisk.generation.sampling import Sampling


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is drawn for each source.

    samples         how many; with `distinct`, how many different texts
    sampling        the distribution; None: the best by beam search with so many beams (1: greedy)
    length_penalty  of beam search: above 0 favours long texts
    longest         tokens a sample may have
    batch           prefixes at a time; None: as many as fit
    """

    samples: int = 1024
    sampling: Sampling | None = field(default_factory=Sampling)
    beams: int = 1
    length_penalty: float = 1.0
    distinct: bool = False
    longest: int = 256
    seed: int = 0
    batch: int | None = None

    def __post_init__(self) -> None:
        for name in ("samples", "beams", "longest", "batch"):
            given = getattr(self, name)
            if not (name == "batch" and given is None) and (type(given) is not int or given < 1):
                raise InputError(f"`{name}` must be a whole number of at least 1, got {given!r}")
        if type(self.seed) is not int:
            raise InputError(f"`seed` must be a whole number, got {self.seed!r}")
        if not math.isfinite(self.length_penalty):
            raise InputError(f"`length_penalty` must be finite, got {self.length_penalty}")
        if self.sampling is None and self.samples > self.beams:
            search = f"beam search with {self.beams} beams" if self.beams > 1 else "greedy search"
            raise InputError(f"{search} gives at most {self.beams} of the {self.samples} samples wanted")

    @property
    def settings(self) -> dict[str, object]:
        """What is written beside the samples."""
        if self.sampling is None:
            found: dict[str, object] = {"samples": self.samples, "search": "beam" if self.beams > 1 else "greedy"}
            more = {"beams": self.beams, "length_penalty": self.length_penalty, "max_new_tokens": self.longest}
            return found | more
        drawn = {"samples": self.samples, "distinct": self.distinct, **self.sampling.settings}
        return {**drawn, "max_new_tokens": self.longest, "seed": self.seed}


class Keeper(Protocol):
    """Keeps the parts of records that are not done, so that a run which ends in between need not ask for them again.

    Records are counted as their sources were given, from 0.
    """

    def receive(self, number: int, received: list[Any]) -> None: ...

    def received(self, number: int) -> list[Any]: ...
