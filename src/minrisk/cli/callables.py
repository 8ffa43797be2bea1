"""Utilities by name, or as Python functions: `module:function` and `file.py:function`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

from minrisk.configuration import configure
from minrisk.decoding import utility
from minrisk.errors import InputError, unknown_name
from minrisk.scripts import from_file
from minrisk.utilities.base import Utility
from minrisk.utilities.function import Function


def named_utility(name: str, options: Mapping[str, str]) -> Utility:
    """The utility that a word on the command line stands for."""
    module_name, colon, attribute = name.rpartition(":")
    if not colon:
        return utility(name, **options)
    if not module_name or not attribute:
        raise InputError(f"a function is given as module:function or file.py:function, got {name!r}")
    module = _module(module_name)
    found = getattr(module, attribute, None)
    if found is None:
        callables = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown_name(f"function of {module_name!r}:", attribute, callables)
    if isinstance(found, Utility):
        return utility(found, **options)
    if isinstance(found, type) and issubclass(found, Utility):
        return configure("utility", name, found, options)
    return configure("utility", name, Function, {"function": found, **options})


def _module(name: str) -> ModuleType:
    try:
        # What a script prints must not get between the decisions on standard output.
        with redirect_stdout(sys.stderr):
            return from_file(Path(name)) if name.endswith(".py") else _from_path(name)
    except (Exception, SystemExit) as error:
        place = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise InputError(f"cannot import {name!r}{place}: {type(error).__name__}: {error}") from error


def _from_path(name: str) -> ModuleType:
    sys.path.insert(0, "")
    return importlib.import_module(name)
