"""The house itself: layers, public names, what an import costs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numba
import pytest

import minrisk
from minrisk import numeric
from minrisk.cli.main import COMMANDS
from minrisk.methods import METHODS
from minrisk.utilities import UTILITIES

PACKAGE = Path(minrisk.__file__).parent

LAYERS = (
    {"errors", "version", "parallel", "scripts"},
    {"types", "configuration"},
    {"seeding", "budgets", "registry"},
    {"numeric"},
    {"neural"},
    {"utilities"},
    {"methods"},
    {"problems", "store"},
    {"session", "scoring"},
    {"engine"},
    {"decoding", "workers", "evaluation"},
    {"selection", "formats"},
    {"unfinished"},
    {"testing", "study", "generation", "datasets", "planning", "ray"},
    {"cli"},
    {"__main__", "__init__"},
)
"""A module imports from its own layer and those before it."""

FORBIDDEN = {("methods", "utilities"), ("utilities", "methods"), ("numeric", "utilities"), ("numeric", "methods")}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "minrisk" else [f"minrisk.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        parts |= {name.split(".")[1] for name in names if name.startswith("minrisk.")}
    return parts


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    level = {part: number for number, layer in enumerate(LAYERS) for part in layer}
    own = part_of(path)
    for other in imported_parts(path):
        assert level[other] <= level[own], f"{own} must not import {other}"
        assert (own, other) not in FORBIDDEN


def test_only_the_session_sends() -> None:
    senders = [
        part_of(path)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "send"
    ]
    assert set(senders) == {"session"}


def test_public_names_are_there_and_sorted() -> None:
    names = minrisk.__all__
    assert names == sorted(names)
    for name in names:
        assert getattr(minrisk, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'decoed'"):
        _ = minrisk.decoed  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_says_what_it_does_in_one_line(name: str) -> None:
    assert METHODS.summary(name).endswith(".")


@pytest.mark.parametrize("name", list(UTILITIES))
def test_every_utility_says_what_it_does_in_one_line(name: str) -> None:
    assert UTILITIES.summary(name).endswith(".")
    assert UTILITIES.factory(name).name == name


@pytest.mark.parametrize("code", ["import minrisk", "from minrisk.cli.main import parser; parser().format_help()"])
def test_nothing_heavy_is_imported_before_it_is_needed(code: str) -> None:
    heavy = "numpy", "numba", "rich", "torch", "pyarrow", "matplotlib"
    script = f"{code}\nimport sys\nprint([name for name in {heavy} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_every_extra_that_is_named_can_be_installed() -> None:
    root = Path(__file__).resolve().parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    called = {
        node.args[-1].value
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "MissingExtraError"
        if isinstance(node.args[-1], ast.Constant)
    }
    pages = [*root.glob("*.md"), *(root / "docs").glob("*.md")]
    written = {name for page in pages for name in re.findall(r"minrisk\[(\w+)\]", page.read_text(encoding="utf-8"))}
    assert "neural" in called & written
    assert called | written <= set(project["optional-dependencies"])


def test_every_command_has_a_summary() -> None:
    for command in COMMANDS.values():
        assert command.__doc__


def test_kernels_are_kept_somewhere_where_nothing_of_the_user_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container without a home, where numba refuses to import what it is told to keep."""
    assert not numeric._writable("/dev/null/cache")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # So that it is put back afterwards.
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)
    numeric._keep_kernels()
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setattr(numeric, "_writable", lambda _: False)
    numeric._keep_kernels()
    place = Path(os.environ["NUMBA_CACHE_DIR"])
    assert str(place) == numba.config.CACHE_DIR
    assert place.stat().st_mode & 0o777 == 0o700
    numeric._keep_kernels()
    assert os.environ["NUMBA_CACHE_DIR"] == str(place)
