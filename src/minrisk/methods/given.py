"""Not a method: what a segment says of its candidates, for the methods that go by it."""

from __future__ import annotations

from minrisk.errors import InputError, unknown_name
from minrisk.types import FloatArray, Problem

GIVEN = ("scores", "logprobs")


def given_scores(problem: Problem, name: str) -> FloatArray:
    """What the segment says of each candidate."""
    if name not in GIVEN:
        raise unknown_name("given scores", name, GIVEN)
    values: FloatArray | None = getattr(problem, name)
    if values is None:
        raise InputError(f"`{name}` are needed by this method, and the segment has none")
    return values
