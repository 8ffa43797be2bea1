"""The most probable text, by beam search or greedily: the MAP baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import GenerationConfig

from minrisk.errors import MinriskError
from minrisk.generation.sampler import lacks_memory
from minrisk.generation.sources import Source

if TYPE_CHECKING:
    from minrisk.generation.branching import Network, Start
    from minrisk.generation.local import LocalModel
    from minrisk.generation.sampler import Stopped
    from minrisk.generation.wish import Wish

BATCH = 16
"""Sources searched at a time, unless the prefixes of a batch are given."""


class Found(NamedTuple):
    """A sequence of tokens, the end token included where there is one. finished: it ended of its own accord."""

    tokens: list[int]
    finished: bool


def search(local: LocalModel, sources: Iterable[Source], wish: Wish) -> Iterator[dict[str, Any]]:
    """The best texts of each source, best first, with the log-probability of the full model."""
    size = BATCH if wish.batch is None else max(1, wish.batch // wish.beams)
    waiting, batch = iter(sources), list[Source]()
    while batch := batch + list(islice(waiting, max(0, size - len(batch)))):
        starts = [local.checked(source) for source in batch[:size]]
        try:
            found = _searched(local, starts, wish)
        except (RuntimeError, MemoryError) as error:
            if not lacks_memory(error):
                raise
            if len(starts) == 1:
                raise MinriskError(f"out of memory with a single source and {wish.beams} beams") from error
            size = len(starts) // 2
            continue
        for source, start, texts in zip(batch, starts, found):
            yield source.record | _columns(local, start, texts)
        batch = batch[size:]


@torch.inference_mode()  # type: ignore[untyped-decorator]
def _searched(local: LocalModel, starts: list[Start], wish: Wish) -> list[list[Found]]:
    """What is found for each start, the best first."""
    network = local.network
    # A configuration of our own: what generate() is not told it would take from the model's.
    config = GenerationConfig(
        do_sample=False,
        num_beams=wish.beams,
        num_return_sequences=wish.samples,
        length_penalty=wish.length_penalty,
        max_new_tokens=min(local.longest(start, wish) for start in starts),
        eos_token_id=list(network.ends),
        pad_token_id=network.ends[0],
        decoder_start_token_id=starts[0].trunk[0],
        stop_strings=list(local.prompt.ends) or None if local.prompt is not None else None,
    )
    behind = bool(starts[0].inputs)
    rows = [list(start.inputs or start.trunk) for start in starts]
    width = max(map(len, rows))
    padded, mask = [], []
    for row in rows:
        # A decoder goes on at the right, so it is padded at the left.
        gap = [network.ends[0]] * (width - len(row))
        padded.append(row + gap if behind else gap + row)
        mask.append([1] * len(row) + [0] * len(gap) if behind else [0] * len(gap) + [1] * len(row))
    given = {"attention_mask": torch.tensor(mask, device=network.device), "generation_config": config}
    if behind:
        given["decoder_input_ids"] = torch.tensor([list(start.trunk) for start in starts], device=network.device)
    if config.stop_strings:
        given["tokenizer"] = local.tokenizer
    with _banning(network):
        output = network.model.generate(torch.tensor(padded, device=network.device), **given)
    before = len(starts[0].trunk) if behind else width
    stopped = local.stops()
    found = [_ended(row[before:], network.ends, stopped) for row in output.tolist()]
    return [found[begin : begin + wish.samples] for begin in range(0, len(found), wish.samples)]


@contextmanager
def _banning(network: Network) -> Iterator[None]:
    """Rule tokens out in the model itself: transformers does so after normalizing, and would rank by other numbers."""

    def rule_out(_module: object, _inputs: object, output: Any) -> None:
        output.logits[..., list(network.banned)] = -torch.inf

    hook = network.model.register_forward_hook(rule_out)
    try:
        yield
    finally:
        hook.remove()


def _ended(tokens: list[int], ends: tuple[int, ...], stopped: Stopped | None) -> Found:
    """Without the padding, which is the end token: a text that ended with a stop string has none of its own."""
    last = next((place for place, token in enumerate(tokens) if token in ends), len(tokens) - 1)
    found = tokens[: last + 1]
    stops = [] if stopped is None else stopped([found[: place + 1] for place in range(len(found))])
    if True in stops:
        return Found(found[: stops.index(True) + 1], True)
    return Found(found, found[-1] in ends)


@torch.inference_mode()  # type: ignore[untyped-decorator]
def _columns(local: LocalModel, start: Start, texts: list[Found]) -> dict[str, Any]:
    logprobs, words = [], []
    for tokens, _ in texts:
        scores = local.network.forced(start, tokens).log_softmax(dim=1)
        logprobs.append(round(float(scores.gather(1, torch.tensor(tokens, device=scores.device)[:, None]).sum()), 5))
        words.append(local.text(tokens[:-1] if tokens[-1] in local.network.ends else tokens))
    cut_off = [place for place, found in enumerate(texts) if not found.finished]
    return {"hypotheses": words, "logprobs": logprobs} | ({"unfinished": cut_off} if cut_off else {})
