"""What the tests of the command line share."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minrisk.formats import record_of

WORDS = ["a", "cat", "dog", "sat", "down", "on", "the", "mat", "red"]
SEGMENTS: list[dict[str, Any]] = [
    {
        "id": f"news-{number}",
        "hypotheses": [" ".join(WORDS[place % (row + 2)] for place in range(number % 5, 9)) for row in range(8)],
        "logprobs": [-0.25 * row for row in range(8)],
    }
    for number in range(12)
]
JUDGE = """
from __future__ import annotations
from dataclasses import dataclass
import helper
from minrisk.utilities.function import Function

print("imported")

@dataclass
class Scale:
    factor: float = 1.0

def score(candidates, pseudo_references):
    print("scoring")
    return [float(len(set(c.split()) & set(r.split()))) for c, r in zip(candidates, pseudo_references)]

def raises(candidates, pseudo_references):
    raise ConnectionError("the server\\nis gone")

def late(candidates, pseudo_references):
    return raises(None, None) if any("dog" in text for text in candidates) else score(candidates, pseudo_references)

def interrupted(candidates, pseudo_references):
    raise KeyboardInterrupt

class Own(Function):
    def __init__(self):
        super().__init__(score)

short = lambda candidates, pseudo_references: score(candidates, pseudo_references)[1:]
nan = lambda candidates, pseudo_references: [float("nan")] * len(candidates)
words = lambda candidates, pseudo_references: candidates
number = 5
ready = Function(score, label="ready")
"""

Result = tuple[int, str, str]
Run = Callable[..., Result]


def write_lines(path: str, records: list[Any]) -> None:
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records))


def process(*arguments: str, **settings: Any) -> Any:
    """A command as a process of its own; SIGINT reaches it even where the tests run in the background."""
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings
    command = [sys.executable, "-W", "error", "-m", "minrisk", *arguments]
    return subprocess.Popen(command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **settings)


def refused(result: Result, message: str) -> None:
    """Exit code 2, nothing on standard output, and one line with this message on standard error."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("minrisk: error: ")
    assert err.count("\n") == 1, err
    assert err.endswith("\n")
    assert re.search(message, err), err


def lines_of(decisions: Any, nbest: int = 0) -> list[dict[str, Any]]:
    return [record_of(decision, nbest) for decision in decisions]
