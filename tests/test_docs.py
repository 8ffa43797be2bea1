"""The documents say what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")])


def test_the_methods_page_is_up_to_date() -> None:
    subprocess.run([sys.executable, str(ROOT / "docs" / "make_methods.py"), "--check"], check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_first_python_example_of_the_readme_runs(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    (tmp_path / "samples.jsonl").write_text('{"hypotheses": ["a b", "a c", "b c"]}\n', encoding="utf-8")
    subprocess.run([sys.executable, "-c", example], cwd=tmp_path, check=True)
