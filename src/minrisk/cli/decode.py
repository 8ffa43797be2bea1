"""choose the best sample of each segment"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from minrisk.configuration import parse_settings

if TYPE_CHECKING:
    from minrisk.decoding import Configuration
    from minrisk.formats import TextLayout
    from minrisk.scoring import Ledger
    from minrisk.types import Decision


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `minrisk decode`."""
    parser.add_argument("samples", metavar="SAMPLES", help="samples: .jsonl, .txt or .parquet, .gz too; - is a pipe")
    parser.add_argument("-o", "--output", default="-", metavar="OUT", help="where decisions go (default: -)")
    choice = parser.add_argument_group("what is chosen")
    choice.add_argument(
        "--utility", default="chrf", help="a name (see `minrisk utilities`), module:function or file.py:function"
    )
    choice.add_argument(
        "--utility-set", action="append", default=[], metavar="OPTION=VALUE", help="an option of the utility"
    )
    choice.add_argument("--method", help="a name (see `minrisk methods`); default: full, or pmbr on a budget")
    choice.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="an option of the method")
    choice.add_argument("--budget", default="1.0", help="share of the cells (1/16, 0.25) or calls (1024); default: all")
    choice.add_argument(
        "--weights", default="multiplicity", help="multiplicity (default), logprob or logprob-normalized"
    )
    choice.add_argument("--seed", type=int, default=0, help="default: 0")
    output = parser.add_argument_group("output")
    output.add_argument("--format", choices=("jsonl", "text"), default="jsonl", help="text: one chosen text a line")
    output.add_argument("--nbest", type=int, default=0, metavar="K", help="also the K best texts (jsonl)")
    output.add_argument("--signature", action="store_true", help="print what decides the outcome, for papers")
    output.add_argument("--quiet", action="store_true", help="no progress bar, no summary")
    samples = parser.add_argument_group("input")
    samples.add_argument("--input-format", choices=("jsonl", "text", "parquet"), help="default: by the file's name")
    samples.add_argument("--num-candidates", type=int, metavar="N", help="flat text: lines of a segment")
    samples.add_argument("--sources", metavar="FILE", help="flat text: one source a line")
    samples.add_argument("--logprobs", metavar="FILE", help="flat text: one number for each candidate")
    samples.add_argument("--pseudo-references", metavar="FILE", help="flat text: what to compare with")
    samples.add_argument("--num-pseudo-references", type=int, metavar="K", help="flat text: lines of a segment there")
    samples.add_argument("--window", type=int, default=256, help="segments worked on at once (default: 256)")


def run(options: argparse.Namespace) -> None:
    """Read, decode, write; a progress bar on a terminal, a summary at the end."""
    from minrisk.cli.progress import Progress
    from minrisk.decoding import decode_corpus
    from minrisk.errors import InputError
    from minrisk.formats import open_output, read_segments, record_of, write_jsonl, write_text
    from minrisk.scoring import Ledger

    begin = time.perf_counter()
    if options.nbest < 0:
        raise InputError(f"--nbest must be at least 1, got {options.nbest}")
    configuration: Configuration = _configuration(options)
    ledger = Ledger()
    with Progress(ledger, visible=not options.quiet) as progress, open_output(options.output) as file:
        segments = read_segments(options.samples, options.input_format, _layout(options), progress.follow)
        decisions = decode_corpus(
            segments,
            configuration.utility,
            configuration.method,
            configuration.budget,
            weights=configuration.weights,
            seed=configuration.seed,
            window=options.window,
            ledger=ledger,
        )
        followed = _followed(decisions, progress)
        if options.format == "text":
            write_text((decision.text for decision in followed), file)
        else:
            write_jsonl((record_of(decision, options.nbest) for decision in followed), file)
    if not options.quiet:
        print(_summary(ledger, time.perf_counter() - begin), file=sys.stderr)
    if options.signature:
        print(configuration.signature(), file=sys.stderr)


def _configuration(options: argparse.Namespace) -> Configuration:
    from minrisk.cli.callables import named_utility
    from minrisk.decoding import Configuration, method

    chosen = named_utility(options.utility, parse_settings(options.utility_set))
    settings = parse_settings(options.set)
    plain = Configuration(chosen, options.method, options.budget, options.weights, options.seed)
    if not settings:
        return plain
    name = options.method or plain.method_name
    return Configuration(chosen, method(name, **settings), options.budget, options.weights, options.seed)


def _layout(options: argparse.Namespace) -> TextLayout:
    from minrisk.formats import TextLayout

    return TextLayout(
        num_candidates=options.num_candidates,
        sources=options.sources,
        logprobs=options.logprobs,
        pseudo_references=options.pseudo_references,
        num_pseudo_references=options.num_pseudo_references,
    )


def _followed(decisions: Iterable[Decision], progress: object) -> Iterator[Decision]:
    for decision in decisions:
        progress.update()  # type: ignore[attr-defined]
        yield decision


def _summary(ledger: Ledger, seconds: float) -> str:
    other = max(0.0, seconds - ledger.seconds_scoring - ledger.seconds_planning)
    reused = ledger.calls - ledger.scored
    return (
        f"{ledger.segments:,} segments, {ledger.calls:,} calls of {ledger.cells:,} "
        f"({100 * ledger.share:.3g} % of full MBR{f', {reused:,} of them reused' if reused else ''}); "
        f"{seconds:.2f} s: scoring {ledger.seconds_scoring:.2f}, methods {ledger.seconds_planning:.2f}, "
        f"reading, writing and start {other:.2f}"
    )
