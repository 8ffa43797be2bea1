"""One step of sampling for all prefixes at once: truncate each distribution, split the counts among the tokens.

Shapes: R prefixes (rows), V tokens of the vocabulary, S samples still to be continued, C children drawn.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from minrisk.generation.sampling import Sampling

Tensor = Any
"""torch.Tensor; torch is imported without its types."""


class Children(NamedTuple):
    """C distinct continuations by one token, ordered by row and token.

    rows, tokens, counts           (C,) the prefix continued, the token, how many samples took it
    logprobs, sampling_logprobs    (C,) of the token, under the full model and under the truncated one
    """

    rows: Tensor
    tokens: Tensor
    counts: Tensor
    logprobs: Tensor
    sampling_logprobs: Tensor


def split(logits: Tensor, counts: Tensor, uniforms: Tensor, sampling: Sampling) -> Children:
    """Independent draws of a token for each sample: (R, V) logits, (R,) counts, (S,) numbers in [0, 1).

    Drawing one token for each of a prefix's samples is a multinomial split of its count. The draws invert the
    cumulative distribution, so that a sample's token depends on its own number alone.
    """
    rows, vocabulary = logits.shape
    full = logits.log_softmax(dim=1)
    scaled = full if sampling.temperature == 1 else (logits / sampling.temperature).log_softmax(dim=1)
    kept = surviving(scaled, sampling)
    last = torch.arange(1, rows + 1, device=logits.device) * vocabulary
    if kept is None:
        positions, weights, ends = None, scaled.double().exp_().view(-1), last
    else:
        positions = kept.view(-1).nonzero()[:, 0]
        weights = scaled.view(-1)[positions].double().exp_()
        ends = torch.searchsorted(positions, last)
    cumulative = weights.cumsum(dim=0)
    drawn = _drawn(cumulative, ends, counts, uniforms)
    chosen, numbers = torch.unique_consecutive(drawn.sort().values, return_counts=True)
    flat = chosen if positions is None else positions[chosen]
    of_row = flat // vocabulary
    after = cumulative[ends - 1]
    totals = after - torch.cat([after.new_zeros(1), after[:-1]])
    sampling_logprobs = scaled.view(-1)[flat].double() - totals.log()[of_row]
    return Children(of_row, flat % vocabulary, numbers, full.view(-1)[flat].double(), sampling_logprobs)


def _drawn(cumulative: Tensor, ends: Tensor, counts: Tensor, uniforms: Tensor) -> Tensor:
    """(S,) positions in `cumulative` (M,), whose rows end before `ends` (R,)."""
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    before = torch.cat([cumulative.new_zeros(1), cumulative])[starts]
    rows = torch.repeat_interleave(counts)
    targets = before[rows] + uniforms * (cumulative[ends - 1] - before)[rows]
    found = torch.searchsorted(cumulative, targets, right=True)
    # Rounding must not carry a draw over into a neighbouring row.
    return torch.minimum(torch.maximum(found, starts[rows]), ends[rows] - 1)


def surviving(logprobs: Tensor, sampling: Sampling) -> Tensor | None:
    """(R, V) the tokens that may be drawn, by their (R, V) log-probabilities; None: all.

    Each truncation keeps the tokens above a threshold of their own row, so that no row has to be sorted where
    the threshold can be had without. The most probable token is always kept.
    """
    kind, parameter = sampling.kind, sampling.parameter
    if kind == "ancestral" or parameter is None:
        return None
    if kind == "typical":
        return _typical(logprobs, parameter)
    if kind == "top-k":
        return logprobs >= logprobs.topk(min(int(parameter), logprobs.shape[1]), dim=1).values[:, -1:]
    if kind == "top-p":
        return logprobs >= _nucleus(logprobs, parameter)
    if kind == "min-p":
        return logprobs >= logprobs.amax(dim=1, keepdim=True) + math.log(parameter)
    if kind == "eta":
        threshold = (math.log(parameter) / 2 - _entropy(logprobs)).clamp(max=math.log(parameter))
        return logprobs >= torch.minimum(threshold, logprobs.amax(dim=1, keepdim=True))
    kept = logprobs >= math.log(parameter)
    if parameter * logprobs.shape[1] > 1 and not bool(kept.any(dim=1).all()):
        kept |= logprobs == logprobs.amax(dim=1, keepdim=True)
    return kept


def _entropy(logprobs: Tensor) -> Tensor:
    """(R, 1) expected surprise."""
    # A token that is ruled out (minus infinity) adds nothing.
    return -(logprobs.exp() * logprobs).nan_to_num(0.0).sum(dim=1, keepdim=True)


def _nucleus(logprobs: Tensor, mass: float) -> Tensor:
    """(R, 1) the least log-probability among the most probable tokens whose sum first reaches `mass`."""
    ascending = logprobs.sort(dim=1).values
    removed = (ascending.exp().cumsum(dim=1) <= 1 - mass).sum(dim=1, keepdim=True)
    return ascending.gather(1, removed.clamp(max=logprobs.shape[1] - 1))


def _typical(logprobs: Tensor, mass: float) -> Tensor:
    """(R, V) the tokens whose surprise is nearest to the entropy, until their sum reaches `mass`."""
    distance = (-logprobs - _entropy(logprobs)).abs()
    ascending, order = distance.sort(dim=1)
    reached = logprobs.gather(1, order).exp().cumsum(dim=1)
    last = (reached < mass).sum(dim=1, keepdim=True).clamp(max=logprobs.shape[1] - 1)
    return distance <= ascending.gather(1, last)
