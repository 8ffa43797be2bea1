"""What is to be translated: a text a line, a tab between source and reference, or JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minrisk.errors import InputError
from minrisk.formats import Input
from minrisk.seeding import digest


@dataclass(frozen=True, slots=True)
class Source:
    """A text with what is known of it; `others` (id, reference, document, ...) are handed on with its samples."""

    text: str
    id: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stream(self) -> bytes:
        """Names the random streams: equal sources without an id have equal samples, wherever they stand."""
        return digest((self.id, self.text))

    @property
    def record(self) -> dict[str, Any]:
        """The first keys of its line of samples."""
        return ({} if self.id is None else {"id": self.id}) | {"source": self.text} | dict(self.others)


def read_sources(path: str | Path, on_open: Callable[[Input], None] | None = None) -> Iterator[Source]:
    """The sources of a .txt (a text a line), .tsv (source, tab, reference) or .jsonl (`source`), .gz too; "-": a pipe.

    A pipe, or a file of another name, is JSON Lines if its first line begins with "{".
    """
    with Input(path) as file:
        if on_open is not None:
            on_open(file)
        suffix = Path(file.name.lower().removesuffix(".gz")).suffix
        position = -1
        for number, line in file.lines():
            if position < 0 and suffix not in (".txt", ".tsv", ".jsonl", ".json", ".ndjson"):
                suffix = ".jsonl" if line.lstrip().startswith("{") else ".txt"
            if suffix not in (".txt", ".tsv") and not line.strip():
                continue
            position += 1
            try:
                yield _source(line, suffix)
            except InputError as error:
                raise InputError(f"{file.name}, line {number}: {error}") from None
        if position < 0:
            raise InputError(f"{file.name}: no sources; the file is empty")


def _source(line: str, suffix: str) -> Source:
    if suffix in (".txt", ".tsv"):
        text, tab, reference = line.partition("\t") if suffix == ".tsv" else (line, "", "")
        if not text.strip():
            raise InputError("an empty source")
        return Source(text, others={"reference": reference} if tab else {})
    try:
        record = json.loads(line, strict=False)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from None
    if not isinstance(record, dict) or not isinstance(record.get("source"), str):
        raise InputError('an object with a `source` is needed, as in {"source": "..."}')
    text, id = record.pop("source"), record.pop("id", None)
    if not text.strip():
        raise InputError("an empty `source`")
    if isinstance(id, bool) or not isinstance(id, str | int | None):
        raise InputError(f"`id` must be a string or a whole number, got {id!r}")
    made = ("hypotheses", "logprobs", "logprobs_sampling", "weights", "unfinished", "generation")
    others = {key: value for key, value in record.items() if key not in made}
    return Source(text, None if id is None else str(id), others)
