"""Figures like the paper's, and quality against calls for all methods; drawn from records, as PNG and SVG."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from minrisk.errors import MissingExtraError
from minrisk.study.files import made_folder
from minrisk.study.records import Records
from minrisk.study.spectra import PARTS, read_spectra
from minrisk.study.store import slug
from minrisk.study.summary import Summary, summarize
from minrisk.study.tables import REFERENCE, title
from minrisk.types import FloatArray

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F4F24", "#6A51A3", "#444444")
"""Okabe and Ito's, told apart by all kinds of colour vision, and three more; markers and dashes differ as well."""
MARKERS = "osD^vPX<>"
DASHES = ("-", "--", "-.", ":")
WIDTH, HEIGHT = 3.35, 2.5
"""Inches: one column of a two-column page."""
DPI = 240
LEGEND_INSIDE, LEGEND_COLUMNS, LEGEND_LINE = 5, 3, 0.17
"""A legend of more entries than these stands below, in so many columns and inches a line."""
SETTINGS = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.4,
    "svg.fonttype": "none",
    "svg.hashsalt": "minrisk",
}


def write_figures(records: Records, folder: str | Path) -> list[Path]:
    """Each measure against the budget, one figure for each size, and quality against calls at the largest size.

    Logarithmic axes have no place for methods that make no calls, or are never short of full MBR.
    """
    summaries = summarize(records)
    written = []
    for summary in summaries:
        for measure in records.measures:
            name = f"{measure.removeprefix('score.')}-N{summary.size}"
            written += _drawn(folder, name, _against_budget, records, summary, measure)
    largest = max(summaries, key=lambda summary: summary.size)
    curves = _curves(records, largest)
    if curves:
        written += _drawn(folder, "regret-calls", _against_calls, records, largest, curves)
    return written


def write_spectrum_figure(folder: str | Path, target: str | Path) -> list[Path]:
    """The singular values that a study of spectra left, on a logarithmic scale."""
    label, spectra = read_spectra(folder)
    return [
        path
        for size, values in spectra.items()
        for path in _drawn(target, f"spectrum-N{size}", _spectrum, label, size, values)
    ]


def _drawn(folder: str | Path, name: str, draw: Callable[..., None], *content: Any) -> list[Path]:
    """A figure as PNG and SVG."""
    try:
        # By name, so that types are checked alike where it is installed and where it is not.
        matplotlib: Any = import_module("matplotlib")
        figure_of: Any = import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise MissingExtraError("drawing figures", "study") from error
    written = []
    with matplotlib.rc_context(SETTINGS):
        figure = figure_of(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.subplots()
        draw(axes, *content)
        _add_legend(figure, axes)
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            written.append(made_folder(folder) / f"{slug(name)}.{suffix}")
            figure.savefig(written[-1], dpi=DPI, metadata=metadata)
    return written


def _add_legend(figure: Any, axes: Any) -> None:
    """Among the curves while it is small; else below, in room of its own, so that it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    options = {"frameon": False, "handlelength": 2.6}
    if len(labels) <= LEGEND_INSIDE:
        axes.legend(**options)
        return
    figure.set_figheight(HEIGHT + LEGEND_LINE * math.ceil(len(labels) / LEGEND_COLUMNS))
    figure.legend(
        handles, labels, loc="outside lower center", ncols=LEGEND_COLUMNS, columnspacing=1.2, borderpad=0.1, **options
    )


def _against_budget(axes: Any, records: Records, summary: Summary, measure: str) -> None:
    """Means over trials with a band of one standard deviation; full MBR as a line across."""
    budgets = records.budgets
    places = np.arange(len(budgets))
    level = summary.mean(REFERENCE, "1", measure)
    axes.axhline(level, color="black", linewidth=0.8, label=REFERENCE, zorder=1)
    rivals = _rivals(records)
    # Many bands over each other would hide the curves.
    opacity = min(0.18, 0.6 / len(rivals)) if rivals else 0.0
    for number, method in enumerate(rivals):
        means = np.array([summary.mean(method, budget, measure) for budget in budgets])
        bands = np.array([summary.deviation(method, budget, measure) for budget in budgets])
        style = _style(number)
        axes.fill_between(places, means - bands, means + bands, color=style["color"], alpha=opacity, linewidth=0)
        axes.plot(places, means, label=method, **style)
    axes.set_xticks(places, budgets)
    axes.set_xlabel("budget (share of all cells)")
    expected = f"expected utility ({title(str(records.about['utility']))})"
    axes.set_ylabel(expected if measure == "expected" else f"{title(measure)} against the reference")
    axes.set_title(f"N = {summary.size}, {_duplicates(records)}, {records.about['trials']} trials", loc="left")


def _curves(records: Records, summary: Summary) -> dict[int, tuple[FloatArray, FloatArray]]:
    """Calls really made and regret, of each method by its number: those that logarithmic axes can show."""
    budgets = sorted(records.budgets, key=Fraction)
    curves = {}
    for number, method in enumerate(_rivals(records)):
        calls = np.array([summary.mean(method, budget, "calls") for budget in budgets])
        regrets = np.array([summary.mean(method, budget, "regret") for budget in budgets])
        shown = (regrets > 0) & (calls > 0)
        if shown.any():
            curves[number] = calls[shown], regrets[shown]
    return curves


def _against_calls(
    axes: Any, records: Records, summary: Summary, curves: dict[int, tuple[FloatArray, FloatArray]]
) -> None:
    """What the choices fall short of full MBR's, against the calls really made."""
    rivals = _rivals(records)
    for number, curve in curves.items():
        axes.plot(*curve, label=rivals[number], **_style(number))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("utility calls a segment")
    axes.set_ylabel(f"regret ({title(str(records.about['utility']))} short of FMBR)")
    axes.set_title(f"N = {summary.size}, {_duplicates(records)}; lower left is better", loc="left")


def _spectrum(axes: Any, label: str, size: int, values: dict[str, Any]) -> None:
    for number, (part, name) in enumerate(PARTS.items()):
        shown = values[part][values[part] > 1e-9]
        places = np.arange(1, len(shown) + 1)
        # A marker at 1, 2, 4, ...: as many for the few large values as for the many small ones.
        marked = (2 ** np.arange(int(np.log2(len(shown))) + 1) - 1).tolist() if len(shown) else []
        axes.plot(places, shown, label=name, markevery=marked, **_style(number))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_yscale("log")
    axes.set_xlabel("singular value, from the largest")
    axes.set_ylabel("mean over segments")
    axes.set_title(f"{label}, {size} samples", loc="left")


def _duplicates(records: Records) -> str:
    return f"duplicates {'kept' if records.about['signature']['keep_duplicates'] else 'merged'}"


def _rivals(records: Records) -> list[str]:
    return [method for method in records.methods if method != REFERENCE]


def _style(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)],
    }
