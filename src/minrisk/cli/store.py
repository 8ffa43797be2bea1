"""look into a score store, export it, prune it, verify it"""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from minrisk.cli.options import count, whole
from minrisk.configuration import parse_settings
from minrisk.errors import InputError, StoreError

if TYPE_CHECKING:
    from minrisk.store import Store

EPILOG = """\
  minrisk store stats scores.db
  minrisk store export scores.db --utility metricx -o pairs.jsonl.gz
  minrisk store prune scores.db --utility dtype=float16 --unused 90
  minrisk store verify scores.db
  minrisk store verify scores.db --utility comet --sample 1000

A store is filled by `minrisk decode --store FILE`. TEXT may be any part of what `stats` shows of a utility.
"""
TOLERANCE = 1e-3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `minrisk store`."""
    parser.usage = "minrisk store {stats | export | prune | verify} FILE [options]"
    parser.epilog = EPILOG
    parser.add_argument("action", choices=("stats", "export", "prune", "verify"), help="what is done")
    parser.add_argument("file", metavar="FILE", help="the store")
    parser.add_argument(
        "--utility", metavar="TEXT", help="export, prune: of these; verify: score a sample with it again"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="export: JSON Lines, .gz too (default: standard output)")
    parser.add_argument("--unused", type=whole, metavar="DAYS", help="prune: those not used for so many days")
    again = parser.add_argument_group("verify --utility NAME")
    again.add_argument("--utility-set", action="append", default=[], metavar="OPTION=VALUE", help="an option of it")
    again.add_argument("--sample", type=count, metavar="N", help="pairs that are scored again (default: 100)")
    again.add_argument("--seed", type=whole, metavar="S", help="of the sample (default: 0)")


def run(options: argparse.Namespace) -> None:
    """Do one of the four."""
    from minrisk.store import Store

    _check(options)
    with Store(options.file, create=False) as store:
        {"stats": _stats, "export": _export, "prune": _prune, "verify": _verify}[options.action](store, options)


def _check(options: argparse.Namespace) -> None:
    """Raise for options that do not go with the action."""
    actions = {"output": "export", "unused": "prune", "utility_set": "verify", "sample": "verify", "seed": "verify"}
    for name, action in actions.items():
        if getattr(options, name) not in (None, []) and options.action != action:
            raise InputError(f"--{name.replace('_', '-')} goes with minrisk store {action}")
    if options.action == "stats" and options.utility is not None:
        raise InputError("--utility goes with minrisk store export, prune and verify")
    if options.action == "prune" and options.utility is None and options.unused is None:
        raise InputError("minrisk store prune needs --utility TEXT or --unused DAYS: what is dropped")
    if options.utility is None and (options.utility_set or options.sample is not None or options.seed is not None):
        raise InputError("--utility-set, --sample and --seed go with --utility NAME: what scores the sample")


def _stats(store: Store, _: argparse.Namespace) -> None:
    from minrisk.store.upkeep import count_texts, holdings

    held = holdings(store)
    pairs = sum(holding.pairs for holding in held)
    size = store.path.stat().st_size
    print(f"{store.path}: {pairs:,} pairs of {count_texts(store):,} texts, {size:,} bytes")
    for holding in held:
        print(f"  {holding.pairs:,} pairs, last used {holding.used}: {holding.identity}")


def _export(store: Store, options: argparse.Namespace) -> None:
    from minrisk.formats import open_output, write_jsonl
    from minrisk.store.upkeep import chosen, export

    held = chosen(store, options.utility)
    if not held:
        raise InputError(f"{store.path}: holds no utility with {options.utility!r}; see `minrisk store stats`")
    with open_output(options.output or "-") as file:
        write_jsonl(export(store, held), file)


def _prune(store: Store, options: argparse.Namespace) -> None:
    from minrisk.store.upkeep import chosen, prune

    dropped = chosen(store, options.utility, options.unused)
    before = store.path.stat().st_size
    texts = prune(store, dropped) if dropped else 0
    for holding in dropped:
        print(f"dropped {holding.pairs:,} pairs: {holding.identity}")
    freed = before - store.path.stat().st_size
    print(f"{len(dropped)} utilities, {texts:,} texts dropped, {freed:,} bytes given back")


def _verify(store: Store, options: argparse.Namespace) -> None:
    from minrisk.store.upkeep import faults, holdings

    found = list(faults(store))
    for fault in found[:20]:
        print(fault)
    if found:
        raise StoreError(f"{store.path}: is damaged: {len(found)} faults; restore a copy, or move it")
    print(f"{store.path}: sound, {sum(holding.pairs for holding in holdings(store)):,} pairs")
    if options.utility is not None:
        _compare(store, options)


def _compare(store: Store, options: argparse.Namespace) -> None:
    import numpy as np

    from minrisk.cli.callables import named_utility
    from minrisk.seeding import stream
    from minrisk.store.upkeep import compared

    with redirect_stdout(sys.stderr):  # What a utility prints is not the answer.
        utility = named_utility(options.utility, parse_settings(options.utility_set))
        held, now = compared(store, utility, options.sample or 100, stream(options.seed or 0, b"", "verify"))
    apart = np.abs(held - now)
    worst = int(np.argmax(apart))
    print(
        f"{len(held):,} pairs scored again: at most {apart[worst]:.3g} apart ({held[worst]:.6g} and {now[worst]:.6g})"
    )
    if not (apart <= TOLERANCE * np.maximum(1.0, np.abs(held))).all():
        raise StoreError(f"{store.path}: the utility says something else now; prune it, or find out what has changed")
