"""Models of many languages, with the tokenizers of their kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from generation import folders, tiny  # noqa: E402

from minrisk.errors import InputError  # noqa: E402
from minrisk.generation import local  # noqa: E402
from minrisk.generation.local import LocalModel, Place  # noqa: E402
from minrisk.generation.sources import Source  # noqa: E402
from minrisk.generation.wish import Wish  # noqa: E402

TEXT = "ein mann liest"
LANGUAGES = {
    "m2m100": ("de", "en"),
    "nllb": ("deu_Latn", "eng_Latn"),
    "mbart": ("de_DE", "en_XX"),
    "mbart50": ("de_DE", "en_XX"),
    "t5": (None, None),
}


def loaded(folder: Path, kind: str) -> LocalModel:
    source, target = LANGUAGES[kind]
    name = str(folders.translator(folder / kind, kind))
    prefix = "translate: " if kind == "t5" else ""
    return LocalModel(Place(name=name, device="cpu", source_language=source, target_language=target, prefix=prefix))


@pytest.mark.parametrize("kind", LANGUAGES)
def test_greedy_search_is_that_of_transformers(kind: str, tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = loaded(tmp_path, kind)
    (record,) = model.records([Source(TEXT)], Wish(samples=1, sampling=None, longest=6))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / kind)
    source, target = LANGUAGES[kind]
    options: dict[str, object] = {"suppress_tokens": list(model.network.banned), "do_sample": False, "num_beams": 1}
    if source is not None:
        tokenizer.src_lang = source
    if target is not None:
        token = getattr(tokenizer, "lang_code_to_id", {}).get(target) or tokenizer.convert_tokens_to_ids(target)
        options |= {"decoder_start_token_id": token} if kind == "mbart" else {"forced_bos_token_id": token}
    inputs = tokenizer(("translate: " if kind == "t5" else "") + TEXT, return_tensors="pt")
    assert model.start(TEXT).inputs == tuple(inputs.input_ids[0].tolist())
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / kind)
    forced = len(model.start(TEXT).trunk)
    output = theirs.generate(**inputs, max_new_tokens=5 + forced, **options)[0].tolist()
    assert tuple(output[:forced]) == model.start(TEXT).trunk
    assert record["hypotheses"] == [model.text(output[forced:])]


@pytest.mark.parametrize(
    ("kind", "known"), [("m2m100", "af, am, ar"), ("nllb", "ace_Arab"), ("mbart50", "af_ZA"), ("t5", "none are named")]
)
def test_a_language_that_is_not_known(kind: str, known: str, tmp_path: Path) -> None:
    name = str(folders.translator(tmp_path / kind, kind))
    for option in ("source_language", "target_language"):
        with pytest.raises(InputError, match=f"{kind}: knows no language 'xx'; its languages: {known}"):
            LocalModel(Place(name=name, device="cpu", **{option: "xx"}))


def test_a_language_forced_by_the_configuration_stands_in_the_trunk() -> None:
    model = tiny.model("mbart")
    model.generation_config.forced_bos_token_id = 7
    assert local._trunk(model, None, Place(name="m")) == (0, 7)
