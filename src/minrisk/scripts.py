"""Python files given by their path: the modules that they become, here and in other processes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

SCRIPT = "minrisk_script_"
"""What the names of such modules begin with."""


def from_file(path: Path) -> ModuleType:
    """The module that a file is."""
    if not path.is_file():
        raise FileNotFoundError("no such file")
    # Helper modules may lie beside a script, as they may for `python script.py`.
    sys.path.insert(0, str(path.parent.resolve()))
    specification = importlib.util.spec_from_file_location(f"{SCRIPT}{path.stem}", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    # Dataclasses, and processes that are sent an object, look their module up by its name.
    sys.modules[specification.name] = module
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[specification.name]
        raise
    return module


def loaded() -> list[ModuleType]:
    """The modules of this process that are such files."""
    return [module for name, module in list(sys.modules.items()) if name.startswith(SCRIPT)]
