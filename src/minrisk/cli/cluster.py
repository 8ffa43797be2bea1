"""`minrisk decode` on a Ray cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any

from minrisk.cli.options import count

if TYPE_CHECKING:
    from minrisk.cli.progress import Progress
    from minrisk.decoding import Configuration
    from minrisk.scoring import Ledger
    from minrisk.types import Decision
    from minrisk.unfinished import Decisions

    Recorder = Callable[[Decision], dict[str, Any]]


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Which engine decodes, and what it may use."""
    group.add_argument(
        "--engine", choices=("local", "ray"), default="local", metavar="NAME", help="local (default), or ray: a cluster"
    )
    group.add_argument("--address", metavar="ADDRESS", help="of the Ray cluster (default: one of this machine alone)")
    group.add_argument("--replicas", type=count, metavar="N", help="actors with the utility (default: all that fit)")
    group.add_argument(
        "--gpus-per-replica", type=float, metavar="X", help="GPUs of each actor, 0.5 too (default: none, one CPU)"
    )


def check(options: argparse.Namespace) -> None:
    """Raise for options that do not go together."""
    from minrisk.errors import InputError

    if options.engine == "local":
        for name in ("address", "replicas", "gpus_per_replica"):
            if getattr(options, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} goes with --engine ray")
        return
    if options.workers > 1:
        raise InputError("--workers goes with --engine local; on a cluster, --replicas does")
    if options.samples == "-":
        raise InputError("--engine ray reads files, which it can read again if a machine is lost, not standard input")
    if options.input_format == "text" or options.num_candidates:
        raise InputError("--engine ray reads JSON Lines and Parquet, not flat text; --engine local does")


def open_output(path: str) -> AbstractContextManager[IO[bytes]]:
    """Like `formats.open_output`, for paths such as s3://bucket/decisions.jsonl too."""
    from minrisk.formats import open_output
    from minrisk.ray import open_remote

    return open_remote(path) if "://" in path else open_output(path)


def records(
    options: argparse.Namespace,
    configuration: Configuration,
    record: Recorder,
    progress: Progress,
    ledger: Ledger,
    decisions: Decisions | None = None,
) -> Iterator[dict[str, Any]]:
    """The records of decisions that are made by the actors of a cluster, without those that there are already."""
    from minrisk.decoding import Work
    from minrisk.ray import connected, decode_files, kept, shipped
    from minrisk.scripts import loaded

    shipped(loaded())
    with connected(options.address):
        yield from decode_files(
            options.samples,
            Work(configuration, record, options.window),
            format=options.input_format,
            store=kept(options.store, options.store_all),
            replicas=options.replicas,
            gpus_per_replica=options.gpus_per_replica or 0.0,
            ledger=ledger,
            on_share=progress.reached,
            done=[] if decisions is None else list(decisions.told()),
            on_segment=(lambda _: None) if decisions is None else decisions.expect,
        )
