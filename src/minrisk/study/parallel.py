"""Work spread over processes: results in the order they are ready, one thread of linear algebra each."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

from minrisk.errors import InputError

T = TypeVar("T")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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
    with _single_threaded(), ProcessPoolExecutor(count, get_context("spawn"), _follow_parent) as pool:
        waiting = {pool.submit(work, *task): number for number, task in enumerate(tasks)}
        try:
            for future in as_completed(list(waiting)):
                yield waiting.pop(future), future.result()
        finally:
            # What has not begun is dropped, so that an error or Ctrl-C is seen at once.
            for future in waiting:
                future.cancel()


def _follow_parent() -> None:
    """Ctrl-C is the parent's to handle; and where the parent was killed, its processes must not wait for more work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_outlived, daemon=True).start()


def _outlived() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """New processes read these variables when they import NumPy: two of them must not fight over the cores."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
