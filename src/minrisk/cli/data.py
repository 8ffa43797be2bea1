"""fetch test sets, join their sentences into paragraphs, count what they hold"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from minrisk.errors import InputError

EPILOG = """\
examples:
  minrisk data wmt22 en-de -o en-de.jsonl
  minrisk data wmt22 en-de --folder FOLDER -o en-de.jsonl
  minrisk data paragraphs en-de.jsonl --tokenizer spm.model --limit 500 -o paragraphs.jsonl
  minrisk data stats en-de.jsonl paragraphs.jsonl

Test sets are fetched by sacreBLEU, with the documents of their segments, or read from a folder that holds PAIR.jsonl
(.gz): a `source` a line, and where known `document`, `reference`, `id`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `minrisk data`."""
    parser.usage = "minrisk data {wmt22 PAIR | paragraphs FILE | stats FILE...} [options]"
    parser.epilog = EPILOG
    parser.add_argument("what", metavar="WHAT", help="a test set (wmt22, wmt23, ...), paragraphs or stats")
    parser.add_argument("given", metavar="PAIR_OR_FILE", nargs="+", help="such as en-de; JSON Lines, .gz too")
    parser.add_argument(
        "-o", "--output", default="-", metavar="OUT", help="JSON Lines, .gz too (default: standard output)"
    )
    parser.add_argument("--folder", metavar="DIR", help="read the test set from PAIR.jsonl (.gz) here: no download")
    joining = parser.add_argument_group("paragraphs")
    joining.add_argument(
        "--tokenizer",
        default="words",
        metavar="NAME_OR_FILE",
        help="words, a SentencePiece file, or a tokenizer of transformers: folder or name (default: words)",
    )
    joining.add_argument("--limit", type=int, default=500, metavar="N", help="tokens of a paragraph (default: 500)")
    joining.add_argument(
        "--measure",
        choices=("source", "reference", "both"),
        default="source",
        help="the text that must stay within the limit (default: source)",
    )


def run(options: argparse.Namespace) -> None:
    """Do one of the three."""
    from minrisk import datasets

    if options.what == "stats":
        _print_statistics(options.given)
        return
    if len(options.given) != 1:
        raise InputError(f"minrisk data {options.what} takes one argument, got {len(options.given)}")
    if options.what == "paragraphs":
        if options.limit < 1:
            raise InputError(f"--limit must be at least 1, got {options.limit}")
        _check_output(options.output, Path(options.given[0]))
        measured = ("source", "reference") if options.measure == "both" else (options.measure,)
        count = datasets.counter(options.tokenizer)
        _write(options, datasets.paragraphs(_read(options.given[0]), count, options.limit, measured))
        return
    if options.folder is not None:
        path = datasets.in_folder(options.folder, options.given[0])
        _check_output(options.output, path)
        _write(options, datasets.with_ids(_read(path), f"{options.what}-{options.given[0]}"))
        return
    with redirect_stdout(sys.stderr):
        records = datasets.wmt(options.what, options.given[0])
    _write(options, iter(records))


def _check_output(output: str, read: Path) -> None:
    if output != "-" and Path(output).resolve() == read.resolve():
        raise InputError(f"{output}: is read from; the output must have another name")


def _read(path: str | Path) -> Iterator[dict[str, Any]]:
    from minrisk.generation.sources import read_sources

    return (source.record for source in read_sources(path))


def _write(options: argparse.Namespace, records: Iterator[dict[str, Any]]) -> None:
    from minrisk.formats import open_output, write_jsonl

    with open_output(options.output) as file:
        write_jsonl(records, file)


def _print_statistics(paths: list[str]) -> None:
    from minrisk import datasets

    names = [Path(path).name for path in paths]
    width = max(len("file"), *map(len, names))
    everything = [datasets.statistics(_read(path)) for path in paths]
    print(f"{'file':{width}}  segments  documents  words/segment  sentences/segment  joined/segment")
    for name, found in zip(names, everything):
        print(
            f"{name:{width}}  {found.segments:8,}  {found.documents:9,}  {found.words:13.1f}  {found.sentences:17.2f}  "
            f"{found.joined:14.2f}"
        )
