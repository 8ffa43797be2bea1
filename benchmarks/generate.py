"""Samples a second: shared prefixes against transformers' generate(), same model, settings and core.

    python benchmarks/generate.py --output benchmarks/results/generate.md

Sources are taken at even distances from the file. For each, generate(do_sample=True, epsilon_cutoff=...,
num_return_sequences=...) and `minrisk generate` take turns, so that other load on the machine strikes both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRIED = 50
"""Texts of a source whose log-probabilities are compared."""
ROOT = Path(__file__).parent.parent
MODEL = ROOT / "../shared/models/multi30k-de-en"
SOURCES = ROOT / "../shared/data/test16.jsonl.gz"


@dataclass(frozen=True)
class Row:
    """One source: seconds of both, distinct texts of both, what the samples share, and how well both agree.

    p      of the chi-square test that both draw from one distribution; None where there is one text alone
    error  the largest between our log-probabilities, full or truncated, and those of transformers' plain pass
    """

    distinct: int
    tokens: int
    prefixes: int
    ours: float
    theirs: float
    theirs_distinct: int
    p: float | None
    error: float


def read(path: Path, count: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["source"] for line in file]
    return texts[:: max(1, len(texts) // count)][:count]


class Peer:
    """transformers' own sampling, free of what a Marian model's configuration would add to it."""

    def __init__(self, folder: Path, epsilon: float, samples: int) -> None:
        import torch
        from transformers import GenerationConfig, MarianMTModel, MarianTokenizer

        self.model: Any = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer: Any = MarianTokenizer.from_pretrained(folder)
        shipped = self.model.generation_config
        self.model.final_logits_bias[:, shipped.pad_token_id] = -torch.inf
        self.model.generation_config = GenerationConfig(
            do_sample=True,
            num_beams=1,
            top_k=0,
            top_p=1.0,
            temperature=1.0,
            epsilon_cutoff=epsilon,
            max_new_tokens=256,
            num_return_sequences=samples,
            decoder_start_token_id=shipped.decoder_start_token_id,
            eos_token_id=shipped.eos_token_id,
            pad_token_id=shipped.pad_token_id,
        )

    def draw(self, source: str) -> list[str]:
        import torch

        with torch.inference_mode():
            output = self.model.generate(**self.tokenizer([source], return_tensors="pt"))
        texts: list[str] = self.tokenizer.batch_decode(output, skip_special_tokens=True)
        return texts

    def logprobs(self, source: str, tokens: list[int], epsilon: float) -> tuple[float, float]:
        """Of a text, under the full model and under the truncated one, in a plain pass without a cache."""
        import torch

        with torch.inference_mode():
            labels = torch.tensor([tokens])
            logits = self.model(**self.tokenizer([source], return_tensors="pt"), labels=labels).logits[0].double()
        full = logits.log_softmax(dim=1)
        kept = full.where((full.exp() >= epsilon) | (full == full.amax(dim=1, keepdim=True)), -torch.inf)
        places = range(len(tokens)), tokens
        return float(full[places].sum()), float(kept.log_softmax(dim=1)[places].sum())


def same_distribution(ours: list[str], theirs: list[str]) -> float | None:
    """The p-value of the chi-square test of homogeneity; texts that are rare on both sides count as one."""
    from scipy.stats import chi2_contingency

    counts = [Counter(ours), Counter(theirs)]
    frequent = [text for text in counts[0] | counts[1] if counts[0][text] + counts[1][text] >= 10]
    table = [[count[text] for text in frequent] for count in counts]
    rest = [len(texts) - sum(row) for texts, row in zip((ours, theirs), table)]
    table = [[*row, left] for row, left in zip(table, rest)] if any(rest) else table
    return float(chi2_contingency(table).pvalue) if len(table[0]) > 1 else None


def measure(folder: Path, sources: list[str], samples: int, epsilon: float) -> list[Row]:
    import numpy as np
    import torch

    from minrisk.generation.local import LocalModel, Place
    from minrisk.generation.sampler import Limits, Sampler
    from minrisk.generation.sampling import Sampling
    from minrisk.generation.sources import Source
    from minrisk.generation.wish import Wish

    torch.set_num_threads(1)
    torch.manual_seed(0)
    local = LocalModel(Place(name=str(folder), device="cpu"))
    wish = Wish(samples=samples, sampling=Sampling("epsilon", epsilon))
    peer = Peer(folder, epsilon, samples)
    (end_token,) = local.network.ends
    next(local.records([Source(sources[0])], Wish(samples=8)))
    rows = []
    for source in sources:
        begin = time.process_time()
        record = next(local.records([Source(source)], wish))
        between = time.process_time()
        texts = peer.draw(source)
        end = time.process_time()
        branching = local.network.branching(local.start(source))
        sampler = Sampler(Sampling("epsilon", epsilon), Limits(local.network.ends))
        draws = sampler.draw(branching, samples, np.random.default_rng(0))
        tokens = sum(draw.number * (len(draw.tokens) + 1) for draw in draws)
        found = len(set(record["hypotheses"])), len(set(texts))
        p = same_distribution(record["hypotheses"], [text.strip() for text in texts])
        differences = [
            abs(own - other)
            for draw in draws[:TRIED]
            for own, other in zip(
                (draw.logprob, draw.sampling_logprob), peer.logprobs(source, [*draw.tokens, end_token], epsilon)
            )
        ]
        seconds = between - begin, end - between
        rows.append(Row(found[0], tokens, branching.nodes + 1, *seconds, found[1], p, max(differences)))
        print(f"{rows[-1]}", flush=True)
    return rows


def report(rows: list[Row], samples: int, epsilon: float) -> str:
    ours, theirs = sum(row.ours for row in rows), sum(row.theirs for row in rows)
    number = len(rows) * samples
    lines = [
        f"{len(rows)} sources, {samples} samples each, epsilon {epsilon}, temperature 1, single precision, one thread.",
        "",
        "| | seconds | samples/s |",
        "| - | -: | -: |",
        f"| transformers, generate() | {theirs:.1f} | {number / theirs:,.0f} |",
        f"| minrisk generate | {ours:.1f} | {number / ours:,.0f} |",
        f"| ratio (target: 10) | {theirs / ours:.1f} | |",
        "",
        f"{sum(row.tokens for row in rows):,} tokens drawn, {sum(row.prefixes for row in rows):,} prefixes computed.",
        "minrisk's time includes log-probabilities under both distributions; generate() computes none.",
        "",
        "p: chi-square test that both draw from one distribution. Error: the largest of our log-probabilities, full",
        f"and truncated, beside those of a plain pass of transformers, up to {TRIED} texts a source.",
        "",
        "| source | distinct (generate()) | tokens | prefixes computed | minrisk | generate() | ratio | p | error |",
        "| -: | -: | -: | -: | -: | -: | -: | -: | -: |",
    ]
    for number, row in enumerate(rows):
        lines.append(
            f"| {number} | {row.distinct} ({row.theirs_distinct}) | {row.tokens:,} | {row.prefixes:,} | "
            f"{row.ours:.2f} s | {row.theirs:.2f} s | {row.theirs / row.ours:.1f} | "
            f"{'' if row.p is None else format(row.p, '.2f')} | {row.error:.1e} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--sources", type=Path, default=SOURCES, help="JSON Lines (.gz) with `source`")
    parser.add_argument("--count", type=int, default=20, help="sources measured")
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--epsilon", type=float, default=0.02)
    parser.add_argument("--output", type=Path, help="write the tables to this Markdown file too")
    parser.add_argument("--heading", default="", help="first lines of that file: machine and date")
    arguments = parser.parse_args()
    for path in (arguments.model, arguments.sources):
        if not path.exists():
            raise SystemExit(f"skipped: nothing at {path}; give --model FOLDER and --sources FILE")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = measure(arguments.model, read(arguments.sources, arguments.count), arguments.samples, arguments.epsilon)
    text = report(rows, arguments.samples, arguments.epsilon)
    print(text)
    if arguments.output:
        heading = f"{arguments.heading}\n\n" if arguments.heading else ""
        arguments.output.write_text(f"# Generation\n\n{heading}{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
