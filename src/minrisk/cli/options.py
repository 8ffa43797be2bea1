"""Options that several commands share."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minrisk.formats import TextLayout


def add_input_arguments(samples: argparse._ArgumentGroup) -> None:
    """How samples are read."""
    samples.add_argument(
        "--input-format",
        choices=("jsonl", "text", "parquet"),
        metavar="FORMAT",
        help="jsonl, text or parquet (default: what name and content tell)",
    )
    samples.add_argument("--num-candidates", type=count, metavar="N", help="flat text: lines that make a segment")
    samples.add_argument("--sources", metavar="FILE", help="flat text: one source a line")
    samples.add_argument("--logprobs", metavar="FILE", help="flat text: one number a line, for each candidate")
    samples.add_argument("--pseudo-references", metavar="FILE", help="flat text: what to compare with instead")
    samples.add_argument(
        "--num-pseudo-references", type=count, metavar="K", help="flat text: lines of that file that make a segment"
    )


def add_choice_arguments(choice: argparse._ArgumentGroup) -> None:
    """By which metric, method, budget and weights is chosen."""
    choice.add_argument(
        "--utility",
        default="chrf",
        metavar="NAME",
        help="the metric: a name (see `minrisk utilities`), module:function or file.py:function (default: chrf)",
    )
    choice.add_argument(
        "--utility-set", action="append", default=[], metavar="OPTION=VALUE", help="set an option of the utility"
    )
    choice.add_argument(
        "--method", metavar="NAME", help="see `minrisk methods` (default: full, or frontier where not all is scored)"
    )
    choice.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="set an option of the method"
    )
    choice.add_argument("--tuned", metavar="FILE", help="of `minrisk study tune`: pmbr as it was tuned")
    choice.add_argument(
        "--budget",
        help="a share of the cells (1/16, 0.25) or a number of calls (1024) per segment; auto: as few as make the "
        "choice sure (default: auto with frontier, and where each pair costs a call and no method is named; else all)",
    )
    choice.add_argument(
        "--weights",
        default="multiplicity",
        metavar="NAME",
        help="multiplicity: how often a text was sampled (default); logprob, logprob-normalized: the model's",
    )


def text_layout(options: argparse.Namespace) -> TextLayout:
    """How flat text holds segments."""
    from minrisk.formats import TextLayout

    return TextLayout(
        num_candidates=options.num_candidates,
        sources=options.sources,
        logprobs=options.logprobs,
        pseudo_references=options.pseudo_references,
        num_pseudo_references=options.num_pseudo_references,
    )


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number is needed, got {text!r}") from None


def amount(text: str) -> float:
    """A finite number of at least 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"a number of at least 0 is needed, got {text!r}")
    return number


def count(text: str) -> int:
    """A whole number of at least 1."""
    if (number := whole(text)) < 1:
        raise argparse.ArgumentTypeError(f"at least 1 is needed, got {text!r}")
    return number
