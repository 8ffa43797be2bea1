"""Sequences of any length through a model: sorted, packed to a number of tokens, halved where memory is short."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from minrisk.errors import InputError, UtilityError
from minrisk.neural.loading import CHECKPOINT_FILES, folder_of
from minrisk.neural.packages import package

Batch = list[int]
Work = Callable[[Any, Batch], Sequence[Any]]
"""Given a replica and the numbers of the sequences of a batch, returns a result for each."""

TOKENS = {"mps": 8192, "cuda": 32768}
"""Tokens of a batch, padding included: what keeps the device busy."""

CACHED = 400_000
"""Numbers that a layer may hold at a time where its caches must stay warm: on the CPU, of which tokens follow."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where and how a model runs; nothing here but `dtype` changes a value beyond rounding.

    device        auto, cpu, cuda, cuda:1, mps, all (a replica on every GPU), or several with spaces between
    dtype         of the weights: float32, bfloat16, float16, or auto: as in the checkpoint
    batch_tokens  tokens of a batch, padding included; 0: what suits the device
    """

    device: str = field(default="auto", repr=False)
    dtype: str = "float32"
    batch_tokens: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if self.batch_tokens < 0:
            raise InputError(f"`batch_tokens` must be at least 1, or 0 for what suits, got {self.batch_tokens}")

    def files(self) -> list[Path]:
        """The files of the checkpoint, and of the other folders that a utility names beside it."""
        named = (getattr(self, name, None) for name in ("encoder", "tokenizer"))
        folders = [folder_of(getattr(self, "model"), CHECKPOINT_FILES)]  # noqa: B009
        folders += [Path(name).expanduser() for name in named if name is not None]
        return [
            file
            for folder in folders
            for file in sorted(folder.rglob("*"))
            if any(file.match(pattern) for pattern in CHECKPOINT_FILES) and file.is_file()
        ]


class Packer:
    """Runs batches of sequences on replicas of a model, each packed to a budget of tokens."""

    def __init__(self, replicas: Sequence[Any], device: str, budget: int = 0) -> None:
        self.replicas = replicas
        self.budget = budget or (_fitting(replicas[0]) if device == "cpu" else TOKENS.get(device, TOKENS["cuda"]))

    def run(self, lengths: Sequence[int], work: Work) -> list[Any]:
        """The result of each sequence, in the order given."""
        waiting = deque(packed(lengths, self.budget))
        results: list[Any] = [None] * len(lengths)

        def drain(replica: Any) -> None:
            while waiting:
                try:
                    batch = waiting.popleft()
                except IndexError:
                    return
                if len(batch) > 1 and _cost(lengths, batch) > self.budget:
                    waiting.extendleft(_halves(batch))
                    continue
                values = self._tried(lengths, batch, work, replica)
                if values is None:
                    waiting.extendleft(_halves(batch))
                    continue
                for place, value in zip(batch, values, strict=True):
                    results[place] = value

        if len(self.replicas) == 1:
            drain(self.replicas[0])
        else:
            with ThreadPoolExecutor(len(self.replicas)) as pool:
                list(pool.map(drain, self.replicas))
        return results

    def _tried(self, lengths: Sequence[int], batch: Batch, work: Work, replica: Any) -> Sequence[Any] | None:
        """The results of a batch, or None where memory did not suffice; later batches are smaller then."""
        torch = package("torch")
        try:
            with torch.inference_mode():
                return work(replica, batch)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            if len(batch) == 1:
                raise UtilityError(
                    f"out of memory on a single text of {lengths[batch[0]]} tokens; "
                    "use a smaller model, dtype=bfloat16 or another device"
                ) from error
        # Outside of the handler: the error holds the frames, and these the tensors.
        self.budget = max(1, _cost(lengths, batch) // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None


def _fitting(model: Any) -> int:
    """Tokens whose widest layer stays in the cache of a core, within what makes for good products of matrices."""
    config = getattr(model, "config", None)
    width = getattr(config, "intermediate_size", None) or getattr(config, "d_ff", None) or 1024
    return min(2048, max(256, CACHED // int(width)))


def packed(lengths: Sequence[int], budget: int) -> list[Batch]:
    """Batches of similar lengths, the longest first, so that too little memory shows at once."""
    batches: list[Batch] = []
    room = 0
    for place in np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist():
        if not room:
            batches.append([])
            room = max(1, budget // max(1, lengths[place]))
        batches[-1].append(place)
        room -= 1
    return batches


def out_of_memory(error: BaseException) -> bool:
    """Whether a device has told that it has no memory left, each in its way."""
    text = str(error).lower()
    return any(words in text for words in ("out of memory", "can't allocate memory", "cannot allocate memory"))


def padded(sequences: Sequence[Sequence[int]], filler: int, device: Any) -> tuple[Any, Any]:
    """Sequences of B lists of numbers as a tensor (B, L), and the mask of what is not padding (B, L)."""
    torch = package("torch")
    longest = max(1, max(map(len, sequences)))
    numbers = np.full((len(sequences), longest), filler, dtype=np.int64)
    mask = np.zeros((len(sequences), longest), dtype=np.int64)
    for row, sequence in enumerate(sequences):
        numbers[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return torch.from_numpy(numbers).to(device), torch.from_numpy(mask).to(device)


def _cost(lengths: Sequence[int], batch: Batch) -> int:
    return len(batch) * max(1, max(lengths[place] for place in batch))


def _halves(batch: Batch) -> tuple[Batch, Batch]:
    """Second half first: they are put back before what waits, one by one."""
    half = len(batch) // 2
    return batch[half:], batch[:half]
