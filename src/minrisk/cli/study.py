"""repeat the experiments of the PMBR paper on your samples"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from minrisk.configuration import parse_settings

if TYPE_CHECKING:
    from minrisk.study.store import Progress, Store
    from minrisk.utilities.base import Utility

EXAMPLES = """\
examples:
  minrisk study matrix samples.jsonl --utility chrf --metric bleu --metric ter -o matrices
  minrisk study spectrum matrices -o spectrum
  minrisk study tune matrices --paper -o tuned.json
  minrisk study simulate matrices --tuned tuned.json --trials 100 -o study

SOURCE is a samples file (see `minrisk decode --help`), the folder of a `study matrix`, or an .npz or .npy of matrices.
Matrices and trials that are done are kept: a command that was interrupted goes on when it is given again.
"""
EXPERIMENTS = {
    "matrix": "compute the utilities of all pairs once, for all the others",
    "spectrum": "how low the rank is: singular values, with and without what is simple",
    "tune": "search PMBR's rank, regularization and iterations on held-out segments",
    "simulate": "methods against budgets over many trials: records, tables, figures",
}
SIZES = {"spectrum": (64, 128), "tune": (128,), "simulate": (32, 64, 128, 256)}
"""Samples drawn, as in the paper."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `minrisk study`."""
    parser.epilog = EXAMPLES
    experiments = parser.add_subparsers(dest="experiment", metavar="EXPERIMENT", title="experiments", required=True)
    for name, summary in EXPERIMENTS.items():
        sub = experiments.add_parser(name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.")
        sub.add_argument("source", metavar="SOURCE", help="samples, the folder of a `study matrix`, or .npz/.npy")
        sub.add_argument("-o", "--output", required=True, metavar="OUT", help="a folder; for tune, a .json file")
        sub.add_argument("--quiet", action="store_true", help="no progress bar, no summary")
        _add_matrix_arguments(sub.add_argument_group("matrices, where SOURCE is no `study matrix` yet"))
        if name != "matrix":
            _add_sampling_arguments(sub.add_argument_group("samples"), SIZES[name])
        if name in ADDERS:
            ADDERS[name](sub.add_argument_group("experiment"))


def _add_matrix_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--utility", metavar="NAME", help="as for decode (default: chrf)")
    group.add_argument("--utility-set", action="append", default=[], metavar="OPTION=VALUE", help="of the utility")
    group.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="held-out, against the reference: ter, bertscore(model=...), mine=file.py:function; repeatable",
    )
    group.add_argument("--values", metavar="FILE", help=".npz or .npy of the samples' matrices instead of a utility")
    group.add_argument("--lower-is-better", action="store_true", help="of values given")
    group.add_argument("--pool", type=_count, default=1024, help="samples of each segment used (default: 1024)")
    group.add_argument("--limit", type=_count, metavar="SEGMENTS", help="segments used (default: all)")
    group.add_argument("--dtype", default="float32", help="of the matrices on disk: float32 (default) or float64")


def _add_sampling_arguments(group: argparse._ArgumentGroup, sizes: tuple[int, ...]) -> None:
    shown = ",".join(map(str, sizes))
    group.add_argument("--sizes", type=_counts, default=sizes, metavar="N,N", help=f"samples drawn (default: {shown})")
    group.add_argument("--keep-duplicates", action="store_true", help="equal texts stay apart, as in the paper")
    group.add_argument("--unit", type=float, help="divide the utility by this (default: its perfect score)")
    group.add_argument("--seed", type=int, default=0, help="of all that is drawn at random (default: 0)")
    group.add_argument("--workers", type=_count, help="processes (default: one a core)")


def _add_spectrum_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--no-figures", action="store_true", help="tables only")


def _add_tune_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--budgets", default="1/32,1/16,1/8,1/4,1/2", help="(default: 1/32,1/16,1/8,1/4,1/2)")
    group.add_argument("--held-out", type=_count, default=10, metavar="SEGMENTS", help="to search on (default: 10)")
    group.add_argument("--trials", type=_count, default=4, help="of each segment (default: 4)")
    group.add_argument("--paper", action="store_true", help="tune the literal published procedure")


def _add_simulate_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--methods",
        default="PMBR,NxK,SxS",
        help="the paper's (default: PMBR,NxK,SxS; FMBR is always there) and any of `minrisk methods`: "
        "columns, fast=pmbr(rank=5)",
    )
    group.add_argument("--budgets", default="1/32,1/16,1/8,1/4,1/2", help="(default: 1/32,1/16,1/8,1/4,1/2)")
    group.add_argument("--trials", type=_count, default=1000, help="(default: 1000)")
    group.add_argument(
        "--other",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a `study matrix` of the same samples by a utility that a method looks at too; repeatable",
    )
    group.add_argument("--tuned", metavar="FILE", help="of `study tune`: it is PMBR here, without its segments")
    group.add_argument("--no-figures", action="store_true", help="records and tables only")
    group.add_argument("--csv", action="store_true", help="also all records as OUT/records.csv, a row each")


ADDERS = {"spectrum": _add_spectrum_arguments, "tune": _add_tune_arguments, "simulate": _add_simulate_arguments}


def run(options: argparse.Namespace) -> None:
    """Do the experiment and say where its outcome is."""
    experiment = {"matrix": _matrix, "spectrum": _spectrum, "tune": _tune, "simulate": _simulate}[options.experiment]
    try:
        said = experiment(options)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("matrices and trials that are done are kept; the same command goes on") from None
    if not options.quiet:
        print(said, end="" if said.endswith("\n") else "\n")


def _matrix(options: argparse.Namespace) -> str:
    store = _store(options, options.output)
    return f"{store.folder}: {len(store.ids)} matrices\n{store.signature}"


def _spectrum(options: argparse.Namespace) -> str:
    from minrisk.study import spectrum, write_spectra, write_spectrum_figure
    from minrisk.study.spectra import details, first_values
    from minrisk.study.tables import markdown, title

    store = _store(options, Path(options.output) / "matrices")
    with _progress(options, "segments") as progress:
        found = spectrum(
            store,
            options.sizes,
            seed=options.seed,
            keep_duplicates=options.keep_duplicates,
            unit=options.unit,
            workers=options.workers,
            progress=progress,
        )
    label = title(str(store.about["utility"]))
    write_spectra(found, options.output, label)
    if not options.no_figures:
        write_spectrum_figure(options.output, Path(options.output) / "figures")
    return f"{markdown(first_values(found, label))}\n{markdown(details(found, label))}"


def _tune(options: argparse.Namespace) -> str:
    from minrisk.study import Grid, tune

    store = _store(options, f"{options.output}.matrices")
    grid = Grid(
        size=_one(options.sizes),
        budgets=tuple(_split(options.budgets)),
        held_out=options.held_out,
        trials=options.trials,
        seed=options.seed,
        keep_duplicates=options.keep_duplicates,
        unit=options.unit,
        paper=options.paper,
    )
    with _progress(options, "trials") as progress:
        tuned = tune(store, grid, workers=options.workers, progress=progress)
    tuned.save(options.output, store)
    method = tuned.method
    return (
        f"rank {method.rank}, regularization {method.regularization}, iterations {method.iterations}: "
        f"full MBR's choice comes at place {float(tuned.loss.mean(axis=-1).min()):.2f} on average\n{options.output}"
    )


def _simulate(options: argparse.Namespace) -> str:
    from minrisk.study import Design, Store, simulate, tuned_method, write_figures, write_tables
    from minrisk.study.files import write_lines

    output = Path(options.output)
    store = _store(options, output / "matrices")
    tuned, held_out = tuned_method(options.tuned, options.unit or store.unit) if options.tuned else (None, ())
    seen = tuple(name for name in held_out if name in set(store.ids))
    design = Design(
        methods=tuple(_split(options.methods)),
        sizes=options.sizes,
        budgets=tuple(_split(options.budgets)),
        trials=options.trials,
        seed=options.seed,
        keep_duplicates=options.keep_duplicates,
        unit=options.unit,
        tuned=tuned,
        without=seen,
    )
    with _progress(options, "trials") as progress:
        others = [Store.open(folder) for folder in options.other]
        records = simulate(store, output, design, others=others, workers=options.workers, progress=progress)
    write_tables(records, output / "tables")
    if options.csv:
        write_lines(output / "records.csv", records.rows())
    if not options.no_figures:
        write_figures(records, output / "figures")
    return (output / "tables" / "expected.md").read_text(encoding="utf-8")


def _store(options: argparse.Namespace, folder: str | Path) -> Store:
    from minrisk.cli.callables import named_utility
    from minrisk.errors import InputError
    from minrisk.study import prepared_store

    if Path(options.source).is_dir() and (options.utility or options.utility_set):
        raise InputError(f"{options.source}: is a store and has its utility; `--utility` goes with a samples file")
    with _progress(options, "matrices") as progress:
        return prepared_store(
            options.source,
            folder,
            named_utility(options.utility or "chrf", parse_settings(options.utility_set)),
            values=options.values,
            pool=options.pool,
            dtype=options.dtype,
            limit=options.limit,
            metrics=_metrics(options.metric),
            lower_is_better=options.lower_is_better,
            progress=progress,
        )


def _metrics(names: list[str]) -> dict[str, Utility]:
    """Held-out metrics by their labels: before an equals sign, or else the metric's own name."""
    from minrisk.cli.callables import named_utility
    from minrisk.study.baselines import labelled
    from minrisk.study.store import labelled_metrics

    parted = [(text, *labelled(text)) for text in names]
    metrics = [(text, label, named_utility(rest, {})) for text, label, rest in parted]
    return labelled_metrics((metric.name if label == text else label, metric) for text, label, metric in metrics)


@contextmanager
def _progress(options: argparse.Namespace, what: str) -> Iterator[Progress | None]:
    """A bar with the time left, on a terminal."""
    if options.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _split(text: str) -> list[str]:
    """At commas that are not within parentheses."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in _split(text))


def _one(sizes: tuple[int, ...]) -> int:
    from minrisk.errors import InputError

    if len(sizes) != 1:
        raise InputError(f"a grid is searched at one of --sizes, got {len(sizes)}")
    return sizes[0]


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"a whole number of at least 1 is needed, got {text!r}")
    return number
