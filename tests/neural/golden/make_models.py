"""Makes the tiny randomly initialised checkpoints, each in the layout of the official ones.

Run in an environment with mbrs 0.1.8, which brings unbabel-comet 2.2.7 and bleurt-pytorch 0.0.1, and with
setuptools<81, transformers 4.57 and sentencepiece 0.2.0:

    python make_models.py

Weights are drawn with a spread that makes scores differ; their values mean nothing.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import yaml
from bleurt_pytorch import BleurtConfig, BleurtForSequenceClassification
from comet.models import str2model
from safetensors.torch import save_file
from texts import CORPUS
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    BertTokenizerFast,
    MT5Config,
    MT5ForConditionalGeneration,
    XLMRobertaConfig,
    XLMRobertaTokenizerFast,
    XLMRobertaXLConfig,
)

HERE = Path(__file__).parent
SHAPE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "initializer_range": 0.3,
}
POSITIONS = 66
"""Two more than the longest sequence of the XLM-R family: the last texts are cut."""


def pieces(place: Path, **options: Any) -> None:
    """A unigram vocabulary of the corpus."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=model,
        vocab_size=140,
        character_coverage=1.0,
        minloglevel=2,
        normalization_rule_name="identity",
        hard_vocab_limit=False,
        **options,
    )
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(model.getvalue())


def xlm_roberta() -> None:
    """Configuration and tokenizer of a tiny XLM-R and XLM-R XL: what COMET looks up by `pretrained_model`."""
    pieces(HERE / "xlmr" / "sentencepiece.bpe.model")
    tokenizer = XLMRobertaTokenizerFast(vocab_file=str(HERE / "xlmr" / "sentencepiece.bpe.model"), model_max_length=64)
    for name, kind in (("xlmr", XLMRobertaConfig), ("xlmr-xl", XLMRobertaXLConfig)):
        tokenizer.save_pretrained(HERE / name)
        settings = {**SHAPE, "vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS}
        kind(**settings, type_vocab_size=1, layer_norm_eps=1e-5).save_pretrained(HERE / name)
    for name in ("xlmr", "xlmr-xl"):
        (HERE / name / "sentencepiece.bpe.model").unlink()


def bert() -> None:
    """A tiny BERT: an encoder, a sentence-transformers folder around it, and a cross-encoder of three labels."""
    words = sorted({word for line in CORPUS for word in line.lower().replace(",", " ").replace(".", " ").split()})
    letters = sorted({letter for line in CORPUS for letter in line.lower() if not letter.isspace()})
    symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    folder = HERE / "bert"
    folder.mkdir(exist_ok=True)
    vocabulary = list(dict.fromkeys(symbols + words))
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    tokenizer = BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), do_lower_case=True, model_max_length=40)
    config = BertConfig(**SHAPE, vocab_size=len(vocabulary), max_position_embeddings=40)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    labels = {0: "contradiction", 1: "entailment", 2: "neutral"}
    classes = BertConfig(**SHAPE, vocab_size=len(vocabulary), max_position_embeddings=40, id2label=labels)
    BertForSequenceClassification(classes).save_pretrained(HERE / "nli")
    tokenizer.save_pretrained(HERE / "nli")


HEADS: dict[str, dict[str, Any]] = {
    "comet": {
        "class_identifier": "regression_metric",
        "pool": "avg",
        "layer": "mix",
        "layer_transformation": "sparsemax",
        "layer_norm": False,
    },
    "comet-norm": {
        "class_identifier": "regression_metric",
        "pool": "cls",
        "layer": "mix",
        "layer_transformation": "softmax",
        "layer_norm": True,
        "activations": "Sigmoid",
        "final_activation": "Sigmoid",
    },
    "comet-qe": {
        "class_identifier": "referenceless_regression_metric",
        "pool": "max",
        "layer": 2,
        "layer_transformation": "softmax",
        "layer_norm": False,
    },
    "cometkiwi": {
        "class_identifier": "unified_metric",
        "sent_layer": "mix",
        "layer_transformation": "sparsemax_patch",
        "layer_norm": True,
        "input_segments": ["mt", "src"],
    },
    "unite": {
        "class_identifier": "unified_metric",
        "sent_layer": "mix",
        "layer_transformation": "softmax",
        "layer_norm": False,
        "input_segments": ["mt", "src", "ref"],
        "encoder_model": "BERT",
        "pretrained_model": "bert",
    },
    "xcomet": {
        "class_identifier": "xcomet_metric",
        "sent_layer": "mix",
        "layer_transformation": "sparsemax_patch",
        "layer_norm": False,
        "encoder_model": "XLM-RoBERTa-XL",
        "pretrained_model": "xlmr-xl",
        "word_layer": 2,
        "word_level_training": True,
        "error_labels": ["minor", "major", "critical"],
        "cross_entropy_weights": [0.08, 0.486, 0.505, 0.533],
    },
}
LATER: dict[str, dict[str, Any]] = {
    "cometkiwi-xl": {**HEADS["cometkiwi"], "encoder_model": "XLM-RoBERTa-XL", "pretrained_model": "xlmr-xl"},
}
"""Made after all others, whose random weights stay what they were."""


def comets(heads: dict[str, dict[str, Any]]) -> None:
    """Checkpoints of COMET's model classes: hparams.yaml beside checkpoints/model.ckpt."""
    for name, given in heads.items():
        settings: dict[str, Any] = {
            "encoder_model": "XLM-RoBERTa",
            "pretrained_model": "xlmr",
            "hidden_sizes": [24, 12],
            "activations": "Tanh",
            "final_activation": None,
            "dropout": 0.1,
            **given,
        }
        trained = {key: value for key, value in settings.items() if key != "class_identifier"}
        trained["layer_transformation"] = trained["layer_transformation"].removesuffix("_patch")
        model = str2model[settings["class_identifier"]](**trained, load_pretrained_weights=False)
        for key, parameter in model.named_parameters():
            if "scalar_parameters" in key:
                parameter.data.normal_(0, 0.5)
            elif key.endswith("gamma"):
                parameter.data.fill_(1.25)
            elif key.startswith(("estimator", "hidden2tag")):
                parameter.data.normal_(0, 0.4)
        if name == "xcomet":  # Some words are right, or there would be no spans.
            model.hidden2tag.bias.data += torch.tensor([1.0, 0.0, 0.0, 0.0])
            model.estimator.ff[-1].bias.data += 1.8
        place = HERE / name / "checkpoints" / "model.ckpt"
        place.parent.mkdir(parents=True, exist_ok=True)
        checkpoint = {
            "state_dict": model.state_dict(),
            "hyper_parameters": {**trained, "class_identifier": settings["class_identifier"]},
            "pytorch-lightning_version": "1.3.5",
            "epoch": 0,
            "global_step": 0,
        }
        torch.save(checkpoint, place)
        (HERE / name / "hparams.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def bleurt() -> None:
    """A tiny BLEURT-20: wider embeddings' projection, spm.model beside it."""
    pieces(
        HERE / "bleurt" / "spm.model",
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        pad_piece="[PAD]",
        unk_piece="[UNK]",
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
    )
    config = BleurtConfig(**SHAPE, vocab_size=150, embedding_size=12, max_position_embeddings=48)
    BleurtForSequenceClassification(config).save_pretrained(HERE / "bleurt")
    (HERE / "bleurt" / "tokenizer_config.json").write_text('{"model_max_length": 48}\n', encoding="utf-8")


def metricx() -> None:
    """A tiny MetricX without the rows of its two huge tables that nothing reads: `expand` in ../models.py adds them."""
    folder = HERE / "metricx"
    pieces(folder / "spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>")
    config = MT5Config(
        vocab_size=250112,
        d_model=12,
        d_kv=6,
        d_ff=16,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=2,
        tie_word_embeddings=False,
    )
    model = MT5ForConditionalGeneration(config)
    for key, parameter in model.named_parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0, 0.35)
        if key == "lm_head.weight":
            parameter.data.normal_(0, 0.9)
    state = {
        key: value.clone().contiguous()
        for key, value in model.state_dict().items()
        if key not in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    }
    state["shared.weight"] = state["shared.weight"][:150].clone()
    state["lm_head.weight"] = state["lm_head.weight"][250089:250090].clone()
    config.architectures = ["MT5ForRegression"]
    config.save_pretrained(folder)
    save_file(state, folder / "rows.safetensors", metadata={"format": "pt"})


def xcomet_lite() -> None:
    """A tiny XCOMET-lite: a DeBERTa, and weights as PyTorchModelHubMixin writes them."""
    from mbrs.metrics.xcomet import XCOMETLiteMetric
    from transformers import DebertaV2Config, DebertaV2TokenizerFast

    folder = HERE / "deberta"
    pieces(
        folder / "spm.model",
        pad_id=0,
        unk_id=3,
        bos_id=-1,
        eos_id=-1,
        pad_piece="[PAD]",
        unk_piece="[UNK]",
        user_defined_symbols=["[CLS]", "[SEP]"],
    )
    tokenizer = DebertaV2TokenizerFast(vocab_file=str(folder / "spm.model"), split_by_punct=False)
    tokenizer.save_pretrained(folder)
    settings = {**SHAPE, "vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS, "type_vocab_size": 0}
    DebertaV2Config(
        **settings,
        relative_attention=True,
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type="p2c|c2p",
        position_biased_input=False,
        pad_token_id=0,
    ).save_pretrained(folder)
    model = XCOMETLiteMetric(pretrained_model="deberta", word_layer=2, hidden_sizes=[24, 12])
    for key, parameter in model.named_parameters():
        if "scalar_parameters" in key or parameter.ndim > 1:
            parameter.data.normal_(0, 0.4)
    model.hidden2tag.bias.data += torch.tensor([1.0, 0.0, 0.0, 0.0])
    model.save_pretrained(HERE / "xcomet-lite")
    for name in ("spm.model", "added_tokens.json"):
        (folder / name).unlink(missing_ok=True)
    (HERE / "xcomet-lite" / "README.md").unlink(missing_ok=True)


if __name__ == "__main__":
    import os

    os.chdir(HERE)
    for old in (*HEADS, *LATER, "xlmr", "xlmr-xl", "bert", "nli", "bleurt", "metricx", "deberta", "xcomet-lite"):
        shutil.rmtree(HERE / old, ignore_errors=True)
    torch.manual_seed(20261118)
    xlm_roberta()
    bert()
    comets(HEADS)
    bleurt()
    metricx()
    xcomet_lite()
    torch.manual_seed(20261119)
    comets(LATER)
