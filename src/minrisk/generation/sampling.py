"""How samples are drawn: a truncation of the model's distribution, and a temperature. No tensors here."""

from __future__ import annotations

from dataclasses import dataclass

from minrisk.errors import InputError, unknown_name

DEFAULTS: dict[str, float | None] = {
    "ancestral": None,
    "epsilon": 0.02,
    "eta": 0.0003,
    "top-k": 50,
    "top-p": 0.9,
    "min-p": 0.05,
    "typical": 0.95,
}
"""Ways to truncate, and their usual parameter."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The distribution that samples come from.

    kind         ancestral: the model's own; epsilon: tokens of at least this probability (Hewitt et al. 2022);
                 eta: the same with a threshold that falls with the entropy; top-k: the k most probable;
                 top-p: the most probable until their sum reaches p; min-p: at least this share of the most
                 probable one's probability; typical: those of about the expected surprise, up to this mass
    parameter    the number that goes with it; None: the usual one
    temperature  applied before the truncation, as transformers does
    """

    kind: str = "epsilon"
    parameter: float | None = None
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in DEFAULTS:
            raise unknown_name("sampling", self.kind, DEFAULTS)
        for name in ("parameter", "temperature"):
            given = getattr(self, name)
            if given is not None and (isinstance(given, bool) or not isinstance(given, int | float)):
                raise InputError(f"`{name}` must be a number, got {given!r}")
        if not 0 < self.temperature < float("inf"):
            raise InputError(f"`temperature` must be above 0, got {self.temperature} (greedy is a search of its own)")
        if self.parameter is None:
            object.__setattr__(self, "parameter", DEFAULTS[self.kind])
        elif self.kind == "ancestral":
            raise InputError("ancestral sampling has no parameter")
        self._check()

    def _check(self) -> None:
        value = self.parameter
        if value is None:
            return
        if self.kind == "top-k":
            if not 1 <= value < float("inf") or value != int(value):
                raise InputError(f"`top-k` must be a whole number of at least 1, got {value}")
            object.__setattr__(self, "parameter", int(value))
        elif not 0 < value < 1:
            raise InputError(f"`{self.kind}` must lie between 0 and 1, got {value}")

    @property
    def settings(self) -> dict[str, object]:
        """What is written beside the samples."""
        named = {} if self.parameter is None else {self.kind.replace("-", "_"): self.parameter}
        return {"sampling": self.kind, **named, "temperature": self.temperature}
