"""Tokenizers of sentence BLEU, equal to sacreBLEU's of the same name.

`none`, `char`, `13a` and `intl` are here. The others need word lists or models and are taken from sacreBLEU.

The regular expressions of a tokenizer run once over all texts, joined by a mark that no expression can reach across.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

from minrisk.errors import MissingExtraError, unknown_name

Tokenizer = Callable[[Sequence[str]], list[list[str]]]

_FROM_SACREBLEU = ("zh", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200", "spBLEU-1K")

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))

# sacreBLEU's four substitutions. They differ from its own expressions, for speed, where only the width of white space
# or the way to the same matches differs: no space in the first, and in the second a start that is easy to find.
_SYMBOLS = re.compile(r"([!-&(-+/:-@\[-`{-~])")
_STOP_AFTER_NON_DIGIT = re.compile(r"([.,])(?:(?<![0-9.,][.,])|([.,]))")
_STOP_BEFORE_NON_DIGIT = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")

# Punctuation, symbols and numbers that Unicode gained after version 14, the one of Python 3.11: with them `intl` is the
# same on every Python, and the same as with the tables of the `regex` package (2026.11) that sacreBLEU goes by.
_NEWER = {
    "P": (
        "1b4e-1b4f 1b7f 2e60-2e63 10d6e 10ed0 113d4-113d5 113d7-113d8 11b00-11b09 11be1 11f43-11f4f 16d6d-16d6f 1e5ff"
    ),
    "S": (
        "20c1-20c4 2427-2429 2b96 2ffc-2fff 31e4-31e5 31ef fbc3-fbd2 fd90-fd91 fdc8-fdce 10d8e-10d8f "
        "10ec9-10eca 10ed1-10ed8 1cc00-1ccef 1ccfa-1ccfc 1cd00-1ceb3 1ceba-1ced0 1ced2-1ced4 "
        "1cedd-1cefd 1d1eb-1d1ff 1d253-1d25a 1d25d-1d25e 1d260-1d27f 1db00-1db1c 1f1ae 1f6d8-1f6d9 "
        "1f6dc 1f774-1f77f 1f7d9-1f7db 1f7f1-1f7ff 1f8b2-1f8bb 1f8c0-1f8c1 1f8d0-1f8d8 1fa54-1fa57 "
        "1fa75-1fa77 1fa87-1fa8f 1faad-1faaf 1fabb-1fabf 1fac6 1fac8 1facc-1facf 1fada-1fadd 1fadf "
        "1fae8-1faeb 1faef 1faf7-1fafa 1fbcb-1fbef 1fbfa"
    ),
    "N": (
        "10d40-10d49 116d0-116e3 11bf0-11bf9 11de0-11de9 11f50-11f59 1246f 12475-1247f 12550-12686 "
        "16130-16139 16d70-16d79 16ff4-16ff6 1ccf0-1ccf9 1d2c0-1d2d3 1e4f0-1e4f9 1e5f1-1e5fa"
    ),
}


def tokenizer(name: str) -> Tokenizer:
    """The tokenizer of that name: texts in, the words of each out."""
    if name in _OWN:
        return _OWN[name]
    if name not in _FROM_SACREBLEU:
        raise unknown_name("tokenizer", name, (*_OWN, *_FROM_SACREBLEU))
    return _from_sacrebleu(name)


def _none(texts: Sequence[str]) -> list[list[str]]:
    """Words between white space."""
    return [text.split() for text in texts]


def _characters(texts: Sequence[str]) -> list[list[str]]:
    """Every character but white space."""
    return [list("".join(text.split())) for text in texts]


def _western(texts: Sequence[str]) -> list[list[str]]:
    """mteval-v13a: punctuation split off, but not from within numbers."""
    lines = [_one_line(text) for text in texts]
    joined = split_stops(split_symbols(unescape(" " + " \n ".join(lines) + " ")))
    return [line.split() for line in joined.split("\n")][: len(texts)]


def unescape(text: str) -> str:
    """The four entities as characters."""
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return text


def split_symbols(text: str) -> str:
    """Space around ASCII symbols and punctuation but ' , - and full stops."""
    return _SYMBOLS.sub(r" \1 ", text)


def split_stops(joined: str) -> str:
    """Full stops and commas that do not stand between digits, and dashes after digits, as words of their own."""
    joined = _STOP_AFTER_NON_DIGIT.sub(_spaced_stop, joined)
    joined = _STOP_BEFORE_NON_DIGIT.sub(r" \1 \2", joined)
    return _DASH_AFTER_DIGIT.sub(r"\1 \2 ", joined)


def _spaced_stop(match: re.Match[str]) -> str:
    """Space around a stop: the first of a run of stops after a non-digit, the second of any two others."""
    return f" {match[1]} " if match[2] is None else f"{match[1]} {match[2]} "


def _one_line(text: str) -> str:
    if "\n" in text or "<skipped>" in text:
        return text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    return text


def _international(texts: Sequence[str]) -> list[list[str]]:
    """mteval-v14 international: Unicode punctuation and symbols split off, but not punctuation from within numbers.

    The mark between texts begins and ends with a digit, beside which no expression takes punctuation.
    """
    joined = "0\n0".join(text.replace("\n", " ") for text in texts)
    alphabet = sorted(set(joined))
    classes = {kind: "".join(re.escape(c) for c in alphabet if kind_of(c) == kind) for kind in "PSN"}
    if classes["P"]:
        joined = re.sub(f"([^{classes['N']}0])([{classes['P']}])", r"\1 \2 ", joined)
        joined = re.sub(f"([{classes['P']}])([^{classes['N']}0])", r" \1 \2", joined)
    if classes["S"]:
        joined = re.sub(f"([{classes['S']}])", r" \1 ", joined)
    return [line.split() for line in joined.split("0\n0")][: len(texts)]


def kind_of(character: str) -> str:
    """The first letter of the Unicode category: P punctuation, S symbol, N number, ..."""
    category = unicodedata.category(character)
    return _newer().get(ord(character), "C") if category == "Cn" else category[0]


@lru_cache
def _newer() -> dict[int, str]:
    """`_NEWER`, spelled out."""
    kinds: dict[int, str] = {}
    for kind, ranges in _NEWER.items():
        for span in ranges.split():
            first, _, last = span.partition("-")
            kinds |= dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), kind)
    return kinds


def _from_sacrebleu(name: str) -> Tokenizer:
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        raise MissingExtraError(f"tokenizer {name!r}", "sacrebleu") from error
    try:
        tokenize = BLEU(tokenize=name).tokenizer
    except (ImportError, RuntimeError) as error:
        raise MissingExtraError(f"tokenizer {name!r} ({error})", "sacrebleu") from error
    return lambda texts: [tokenize(text).split() for text in texts]


_OWN: dict[str, Tokenizer] = {"none": _none, "char": _characters, "13a": _western, "intl": _international}
