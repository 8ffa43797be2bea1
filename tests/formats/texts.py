"""Texts that formats have trouble with."""

from __future__ import annotations

from pathlib import Path

ODD_TEXTS = [
    "",
    " ",
    "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg",
    "nul \x00 inside",
    "\ud800 lone \udfff",
    "\U0001f600 é e\u0301 猫",
    "\ufeffmark",
    'tab\tquote"back\\slash',
    "x" * (1 << 20),
]


def write(path: Path, content: str | bytes) -> Path:
    """A file with this content; lone surrogates in text are written as they are."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return path
