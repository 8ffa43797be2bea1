"""Random streams by name: (seed, segment, purpose) -> generator, never position, time or global state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np


def digest(parts: Iterable[str | bytes | None]) -> bytes:
    """16 bytes that stand for a sequence of texts; None differs from the empty text."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        if part is None:
            state.update(b"-")
            continue
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.digest()


def stream(seed: int, segment: bytes, purpose: str) -> np.random.Generator:
    """The generator that belongs to a seed, a segment's stream name and a purpose."""
    name = digest((str(seed), segment, purpose))
    return np.random.Generator(np.random.PCG64(int.from_bytes(name, "little")))
