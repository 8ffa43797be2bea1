"""The documents say what the code says."""

from __future__ import annotations

import dataclasses
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import minrisk
from minrisk.cli.decode import RECORD
from minrisk.cli.main import COMMANDS, parser
from minrisk.methods import METHODS
from minrisk.types import Segment
from minrisk.utilities import UTILITIES

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")])


def test_the_page_of_formats_and_the_help_name_every_field() -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    for field in dataclasses.fields(Segment):
        assert f"| `{field.name}`" in page
        assert f'"{field.name}": ' in RECORD


@pytest.mark.parametrize("script", ["make_methods.py", "make_utilities.py"])
def test_pages_made_from_the_code_are_up_to_date(script: str) -> None:
    subprocess.run([sys.executable, str(ROOT / "docs" / script), "--check"], check=True)


def test_the_readme_links_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    parts = {"methods-measured.md", "utilities-measured.md"}  # of docs/methods.md and docs/utilities.md
    assert {page.name for page in (ROOT / "docs").glob("*.md") if f"(docs/{page.name})" not in readme} == parts


def test_the_readme_names_every_command_method_and_utility() -> None:
    tables = "\n".join(re.findall(r"^\| .*", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = set(re.findall(r"`(?:minrisk )?([a-z_0-9]+)`", tables))
    assert {*COMMANDS, *METHODS, *UTILITIES} <= named


def test_the_principles_name_every_module() -> None:
    page = (ROOT / "docs" / "principles.md").read_text(encoding="utf-8")
    modules = {name for _, name, _ in pkgutil.iter_modules(minrisk.__path__) if not name.startswith("_")}
    named = set(re.findall(r"`([a-z]+)/?`", "\n".join(re.findall(r"^\| .*", page, flags=re.MULTILINE))))
    assert modules - named == {"parallel", "scripts", "version"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_understood(page: Path) -> None:
    """Every line of `minrisk ...` in a block; `...`, redirections and what comes after a pipe are left out."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = "".join(block for language, block in blocks if language in ("", "sh", "bash")).replace("\\\n", " ")
    for line in re.findall(r"(?:^|\| )minrisk ([a-z].*)$", text, flags=re.MULTILINE):
        command = re.split(r" [|>;&]", line)[0]
        if "..." not in command:
            parser().parse_args(shlex.split(command, comments=True))


def test_the_first_python_example_of_the_readme_runs(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    (tmp_path / "samples.jsonl").write_text('{"hypotheses": ["a b", "a c", "b c"]}\n', encoding="utf-8")
    subprocess.run([sys.executable, "-c", example], cwd=tmp_path, check=True)
