"""Prompts for language models: a template with exemplars, or the model's own chat template; where a text ends."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minrisk.errors import InputError
from minrisk.generation.sources import Source, read_sources
from minrisk.neural.tokens import clean
from minrisk.seeding import digest

FEW_SHOT = "{source_language}: {source}\n{target_language}: {target}\n\n"
CHAT = "Translate from {source_language} to {target_language}. Answer with the translation alone.\n\n{source}{target}"
FIELDS = ("source", "target", "source_language", "target_language")
Message = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """How a source becomes a prompt.

    template     a block with {source} and {target}, once for each exemplar and once, up to {target}, for the source
    exemplars    (source, target) pairs shown before
    languages    what stands for {source_language} and {target_language}
    instruction  stands before all blocks; the system message of a chat
    chat         the blocks are turns of a conversation: the user's up to {target}, the model's the target
    stops        strings that end a text; None: what follows {target} in the template, or a line break
    """

    template: str = FEW_SHOT
    exemplars: Sequence[tuple[str, str]] = ()
    languages: tuple[str | None, str | None] = (None, None)
    instruction: str = ""
    chat: bool = False
    stops: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if "{source}" not in self.template:
            raise InputError(f"a prompt must hold {{source}}, got {self.template!r}")
        if self.exemplars and "{target}" not in self.template:
            raise InputError("a prompt with exemplars must hold {target}, where their targets go")
        for place, language in enumerate(self.languages):
            field = FIELDS[2 + place]
            if language is None and f"{{{field}}}" in self.template:
                raise InputError(f"the prompt needs a {field.replace('_', ' ')} (--{field.replace('_', '-')})")
        if self.stops is not None and not all(self.stops):
            raise InputError("a stop string must not be empty")

    @property
    def ends(self) -> tuple[str, ...]:
        """The stop strings. A chat model ends its turn by itself."""
        if self.stops is not None:
            return tuple(self.stops)
        if self.chat:
            return ()
        after = self.template.partition("{target}")[2]
        return (after if after.strip() else "\n",)

    def text(self, source: str) -> str:
        """The prompt for a model that goes on with a text."""
        blocks = [self._filled(self.template, example, target) for example, target in self.exemplars]
        last = self._filled(self.template.partition("{target}")[0], source)
        return clean((f"{self.instruction}\n\n" if self.instruction else "") + "".join([*blocks, last]).rstrip(" "))

    def messages(self, source: str) -> list[Message]:
        """The prompt for a chat."""
        turns = [{"role": "system", "content": self.instruction}] if self.instruction else []
        before = self.template.partition("{target}")[0]
        for example, target in self.exemplars:
            turns.append({"role": "user", "content": self._filled(before, example).strip()})
            turns.append({"role": "assistant", "content": target})
        turns.append({"role": "user", "content": self._filled(before, source).strip()})
        return [{name: clean(said) for name, said in turn.items()} for turn in turns]

    def _filled(self, template: str, source: str, target: str = "") -> str:
        values = dict(zip(FIELDS, (source, target, *(language or "" for language in self.languages))))
        # One pass, so that braces within a source stay what they are.
        parts = template.split("{")
        return parts[0] + "".join(_replaced(part, values) for part in parts[1:])

    @property
    def settings(self) -> dict[str, object]:
        """What is written beside the samples; exemplars as a fingerprint, since they may be long."""
        shown: dict[str, object] = {"prompt": self.template, "chat": self.chat, "stop": list(self.ends)}
        if self.instruction:
            shown["instruction"] = self.instruction
        if self.exemplars:
            pairs = [text for pair in self.exemplars for text in pair]
            shown |= {"shots": len(self.exemplars), "exemplars": digest(pairs).hex()}
        return shown


def _replaced(part: str, values: Mapping[str, str]) -> str:
    name, brace, rest = part.partition("}")
    return values[name] + rest if brace and name in values else "{" + part


def read_exemplars(path: str | Path, shots: int, seed: int | None = None) -> list[tuple[str, str]]:
    """`shots` (source, reference) pairs of a .tsv or .jsonl: the first ones, or drawn by a seed."""
    pairs = [(source.text, _reference(source, path)) for source in read_sources(path)]
    if len(pairs) < shots:
        raise InputError(f"{path}: holds {len(pairs)} exemplars, {shots} are wanted (--shots)")
    return pairs[:shots] if seed is None else random.Random(seed).sample(pairs, shots)


def _reference(source: Source, path: str | Path) -> str:
    reference = source.others.get("reference")
    if not isinstance(reference, str) or not reference:
        raise InputError(f"{path}: an exemplar needs a `reference` (.jsonl), or a tab and its translation (.tsv)")
    return reference


def cut(text: str, stops: Iterable[str]) -> str:
    """The text up to the first stop string, without white space around it."""
    for stop in stops:
        text = text.partition(stop)[0]
    return text.strip()
