"""Models on this machine, by transformers: from a source to its record of samples."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk.errors import InputError, MinriskError, MissingExtraError
from minrisk.generation.prompting import Prompt, cut
from minrisk.generation.sources import Source
from minrisk.generation.wish import Wish
from minrisk.neural.loading import config_of, devices_of, dtype_of, pretrained, tokenizer_of
from minrisk.neural.tokens import clean
from minrisk.seeding import stream

try:
    import torch
    import transformers

    from minrisk.generation.branching import Network, Start, settle
    from minrisk.generation.sampler import Draw, Limits, Sampler, Stopped, lacks_memory
except ImportError as error:
    raise MissingExtraError("a model on this machine (torch, transformers 4.57 or later)", "neural") from error

ROUNDS = 6
"""Rounds of N, 2 N, 4 N, ... samples after which the wish for N distinct ones is given up.

A source with few texts costs little however many samples are drawn, for its prefixes are few.
"""
TOLERANCE = {"float32": 1e-4, "bfloat16": 0.05, "float16": 0.05}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a model is and how it is run: a folder or a name, a device, a precision, languages, a prefix."""

    name: str
    device: str | None = None
    dtype: str | None = None
    source_language: str | None = None
    target_language: str | None = None
    prefix: str = ""


class LocalModel:
    """A loaded model: `records` gives the samples of sources, one record each."""

    def __init__(self, place: Place, prompt: Prompt | None = None) -> None:
        self.place = place
        self.warnings: list[str] = []
        model, self.tokenizer = _loaded(place)
        # It would warn of sources that are too long, as `checked` does with their names.
        self.tokenizer.model_max_length = sys.maxsize
        self.prompt = prompt
        if not model.config.is_encoder_decoder and prompt is None:
            self.prompt = Prompt(languages=(place.source_language, place.target_language))
        if model.config.is_encoder_decoder and prompt is not None:
            raise InputError(f"{place.name}: is an encoder-decoder model and takes no prompt; --prefix may be meant")
        self.network = Network(model, _ends(model), _banned(model))
        self._trunk = _trunk(model, self.tokenizer, place) if self.prompt is None else ()
        # What generate() is not told it takes from the model's own configuration (beams, an end that is forced at
        # the limit, padding ruled out after normalizing): from here on there is nothing to take.
        model.generation_config = transformers.GenerationConfig()
        self._settled = False

    @property
    def settings(self) -> dict[str, object]:
        """What is written beside the samples."""
        place = self.place
        languages = {"source_language": place.source_language, "target_language": place.target_language}
        shown: dict[str, object] = {"model": place.name, "dtype": _named(self.network.model.dtype)}
        shown |= {key: value for key, value in languages.items() if value}
        if place.prefix:
            shown["prefix"] = place.prefix
        return shown | ({} if self.prompt is None else self.prompt.settings)

    def start(self, text: str) -> Start:
        """What the samples of a source start from."""
        if self.prompt is None:
            return Start(self._trunk, tuple(self.tokenizer(clean(self.place.prefix + text)).input_ids))
        if not self.prompt.chat:
            return Start(tuple(self.tokenizer(self.prompt.text(text)).input_ids))
        if not getattr(self.tokenizer, "chat_template", None):
            raise InputError(f"{self.place.name}: has no chat template; leave --chat out")
        messages = [dict(message) for message in self.prompt.messages(text)]
        shown = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return Start(tuple(self.tokenizer(shown, add_special_tokens=False).input_ids))

    def text(self, tokens: Sequence[int]) -> str:
        """What a sample says."""
        text = str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))
        return cut(text, self.prompt.ends) if self.prompt is not None else text.strip()

    def records(
        self,
        sources: Iterable[Source],
        wish: Wish,
        keeper: object = None,  # noqa: ARG002
    ) -> Iterator[dict[str, Any]]:
        """The samples of each source, as they are made. A source is made in one go: there are no parts to keep."""
        if wish.sampling is None:
            from minrisk.generation.searching import search

            yield from search(self, sources, wish)
            return
        sampler: Sampler | None = None
        for source in sources:
            start = self.checked(source)
            if sampler is None:
                limits = Limits(self.network.ends, self.longest(start, wish), self.stops(), wish.batch)
                sampler = Sampler(wish.sampling, limits)
            sampler.limits = Limits(self.network.ends, self.longest(start, wish), self.stops(), wish.batch)
            yield self._record(source, start, sampler, wish)

    def checked(self, source: Source) -> Start:
        """The start of a source that fits the model, once the model has been tried."""
        start = self.start(source.text)
        given, limit = len(start.inputs or start.trunk), self.network.longest
        if limit is not None and given >= limit:
            named = f"source {source.id!r}" if source.id is not None else f"source {source.text[:40]!r}..."
            raise InputError(f"{named} takes {given} tokens; the model has {limit} positions")
        if not self._settled:
            self._settled = True
            reason = settle(self.network, start, TOLERANCE[_named(self.network.model.dtype)])
            if reason is not None:
                self.warnings.append(f"attention is not shared between prefixes, which is slower: {reason}")
        return start

    def longest(self, start: Start, wish: Wish) -> int:
        """Tokens a sample may have: what was wished, as far as the model has positions for it."""
        limit = self.network.longest
        return wish.longest if limit is None else max(1, min(wish.longest, limit - len(start.trunk)))

    def stops(self) -> Stopped | None:
        """Tells of sequences of tokens which end here, with a stop string; None: there are none."""
        if self.prompt is None or not self.prompt.ends:
            return None
        stops = self.prompt.ends
        # A stop string ends with the newest token, and each token before it holds a byte of it at least.
        window = max(len(stop.encode()) for stop in stops) + 4

        def stopped(rows: list[list[int]]) -> list[bool]:
            texts = self.tokenizer.batch_decode([row[-window:] for row in rows], skip_special_tokens=True)
            return [any(stop in text for stop in stops) for text in texts]

        return stopped

    def _record(self, source: Source, start: Start, sampler: Sampler, wish: Wish) -> dict[str, Any]:
        rng = stream(wish.seed, source.stream, "generate")
        if wish.distinct:
            return source.record | self._distinct(start, sampler, wish, rng)
        draws = sampler.samples(lambda: self.network.branching(start), wish.samples, rng)
        texts = [self.text(draw.tokens) for draw in draws]
        return source.record | _columns(texts, draws, _shuffled(draws, rng))

    def _distinct(self, start: Start, sampler: Sampler, wish: Wish, rng: np.random.Generator) -> dict[str, Any]:
        """N distinct texts, in the order in which they were first drawn, weighted by how often they were."""
        first: dict[str, Draw] = {}
        counts: dict[str, int] = {}
        for text, draw in self._one_by_one(start, sampler, wish.samples, rng):
            first.setdefault(text, draw)
            counts[text] = counts.get(text, 0) + 1
            if len(first) == wish.samples:
                break
        columns = _columns(list(first), list(first.values()), range(len(first)))
        return columns | {"weights": list(counts.values())}

    def _one_by_one(
        self, start: Start, sampler: Sampler, samples: int, rng: np.random.Generator
    ) -> Iterator[tuple[str, Draw]]:
        for size in range(ROUNDS):
            draws = sampler.samples(lambda: self.network.branching(start), samples * 2**size, rng)
            texts = [self.text(draw.tokens) for draw in draws]
            for number in _shuffled(draws, rng):
                yield texts[number], draws[number]


def _shuffled(draws: Sequence[Draw], rng: np.random.Generator) -> list[int]:
    """The number of the draw that each sample is; draws come in the order of the tree, samples in any order."""
    numbers: list[int] = rng.permutation(np.repeat(np.arange(len(draws)), [draw.number for draw in draws])).tolist()
    return numbers


def _columns(texts: Sequence[str], draws: Sequence[Draw], order: Sequence[int]) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "hypotheses": [texts[number] for number in order],
        "logprobs": [round(draws[number].logprob, 5) for number in order],
        "logprobs_sampling": [round(draws[number].sampling_logprob, 5) for number in order],
    }
    cut_off = [position for position, number in enumerate(order) if not draws[number].finished]
    return columns | ({"unfinished": cut_off} if cut_off else {})


def set_threads(count: int) -> None:
    """Have torch use so many threads of the CPU, as far as it has them."""
    torch.set_num_threads(min(count, os.cpu_count() or 1))


def _loaded(place: Place) -> tuple[Any, Any]:
    """Model and tokenizer."""
    devices = devices_of(place.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if len(devices) > 1 or devices[0].type == "mps":
        raise InputError(f"`device` must be cpu or a single GPU of CUDA, got {place.device!r}")
    dtype = dtype_of(place.dtype or ("auto" if devices[0].type == "cuda" else "float32"))
    encoder = config_of(place.name).is_encoder_decoder
    model = pretrained(place.name, "AutoModelForSeq2SeqLM" if encoder else "AutoModelForCausalLM", dtype)
    try:
        return model.to(devices[0]), tokenizer_of(place.name)
    except RuntimeError as error:
        if not lacks_memory(error):
            raise
        raise MinriskError(f"{place.name}: does not fit into the memory of {devices[0]}") from error


def _named(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _ends(model: Any) -> tuple[int, ...]:
    """The tokens that end a text."""
    given = model.generation_config.eos_token_id
    given = getattr(model.config, "eos_token_id", None) if given is None else given
    if given is None:
        raise MinriskError("the model does not say which token ends a text")
    return tuple(given) if isinstance(given, list | tuple) else (int(given),)


def _banned(model: Any) -> tuple[int, ...]:
    """Tokens that are no part of any text: what the model's configuration rules out, and padding.

    They are ruled out in the full model, so that both log-probabilities start from the same distribution.
    """
    settings = model.generation_config
    single = [word[0] for word in settings.bad_words_ids or () if len(word) == 1]
    padding = [settings.pad_token_id, settings.decoder_start_token_id] if model.config.is_encoder_decoder else []
    found = {int(token) for token in (*single, *(settings.suppress_tokens or ()), *padding) if token is not None}
    return tuple(sorted(found - set(_ends(model))))


def _trunk(model: Any, tokenizer: Any, place: Place) -> tuple[int, ...]:
    """The decoder's first tokens: the start token, and that of the target language where the model wants one."""
    start = model.generation_config.decoder_start_token_id
    start = getattr(model.config, "decoder_start_token_id", None) if start is None else start
    if place.source_language is not None:
        _language_token(tokenizer, place.source_language, place.name)
        if hasattr(tokenizer, "src_lang"):
            tokenizer.src_lang = place.source_language
    if place.target_language is None:
        if start is None:
            raise InputError(f"{place.name}: names no start token; give the target language (--target-language)")
        forced = model.generation_config.forced_bos_token_id
        return (int(start),) if forced is None else (int(start), int(forced))
    token = _language_token(tokenizer, place.target_language, place.name)
    # The first mBART starts from the language itself; all others from their start token, then the language.
    return (token,) if type(tokenizer).__name__.startswith("MBartTokenizer") or start is None else (int(start), token)


def _language_token(tokenizer: Any, code: str, name: str) -> int:
    # Some tokenizers list their languages, those of others are special tokens; an ordinary piece may read like a code.
    special = tokenizer.all_special_tokens
    known = getattr(tokenizer, "lang_code_to_id", None) or dict(zip(special, tokenizer.convert_tokens_to_ids(special)))
    for token in (code, f"__{code}__"):
        if token in known:
            return int(known[token])
    codes = sorted(token.strip("_") for token in known if token.strip("_<>/").isascii() and not token.startswith("<"))
    raise InputError(f"{name}: knows no language {code!r}; its languages: {', '.join(codes)[:300] or 'none are named'}")
