"""Processes that share the work of this one: they end with it, whatever ends it."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def pool(count: int, prepare: Callable[..., None] | None = None, *given: Any) -> Iterator[ProcessPoolExecutor]:
    """So many processes, one thread of linear algebra each; an error or Ctrl-C here stops them at once.

    prepare  called in each of them with what is `given`, before it works
    """
    context = get_context("spawn")
    leash, held = context.Pipe(duplex=False)
    with _single_threaded(), leash:
        executor = ProcessPoolExecutor(count, context, _begin, (leash, prepare, given))
        try:
            yield executor
        except BaseException:
            held.close()
            raise
        finally:
            executor.shutdown(cancel_futures=True)
            held.close()


def in_order(
    executor: ProcessPoolExecutor, work: Callable[..., T], tasks: Iterable[tuple[Any, ...]], ahead: int
) -> Iterator[T]:
    """work(*task) of each task, in their order; no more than `ahead` are under way."""
    waiting: deque[Future[T]] = deque()
    for task in tasks:
        waiting.append(submitted(executor, work, *task))
        while waiting and (len(waiting) >= ahead or waiting[0].done()):
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def submitted(executor: ProcessPoolExecutor, work: Callable[..., T], *task: Any) -> Future[T]:
    """work(*task) under way; processes that this starts are deaf to Ctrl-C: the first one hears it."""
    if not hasattr(signal, "pthread_sigmask"):
        return executor.submit(work, *task)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return executor.submit(work, *task)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(leash: Connection, prepare: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_follow, args=[leash], daemon=True).start()
    if prepare is not None:
        prepare(*given)


def _follow(leash: Connection) -> None:
    """End when the first process lets go, were it because it was killed."""
    try:
        leash.recv_bytes()
    except (EOFError, OSError):
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
