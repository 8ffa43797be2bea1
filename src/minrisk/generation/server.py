"""Samples from any OpenAI-compatible server: vLLM, SGLang, llama.cpp, `transformers serve`, commercial ones.

Requests go out side by side, within bounds. What a server lacks is found out, not assumed: whether it honours `n`,
how many choices it gives at most, whether it tells log-probabilities. What has come in is kept at once.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from minrisk.errors import InputError, MinriskError, MissingExtraError
from minrisk.generation.prompting import Prompt, cut
from minrisk.generation.sources import Source
from minrisk.generation.wish import Keeper, Wish
from minrisk.seeding import digest

try:
    import httpx
except ImportError as error:
    raise MissingExtraError("a server", "server") from error

AGAIN = (408, 409, 425, 429, 500, 502, 503, 504, 529)
"""Statuses after which the same request may succeed."""
NO_KEY, BAD_REQUEST = (401, 403), (400, 413, 422)
FIRST_WAIT, LONGEST_WAIT, LONGEST_ASKED = 0.5, 60.0, 900.0
"""Seconds: before the first retry, before later ones, and what a server may ask for with Retry-After."""
MOST_DRAWN = 32
"""Times N samples after which the wish for N distinct ones is given up."""
SECRET = re.compile(r"(^|_|-)(api)?(key|secret|password)$", re.IGNORECASE)
"""What options are called whose value nobody may see."""
SUSPICIOUS = 16
"""Equal samples of one source, and no others, that make a server look greedy."""
SAMPLING_ON = """transformers serve samples with --server-set 'generation_config={"do_sample": true, "top_k": 0}'"""
OPTION_OF = {"top-k": "top_k", "top-p": "top_p", "min-p": "min_p", "typical": "typical_p"}

Choice = list[Any]
"""[text, log-probability or None, whether it ended by itself], as JSON keeps it."""


class Refused(Exception):
    """The server will not do this, however often it is asked."""


class Failed(Exception):
    """No usable answer; another try may have one. `wait`: seconds that the server asks for."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server: address up to /v1, the name of its model, and how it is treated. The key is never shown.

    options  more for the body of each request, such as {"top_k": -1}
    pause    waits so many seconds
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    concurrency: int = 8
    retries: int = 6
    options: dict[str, Any] = field(default_factory=dict)
    pause: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # Of an unfinished IPv6 address, or a port beyond 65535.
            known = False
        if not known or " " in self.url:
            raise InputError("`server` must be an address such as http://localhost:8000/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InputError("`server` must hold no user, password or query: a key comes from the environment")
        if self.concurrency < 1 or self.retries < 0:
            raise InputError(
                f"at least 1 request at a time and 0 retries are needed, got {self.concurrency}, {self.retries}"
            )
        if secret := next((name for name in self.options if SECRET.search(name)), None):
            raise InputError(f"`{secret}` would be written beside the samples: a key comes from the environment")
        # An error of the transport would show the key, escaped, so that it could not be hidden.
        if self.key is not None and not all("!" <= character <= "~" for character in self.key):
            raise InputError("the server's key holds a space, a line break or another character that no key has")


class ServerModel:
    """A server as `minrisk generate` uses it: `records` gives the samples of sources, in order, one record each."""

    def __init__(self, endpoint: Endpoint, prompt: Prompt) -> None:
        self.endpoint = endpoint
        self.prompt = prompt
        self.warnings: list[str] = []
        self._most: int | None = None
        self._logprobs = True
        self._client: Any = None
        self._room: Any = None

    @property
    def settings(self) -> dict[str, object]:
        """What is written beside the samples."""
        more = {"server_options": self.endpoint.options} if self.endpoint.options else {}
        return {"server": self.endpoint.url, "model": self.endpoint.model, **more, **self.prompt.settings}

    def records(self, sources: Iterable[Source], wish: Wish, keeper: Keeper | None = None) -> Iterator[dict[str, Any]]:
        """The samples of each source, as they come in. `keeper` is given every answer at once."""
        _check(wish)
        # Whatever ends this, the runner cancels what is under way and closes the generator.
        with asyncio.Runner() as runner:
            made = self._records(sources, wish, keeper)

            async def following() -> dict[str, Any]:
                return await anext(made)

            while True:
                with suppress(StopAsyncIteration):
                    yield runner.run(following())
                    continue
                return

    async def _records(
        self, sources: Iterable[Source], wish: Wish, keeper: Keeper | None
    ) -> AsyncIterator[dict[str, Any]]:
        self._room = asyncio.Semaphore(self.endpoint.concurrency)
        waiting: deque[asyncio.Task[dict[str, Any]]] = deque()
        async with _client(self.endpoint.key) as self._client:
            try:
                for number, source in enumerate(sources):
                    waiting.append(asyncio.create_task(self._record(number, source, wish, keeper)))
                    if len(waiting) >= self.endpoint.concurrency:
                        yield await waiting.popleft()
                while waiting:
                    yield await waiting.popleft()
            finally:
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)

    async def _record(self, number: int, source: Source, wish: Wish, keeper: Keeper | None) -> dict[str, Any]:
        """Ask until there are enough samples of a source."""
        received: list[Choice] = [] if keeper is None else keeper.received(number)
        while missing := _missing(received, wish):
            most = self._most or missing
            sizes = [most] * (missing // most) + ([missing % most] if missing % most else [])
            # Before it is known what one request yields, one is sent.
            sizes = sizes if self._most else sizes[:1]
            sizes = sizes[: self.endpoint.concurrency]
            asked = [self._asked(source, wish, size, len(received) + place * most) for place, size in enumerate(sizes)]
            tasks = [asyncio.create_task(each) for each in asked]
            try:
                for task in asyncio.as_completed(tasks):
                    choices = await task
                    received += choices
                    if keeper is not None and choices:
                        keeper.receive(number, choices)
            finally:
                for each in tasks:
                    each.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return source.record | self._columns(received, wish)

    async def _asked(self, source: Source, wish: Wish, size: int, first: int) -> list[Choice]:
        """Up to `size` choices of one request, which is repeated as long as there is hope."""
        endpoint, reason = self.endpoint, ""
        for attempt in range(endpoint.retries + 1):
            try:
                async with self._room:
                    choices = await self._answer(self._body(source, wish, size, first))
                if len(choices) < size and (self._most is None or len(choices) < self._most):
                    self._most = len(choices)
                    self._note(f"the server gives {len(choices)} of {size} choices a request; it is asked repeatedly")
                return choices[:size]
            except Refused as refusal:
                # Not a word of the specification says how many choices may be asked for at once.
                if not self._yields(str(refusal), size):
                    raise MinriskError(f"{endpoint.url}: {self._hidden(str(refusal))}") from None
                return []
            except Failed as failure:
                reason = str(failure)
                if attempt < endpoint.retries:
                    await endpoint.pause(_wait(attempt, failure.wait))
        retries = "1 retry" if endpoint.retries == 1 else f"{endpoint.retries} retries"
        raise MinriskError(
            f"{endpoint.url}: no answer after {retries} ({self._hidden(reason)}); "
            "what has come in is kept where an output file was named, and the same command goes on"
        )

    def _yields(self, refusal: str, size: int) -> bool:
        """Ask for less, where a refusal may be about what is asked for."""
        if "400" not in refusal and "422" not in refusal:
            return False
        if self._logprobs and "logprob" in refusal.lower():
            self._logprobs = False
            self._note("the server gives no log-probabilities")
            return True
        if size > 1:
            # Of requests that went out together, the first to be refused has lowered the number for all.
            self._most = size // 2 if self._most is None or size <= self._most else self._most
            return True
        return False

    async def _answer(self, body: dict[str, Any]) -> list[Choice]:
        """The choices of one request."""
        path = "chat/completions" if self.prompt.chat else "completions"
        try:
            response = await self._client.post(f"{self.endpoint.url.rstrip('/')}/{path}", json=body)
        except httpx.TransportError as error:
            raise Failed(f"{type(error).__name__}: {error}") from None
        status = response.status_code
        if status in AGAIN:
            raise Failed(f"status {status}: {_message(response)}", _asked_wait(response.headers.get("Retry-After")))
        if status in NO_KEY:
            raise Refused(f"status {status}: the key is missing or refused; name its variable (--key-variable)")
        if status != 200:
            what = "refuses the request" if status in BAD_REQUEST else "has no such address or model"
            raise Refused(f"the server {what}, status {status}: {_message(response)}")
        try:
            return [_choice(choice, self.prompt) for choice in response.json()["choices"]] or _nothing()
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise Failed(f"an answer that is not understood: {type(error).__name__}: {error}") from None

    def _body(self, source: Source, wish: Wish, size: int, first: int) -> dict[str, Any]:
        sampling, prompt = wish.sampling, self.prompt
        given: dict[str, Any] = {"model": self.endpoint.model, "max_tokens": wish.longest}
        if prompt.chat:
            given["messages"] = [dict(message) for message in prompt.messages(source.text)]
        else:
            given["prompt"] = prompt.text(source.text)
        if size > 1:
            given["n"] = size
        if prompt.ends:
            given["stop"] = list(prompt.ends)
        if self._logprobs:
            given["logprobs"] = True if prompt.chat else 1
        if sampling is None:
            return given | {"temperature": 0.0} | self.endpoint.options
        given |= {"temperature": sampling.temperature, "top_p": 1.0}
        if sampling.kind in OPTION_OF:
            given[OPTION_OF[sampling.kind]] = sampling.parameter
        # Requests with one seed would all return the same: each has its own.
        name = digest((str(wish.seed), source.stream, str(first)))
        return given | {"seed": int.from_bytes(name[:4], "little") >> 1} | self.endpoint.options

    def _columns(self, received: list[Choice], wish: Wish) -> dict[str, Any]:
        texts = [cut(text, self.prompt.ends) for text, *_ in received]
        if wish.sampling is not None and len(texts) >= SUSPICIOUS and len(set(texts)) == 1:
            self._note(f"all samples of a source are equal; the server may decode greedily ({SAMPLING_ON})")
        columns: dict[str, Any] = {"hypotheses": texts}
        logprobs = [logprob for _, logprob, _ in received]
        if None not in logprobs:
            columns["logprobs"] = logprobs
        places = list(range(len(texts)))
        if wish.distinct:
            # In the order in which they came first, with how often they came.
            counts = Counter(texts)
            first = {text: place for place, text in reversed(list(enumerate(texts)))}
            places = [first[text] for text in counts]
            columns = {name: [column[place] for place in places] for name, column in columns.items()}
            columns["weights"] = list(counts.values())
        cut_off = [number for number, place in enumerate(places) if not received[place][2]]
        return columns | ({"unfinished": cut_off} if cut_off else {})

    def _note(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _hidden(self, text: str) -> str:
        """A text without the key, whoever put it there."""
        return text.replace(self.endpoint.key, "***") if self.endpoint.key else text


def _client(key: str | None) -> Any:
    try:
        return httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {}, timeout=httpx.Timeout(600.0, connect=20.0)
        )
    except (ImportError, ValueError) as error:
        # Of proxies, which httpx finds in the environment.
        raise InputError(f"no requests can be sent: {error}") from error


def _check(wish: Wish) -> None:
    """Raise for what no server offers."""
    if wish.sampling is None and wish.beams > 1:
        raise InputError("servers offer no beam search")
    if wish.sampling is not None and wish.sampling.kind in ("epsilon", "eta"):
        raise InputError(
            f"servers offer no {wish.sampling.kind} sampling; there are ancestral, top-p and, with some, top-k, min-p "
            "and typical (--sampling)"
        )


def _missing(received: list[Choice], wish: Wish) -> int:
    """How many samples have yet to be drawn."""
    if not wish.distinct:
        return max(0, wish.samples - len(received))
    distinct = len({text.strip() for text, *_ in received})
    return 0 if len(received) >= MOST_DRAWN * wish.samples else max(0, wish.samples - distinct)


def _choice(choice: dict[str, Any], prompt: Prompt) -> Choice:
    """What is kept of a choice; raises where it is none."""
    text = choice["message"]["content"] if prompt.chat else choice["text"]
    if not isinstance(text, str):
        raise TypeError(f"text is {type(text).__name__}")
    return [text, _logprob(choice.get("logprobs")), choice.get("finish_reason") != "length"]


def _logprob(told: Any) -> float | None:
    """The sum over the tokens of a choice, in either of the two forms; None: not told."""
    if not isinstance(told, dict):
        return None
    content = told.get("content")
    parts = [each["logprob"] for each in content] if content else told.get("token_logprobs")
    if not parts or any(isinstance(part, bool) or not isinstance(part, int | float) for part in parts):
        return None
    total = float(sum(parts))
    return round(total, 5) if math.isfinite(total) else None


def _nothing() -> list[Choice]:
    raise ValueError("no choices")


def _message(response: Any) -> str:
    """What an answer says of its error, in few words."""
    try:
        told = response.json()
        told = told.get("error", told) if isinstance(told, dict) else told
        told = told.get("message", told) if isinstance(told, dict) else told
    except ValueError:
        told = response.text
    # A terminal would obey what is not printable.
    return " ".join("".join(each if each.isprintable() else " " for each in str(told)).split())[:300]


def _wait(attempt: int, asked: float) -> float:
    """Seconds before another try: twice as long each time, and not in step with other clients."""
    own = min(LONGEST_WAIT, FIRST_WAIT * 2**attempt) * random.uniform(0.5, 1.0)
    return float(max(own, min(asked, LONGEST_ASKED)))


def _asked_wait(header: str | None) -> float:
    """Seconds that a Retry-After header asks for: a number, or a date."""
    if not header:
        return 0.0
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    left: float = ((when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    return max(0.0, left)
