"""Utilities by name, or as Python functions: `module:function` and `file.py:function`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from minrisk.configuration import configure
from minrisk.decoding import utility
from minrisk.errors import InputError
from minrisk.utilities.base import Utility
from minrisk.utilities.function import Function


def named_utility(name: str, options: Mapping[str, str]) -> Utility:
    """The utility that a word on the command line stands for."""
    module_name, colon, attribute = name.rpartition(":")
    if not colon:
        return utility(name, **options)
    found = getattr(_module(module_name), attribute, None)
    if found is None:
        raise InputError(f"{module_name} has no {attribute!r}")
    if isinstance(found, Utility):
        return utility(found, **options)
    return configure("utility", name, Function, {"function": found, **options})


def _module(name: str) -> ModuleType:
    path = Path(name)
    try:
        if path.suffix != ".py":
            sys.path.insert(0, "")
            return importlib.import_module(name)
        specification = importlib.util.spec_from_file_location(path.stem, path)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module
    except Exception as error:
        raise InputError(f"cannot import {name!r}: {type(error).__name__}: {error}") from error
