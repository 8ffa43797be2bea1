"""The optional packages, imported when they are needed and not before."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from minrisk.errors import MissingExtraError


def package(name: str) -> Any:
    """A module of the extra `neural`, or the error that says how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != name.partition(".")[0]:
            raise
        raise MissingExtraError(f"a neural utility ({name})", "neural") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars and advice that transformers prints while it loads: its faults are raised anyway."""
    logging = package("transformers.utils.logging")
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # Marian's tokenizer recommends a normalizer that it never calls.
            warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
