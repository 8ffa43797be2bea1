"""Draw the samples of `everyday.jsonl`: epsilon sampling from a Marian translation model.

    python make_everyday.py --model FOLDER --sources everyday.tsv --output everyday.jsonl

Needs torch, transformers and sentencepiece. Each line of the sources is a sentence, a tab and its reference.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, MarianMTModel, MarianTokenizer


def load(folder: str, epsilon: float) -> tuple[Any, Any]:
    """The model in float32, set to sample from its own distribution cut at `epsilon` and nothing else."""
    model: Any = MarianMTModel.from_pretrained(folder, dtype=torch.float32)
    shipped = model.generation_config
    # What generate() is not told it takes from the model's own configuration, and Marian models ship beams,
    # a suppressed pad token (`bad_words_ids`) and an EOS forced at the length limit. A fresh configuration
    # drops all three. The pad token, no part of any translation, is instead ruled out in the model itself, so
    # that `logprobs` and the distribution cut at epsilon start from the same full model.
    model.final_logits_bias[:, shipped.pad_token_id] = -torch.inf
    model.generation_config = GenerationConfig.from_dict(
        {
            "do_sample": True,
            "num_beams": 1,
            "temperature": 1.0,
            "top_k": 0,
            "top_p": 1.0,
            "epsilon_cutoff": epsilon,
            "max_new_tokens": 200,
            "decoder_start_token_id": shipped.decoder_start_token_id,
            "eos_token_id": shipped.eos_token_id,
            "pad_token_id": shipped.pad_token_id,
        }
    )
    return model.eval(), MarianTokenizer.from_pretrained(folder)


def seed_of(seed: int, source: str) -> int:
    """A seed of the sentence's own: its samples do not depend on the other sentences or their order."""
    digest = hashlib.sha256(f"{seed}\t{source}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def sum_logprobs(steps: tuple[torch.Tensor, ...], tokens: torch.Tensor, real: torch.Tensor) -> list[float]:
    """Log-probability of each row of `tokens` (samples x length); `steps` are samples x vocabulary each."""
    by_token = torch.stack(steps, dim=1).log_softmax(dim=-1).gather(2, tokens.unsqueeze(2)).squeeze(2)
    sums = by_token.masked_fill(~real, 0.0).double().sum(dim=1)
    return [round(value, 4) for value in sums.tolist()]


def draw(model: Any, tokenizer: Any, source: str, count: int, seed: int) -> dict[str, list[Any]]:
    """`count` samples for `source` in drawing order, and the log-probability (EOS included) of each."""
    torch.manual_seed(seed)
    inputs = tokenizer([source], return_tensors="pt")
    output = model.generate(
        **inputs,
        num_return_sequences=count,
        return_dict_in_generate=True,
        output_logits=True,  # of the full model
        output_scores=True,  # truncated: -inf for tokens below epsilon
    )
    tokens = output.sequences[:, 1:]  # without the start token
    ends = tokens == model.generation_config.eos_token_id
    if not ends.any(dim=1).all():
        raise ValueError(f"a sample of {source!r} reached `max_new_tokens` without an end; raise the limit")
    real = ends.cumsum(dim=1) - ends.long() == 0  # up to the first EOS, which counts; the rest is padding
    return {
        "hypotheses": tokenizer.batch_decode(tokens, skip_special_tokens=True),
        "logprobs": sum_logprobs(output.logits, tokens, real),
        "logprobs_sampling": sum_logprobs(output.scores, tokens, real),
    }


def segments(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One segment, ready for JSON, per line of the sources."""
    model, tokenizer = load(arguments.model, arguments.epsilon)
    for number, line in enumerate(arguments.sources.read_text(encoding="utf-8").splitlines(), start=1):
        source, reference = line.split("\t")
        yield {
            "id": f"{arguments.sources.stem}-{number:02d}",
            "source": source,
            "reference": reference,
            **draw(model, tokenizer, source, arguments.samples, seed_of(arguments.seed, source)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw samples from a Marian model by epsilon sampling.")
    parser.add_argument("--model", required=True, help="folder of a Marian model in the Hugging Face format")
    parser.add_argument("--sources", type=Path, default="everyday.tsv", help="sentence, tab, reference")
    parser.add_argument("--samples", type=int, default=64, help="samples per sentence")
    parser.add_argument("--epsilon", type=float, default=0.02, help="less probable tokens are not drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the random draws")
    parser.add_argument("--output", type=Path, default="everyday.jsonl", help="JSON Lines")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a small model gains nothing from more
    lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in segments(arguments)]
    arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
