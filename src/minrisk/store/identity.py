"""What tells the values of one utility from those of any other: name, options, and the content of its checkpoint."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

from minrisk.errors import InputError
from minrisk.utilities.base import Utility
from minrisk.utilities.function import Function, QualityFunction

BLOCK = 1 << 20


def identity_of(utility: Utility, digest_of: Callable[[Path], str]) -> str:
    """The key of a utility in a store; `digest_of` tells the content of a file."""
    if isinstance(utility, Function | QualityFunction):
        if utility.label is None:
            raise InputError(
                f"a store needs a name for the function {utility.name!r}, one for each version of it: "
                "--utility-set label=NAME, or in Python minrisk.utility(function, label=...)"
            )
        return f"function:{utility.signature()}"
    own = type(utility).__module__.split(".")[0] == "minrisk"
    if not own and not dataclasses.is_dataclass(utility) and type(utility).signature is Utility.signature:
        raise InputError(
            f"a store needs to know what decides the values of utility {utility.name!r}: "
            "make it a dataclass, whose fields are its options, or give it a `signature` that tells them"
        )
    files = utility.files()
    state = hashlib.blake2b(digest_size=16)
    for file in files:
        state.update(f"{file.name}:{digest_of(file)}\n".encode())
    return ("" if own else "own:") + utility.signature() + (f"|files:{state.hexdigest()}" if files else "")


def file_digest(path: Path) -> str:
    """The content of a file as 32 letters."""
    state = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            state.update(block)
    return state.hexdigest()
