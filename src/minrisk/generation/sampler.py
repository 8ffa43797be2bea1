"""Exact independent samples of one source, each distinct prefix computed once.

The state is a set of distinct prefixes with the number of samples that share each. A step asks the model once for
each prefix and splits its number among the tokens, as many independent draws would. What is left at the end is
the multiset of N independent samples; put into a random order it is the samples themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from minrisk.errors import MinriskError
from minrisk.generation.sampling import Sampling
from minrisk.generation.splitting import Children, split

Tensor = Any
Stopped = Callable[[list[list[int]]], list[bool]]
"""Tells of (R, T) tokens which rows end here."""
MOST_SCORES = 2**25
"""Scores (rows times vocabulary) held at a time, unless the rows of a batch are given."""
NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


class Model(Protocol):
    """A model at work on one source: see `branching.Branching`."""

    cache: Any

    @property
    def nodes(self) -> int: ...

    def begin(self) -> Tensor: ...

    def step(self, tokens: Tensor, paths: Tensor) -> Tensor: ...


class Draw(NamedTuple):
    """A distinct sequence of tokens, without the end token, and the number of samples that are it.

    finished: it ended of its own accord, not at the limit. The end token counts in the log-probabilities.
    """

    tokens: tuple[int, ...]
    number: int
    logprob: float
    sampling_logprob: float
    finished: bool


@dataclass(frozen=True)
class Limits:
    """When a sample ends, and how much is computed at a time.

    ends      tokens that end a sample
    longest   tokens that it may have
    stops     tells of (R, T) tokens which rows end here: those whose text holds a stop string
    rows      prefixes a batch; None: what fits `MOST_SCORES`
    """

    ends: Sequence[int]
    longest: int = 256
    stops: Stopped | None = None
    rows: int | None = None


class _Prefixes(NamedTuple):
    """R distinct prefixes of T tokens: tokens, nodes (R, T); counts and log-probabilities (R,)."""

    tokens: Tensor
    paths: Tensor
    counts: Tensor
    logprobs: Tensor
    sampling_logprobs: Tensor

    def take(self, rows: Tensor) -> _Prefixes:
        return _Prefixes(*(each[rows] for each in self))


class OutOfMemoryError(MinriskError):
    """Not a single prefix more fits into memory."""


class Sampler:
    """Draws samples; remembers how many rows, and samples of one tree, fit into memory."""

    def __init__(self, sampling: Sampling, limits: Limits) -> None:
        self.sampling = sampling
        self.limits = limits
        self.rows = limits.rows
        self.most: int | None = None

    def samples(self, branching: Callable[[], Model], count: int, rng: np.random.Generator) -> list[Draw]:
        """`count` independent samples, in as few trees as memory holds: a draw may come once for each."""
        draws: list[Draw] = []
        left = count
        while left:
            size = min(left, self.most or left)
            try:
                draws += self.draw(branching(), size, rng)
            except OutOfMemoryError:
                if size == 1:
                    raise
                # It was the tree that filled the memory, not the batch.
                self.most, self.rows = size // 2, self.limits.rows
                continue
            left -= size
        return draws

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def draw(self, model: Model, count: int, rng: np.random.Generator) -> list[Draw]:
        """`count` independent samples as distinct sequences with their counts."""
        scores = _begun(model)
        device = scores.device
        uniforms = torch.from_numpy(rng.random(count)).to(device)
        children = split(scores, torch.tensor([count], device=device), uniforms, self.sampling)
        nothing = torch.zeros((1, 0), dtype=torch.int64, device=device)
        zeros = torch.zeros(1, dtype=torch.float64, device=device)
        live = _Prefixes(nothing, nothing, nothing.sum(dim=1), zeros, zeros)
        draws: list[Draw] = []
        while True:
            live = self._sorted_out(_grown(live, children), draws)
            if not len(live.tokens):
                return draws
            uniforms = torch.from_numpy(rng.random(int(live.counts.sum()))).to(device)
            live, children = self._step(model, live, uniforms)

    def _sorted_out(self, grown: _Prefixes, draws: list[Draw]) -> _Prefixes:
        """The prefixes that go on; the others go to `draws`."""
        ended = torch.isin(grown.tokens[:, -1], torch.tensor(self.limits.ends, device=grown.tokens.device))
        over = ended.clone()
        if self.limits.stops is not None:
            over |= torch.tensor(self.limits.stops(grown.tokens.tolist()), device=ended.device)
        finished = over.clone()
        if grown.tokens.shape[1] >= self.limits.longest:
            over[:] = True
        leaving = grown.take(over)
        for tokens, count, logprob, sampling_logprob, by_end, by_itself in zip(
            leaving.tokens.tolist(),
            leaving.counts.tolist(),
            leaving.logprobs.tolist(),
            leaving.sampling_logprobs.tolist(),
            ended[over].tolist(),
            finished[over].tolist(),
        ):
            kept = tuple(tokens[:-1] if by_end else tokens)
            draws.append(Draw(kept, count, logprob, sampling_logprob, by_itself))
        return grown.take(~over)

    def _step(self, model: Model, live: _Prefixes, uniforms: Tensor) -> tuple[_Prefixes, Children]:
        """The prefixes with their new nodes, and their children."""
        first = model.nodes
        new = torch.arange(first, first + len(live.tokens), device=live.tokens.device)
        live = live._replace(paths=torch.cat([live.paths, new[:, None]], dim=1))
        bounds = torch.cat([live.counts.new_zeros(1), live.counts.cumsum(dim=0)]).tolist()
        parts: list[Children] = []
        begin = 0
        while begin < len(live.tokens):
            end = min(begin + self._batch(model), len(live.tokens))
            part = self._part(model, live, uniforms, begin, end, bounds)
            if part is not None:
                parts.append(part._replace(rows=part.rows + begin))
                begin = end
        return live, Children(*(torch.cat(column) for column in zip(*parts)))

    def _batch(self, model: Model) -> int:
        if self.rows is None:
            vocabulary = model.network.vocabulary if hasattr(model, "network") else 1
            self.rows = max(1, MOST_SCORES // int(vocabulary))
        return self.rows

    def _part(
        self, model: Model, live: _Prefixes, uniforms: Tensor, begin: int, end: int, bounds: list[int]
    ) -> Children | None:
        """The children of some of the rows; None: memory did not suffice, and the batch has been halved."""
        known = model.nodes
        try:
            scores = model.step(live.tokens[begin:end, -1], live.paths[begin:end])
            return split(scores, live.counts[begin:end], uniforms[bounds[begin] : bounds[end]], self.sampling)
        except (RuntimeError, MemoryError) as error:
            if not lacks_memory(error):
                raise
            if end - begin == 1:
                raise OutOfMemoryError("out of memory with a single sample; a smaller model is needed") from error
        model.cache.forget(known)
        self.rows = (end - begin) // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None


def lacks_memory(error: Exception) -> bool:
    """Whether this is what torch raises where memory does not suffice."""
    return isinstance(error, MemoryError) or any(text in str(error).lower() for text in NO_MEMORY)


def _begun(model: Model) -> Tensor:
    try:
        return model.begin()
    except (RuntimeError, MemoryError) as error:
        if not lacks_memory(error):
            raise
        raise MinriskError("out of memory with a source alone; a shorter one or a smaller model is needed") from error


def _grown(live: _Prefixes, children: Children) -> _Prefixes:
    """The prefixes, each continued by its children."""
    parents = live.take(children.rows)
    return _Prefixes(
        torch.cat([parents.tokens, children.tokens[:, None]], dim=1),
        parents.paths,
        children.counts,
        parents.logprobs + children.logprobs,
        parents.sampling_logprobs + children.sampling_logprobs,
    )
