"""Folders of tiny models with tokenizers, as they would be downloaded."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import sentencepiece
from generation import tiny
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    M2M100Tokenizer,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartTokenizer,
    NllbTokenizer,
    PreTrainedTokenizerFast,
    T5Tokenizer,
)

WORDS = ("ein mann liest das buch im park und hund rennt", "a man reads the book in park and dog runs")
TEXTS = [" ".join((words.split() * 2)[place : place + 5]) for words in WORDS for place in range(10)]
CHAT = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def trained() -> tuple[bytes, list[str]]:
    """A SentencePiece model, and its pieces."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20), model_writer=written, vocab_size=40, minloglevel=2, hard_vocab_limit=False
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return written.getvalue(), [pieces.id_to_piece(number) for number in range(3, len(pieces))]


def marian(folder: Path, **changes: Any) -> Path:
    """A Marian model with the traps of a real one: beams, a forced end, padding in its bad words."""
    folder.mkdir()
    content, pieces = trained()
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(content)
    names = ["</s>", "<unk>", *pieces, ">>deu<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    with warnings.catch_warnings():
        # It recommends a normalizer that it never calls.
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        tokenizer = MarianTokenizer(
            source_spm=str(folder / "source.spm"),
            target_spm=str(folder / "target.spm"),
            vocab=str(folder / "vocab.json"),
            model_max_length=64,
        )
    tokenizer.save_pretrained(folder)
    pad = len(names) - 1
    special = {"vocab_size": len(names), "eos_token_id": 0, "pad_token_id": pad, "decoder_start_token_id": pad}
    model = tiny.model("marian", bos_token_id=None, **(special | changes))
    model.generation_config.update(
        num_beams=4, bad_words_ids=[[pad]], forced_eos_token_id=0, max_length=32, eos_token_id=0, pad_token_id=pad
    )
    model.generation_config.decoder_start_token_id = pad
    model.save_pretrained(folder)
    return folder


def llama(folder: Path, chat: bool = True) -> Path:
    """A language model over characters."""
    folder.mkdir()
    letters = sorted(set("".join(TEXTS) + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:.\n ,0123456789{}"))
    specials = ["<pad>", "</s>", "<system>", "<user>", "<assistant>"]
    vocabulary = {text: number for number, text in enumerate([*specials, "?", *letters])}
    plain = Tokenizer(models.BPE(vocabulary, [], unk_token="?"))
    plain.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    plain.decoder = decoders.Fuse()
    plain.add_special_tokens([AddedToken(text, special=True) for text in specials])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="</s>", pad_token="<pad>", unk_token="?")
    if chat:
        tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    special = {"vocab_size": len(vocabulary), "eos_token_id": 1, "pad_token_id": 0, "bos_token_id": None}
    tiny.model("llama", max_position_embeddings=512, **special).save_pretrained(folder)
    return folder


def translator(folder: Path, kind: str) -> Path:
    """A model of many languages with the tokenizer of its kind: m2m100, nllb, mbart, mbart50 or t5 (no languages)."""
    folder.mkdir()
    content, pieces = trained()
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    numbers = {name: number for number, name in enumerate(names)}
    scores = [(name, -float(number)) for number, name in enumerate(names)]
    if kind == "m2m100":
        (folder / "spm").write_bytes(content)
        # An ordinary piece that reads like the code of a language, as there are some in the real one.
        (folder / "vocab.json").write_text(json.dumps(numbers | {"de": len(names)}))
        tokenizer: Any = M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "spm"))
    elif kind == "nllb":
        tokenizer = NllbTokenizer(vocab=numbers, merges=[])
    elif kind == "t5":
        tokenizer = T5Tokenizer(vocab=scores, extra_ids=0)
    else:
        tokenizer = {"mbart": MBartTokenizer, "mbart50": MBart50Tokenizer}[kind](vocab=scores)
    tokenizer.save_pretrained(folder)
    size = max([*tokenizer.get_vocab().values(), *getattr(tokenizer, "lang_code_to_id", {}).values()]) + 1
    special = {"vocab_size": size, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    family = {"m2m100": "m2m_100", "nllb": "m2m_100", "mbart50": "mbart"}.get(kind, kind)
    start = {"t5": 1, "mbart": size - 2}.get(kind, 2)
    tiny.model(family, decoder_start_token_id=start, **special).save_pretrained(folder)
    return folder
