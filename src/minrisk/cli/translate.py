"""draw samples from a model and choose the best of each: generate and decode in one"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from typing import TYPE_CHECKING, Any

from minrisk.cli import generate
from minrisk.cli.options import add_choice_arguments, count
from minrisk.errors import InputError

if TYPE_CHECKING:
    from minrisk.generation.journal import Journal
    from minrisk.generation.sources import Source
    from minrisk.generation.wish import Wish

EPILOG = """\
examples:
  minrisk translate news.txt --model FOLDER --samples 256 --format text > translations.txt
  minrisk translate news.txt --model FOLDER --budget 1/16 --samples-output samples.jsonl -o chosen.jsonl

Each decision is written as soon as its samples are drawn and compared.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `minrisk translate`."""
    parser.usage = "minrisk translate SOURCES --model NAME_OR_FOLDER [options]"
    parser.epilog = EPILOG
    parser.add_argument(
        "sources",
        metavar="SOURCES",
        help=".txt: one a line; .tsv: with references; .jsonl: `source`; .gz too; -: a pipe",
    )
    parser.add_argument(
        "-o", "--output", default="-", metavar="OUT", help="where the decisions go, .gz too (default: standard output)"
    )
    parser.add_argument(
        "--samples-output", metavar="FILE", help="keep the samples too; a run that was stopped goes on from them"
    )
    parser.add_argument("--restart", action="store_true", help="do not go on from an earlier run's FILE.partial")
    parser.add_argument("--format", choices=("jsonl", "text"), metavar="FORMAT", help="jsonl, or text: one a line")
    parser.add_argument("--quiet", action="store_true", help="no progress, no summary")
    choice = parser.add_argument_group("what is chosen")
    add_choice_arguments(choice)
    choice.add_argument("--nbest", type=count, default=0, metavar="K", help="also the K best texts (jsonl)")
    generate.add_model_arguments(parser)
    generate.add_sampling_arguments(parser.add_argument_group("samples"))


def run(options: argparse.Namespace) -> None:
    """Read, draw, decide, write."""
    from minrisk.cli.decode import _configuration
    from minrisk.decoding import decode_corpus
    from minrisk.formats import open_output, record_of, write_jsonl, write_text
    from minrisk.generation.sources import read_sources

    text = _is_text(options)
    wish, prompt = generate.wish_of(options), generate.prompt_of(options)
    configuration = _configuration(options)
    with redirect_stdout(sys.stderr):
        model = generate.model_of(options, prompt)
    shown = not options.quiet and not (options.output == "-" and sys.stdout is not None and sys.stdout.isatty())
    with ExitStack() as stack:
        file = stack.enter_context(open_output(options.output))
        stack.enter_context(redirect_stdout(sys.stderr))
        meter = stack.enter_context(generate.Meter(wish, shown))
        sources = read_sources(options.sources, meter.opened)
        records = _records(options, model, sources, wish, meter, stack)
        decisions = decode_corpus(
            records,
            configuration.utility,
            configuration.method,
            configuration.budget,
            weights=configuration.weights,
            seed=configuration.seed,
            window=1,  # A decision waits for no other source.
        )
        for decision in decisions:
            if text:
                write_text([decision.text], file)
            else:
                write_jsonl([record_of(decision, options.nbest)], file)
            if options.output == "-":
                file.flush()
    if not options.quiet:
        notes = [f"minrisk: note: {note}" for note in model.warnings]
        print("\n".join([*notes, meter.summary()]), file=sys.stderr)


def _is_text(options: argparse.Namespace) -> bool:
    """Whether flat text is written, once it is known that all files can be."""
    from minrisk.formats import replaceable

    name = options.output.lower().removesuffix(".gz")
    if name.endswith(".parquet"):
        raise InputError(f"{options.output}: Parquet is read but not written; write .jsonl or .txt, .gz too")
    kept = options.samples_output
    if kept is not None:
        generate.check_output(kept, options.sources)
        if kept == "-" or not replaceable(kept):
            raise InputError(f"{kept}: is no file that samples could be kept in")
        if os.path.realpath(kept) == os.path.realpath(options.output):
            raise InputError(f"{kept}: samples and decisions need a file each")
    both = os.path.exists(options.output) and os.path.exists(options.sources)
    if both and os.path.samefile(options.output, options.sources):
        raise InputError(f"{options.output}: is read from; the output must have another name")
    text = bool((options.format or ("text" if name.endswith(".txt") else "jsonl")) == "text")
    if text and options.nbest:
        raise InputError("--nbest goes with --format jsonl: flat text has one line for a segment")
    return text


def _records(
    options: argparse.Namespace,
    model: generate.Model,
    sources: Iterator[Source],
    wish: Wish,
    meter: generate.Meter,
    stack: ExitStack,
) -> Iterator[dict[str, Any]]:
    """The samples of all sources, in order; kept in a file on the way if one was named."""
    if options.samples_output is None:
        return meter.counted(generate.completed(model, sources, wish))
    from minrisk.generation.journal import Journal

    settings = {**model.settings, **wish.settings}
    journal = stack.enter_context(Journal(options.samples_output, settings, options.restart))
    return _kept(journal, model, sources, wish, meter)


def _kept(
    journal: Journal, model: generate.Model, sources: Iterator[Source], wish: Wish, meter: generate.Meter
) -> Iterator[dict[str, Any]]:
    shelf = generate.Shelf(journal)
    made = meter.counted(generate.completed(model, shelf.missing(sources), wish, shelf))
    position = 0
    for number, record in enumerate(made):
        journal.add(shelf.places[number], record)
        for done in range(position, shelf.places[number] + 1):
            yield journal.record(done)
        position = shelf.places[number] + 1
    for done in range(position, shelf.seen):
        yield journal.record(done)
    journal.finish(shelf.seen)
