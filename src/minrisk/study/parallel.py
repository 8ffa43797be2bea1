"""Work spread over processes: results in the order they are ready."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from typing import Any, TypeVar

from minrisk.errors import InputError
from minrisk.parallel import pool, submitted

T = TypeVar("T")


def spread(
    work: Callable[..., T], tasks: Sequence[tuple[Any, ...]], workers: int | None = None
) -> Iterator[tuple[int, T]]:
    """(number, work(*task)) for each task, as they are done; with one worker, in this process and in order."""
    if workers is not None and workers < 1:
        raise InputError(f"`workers` must be at least 1, got {workers}")
    count = min(workers or os.cpu_count() or 1, len(tasks))
    if count <= 1:
        for number, task in enumerate(tasks):
            yield number, work(*task)
        return
    with pool(count) as executor:
        waiting = {submitted(executor, work, *task): number for number, task in enumerate(tasks)}
        for future in as_completed(list(waiting)):
            yield waiting.pop(future), future.result()
