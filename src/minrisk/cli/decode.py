"""choose the best sample of each segment"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from typing import IO, TYPE_CHECKING

from minrisk.cli.options import add_choice_arguments, add_input_arguments, amount, count, text_layout, whole
from minrisk.configuration import parse_settings

if TYPE_CHECKING:
    from minrisk.decoding import Configuration
    from minrisk.formats import TextLayout
    from minrisk.scoring import Ledger
    from minrisk.types import Choice, Decision, Method


RECORD = """\
A line of JSON Lines, or a row of Parquet, is a segment; only `hypotheses` is needed:
  {"id": "news-1", "source": "...", "hypotheses": ["...", "..."], "logprobs": [-3.2, -4.1],
   "pseudo_references": ["...", "...", "..."], "pseudo_reference_logprobs": [-2.9, -3.3, -5.0]}
"""
SELECTING = ("similarity", "penalty")
"""Options of `minrisk.select` that are options here."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `minrisk decode`."""
    parser.usage = "minrisk decode SAMPLES [options]"
    parser.epilog = RECORD
    parser.add_argument("samples", metavar="SAMPLES", help=".jsonl, .txt or .parquet, .gz too; - is standard input")
    parser.add_argument(
        "-o", "--output", default="-", metavar="OUT", help="where the decisions go, .gz too (default: standard output)"
    )
    choice = parser.add_argument_group("what is chosen")
    add_choice_arguments(choice)
    choice.add_argument("--seed", type=whole, default=0, help="of all that is drawn at random (default: 0)")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format",
        choices=("jsonl", "text"),
        metavar="FORMAT",
        help="jsonl, or text: one chosen text a line (default: text if OUT is a .txt, else jsonl)",
    )
    output.add_argument("--nbest", type=count, metavar="K", help="also the K best texts of each segment (jsonl)")
    output.add_argument(
        "--selection", default="best", metavar="NAME", help="what the K are: best (default), diverse or medoids"
    )
    output.add_argument("--similarity", metavar="UTILITY", help="of the K, if not best (default: chrf)")
    output.add_argument(
        "--penalty", type=amount, metavar="X", help="diverse: utility that a point of similarity costs (default: 0.5)"
    )
    output.add_argument("--signature", action="store_true", help="also print what decides the outcome, for papers")
    output.add_argument("--quiet", action="store_true", help="no progress bar, no summary")
    samples = parser.add_argument_group("input")
    add_input_arguments(samples)
    samples.add_argument(
        "--window", type=count, default=256, metavar="SEGMENTS", help="worked on at once (default: 256)"
    )


def run(options: argparse.Namespace) -> None:
    """Read, decode, write; a progress bar on a terminal, a summary at the end."""
    from minrisk.cli.callables import named_utility
    from minrisk.cli.progress import Progress
    from minrisk.decoding import decode_corpus
    from minrisk.formats import open_output, read_segments, record_of, write_jsonl, write_text
    from minrisk.scoring import Ledger

    begin = time.perf_counter()
    layout = text_layout(options)
    format = _checked_format(options, layout)
    configuration = _configuration(options)
    if options.similarity is not None:
        options.similarity = named_utility(options.similarity, {})
    ledger = Ledger()
    to_pipe = options.output == "-"
    visible = not options.quiet and not (to_pipe and sys.stdout is not None and sys.stdout.isatty())
    with (
        open_output(options.output) as file,
        redirect_stdout(sys.stderr),  # What a utility prints must not get between the decisions.
        Progress(ledger, configuration.budget, visible) as progress,
    ):
        segments = read_segments(options.samples, options.input_format, layout, progress.opened)
        decisions = decode_corpus(
            progress.follow(segments),
            configuration.utility,
            configuration.method,
            configuration.budget,
            weights=configuration.weights,
            seed=configuration.seed,
            window=options.window,
            ledger=ledger,
        )
        flushed = _flushed(decisions, file) if to_pipe else decisions
        if format == "text":
            write_text((decision.text for decision in flushed), file)
        else:
            write_jsonl((record_of(decision, _nbest(options, decision)) for decision in flushed), file)
    if not options.quiet:
        print(_summary(ledger, time.perf_counter() - begin), file=sys.stderr)
    if options.signature:
        print(configuration.signature(), file=sys.stderr)


def _nbest(options: argparse.Namespace, decision: Decision) -> list[Choice]:
    from minrisk.selection import select

    if not options.nbest:
        return []
    given = {name: getattr(options, name) for name in SELECTING if getattr(options, name) is not None}
    return select(decision, options.nbest, options.selection, seed=options.seed, **given)


def _checked_format(options: argparse.Namespace, layout: TextLayout) -> str:
    """The format to write, of options that go together."""
    from minrisk.errors import InputError, unknown_name
    from minrisk.selection import SELECTIONS

    name = options.output.lower().removesuffix(".gz")
    if name.endswith(".parquet"):
        raise InputError(f"{options.output}: Parquet is read but not written; write .jsonl or .txt, .gz too")
    format = str(options.format or ("text" if name.endswith(".txt") else "jsonl"))
    if options.nbest and format == "text":
        raise InputError("--nbest goes with --format jsonl: flat text has one line for a segment")
    if options.selection not in SELECTIONS:
        raise unknown_name("selection", options.selection, SELECTIONS)
    if options.selection != "best" and not options.nbest:
        raise InputError(f"--selection {options.selection} needs --nbest K: how many texts to select")
    for name in SELECTING:
        if options.selection == "best" and getattr(options, name) is not None:
            raise InputError(f"--{name} goes with --selection diverse or medoids")
    for path in (options.samples, *layout.files):
        if os.path.isfile(options.output) and os.path.exists(path) and os.path.samefile(options.output, path):
            raise InputError(f"{options.output}: is read from; the output must have another name")
    return format


def _configuration(options: argparse.Namespace) -> Configuration:
    from minrisk.cli.callables import named_utility
    from minrisk.decoding import Configuration, method

    chosen = named_utility(options.utility, parse_settings(options.utility_set))
    settings = parse_settings(options.set)
    if options.tuned:
        return Configuration(chosen, _tuned(options), options.budget, options.weights, options.seed)
    plain = Configuration(chosen, options.method, options.budget, options.weights, options.seed)
    if not settings:
        return plain
    name = options.method or plain.method_name
    return Configuration(chosen, method(name, **settings), options.budget, options.weights, options.seed)


def _tuned(options: argparse.Namespace) -> Method:
    """The method of a tuned configuration, for values on the metric's own scale."""
    from minrisk.errors import InputError
    from minrisk.study.tuning import tuned_method

    if options.method not in (None, "pmbr") or options.set:
        raise InputError("--tuned is pmbr with all its options: leave out --method and --set")
    return tuned_method(options.tuned)[0]


def _flushed(decisions: Iterable[Decision], file: IO[bytes]) -> Iterator[Decision]:
    """The decisions, each on its way to the reader of a pipe before the next is waited for."""
    for decision in decisions:
        yield decision
        file.flush()


def _summary(ledger: Ledger, seconds: float) -> str:
    other = max(0.0, seconds - ledger.seconds_scoring - ledger.seconds_planning)
    reused = ledger.calls - ledger.scored
    return (
        f"{ledger.segments:,} segment{'s' if ledger.segments != 1 else ''}, {ledger.calls:,} calls of {ledger.cells:,} "
        f"({100 * ledger.share:.3g} % of full MBR{f', {reused:,} of them reused' if reused else ''}); "
        f"{seconds:.2f} s: scoring {ledger.seconds_scoring:.2f}, methods {ledger.seconds_planning:.2f}, "
        f"reading, writing and start {other:.2f}"
    )
