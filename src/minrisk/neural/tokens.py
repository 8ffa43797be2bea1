"""Texts as numbers of tokens: each text once, remembered for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minrisk.errors import InputError

Tokenize = Callable[[list[str]], Sequence[Sequence[int]]]


class Recent:
    """A bounded memory in two generations: when the younger is full, the older is forgotten."""

    def __init__(self, size: int = 1 << 14) -> None:
        self._size = size
        self._recent: dict[Any, Any] = {}
        self._older: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """What was put under a key, None if it is not remembered."""
        value = self._recent.get(key)
        if value is None and (value := self._older.get(key)) is not None:
            self.put(key, value)
        return value

    def put(self, key: Any, value: Any) -> None:
        """Remember."""
        self._recent[key] = value
        if len(self._recent) >= self._size:
            self._older, self._recent = self._recent, {}


class Tokens:
    """A tokenizer that is shown each text once."""

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize
        self._known = Recent()

    def of(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """The numbers of the tokens of each text, as `tokenize` gives them."""
        found = {text: self._known.get(text) for text in set(texts)}
        # In the order given, not in that of a set, which differs from run to run.
        unknown = list(dict.fromkeys(text for text in texts if found[text] is None))
        if unknown:
            for text, numbers in zip(unknown, self._tokenize([clean(text) for text in unknown]), strict=True):
                found[text] = tuple(numbers)
                self._known.put(text, found[text])
        return [found[text] for text in texts]


def clean(text: str) -> str:
    """The text with what UTF-8 cannot hold replaced: tokenizers refuse lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def plain(tokenizer: Any, limit: int) -> Tokens:
    """Texts without special tokens, cut to `limit` tokens."""

    def tokenize(texts: list[str]) -> Sequence[Sequence[int]]:
        found: Sequence[Sequence[int]] = tokenizer(
            texts, add_special_tokens=False, truncation=True, max_length=limit, return_attention_mask=False
        )["input_ids"]
        return found

    return Tokens(tokenize)


@dataclass(frozen=True)
class PairLayout:
    """How a model wants a pair of texts: before + first + between + second + after, with a type for each part."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, ...]

    @property
    def specials(self) -> int:
        """How many special tokens a pair takes."""
        return len(self.before) + len(self.between) + len(self.after)

    def joined(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        """The pair as one sequence."""
        return [*self.before, *first, *self.between, *second, *self.after]

    def types_of(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        """The type of each token of the joined pair."""
        lengths = len(self.before), len(first), len(self.between), len(second), len(self.after)
        return [kind for kind, length in zip(self.types, lengths, strict=True) for _ in range(length)]


def pair_layout(tokenizer: Any) -> PairLayout:
    """The layout that a tokenizer gives to pairs, read off from what it does to two words."""
    for one, other in (("a", "b"), ("the", "of"), ("1", "2"), ("yes", "no")):
        first, second = (tokenizer(word, add_special_tokens=False)["input_ids"] for word in (one, other))
        whole = tokenizer(one, other, return_token_type_ids=True)
        numbers, types = whole["input_ids"], whole.get("token_type_ids") or [0] * len(whole["input_ids"])
        start = _find(numbers, first, 0)
        again = _find(numbers, second, start + len(first)) if first and second and start >= 0 else -1
        if again < 0:
            continue
        end = again + len(second)
        middle = start + len(first)
        # Types as of the first token of each part; a separator goes with what stands before it.
        kinds = (types[0], types[start], types[middle] if middle < again else 0, types[again], types[-1])
        parts = numbers[:start], numbers[middle:again], numbers[end:]
        return PairLayout(tuple(parts[0]), tuple(parts[1]), tuple(parts[2]), kinds)
    raise InputError("this tokenizer joins pairs in a way that is not understood")


def cut_pair(
    first: Sequence[int], second: Sequence[int], room: int, *, odd_to_first: bool | None = None
) -> tuple[Sequence[int], Sequence[int]]:
    """Both cut to `room` tokens together, token by token from the longer.

    odd_to_first  whose the odd token is where both are cut; None: the longer's, or the second's of equals
    """
    if len(first) + len(second) <= room:
        return first, second
    if 2 * min(len(first), len(second)) <= room:
        keep = room - min(len(first), len(second))
        return (first[:keep], second) if len(first) > len(second) else (first, second[:keep])
    half, odd = divmod(max(0, room), 2)
    to_first = len(first) > len(second) if odd_to_first is None else odd_to_first
    return first[: half + odd * to_first], second[: half + odd * (not to_first)]


def _find(numbers: Sequence[int], part: Sequence[int], start: int) -> int:
    for place in range(start, len(numbers) - len(part) + 1):
        if list(numbers[place : place + len(part)]) == list(part):
            return place
    return -1
