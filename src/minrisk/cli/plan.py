"""say what decoding would cost, before anything is spent"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from minrisk.cli.options import add_input_arguments, count, text_layout, whole
from minrisk.configuration import parse_settings

if TYPE_CHECKING:
    from minrisk.planning import Count, Rates, Row, Survey
    from minrisk.utilities.base import Utility

EPILOG = """\
No model is loaded: methods are rehearsed on a few segments, with chrF in the metric's place.

  minrisk plan samples.jsonl --utility metricx --calls-per-second 250 --devices 8 --price-per-hour 2.50
  minrisk plan samples.jsonl --utility judge.py:score --tokenizer characters/4 --price-per-1k-tokens 0.002
  minrisk plan samples.jsonl --utility comet --measure
  minrisk plan --segments 2037 --candidates 1024 --utility metricx --hardware paper

Calls are counted for each segment; a pair that several segments share is paid for once, so that these are upper bounds.
"""
CHARACTERS = "characters/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `minrisk plan`."""
    parser.usage = "minrisk plan SAMPLES --utility NAME [options]"
    parser.epilog = EPILOG
    parser.add_argument("samples", metavar="SAMPLES", nargs="?", help=".jsonl, .txt or .parquet, .gz too")
    what = parser.add_argument_group("what is planned")
    what.add_argument("--utility", default="chrf", metavar="NAME", help="as of `minrisk decode` (default: chrf)")
    what.add_argument("--utility-set", action="append", default=[], metavar="OPTION=VALUE", help="an option of it")
    what.add_argument("--method", metavar="NAMES", help="with commas between (default: all that save calls)")
    what.add_argument("--budget", metavar="BUDGETS", help="with commas between (default: 1/64 to 1/2)")
    what.add_argument("--weights", default="multiplicity", metavar="NAME", help="as of `minrisk decode`")
    what.add_argument("--limit", type=count, default=1000, metavar="N", help="segments to read (default: 1000)")
    what.add_argument("--segments", type=count, metavar="N", help="in all, if that is not what SAMPLES holds")
    what.add_argument("--candidates", type=count, metavar="N", help="without SAMPLES: distinct candidates a segment")
    what.add_argument("--seed", type=whole, default=0, help="of what is drawn at random (default: 0)")
    _add_rate_arguments(parser.add_argument_group("what it takes"))
    output = parser.add_argument_group("output")
    formats = ("table", "markdown", "csv", "jsonl")
    output.add_argument(
        "--format", choices=formats, default="table", metavar="FORMAT", help="table (default), markdown, csv or jsonl"
    )
    add_input_arguments(parser.add_argument_group("input"))


def _add_rate_arguments(rates: argparse._ArgumentGroup) -> None:
    rates.add_argument("--calls-per-second", type=float, metavar="X", help="metric calls of one device")
    rates.add_argument(
        "--encodes-per-second", type=float, metavar="X", help="texts of one device, for metrics that encode them"
    )
    rates.add_argument("--hardware", metavar="NAME", help="speeds that are known; a wrong name shows which")
    rates.add_argument("--measure", action="store_true", help="load the metric and time it on this machine")
    rates.add_argument("--devices", type=count, metavar="N", help="that share the work (default: 1)")
    rates.add_argument("--price-per-call", type=float, metavar="X", help="of the metric")
    rates.add_argument("--price-per-1k-tokens", type=float, metavar="X", help="of a metric that is paid by tokens")
    rates.add_argument("--price-per-hour", type=float, metavar="X", help="of one device")
    rates.add_argument(
        "--tokenizer", metavar="FOLDER", help="counts tokens; words; characters/4: one for each four characters"
    )
    rates.add_argument(
        "--tokens-per-call", type=whole, default=0, metavar="N", help="beside the texts, such as a judge's prompt"
    )


def run(options: argparse.Namespace) -> None:
    """Survey the samples, rehearse, print."""
    from minrisk.cli.callables import named_utility
    from minrisk.methods import METHODS
    from minrisk.planning import BUDGETS, plan, planned_methods

    rates = _rates(options)
    budgets = _names(options.budget) if options.budget else BUDGETS
    methods = _names(options.method) if options.method else planned_methods()
    for name in methods:
        METHODS.parse(name)
    tokens_of = _tokens_of(options)
    with redirect_stdout(sys.stderr):
        utility = named_utility(options.utility, parse_settings(options.utility_set))
        found = _survey(options, utility)
        if options.measure:
            rates = _measured(rates, found, utility, options.seed)
    shown, left_out = plan(found, utility, methods, budgets, rates, tokens_of, options.weights)
    _print_facts(options, found, rates)
    PRINTERS[options.format](shown)
    for name, reason in left_out.items():
        print(f"left out: {name}: {reason}", file=sys.stderr)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in re.split(r",(?![^(]*\))", text) if name.strip()]
    return list(dict.fromkeys(name for name in names if name != "full"))


def _rates(options: argparse.Namespace) -> Rates:
    from minrisk.errors import InputError, unknown_name
    from minrisk.planning import HARDWARE, Rates

    if options.price_per_1k_tokens is not None and options.tokenizer is None:
        raise InputError("--price-per-1k-tokens needs --tokenizer FOLDER, or --tokenizer characters/4 as a guess")
    calls_per_second, devices = options.calls_per_second, options.devices
    if options.measure and (calls_per_second, options.encodes_per_second) != (None, None):
        raise InputError("--measure tells the speed; --calls-per-second and --encodes-per-second do not go with it")
    if options.hardware is not None:
        if options.hardware not in HARDWARE:
            raise unknown_name("hardware", options.hardware, HARDWARE)
        if calls_per_second is not None or options.measure:
            raise InputError("--hardware tells the speed; --calls-per-second and --measure do not go with it")
        calls_per_second = HARDWARE[options.hardware].calls_per_second
        devices = devices or HARDWARE[options.hardware].devices
    return Rates(
        calls_per_second=calls_per_second,
        encodes_per_second=options.encodes_per_second,
        devices=devices or 1,
        price_per_call=options.price_per_call,
        price_per_1k_tokens=options.price_per_1k_tokens,
        price_per_hour=options.price_per_hour,
        tokens_per_call=options.tokens_per_call,
    )


def _measured(rates: Rates, found: Survey, utility: Utility, seed: int) -> Rates:
    from minrisk.planning import measured

    calls, encodes = measured(found, utility, seed)
    speeds = f"{calls:,.3g} calls a second" + (f", {encodes:,.3g} texts encoded a second" if encodes else "")
    print(f"measured here: {speeds}", file=sys.stderr)
    return dataclasses.replace(rates, calls_per_second=calls, encodes_per_second=encodes)


def _tokens_of(options: argparse.Namespace) -> Count | None:
    """How many tokens a text has."""
    from minrisk.errors import InputError

    name = options.tokenizer
    if name is None:
        return None
    if name.startswith(CHARACTERS):
        try:
            characters = float(name.removeprefix(CHARACTERS))
        except ValueError:
            characters = 0.0
        if not characters > 0:
            raise InputError(f"--tokenizer {name}: a number above zero is needed, as in characters/4")
        return lambda text: len(text) / characters
    from minrisk.datasets import counter

    return counter(name)


def _survey(options: argparse.Namespace, utility: Utility) -> Survey:
    """What the samples are like, or what they are said to be."""
    from minrisk.errors import InputError
    from minrisk.formats import Input, read_segments
    from minrisk.planning import imagined, survey

    if options.samples is None:
        if not (options.segments and options.candidates):
            raise InputError("SAMPLES is needed, or --segments N and --candidates N to plan before there are samples")
        found = survey(imagined(options.segments, options.candidates, seed=options.seed), utility, options.limit)
    else:
        if options.candidates:
            raise InputError("--candidates goes without SAMPLES, which tells how many there are")
        opened: list[Input] = []
        segments = read_segments(options.samples, options.input_format, text_layout(options), opened.append)
        found = survey(segments, utility, options.limit, options.seed)
        found.share = opened[0].share if next(segments, None) is not None else 1.0
        if found.share is None and options.segments is None:
            print(
                f"{options.samples}: of a pipe, only the first {len(found.rows):,} segments are planned; "
                "--segments N tells how many there are",
                file=sys.stderr,
            )
    if options.segments:
        found.share = len(found.rows) / options.segments
    return found


def _print_facts(options: argparse.Namespace, found: Survey, rates: Rates) -> None:
    """What was found, beside the table."""
    from minrisk.planning import HARDWARE

    read = len(found.rows)
    about = "" if found.segments == read or options.segments else "about "
    print(
        f"{about}{found.segments:,} segment{'s' if found.segments != 1 else ''}, on average "
        f"{sum(found.rows) / read:,.1f} distinct candidates and {sum(found.columns) / read:,.1f} distinct "
        f"pseudo-references; methods rehearsed on {len(found.kept)} of them",
        file=sys.stderr,
    )
    if rates.calls_per_second is not None:
        known = f" ({HARDWARE[options.hardware].what})" if options.hardware else ""
        print(f"{rates.devices:,} x {rates.calls_per_second:,.4g} calls a second{known}", file=sys.stderr)


def _columns(rows: Sequence[Row]) -> list[str]:
    """The names of the columns that have values."""
    names = [field.name for field in dataclasses.fields(rows[0])]
    return [name for name in names if getattr(rows[0], name) is not None]


def _cell(name: str, value: Any) -> str:
    if name == "share":
        return f"{100 * value:.3g} %"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print_table(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    names = _columns(rows)
    table = Table()
    for name in names:
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        ends = after is None or after.budget != row.budget
        table.add_row(*(_cell(name, getattr(row, name)) for name in names), end_section=ends)
    Console().print(table)


def _print_markdown(rows: Sequence[Row]) -> None:
    names = _columns(rows)
    print(f"| {' | '.join(names)} |")
    print(f"| {' | '.join('---' if name == 'method' else '---:' for name in names)} |")
    for row in rows:
        print(f"| {' | '.join(_cell(name, getattr(row, name)) for name in names)} |")


def _print_csv(rows: Sequence[Row]) -> None:
    names = _columns(rows)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([getattr(row, name) for name in names] for row in rows)


def _print_jsonl(rows: Sequence[Row]) -> None:
    for row in rows:
        print(json.dumps({name: getattr(row, name) for name in _columns(rows)}))


PRINTERS = {"table": _print_table, "markdown": _print_markdown, "csv": _print_csv, "jsonl": _print_jsonl}
