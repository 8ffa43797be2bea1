"""Files of a study: whole or not there at all."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from minrisk.errors import InputError
from minrisk.formats import open_output


def write_array(path: Path, array: np.ndarray[Any, Any]) -> None:
    """One array as .npy, which can be memory-mapped."""
    with open_output(path) as file:
        np.save(file, array, allow_pickle=False)


def write_arrays(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Named arrays as .npz."""
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]  # the stub takes `allow_pickle` for one of them
    with open_output(path) as file:
        file.write(packed.getvalue())


def read_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an .npz, all or those named, in memory."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in (archive.files if names is None else names)}
    except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}; remove it, and it is computed anew") from error


def reason(error: Exception) -> str:
    """Why NumPy could not read a file; of what is no array at all, it says that it may be a dangerous one."""
    return "it does not hold arrays of NumPy" if "pickle" in str(error) else str(error)


def write_json(path: Path, content: Any) -> None:
    """Indented JSON."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Text in UTF-8."""
    with open_output(path) as file:
        file.write(text.encode("utf-8"))


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object in a JSON file; `what` says what it should be."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {what} was expected: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: {what} was expected: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: {what} was expected, got {type(content).__name__}")
    return content


def made_folder(path: str | Path) -> Path:
    """The folder, made if it is not there."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: a folder was expected: {error.strerror}") from error
    return folder


def write_lines(path: Path, parts: Iterable[str]) -> None:
    """Text that comes in parts, in UTF-8."""
    with open_output(path) as file:
        for part in parts:
            file.write(part.encode("utf-8"))
