"""A progress bar on a terminal; nothing in a pipe."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minrisk.formats import Input
    from minrisk.scoring import Ledger


class Progress:
    """Segments, calls, calls a second and time left, while standard error is a terminal."""

    def __init__(self, ledger: Ledger, visible: bool) -> None:
        self._ledger = ledger
        self._bar: Any = None
        self._task: Any = None
        self._input: Input | None = None
        self._begin = time.perf_counter()
        self._visible = visible and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        if self._visible:
            from rich import progress
            from rich.console import Console

            columns = (
                progress.BarColumn(),
                progress.TaskProgressColumn(),
                progress.TextColumn("{task.description}"),
                progress.TimeRemainingColumn(compact=True),
            )
            self._bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("reading", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def follow(self, source: Input) -> None:
        """Measure progress by how much of this input has been read."""
        self._input = source

    def update(self) -> None:
        """Show what the ledger says now."""
        if self._bar is None:
            return
        share = None if self._input is None else self._input.share
        rate = self._ledger.calls / max(1e-9, time.perf_counter() - self._begin)
        self._bar.update(
            self._task,
            total=None if share is None else 1.0,
            completed=share or 0.0,
            description=f"{self._ledger.segments:,} segments, {self._ledger.calls:,} calls, {rate:,.0f} calls/s",
        )
