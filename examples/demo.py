"""What `make demo` shows: real samples, decoded on a sixteenth of the metric calls, beside full MBR."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import minrisk

SAMPLES = Path(__file__).with_name("everyday.jsonl")
BUDGETS = ("1/32", "1/16", "1/8", "1/4")


def main() -> None:
    """Decode the sample file that comes with the repository and print what was picked."""
    console = Console(width=None if Console().is_terminal else 120)
    segments = list(minrisk.read_segments(SAMPLES))
    with console.status("Decoding; the first time, kernels are compiled for some seconds ..."):
        begin = time.perf_counter()
        full = list(minrisk.decode_corpus(segments, "chrf", "full"))
        seconds = time.perf_counter() - begin
        sampled = list(minrisk.decode_corpus(segments, "chrf", "pmbr", "1/16"))
    _show_choices(console, segments, full, sampled)
    _show_budgets(console, segments, full)
    samples = sum(len(segment.hypotheses) for segment in segments)
    console.print(
        f"\n{len(segments)} German sentences, {samples:,} English samples of a small translation model; utility chrF.\n"
        f"Full MBR took {seconds:.1f} s for {sum(decision.calls for decision in full):,} calls, compilation included."
    )
    console.print(
        f"\nThe same on the command line:\n  .venv/bin/minrisk decode {os.path.relpath(SAMPLES)} "
        "--utility chrf --method pmbr --budget 1/16",
        highlight=False,
        soft_wrap=True,
    )


def _show_choices(
    console: Console,
    segments: list[minrisk.Segment],
    full: list[minrisk.Decision],
    sampled: list[minrisk.Decision],
) -> None:
    table = Table(title="PMBR on 1/16 of the calls, and full MBR where it picks another text", show_lines=True)
    for column in ("source", "picked", "calls"):
        table.add_column(column, justify="right" if column == "calls" else "left")
    for segment, exact, decision in list(zip(segments, full, sampled, strict=True))[:8]:
        other = "" if exact.text == decision.text else f"\n[dim]full MBR: {exact.text}[/dim]"
        table.add_row(segment.source, decision.text + other, f"{decision.calls} of {decision.cells}")
    console.print(table)


def _show_budgets(console: Console, segments: list[minrisk.Segment], full: list[minrisk.Decision]) -> None:
    """Loss: how much of full MBR's gain over the average sample is given away."""
    table = Table(title="Loss: share of full MBR's gain given away", title_justify="left")
    table.add_column("method")
    for budget in BUDGETS:
        table.add_column(budget, justify="right")
    for method in ("columns", "square", "pmbr"):
        row = []
        for budget in BUDGETS:
            decisions = minrisk.decode_corpus(segments, "chrf", method, budget)
            losses = [_loss(exact, decision) for exact, decision in zip(full, decisions, strict=True)]
            row.append(f"{sum(losses) / len(losses):.2f}")
        table.add_row(method, *row)
    console.print(table)


def _loss(exact: minrisk.Decision, decision: minrisk.Decision) -> float:
    average = float(exact.utilities.mean())
    return (exact.utility - float(exact.utilities[decision.index])) / max(1e-9, exact.utility - average)


if __name__ == "__main__":
    main()
