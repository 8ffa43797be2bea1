"""choose the best sample of each segment"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, redirect_stdout
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from minrisk.cli import cluster
from minrisk.cli.options import add_choice_arguments, add_input_arguments, amount, count, text_layout, whole
from minrisk.configuration import parse_settings

if TYPE_CHECKING:
    from minrisk.cli.cluster import Recorder
    from minrisk.cli.progress import Progress
    from minrisk.decoding import Configuration
    from minrisk.formats import TextLayout
    from minrisk.scoring import Ledger
    from minrisk.types import Decision, Method
    from minrisk.unfinished import Decisions


RECORD = """\
A line of JSON Lines, or a row of Parquet, is a segment; only `hypotheses` is needed:
  {"id": "news-1", "source": "...", "hypotheses": ["...", "..."], "logprobs": [-3.2, -4.1],
   "pseudo_references": ["...", "...", "..."], "pseudo_reference_logprobs": [-2.9, -3.3, -5.0],
   "weights": [2, 1, 1], "scores": [0.71, 0.83], "reference": "..."}
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
        choices=("jsonl", "text", "parquet"),
        metavar="FORMAT",
        help="jsonl, text (one chosen text a line) or parquet (default: by the name of OUT, else jsonl)",
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
    _add_scale_arguments(parser.add_argument_group("scale"))
    cluster.add_arguments(parser.add_argument_group("more than one machine"))


def _add_scale_arguments(scale: argparse._ArgumentGroup) -> None:
    scale.add_argument(
        "--store", metavar="FILE", help="what the metric says is kept there, and never asked for again (made if needed)"
    )
    scale.add_argument(
        "--store-all", action="store_true", help="there, also keep metrics as fast as the store itself, such as chrf"
    )
    scale.add_argument(
        "--workers", type=count, default=1, metavar="N", help="processes, for metrics that keep a CPU busy (default: 1)"
    )
    scale.add_argument("--restart", action="store_true", help="do not go on from an earlier run's OUT.partial")


def run(options: argparse.Namespace) -> None:
    """Read, decode, write; a progress bar on a terminal, a summary at the end."""
    from minrisk.cli.callables import named_utility
    from minrisk.cli.progress import Progress
    from minrisk.formats import open_output, replaceable
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
    progress = Progress(ledger, configuration.budget, visible)
    ray = options.engine == "ray"
    decoded = partial(
        cluster.records if ray else _records, options, configuration, _recorder(options), progress, ledger
    )
    # What a utility prints must not get between the decisions.
    if not to_pipe and "://" not in options.output and replaceable(options.output):
        with redirect_stdout(sys.stderr), progress:
            _to_file(options, format, configuration, decoded)
    else:
        opened = cluster.open_output(options.output) if ray else open_output(options.output)
        with opened as file, redirect_stdout(sys.stderr), progress:
            _write(options, format, _flushed(decoded(), file) if to_pipe else decoded(), file)
    if not options.quiet:
        print(_summary(ledger, time.perf_counter() - begin, options.workers), file=sys.stderr)
    if options.signature:
        print(configuration.signature(), file=sys.stderr)


def _to_file(
    options: argparse.Namespace,
    format: str,
    configuration: Configuration,
    decoded: Callable[[Decisions], Iterator[dict[str, Any]]],
) -> None:
    """Decide what an earlier run of the same command has not decided, and write all of it."""
    from minrisk.errors import MinriskError
    from minrisk.formats import open_output
    from minrisk.unfinished import Decisions

    with Decisions(options.output, _settings(options, configuration), options.restart) as decisions:
        kept = f"what is decided is kept in {decisions.partial}; the same command goes on from there"
        if decisions.done and not options.quiet:
            print(f"minrisk: going on after {decisions.done:,} segments that are decided", file=sys.stderr)
        try:
            for record in decoded(decisions):
                decisions.add(record)
            with open_output(options.output) as file:
                _write(options, format, decisions.records(), file)
        except MinriskError as error:
            if not decisions.empty:
                error.add_note(kept)
            raise
        except KeyboardInterrupt:
            raise KeyboardInterrupt(*([] if decisions.empty else [kept])) from None
        decisions.drop()


def _settings(options: argparse.Namespace, configuration: Configuration) -> dict[str, Any]:
    """What decides the records."""
    chosen = {name: getattr(options, name) for name in ("nbest", "selection", "penalty")}
    similar = None if options.similarity is None else options.similarity.signature()
    return {"signature": configuration.signature(), "similarity": similar, **chosen}


def _write(options: argparse.Namespace, format: str, records: Iterator[dict[str, Any]], file: IO[bytes]) -> None:
    from minrisk.formats import write_jsonl, write_parquet, write_text

    if format == "parquet":
        write_parquet(records, file, bool(options.nbest))
    elif format == "text":
        write_text((record["selected"] for record in records), file)
    else:
        write_jsonl(records, file)


def _records(
    options: argparse.Namespace,
    configuration: Configuration,
    record: Recorder,
    progress: Progress,
    ledger: Ledger,
    decisions: Decisions | None = None,
) -> Iterator[dict[str, Any]]:
    """The records of decisions that are made on this machine, without those that there are already."""
    from minrisk.decoding import Work, decided
    from minrisk.formats import read_segments
    from minrisk.store import Store

    segments = read_segments(options.samples, options.input_format, text_layout(options), progress.opened)
    missing = segments if decisions is None else decisions.missing(segments)
    with nullcontext() if options.store is None else Store(options.store, matrix=options.store_all) as store:
        yield from decided(
            progress.follow(missing),
            Work(configuration, record, options.window),
            store=store,
            workers=options.workers,
            ledger=ledger,
            first=0 if decisions is None else decisions.done,
        )


def _recorder(options: argparse.Namespace) -> Recorder:
    """What makes a decision a line of output: a function that another process can be given too."""
    given = {name: getattr(options, name) for name in SELECTING if getattr(options, name) is not None}
    return partial(_record, nbest=options.nbest, selection=options.selection, seed=options.seed, **given)


def _record(decision: Decision, nbest: int | None, selection: str, **given: Any) -> dict[str, Any]:
    from minrisk.formats import record_of
    from minrisk.selection import select

    return record_of(decision, select(decision, nbest, selection, **given) if nbest else [])


def _checked_format(options: argparse.Namespace, layout: TextLayout) -> str:
    """The format to write, of options that go together."""
    from minrisk.errors import InputError, unknown_name
    from minrisk.formats import decisions_table
    from minrisk.selection import SELECTIONS

    name = options.output.lower().removesuffix(".gz")
    if name.endswith(".parquet") and name != options.output.lower():
        raise InputError(f"{options.output}: Parquet is compressed inside; name it .parquet")
    known = {"txt": "text", "parquet": "parquet"}
    format = str(options.format or known.get(name.rpartition(".")[2], "jsonl"))
    if format == "parquet":
        decisions_table([], nbest=False)  # Where that cannot be made, it says so before anything is spent.
    if options.nbest and format == "text":
        raise InputError("--nbest goes with --format jsonl: flat text has one line for a segment")
    if options.selection not in SELECTIONS:
        raise unknown_name("selection", options.selection, SELECTIONS)
    if options.selection != "best" and not options.nbest:
        raise InputError(f"--selection {options.selection} needs --nbest K: how many texts to select")
    for name in SELECTING:
        if options.selection == "best" and getattr(options, name) is not None:
            raise InputError(f"--{name} goes with --selection diverse or medoids")
    cluster.check(options)
    if options.store_all and options.store is None:
        raise InputError("--store-all goes with --store FILE")
    if options.store is not None and os.path.realpath(options.store) == os.path.realpath(options.output):
        raise InputError(f"{options.output}: is the store; the output must have another name")
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


def _flushed(records: Iterable[dict[str, Any]], file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The records, each on its way to the reader of a pipe before the next is waited for."""
    for record in records:
        yield record
        file.flush()


def _summary(ledger: Ledger, seconds: float, workers: int) -> str:
    other = seconds - ledger.seconds_scoring - ledger.seconds_planning
    reused = ledger.calls - ledger.scored - ledger.found
    parts = [
        f"{100 * ledger.share:.3g} % of full MBR",
        *([f"{ledger.found:,} of them found in the store"] if ledger.found else []),
        *([f"{reused:,} of them reused"] if reused else []),
        *([f"besides {ledger.auxiliary:,} of other utilities"] if ledger.auxiliary else []),
    ]
    return (
        f"{ledger.segments:,} segment{'s' if ledger.segments != 1 else ''}, {ledger.calls:,} calls of {ledger.cells:,} "
        f"({', '.join(parts)}); "
        f"{seconds:.2f} s: scoring {ledger.seconds_scoring:.2f}, methods {ledger.seconds_planning:.2f}"
        + (f", reading, writing and start {max(0.0, other):.2f}" if workers == 1 else f" in all {workers} workers")
    )
