"""The paper's experiments on one samples file: how long they take, and the committed reproduction.

    python benchmarks/study.py time [--segments 40] [--trials 50]
    python benchmarks/study.py time --segments 200 --trials 1000        the whole grid, nothing extrapolated
    python benchmarks/study.py reproduce --folder FOLDER                resumes; writes results/study.md, docs/figures

Two processes with one thread each. `time` runs a share of the grid of the paper's N=128 (four methods, five budgets,
1000 trials, 200 segments) and multiplies. Without the samples file both say so and do nothing.
"""

# ruff: noqa: E402 -- the numbers of threads are read when NumPy is imported

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import platform
import resource
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from minrisk import study, utility
from minrisk.methods.pmbr import Pmbr
from minrisk.study.spectra import details, first_values
from minrisk.study.tables import markdown, results, significance
from minrisk.study.tuning import Grid, losses

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "../shared/data/test16.jsonl.gz"
WORKERS = 2
GRID_TRIALS, GRID_SEGMENTS = 1000, 200
PAPER_MACHINES, PAPER_MINUTES = 1000, 15
LITERAL = "untuned=pmbr(paper=true)"
METRICS = ("chrf", "bleu", "ter")
FIGURES = {
    "spectrum-N128": "spectrum/figures/spectrum-N128",
    **{f"expected-N{size}": f"keep/figures/expected-N{size}" for size in study.SIZES},
    "bleu-N128": "keep/figures/bleu-N128",
    "merged-expected-N128": "merged/figures/expected-N128",
    "methods-regret-calls": "methods/figures/regret-calls",
}
"""Figures of the docs, and where the reproduction leaves them."""


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("time", "reproduce"))
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("--segments", type=int, default=40, help="time: segments run")
    parser.add_argument("--trials", type=int, default=50, help="time: trials run")
    parser.add_argument("--folder", type=Path, default=Path("study"), help="reproduce: matrices and records")
    options = parser.parse_args()
    if not options.samples.is_file():
        print(f"skipped: {options.samples} is not there; name a samples file with --samples")
        return
    if options.what == "reproduce":
        reproduce(options.samples, options.folder)
    else:
        measure(options.samples, options.segments, options.trials)


def measure(samples: Path, segments: int, trials: int) -> None:
    """Print how long a share of the paper's grid takes, and what the whole grid would."""
    machine = f"{platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    print(f"FMBR, PMBR, NxK, SxS; 1/32 ... 1/2; N=128; {WORKERS} processes ({machine})\n")
    print("| duplicates | segments x trials | seconds | CPU seconds | ms of CPU a trial | whole grid on 2 free cores |")
    print("|---|--:|--:|--:|--:|--:|")
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        store = study.build_store(samples, utility("chrf"), Path(folder) / "matrices", limit=segments)
        count = len(store.ids)
        share = GRID_TRIALS * GRID_SEGMENTS / (trials * count)
        # Starting processes and loading compiled code costs the same whatever the size of the grid.
        tiny = study.Design(sizes=(128,), trials=1, without=tuple(store.ids[2:]))
        before = _cpu_seconds()
        study.simulate(store, Path(folder) / "start", tiny, workers=WORKERS)
        start = _cpu_seconds() - before
        for keep in (False, True):
            design = study.Design(sizes=(128,), trials=trials, keep_duplicates=keep)
            begin, before = time.perf_counter(), _cpu_seconds()
            study.simulate(store, Path(folder) / f"records-{keep}", design, workers=WORKERS)
            seconds, spent = time.perf_counter() - begin, _cpu_seconds() - before - start
            name = "kept" if keep else "merged"
            print(
                f"| {name} | {count} x {trials} | {seconds:.1f} | {spent:.1f} "
                f"| {1000 * spent / (count * trials):.2f} | {spent * share / WORKERS / 60:.1f} min |"
            )
            minutes = max(spent / WORKERS, 1e-9) * share / 60
            machines = PAPER_MACHINES * PAPER_MINUTES * len(study.BUDGETS)
            notes.append(
                f"{name}: {WORKERS * minutes:.0f} core-minutes; the paper's {PAPER_MACHINES} machines x "
                f"{PAPER_MINUTES} min x {len(study.BUDGETS)} budgets are {machines:,} machine-minutes, "
                f"{machines / (WORKERS * minutes):,.0f} times as many. By the clock it would be "
                f"{seconds * share / 60:.1f} min on this machine with what else it had to do."
            )
    print(f"\nStart of the processes: {start:.1f} s of CPU once a run, left out above.")
    print("\n".join(notes))


def reproduce(samples: Path, folder: Path) -> None:
    """All experiments, and what is committed of them."""
    metrics = [utility(name) for name in METRICS]
    store = study.build_store(samples, utility("chrf"), folder / "matrices", metrics=metrics)
    text = ["# The paper's experiments, repeated", "", *_conditions(), *_spectra(store, folder)]
    tuned: dict[bool, Pmbr] = {}
    held_out: tuple[str, ...] = ()
    for keep in (True, False):
        path = folder / f"tuned-{'keep' if keep else 'merged'}.json"
        text += _tuning(store, keep, path)
        tuned[keep], held_out = study.tuned_method(path, store.unit)
    many = ("PMBR", LITERAL, "NxK", "SxS", "pmbr", "columns", "square")
    kept = study.Design(keep_duplicates=True, tuned=tuned[True], without=held_out, trials=50)
    merged = study.Design(sizes=(128,), tuned=tuned[False], without=held_out, trials=50)
    designs = {
        "keep": kept,
        "merged": merged,
        "keep-methods": replace(kept, methods=many, sizes=(128,), trials=5),
        "methods": replace(merged, methods=(*many, "halving", "pruning"), trials=20),
        "raw-scale": replace(kept, methods=(LITERAL, "pmbr"), sizes=(128,), trials=5, unit=1.0, tuned=None),
    }
    for name, design in designs.items():
        records = study.simulate(store, folder / name, design, workers=WORKERS)
        study.write_tables(records, folder / name / "tables")
        study.write_figures(records, folder / name / "figures")
        text += _simulation(name, records)
    (ROOT / "benchmarks/results").mkdir(exist_ok=True)
    (ROOT / "benchmarks/results/study.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")
    for name, source in FIGURES.items():
        for suffix in ("png", "svg"):
            target = ROOT / "docs/figures" / f"{name}.{suffix}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / f"{source}.{suffix}", target)


TITLES = {
    "keep": "The paper's protocol: duplicates kept, PMBR tuned, all sizes",
    "merged": "Duplicates merged: a budget is a share of the distinct cells",
    "keep-methods": "The paper's methods and the package's, duplicates kept",
    "methods": "The paper's methods and the package's, duplicates merged",
    "raw-scale": "The same with values from 0 to 100 instead of 0 to 1, duplicates kept",
}


def _conditions() -> list[str]:
    return [
        "Written by `python benchmarks/study.py reproduce`; do not edit. Multi30k test_2016_flickr, German to English,",
        "200 segments with 1024 epsilon samples each; the utility is chrF. Tables give a choice's expected utility",
        "among the samples of the trial (0 to 100, ± standard deviation over trials), its held-out scores against the",
        "human reference (means of sentence scores), how far it falls short of full MBR's (regret), how often it does",
        "not, and the place of full MBR's choice in the method's ranking.",
        "",
    ]


def _spectra(store: study.Store, folder: Path) -> list[str]:
    text = []
    for keep, name in ((True, "spectrum"), (False, "spectrum-merged")):
        found = study.spectrum(store, keep_duplicates=keep, workers=1)
        study.write_spectra(found, folder / name, "chrF")
        study.write_spectrum_figure(folder / name, folder / name / "figures")
        text += [f"## Spectra, duplicates {'kept' if keep else 'merged'}", ""]
        text += [markdown(first_values(found, "chrF")), markdown(details(found, "chrF"))]
    return text


def _tuning(store: study.Store, keep: bool, path: Path) -> list[str]:
    """Search the paper's grid, or say what the file of an earlier search says."""
    text = [f"## Tuning of PMBR as published, duplicates {'kept' if keep else 'merged'}", ""]
    report = path.with_suffix(".md")
    if not path.exists() or not report.exists():
        tuned = study.tune(store, Grid(paper=True, keep_duplicates=keep, trials=6), workers=WORKERS)
        tuned.save(path, store)
        points = [("tuned", tuned.method), ("the package's default", Pmbr(paper=True))]
        points += [(f"best on {budget}", one) for budget, one in zip(tuned.grid.budgets, tuned.of_budget, strict=True)]
        head = " | ".join(str(budget) for budget in tuned.grid.budgets)
        lines = [f"| | rank | regularization | iterations | {head} |", "|---|--:|--:|--:|" + "--:|" * 5]
        for name, one, loss in losses(tuned, points):
            shown = " | ".join(f"{value:.1f}" for value in loss)
            lines.append(f"| {name} | {one.rank} | {one.regularization} | {one.iterations} | {shown} |")
        report.write_text("\n".join(lines) + "\n", encoding="utf-8")
    note = "Mean place of full MBR's choice (the paper's loss) on 10 held-out segments, 6 trials of N=128."
    return [*text, note, "", report.read_text(encoding="utf-8")]


def _simulation(name: str, records: study.Records) -> list[str]:
    summaries = study.summarize(records)
    text = [f"## {TITLES[name]}", "", markdown(results(records, summaries, ["expected"], deviations=True))]
    if name != "raw-scale":
        text.append(markdown(results(records, summaries, [f"score.{metric}" for metric in METRICS])))
    for measure in ("regret", "agreement", "rank"):
        if measure != "rank" or name in ("keep", "merged"):
            text += [f"{study_title(measure)}:", "", markdown(results(records, summaries, [measure]))]
    if name in ("keep", "merged"):
        wanted = next(summary for summary in summaries if summary.size == 128)
        text += [markdown(significance(records, wanted, measure)) for measure in ("expected", "score.bleu")]
    return text


def study_title(measure: str) -> str:
    """What a table of a measure is headed by."""
    return {"regret": "Regret", "agreement": "Agreement with FMBR", "rank": "Place of FMBR's choice"}[measure]


def _cpu_seconds() -> float:
    """Of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
