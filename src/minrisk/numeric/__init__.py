"""Pure functions on arrays.

Kernels are compiled at their first use and kept: beside this file, or else in the user's cache. Where neither can be
written, as in a container without a home, numba would refuse to import them; they are then kept for this process alone.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile


def _writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _keep_kernels() -> None:
    """Name a temporary place for compiled kernels where there is no other; processes that this one starts share it."""
    home = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    users = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or home)
    beside = os.path.join(os.path.dirname(__file__), "__pycache__")
    if sys.platform == "win32" or "NUMBA_CACHE_DIR" in os.environ or _writable(beside) or _writable(users):
        return
    os.environ["NUMBA_CACHE_DIR"] = made = tempfile.mkdtemp(prefix="minrisk-")
    if "numba" in sys.modules:  # It has read its settings already.
        sys.modules["numba"].config.CACHE_DIR = made
    atexit.register(shutil.rmtree, made, ignore_errors=True)


_keep_kernels()
