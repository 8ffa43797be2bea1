"""Tables and figures of a study, from its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minrisk.study.files import made_folder, write_text
from minrisk.study.records import Records
from minrisk.study.summary import Summary, summarize
from minrisk.study.tables import FORMATS, Table, all_comparisons, everything, results, significance

COMPACT = ("expected", "regret", "agreement", "rank")


def write_tables(records: Records, folder: str | Path) -> list[Path]:
    """Results in the paper's layout, what the utility itself says, and significance; Markdown, LaTeX, CSV.

    Significance tables compare the first method with the others; `comparisons.csv` has all pairs of methods.
    """
    target = made_folder(folder)
    summaries = summarize(records)
    held_out = [measure for measure in records.measures if measure.startswith("score.")]
    tables: dict[str, Table] = {"expected": results(records, summaries, ["expected"], deviations=True)}
    for measure in COMPACT[1:]:
        tables[measure] = results(records, summaries, [measure])
    if held_out:
        tables["results"] = results(records, summaries, held_out)
    tables |= _significances(records, summaries, held_out)
    written = []
    for name, table in tables.items():
        for suffix, write in FORMATS.items():
            written.append(target / f"{name}.{suffix}")
            write_text(written[-1], write(table))
    written.append(target / "summary.csv")
    write_text(written[-1], everything(records, summaries))
    written.append(target / "comparisons.csv")
    write_text(written[-1], all_comparisons(records, summaries, records.measures))
    return written


def _significances(records: Records, summaries: Sequence[Summary], held_out: Sequence[str]) -> dict[str, Table]:
    """The first method after full MBR against the others, by expected utility and by each held-out metric."""
    rivals = [method for method in records.methods if method != "FMBR"]
    found = {}
    for summary in summaries if rivals else []:
        for measure in ["expected", *held_out]:
            name = f"significance-{measure.removeprefix('score.')}-N{summary.size}"
            found[name] = significance(records, summary, measure, rivals[0])
    return found
