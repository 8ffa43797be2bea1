"""Test sets: WMT through sacreBLEU's own downloader, paragraphs out of documents, and what they hold.

A segment is a dictionary with `source`, and where known `reference`, `document` and `id`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minrisk.errors import InputError, MissingExtraError, unknown_name

Record = dict[str, Any]
Counter = Callable[[str], int]
KINDS = {
    "source": (str, "a string"),
    "reference": (str, "a string"),
    "document": (str | int, "a string or a whole number"),
    "segments": (int, "a whole number"),
}
SENTENCE_END = re.compile(r"[.!?…。！？]+[\"'”’»)\]]*(?=\s+[^\s\w]*[^\W_a-zа-яё])|[。！？]+(?=\S)")
"""Marks that end a sentence: full stops and the like before a capital or a number; those of Chinese and Japanese."""


def wmt(test_set: str, pair: str) -> list[Record]:
    """The segments of a test set of sacreBLEU with their documents, as `document`, and the first reference."""
    try:
        from sacrebleu.dataset import DATASETS
    except ImportError as error:
        raise MissingExtraError("downloading test sets", "sacrebleu") from error
    if test_set not in DATASETS:
        raise unknown_name("test set", test_set, DATASETS)
    dataset = DATASETS[test_set]
    if pair not in dataset.langpairs:
        raise unknown_name(f"language pair of {test_set!r}:", pair, dataset.langpairs)
    try:
        names, files = dataset.fieldnames(pair), dataset.get_files(pair)
        columns = {name: _lines(file) for name, file in zip(names, files)}
        references = dataset.get_reference_files(pair)
    except (Exception, SystemExit) as error:  # The downloader ends in many ways, that of sys.exit among them.
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise InputError(
            f"{test_set} {pair}: cannot be downloaded or read by sacreBLEU ({reason}); offline, name a folder that "
            f"holds {pair}.jsonl or {pair}.jsonl.gz (--folder), or put the files where sacreBLEU looks for them "
            "(the folder in the environment variable SACREBLEU, else ~/.sacrebleu)"
        ) from error
    columns["reference"] = _lines(references[0])
    return _joined(columns, f"{test_set}-{pair}")


def in_folder(folder: str | Path, pair: str) -> Path:
    """The file of a language pair in a folder: PAIR.jsonl or PAIR.jsonl.gz."""
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: no such folder")
    paths = {path.name.removesuffix(".gz").removesuffix(".jsonl"): path for path in Path(folder).glob("*.jsonl*")}
    if pair not in paths:
        raise unknown_name(f"language pair in {folder}:", pair, paths)
    return paths[pair]


def with_ids(records: Iterable[Record], name: str) -> Iterator[Record]:
    """Records with an `id` after their position, where they have none."""
    return ({"id": f"{name}-{number:04d}"} | record for number, record in enumerate(records))


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")


def _joined(columns: dict[str, list[str]], name: str) -> list[Record]:
    """Columns of equal length as records."""
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{key}: {len(column)}" for key, column in columns.items())
        raise InputError(f"{name}: the columns differ in length ({lengths})")
    named = {"src": "source", "reference": "reference", "docid": "document", "domain": "domain", "origlang": "origlang"}
    kept = {named[key]: column for key, column in columns.items() if key in named}
    return list(with_ids((dict(zip(kept, row)) for row in zip(*kept.values())), name))


def paragraphs(
    records: Iterable[Record], count: Counter, limit: int = 500, measured: tuple[str, ...] = ("source",)
) -> Iterator[Record]:
    """Consecutive segments of a document joined while they stay within `limit` tokens, never cut.

    count     tokens of a text
    measured  the texts that must stay within the limit: "source", "reference", or both
    A segment without a `document` stays alone. A segment above the limit stays alone, whole.
    """
    waiting: list[Record] = []
    for record in _checked(records, measured):
        same = bool(waiting) and record.get("document") is not None and record["document"] == waiting[0].get("document")
        if same and _fits([*waiting, record], count, limit, measured):
            waiting.append(record)
            continue
        if waiting:
            yield _paragraph(waiting)
        waiting = [record]
    if waiting:
        yield _paragraph(waiting)


def _checked(records: Iterable[Record], needed: tuple[str, ...] = ()) -> Iterator[Record]:
    """The segments without what is null; raise where a field is not what it must be, or is not there at all."""
    for number, record in enumerate(records, 1):
        for name, (kind, what) in KINDS.items():
            value = record.get(name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
                raise InputError(f"segment {number}: `{name}` must be {what}, got {value!r}")
            if value is None and name in needed:
                raise InputError(f"segment {number}: has no `{name}` to be measured")
        yield {name: value for name, value in record.items() if value is not None}


def _fits(parts: list[Record], count: Counter, limit: int, measured: tuple[str, ...]) -> bool:
    return all(count(_text(parts, name)) <= limit for name in measured)


def _text(parts: list[Record], name: str) -> str:
    return " ".join(str(part[name]).strip() for part in parts)


def _paragraph(parts: list[Record]) -> Record:
    first = parts[0]
    if len({"reference" in part for part in parts}) > 1:
        raise InputError(f"document {first['document']!r}: some of its segments have a `reference` and some have none")
    joined = {name: _text(parts, name) for name in ("source", "reference") if all(name in part for part in parts)}
    kept = {name: first[name] for name in ("id", "document", "domain") if name in first}
    return kept | joined | {"segments": sum(part.get("segments", 1) for part in parts)}


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the paper's appendix tells of a test set; sentences are counted by `sentences`."""

    segments: int
    documents: int
    words: float
    sentences: float
    joined: float


def statistics(records: Iterable[Record]) -> Statistics:
    """Segments, documents, and for each segment on average: words, sentences and segments joined in it."""
    given = list(_checked(records))
    if not given:
        raise InputError("no segments")
    size = len(given)
    return Statistics(
        segments=size,
        documents=len({record["document"] for record in given if record.get("document") is not None}),
        words=sum(len(record["source"].split()) for record in given) / size,
        sentences=sum(sentences(record["source"]) for record in given) / size,
        joined=sum(record.get("segments", 1) for record in given) / size,
    )


def sentences(text: str) -> int:
    """How many sentences a text has, judged by its marks and the capitals after them."""
    return 1 + len(SENTENCE_END.findall(text.strip()))


def counter(tokenizer: str) -> Counter:
    """Counts the tokens of a text: "words", a SentencePiece file, or a tokenizer of transformers (folder or name)."""
    if tokenizer == "words":
        return lambda text: len(text.split())
    if tokenizer.endswith((".model", ".spm")) or Path(tokenizer).is_file():
        return _pieces(tokenizer)
    from minrisk.neural.loading import tokenizer_of

    loaded = tokenizer_of(tokenizer)
    # It would warn of texts that are longer than its model takes.
    loaded.model_max_length = sys.maxsize
    return lambda text: len(loaded(text, add_special_tokens=False).input_ids)


def _pieces(path: str) -> Counter:
    from minrisk.neural.packages import package

    if not Path(path).is_file():
        raise InputError(f"{path}: cannot be read: no such file")
    try:
        processor = package("sentencepiece").SentencePieceProcessor(model_file=path)
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path}: is no SentencePiece model") from error
    return lambda text: len(processor.encode(text))
