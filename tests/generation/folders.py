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
from transformers import MarianTokenizer, PreTrainedTokenizerFast

WORDS = ("ein mann liest das buch im park und hund rennt", "a man reads the book in park and dog runs")
TEXTS = [" ".join((words.split() * 2)[place : place + 5]) for words in WORDS for place in range(10)]
CHAT = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def marian(folder: Path, **changes: Any) -> Path:
    """A Marian model with the traps of a real one: beams, a forced end, padding in its bad words."""
    folder.mkdir()
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20), model_writer=written, vocab_size=40, minloglevel=2, hard_vocab_limit=False
    )
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(written.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    names = ["</s>", "<unk>", *(pieces.id_to_piece(number) for number in range(3, len(pieces))), ">>deu<<", "<pad>"]
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
