"""A progress bar on a terminal; nothing in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from minrisk.formats import Input
    from minrisk.scoring import Ledger
    from minrisk.types import Segment


class Progress:
    """Segments, calls, calls a second and time left, while standard error is a terminal.

    A thread redraws what the ledger says, so that the bar moves within a long batch of segments too.
    """

    def __init__(self, ledger: Ledger, budget: Fraction | int, visible: bool) -> None:
        self._ledger = ledger
        self._budget = budget
        self._input: Input | None = None
        self._share_read: float | None = None
        self._calls_read = 0
        self._begin = time.monotonic()
        self._console: Any = None
        self._display: Any = None
        self._visible = visible and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        if self._visible:
            from rich.console import Console
            from rich.live import Live

            self._console = Console(stderr=True)
            self._display = Live(
                get_renderable=self._drawn, console=self._console, transient=True, refresh_per_second=4
            )
            self._display.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._display.stop()

    def opened(self, source: Input) -> None:
        """Measure progress by how much of this input has been read."""
        self._input = source

    def follow(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """The segments, noting on their way how many calls they may cost and how much of the input they are."""
        from minrisk.budgets import calls_allowed

        for segment in segments:
            if self._visible:
                size = len(set(segment.hypotheses)) * len(set(segment.columns_given))
                self._calls_read += calls_allowed(self._budget, size)
                self._share_read = self._input.share if self._input else None
            yield segment
        self._share_read = 1.0

    def reached(self, share: float) -> None:
        """So much of the input, 0 to 1, has been decided on."""
        self._share_read, self._calls_read = share, self._calls

    @property
    def share(self) -> float | None:
        """How much of the work is done, 0 to 1; None where that cannot be known."""
        if self._share_read is None or not self._calls_read:
            return None
        return min(1.0, self._share_read * self._calls / self._calls_read)

    @property
    def _calls(self) -> int:
        # The ledger counts the calls of concluded segments; of the others, it knows what reached the metric.
        return max(self._ledger.calls, self._ledger.scored)

    def line(self, seconds: float) -> str:
        """What is shown after so many seconds."""
        rate = self._calls / max(seconds, 1e-9)
        shown = f"{self._ledger.segments:,} segments, {self._calls:,} calls, {rate:,.{0 if rate >= 10 else 1}f} calls/s"
        if not self.share:
            return shown
        left = round(seconds * (1 / self.share - 1))
        return f"{shown}, {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"

    def _drawn(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        share = self.share
        text = Text(self.line(time.monotonic() - self._begin), no_wrap=True, overflow="ellipsis")
        # The numbers say more than the bar, which has what room they leave.
        width = max(0, min(20, self._console.width - len(text) - 2))
        row = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(total=1.0, completed=share or 0.0, width=width, pulse=share is None), text)
        return row
