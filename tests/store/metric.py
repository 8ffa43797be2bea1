"""Metrics that another process can import."""

from __future__ import annotations

import os


def similarity(candidates: list[str], references: list[str]) -> list[float]:
    """One number for each pair, the same whenever it is asked."""
    return [len(set(one) & set(other)) + len(one) / 7 for one, other in zip(candidates, references, strict=True)]


def failing(candidates: list[str], references: list[str]) -> list[float]:
    """A server that is gone."""
    raise ConnectionError("the server is gone")


def dying(candidates: list[str], references: list[str]) -> list[float]:
    """A process that ends in the middle of its work."""
    os._exit(9)


def interrupting(candidates: list[str], references: list[str]) -> list[float]:
    """Ctrl-C."""
    raise KeyboardInterrupt
