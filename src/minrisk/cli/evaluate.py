"""score final choices against references, and compare systems"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minrisk.evaluation import Evaluation, Interval

EPILOG = """\
OUTPUTS are what `minrisk decode` wrote (.jsonl, .gz too), or text with one choice a line. The reference file is text
with one a line, or JSON Lines with `reference` (and `source`), such as the samples that were decoded.

  minrisk evaluate chosen.jsonl baseline.txt --reference samples.jsonl --utility chrf,bleu,comet
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `minrisk evaluate`."""
    parser.usage = "minrisk evaluate OUTPUTS [OUTPUTS ...] --reference FILE [options]"
    parser.epilog = EPILOG
    parser.add_argument("outputs", metavar="OUTPUTS", nargs="+", help="choices; the others are compared with the first")
    parser.add_argument("--reference", metavar="FILE", help="references: text, or JSON Lines with `reference`")
    parser.add_argument("--source", metavar="FILE", help="sources: text, or JSON Lines with `source`")
    parser.add_argument(
        "--utility",
        default="chrf",
        metavar="NAMES",
        help="metrics, with commas between: comet,chrf,bleu (default: chrf)",
    )
    parser.add_argument("--resamples", type=int, default=1000, help="of the bootstrap (default: 1000)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the intervals (default: 0.95)")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap (default: 0)")
    parser.add_argument(
        "--format", choices=("text", "jsonl"), default="text", metavar="FORMAT", help="text (default) or jsonl"
    )


def run(options: argparse.Namespace) -> None:
    """Read, score one utility after the other, print."""
    from minrisk.cli.callables import named_utility
    from minrisk.errors import InputError
    from minrisk.evaluation import Bootstrap, evaluate

    names = [name.strip() for name in re.split(r",(?![^(]*\))", options.utility) if name.strip()]
    if not names:
        raise InputError("`--utility` needs at least one name")
    bootstrap = Bootstrap(options.resamples, options.confidence, options.seed)
    systems, ids = _systems(options.outputs)
    references = _texts(options.reference, "reference", ids) if options.reference else None
    sources = _sources(options, ids)
    # All are named before the first is used; one model is loaded at a time, and given up with its utility.
    waiting = [named_utility(name, {}) for name in names]
    while waiting:
        with redirect_stdout(sys.stderr):
            found = evaluate(systems, waiting.pop(0), references, sources, bootstrap)
        lines = _lines(found, len(ids)) if options.format == "text" else map(_record, found)
        print("\n".join(lines), flush=True)


def _systems(paths: Sequence[str]) -> tuple[Mapping[str, Sequence[str]], Sequence[str | None]]:
    """The choices of each file under its name, and the ids that the first file gives."""
    from minrisk.errors import InputError

    systems: dict[str, Sequence[str]] = {}
    ids: Sequence[str | None] = []
    for path in paths:
        if path in systems:
            raise InputError(f"{path}: is given twice")
        records = _records(path)
        systems[path] = [_field(record, "selected", path, number) for number, record in enumerate(records, 1)]
        own = [record.get("id") for record in records]
        ids = ids or own
        _check_ids(path, own, ids)
    return systems, ids


def _sources(options: argparse.Namespace, ids: Sequence[str | None]) -> Sequence[str] | None:
    """Those of the file named for them, or what the file of references holds beside these."""
    if options.source:
        return _texts(options.source, "source", ids)
    records = _records(options.reference) if options.reference else []
    if records and all(isinstance(record.get("source"), str) for record in records):
        return [record["source"] for record in records]
    return None


def _texts(path: str, name: str, ids: Sequence[str | None]) -> Sequence[str]:
    records = _records(path)
    _check_ids(path, [record.get("id") for record in records], ids)
    return [_field(record, name, path, number) for number, record in enumerate(records, 1)]


def _check_ids(path: str, own: Sequence[Any], ids: Sequence[Any]) -> None:
    """Where both sides have ids, they must be in step."""
    from minrisk.errors import InputError

    for number, (one, other) in enumerate(zip(own, ids, strict=False), 1):
        if one is not None and other is not None and str(one) != str(other):
            raise InputError(f"{path}, segment {number}: has the id {one!r}, the first output {other!r}")


def _field(record: Mapping[str, Any], name: str, path: str, number: int) -> str:
    from minrisk.errors import InputError

    text = record.get("text", record.get(name))
    if text is None:
        raise InputError(f"{path}, line {number}: has no `{name}`, got the keys {sorted(map(str, record))}")
    if not isinstance(text, str):
        raise InputError(f"{path}, line {number}: `{name}` must be a text, got {type(text).__name__}")
    return text


def _records(path: str) -> list[dict[str, Any]]:
    """The lines of a file: objects of JSON Lines, or texts under "text"."""
    from minrisk.errors import InputError
    from minrisk.formats import Input

    plain = Path(path.lower().removesuffix(".gz")).suffix not in (".jsonl", ".json", ".ndjson")
    with Input(path) as source:
        lines = list(source.lines())
    if not lines:
        raise InputError(f"{path}: no segments; the file is empty")
    if plain and not lines[0][1].startswith("{"):
        return [{"text": text} for _, text in lines]
    records = []
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line, strict=False)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number}: is no object")
        record.pop("text", None)
        records.append(record)
    return records


def _lines(found: Sequence[Evaluation], segments: int) -> Iterable[str]:
    """A table of one utility."""
    from minrisk.evaluation import CORPUS_METRICS

    first = found[0]
    yield f"{first.utility}, {'higher' if first.higher_is_better else 'lower'} is better, {segments:,} segments"
    width = max(len(evaluation.system) for evaluation in found)
    for evaluation in found:
        parts = [f"  {evaluation.system:{width}}  {_shown(evaluation.mean)}"]
        if evaluation.corpus is not None:
            parts.append(f"corpus {evaluation.corpus:.2f}")
        if evaluation.difference is not None:
            parts.append(f"difference {_shown(evaluation.difference, '+')}, p = {evaluation.p_value:.3g}")
        yield "  ".join(parts)
    if first.corpus_signature is not None:
        yield f"  corpus: sacreBLEU {first.corpus_signature}"
    elif first.utility.partition("(")[0] in CORPUS_METRICS:
        yield "  corpus: not computed; pip install 'minrisk[sacrebleu]'"


def _shown(interval: Interval, sign: str = "") -> str:
    return f"{interval.value:{sign}.4f} [{interval.low:{sign}.4f}, {interval.high:{sign}.4f}]"


def _record(evaluation: Evaluation) -> str:
    from dataclasses import asdict

    record = asdict(evaluation)
    del record["values"]
    return json.dumps({key: value for key, value in record.items() if value is not None}, ensure_ascii=False)
