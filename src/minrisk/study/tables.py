"""Tables in the paper's layout: methods down, budgets across, a block for each size; best of a column in bold.

As Markdown, LaTeX and CSV, which knows no bold.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from minrisk.study.records import Records
from minrisk.study.summary import Summary, compared, higher_is_better

REFERENCE = "FMBR"
"""Shown on every budget, in no competition with the others."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table before it is put into Markdown or LaTeX.

    head    labels of the columns after the first two, in groups of `under`
    blocks  for each: its label, and rows of a label and cells; a cell is a text and whether it is among the best
    corner  what the head is about, in LaTeX
    """

    caption: str
    head: list[str]
    under: list[str]
    blocks: list[tuple[str, list[tuple[str, list[tuple[str, bool]]]]]]
    corner: str = ""


def results(
    records: Records, summaries: Sequence[Summary], measures: Sequence[str], *, deviations: bool = False
) -> Table:
    """The paper's table of results: each measure's mean over trials under each budget."""
    budgets, places = records.budgets, {name: decimals(summaries, name) for name in measures}
    blocks = []
    for summary in summaries:
        columns = [(budget, measure) for budget in budgets for measure in measures]
        shown: dict[str, list[str]] = {}
        for method in records.methods:
            shown[method] = [
                f"{summary.mean(method, budget, measure):.{places[measure]}f}"
                + (f" ±{summary.deviation(method, budget, measure):.{places[measure]}f}" if deviations else "")
                for budget, measure in columns
            ]
        best = [_best(records, summary, *column, places[column[1]]) for column in columns]
        rows = [
            (method, [(text, method in winners) for text, winners in zip(texts, best, strict=True)])
            for method, texts in shown.items()
        ]
        blocks.append((f"N={summary.size}", rows))
    caption = (
        f"Mean over {records.about['trials']} trials and {len(records.about['segments'])} segments; "
        f"duplicates {'kept' if records.about['signature']['keep_duplicates'] else 'merged'}."
    )
    return Table(caption, list(budgets), [title(name) for name in measures], blocks, "budget")


def significance(records: Records, summary: Summary, measure: str, method: str = "PMBR") -> Table:
    """The difference of one method from each of the others, with its 95 % interval and p, on each budget."""
    budgets, places = records.budgets, decimals([summary], measure) + 1
    rows = []
    for other in records.methods:
        if other == method:
            continue
        cells = []
        for found in compared(summary, method, other, budgets, measure):
            interval = f"[{found.low:+.{places}f}, {found.high:+.{places}f}]"
            text = f"{found.difference:+.{places}f} {interval} p={found.p:.4f}"
            cells.append((text, found.p < 0.05))
        rows.append((f"{method} - {other}", cells))
    caption = (
        f"{title(measure)}: paired bootstrap over {len(records.about['segments'])} segments, each a mean over trials; "
        "bold: p < 0.05."
    )
    return Table(caption, list(budgets), [""], [(f"N={summary.size}", rows)], "budget")


def markdown(table: Table) -> str:
    """As a GitHub table."""
    head = _columns(table)
    lines = [table.caption, "", f"| | | {' | '.join(head)} |", f"|---|---|{'--:|' * len(head)}"]
    for label, rows in table.blocks:
        for number, (name, cells) in enumerate(rows):
            shown = [f"**{text}**" if best else text for text, best in cells]
            name = name.replace("|", "\\|")
            lines.append(f"| {label if number == 0 else ''} | {name} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """With booktabs and multirow, in the layout of the paper's Table 2."""
    width = len(table.under)
    columns = "ll" + ("r" * width) * len(table.head)
    groups = " & ".join(f"\\multicolumn{{{width}}}{{c}}{{{_escaped(name)}}}" for name in table.head)
    rules = " ".join(
        f"\\cmidrule(lr){{{3 + place * width}-{2 + (place + 1) * width}}}" for place in range(len(table.head))
    )
    lines = [f"% {table.caption}", f"\\begin{{tabular}}{{{columns}}}", "\\toprule"]
    lines += [f" & {table.corner} & {groups} \\\\", rules]
    if width > 1:
        lines.append(f" & & {' & '.join(_escaped(name) for _ in table.head for name in table.under)} \\\\")
    for label, rows in table.blocks:
        lines.append("\\midrule")
        for number, (name, cells) in enumerate(rows):
            begin = (
                f"\\multirow{{{len(rows)}}}{{*}}{{\\rotatebox[origin=c]{{90}}{{{_escaped(label)}}}}}" if label else ""
            )
            shown = [f"\\textbf{{{_escaped(text)}}}" if best else _escaped(text) for text, best in cells]
            lines.append(f"{begin if number == 0 else ''} & {_escaped(name)} & {' & '.join(shown)} \\\\")
            if number == 0 and name == REFERENCE and len(rows) > 1:
                lines.append(f"\\cmidrule{{2-{2 + width * len(table.head)}}}")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def comma_separated(table: Table) -> str:
    """The same cells for a spreadsheet, the label of a block on each of its rows."""
    rows = [[label, name, *(text for text, _ in cells)] for label, of_block in table.blocks for name, cells in of_block]
    return _lines([["", "", *_columns(table)], *rows])


def everything(records: Records, summaries: Sequence[Summary]) -> str:
    """CSV, a line for each size, method, budget and measure: mean and standard deviation over trials."""
    lines = [["size", "method", "budget", "measure", "mean", "deviation", "trials", "segments"]]
    trials, segments = str(records.about["trials"]), str(len(records.about["segments"]))
    for summary in summaries:
        for method, budget in summary.runs:
            for measure in summary.corpus:
                numbers = summary.mean(method, budget, measure), summary.deviation(method, budget, measure)
                shown = [f"{number:.6g}" for number in numbers]
                lines.append([str(summary.size), method, budget, measure, *shown, trials, segments])
    return _lines(lines)


def all_comparisons(records: Records, summaries: Sequence[Summary], measures: Sequence[str]) -> str:
    """CSV, a line for each size, measure, budget and pair of methods: the paired bootstrap between the two."""
    lines = [["size", "measure", "method", "other", "budget", "difference", "low", "high", "p"]]
    for summary in summaries:
        for measure in measures:
            for method, other in combinations(records.methods, 2):
                found = compared(summary, method, other, records.budgets, measure)
                for budget, one in zip(records.budgets, found, strict=True):
                    numbers = [f"{number:.6g}" for number in (one.difference, one.low, one.high, one.p)]
                    lines.append([str(summary.size), measure, method, other, budget, *numbers])
    return _lines(lines)


SYMBOLS = str.maketrans(
    {symbol: f"\\{symbol}" for symbol in "&%_#${}"}
    | {"~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "\\": "\\textbackslash{}"}
    | {"±": "$\\pm$", "σ": "$\\sigma$", "²": "$^2$"}
)
"""What LaTeX reads as something else, or not at all."""

FORMATS: dict[str, Callable[[Table], str]] = {"md": markdown, "tex": latex, "csv": comma_separated}


def title(measure: str) -> str:
    """What a measure is called in tables and figures."""
    named = {
        "expected": "expected utility",
        "regret": "regret",
        "rank": "place of FMBR's choice",
        "agreement": "agreement with FMBR",
    }
    metrics = {
        "bertscore": "BERTScore",
        "bleu": "BLEU",
        "chrf": "chrF",
        "comet": "COMET",
        "metricx": "MetricX",
        "ter": "TER",
    }
    metric = measure.removeprefix("score.")
    return named.get(measure) or metrics.get(metric, metric)


def decimals(summaries: Sequence[Summary], measure: str) -> int:
    """As many as tell methods apart: two on a scale of 0 to 100, four on one of 0 to 1; regrets have one more."""
    if measure in ("rank", "calls", "agreement"):
        return 3 if measure == "agreement" else 2
    scale = "expected" if measure == "regret" else measure
    largest = max(float(abs(summary.corpus[scale]).mean(axis=0).max()) for summary in summaries)
    return (2 if largest > 2 else 4) + (measure == "regret")


def _best(records: Records, summary: Summary, budget: str, measure: str, places: int) -> list[str]:
    """The methods that are best as shown, full MBR aside."""
    rivals = [method for method in records.methods if method != REFERENCE]
    if len(rivals) < 2:
        return []
    up = higher_is_better(measure, bool(records.about["higher_is_better"]), records.about["lower_is_better"])
    shown = {name: round(summary.mean(name, budget, measure), places) for name in rivals}
    winner = (max if up else min)(shown.values())
    return [name for name, value in shown.items() if value == winner]


def _columns(table: Table) -> list[str]:
    several = len(table.under) > 1
    return [f"{name} {under}".strip() if several else name for name in table.head for under in table.under]


def _lines(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _escaped(text: str) -> str:
    return re.sub(r"\$\\sigma\$(\d)", r"$\\sigma_\1$", text.translate(SYMBOLS))
