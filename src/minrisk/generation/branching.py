"""A transformers model as the sampler sees it: next-token scores for any number of prefixes of one source.

Encoder-decoder models encode the source once; decoders read the prompt once. Shapes: R prefixes, V tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.modeling_outputs import BaseModelOutput

from minrisk.errors import MinriskError
from minrisk.generation.tree import NAME, TreeCache, Unfoldable, register

Tensor = Any


@dataclass(frozen=True)
class Start:
    """What every sample of a source starts from.

    inputs   the encoder's input tokens; empty for a decoder alone
    trunk    the decoder's first tokens: its prompt, or the start token and a language's
    """

    trunk: Sequence[int]
    inputs: Sequence[int] = ()


@dataclass
class Network:
    """A loaded model, and how its attention is run.

    ends      tokens that end a text
    banned    tokens that no text holds (padding, and what the model's own configuration rules out)
    folded    whether attention reads the tree of prefixes as it is, or every row's keys are laid out for the model
    """

    model: Any
    ends: tuple[int, ...]
    banned: tuple[int, ...] = ()
    folded: bool = True
    plain: str = field(init=False)

    def __post_init__(self) -> None:
        self.plain = str(self.model.config._attn_implementation)
        if self.folded:
            self._fold()

    def _fold(self) -> None:
        register()
        try:
            self.model.set_attn_implementation(NAME)
        except (AttributeError, ValueError, KeyError, NotImplementedError):
            self.unfold()
        self.folded = self.model.config._attn_implementation == NAME

    def unfold(self) -> None:
        """Run the model's attention as it came."""
        self.model.set_attn_implementation(self.plain)
        self.folded = False

    @property
    def device(self) -> Any:
        return self.model.device

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        config = self.model.config.get_text_config(decoder=True)
        return int(getattr(config, "decoder_vocab_size", None) or config.vocab_size)

    @property
    def layers(self) -> int:
        """How many layers the decoder has."""
        config = self.model.config
        own = getattr(config, "decoder_layers", None) or getattr(config, "num_decoder_layers", None)
        return int(own or config.get_text_config(decoder=True).num_hidden_layers)

    @property
    def longest(self) -> int | None:
        """How many positions the decoder has; None: no limit is known."""
        config = self.model.config.get_text_config(decoder=True)
        limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
        return None if limit is None or self.model.config.model_type in ("t5", "mt5", "umt5") else int(limit)

    def scores(self, logits: Tensor) -> Tensor:
        """(R, V) of the last position in single precision, banned tokens at minus infinity."""
        last = logits[:, -1].float()
        if self.banned:
            last[:, list(self.banned)] = -torch.inf
        return last

    def branching(self, start: Start) -> Branching:
        """The model at work on one source."""
        return Branching(self, start)

    def forced(self, start: Start, tokens: Sequence[int]) -> Tensor:
        """(T, V) scores of each position of a given continuation, in one plain pass without a cache."""
        given = torch.tensor([[*start.trunk, *tokens]], device=self.device)
        if start.inputs:
            inputs = torch.tensor([list(start.inputs)], device=self.device)
            logits = self.model(input_ids=inputs, decoder_input_ids=given, use_cache=False).logits
        else:
            logits = self.model(input_ids=given, use_cache=False).logits
        return self.scores(logits[0, len(start.trunk) - 1 : -1, None])


class Branching:
    """One source: prefixes are added step by step, and no node of their tree is computed twice."""

    def __init__(self, network: Network, start: Start) -> None:
        self.network = network
        self.cache = TreeCache(network.layers, bool(start.inputs), network.folded)
        self._start = start
        self._encoded: Tensor = None

    @property
    def nodes(self) -> int:
        """How many tokens have been computed below the trunk."""
        return self.cache.nodes

    def begin(self) -> Tensor:
        """(1, V) scores of the first token."""
        trunk = torch.tensor([list(self._start.trunk)], device=self.network.device)
        model = self.network.model
        if not self._start.inputs:
            return self._scores(model(input_ids=trunk, **self._settings(), logits_to_keep=1))
        inputs = torch.tensor([list(self._start.inputs)], device=self.network.device)
        self._encoded = model.get_encoder()(input_ids=inputs).last_hidden_state
        return self._scores(model(decoder_input_ids=trunk, **self._settings(1)))

    def step(self, tokens: Tensor, paths: Tensor) -> Tensor:
        """(R, V) scores after these (R,) tokens, which become the nodes at the end of their (R, T) paths."""
        self.cache.enter(paths)
        if self._encoded is None:
            return self._scores(self.network.model(input_ids=tokens[:, None], **self._settings()))
        return self._scores(self.network.model(decoder_input_ids=tokens[:, None], **self._settings(len(tokens))))

    def _settings(self, rows: int = 0) -> dict[str, Any]:
        settings = {"past_key_values": self.cache.of_model, "use_cache": True}
        if rows:
            settings["encoder_outputs"] = BaseModelOutput(self._encoded.expand(rows, -1, -1))
        return settings

    def _scores(self, output: Any) -> Tensor:
        return self.network.scores(output.logits)


def settle(network: Network, start: Start, tolerance: float) -> str | None:
    """Check the tree against a plain pass on a few tokens of a real source; fall back where they differ.

    Returns what the fallback was for, None where none was needed. Models differ in what they hand to their
    attention, and one that this package has never seen must not give wrong samples in silence.
    """
    reason = _difference(network, start, tolerance) if network.folded else None
    if reason is None and network.folded:
        return None
    network.unfold()
    wrong = _difference(network, start, tolerance)
    if wrong is not None:
        raise MinriskError(f"{type(network.model).__name__} cannot be sampled with shared prefixes: {wrong}")
    return reason


@torch.inference_mode()  # type: ignore[untyped-decorator]
def _difference(network: Network, start: Start, tolerance: float) -> str | None:
    """What is wrong with scores from the tree; None: nothing."""
    branching = network.branching(start)
    try:
        first = branching.begin()
        # Two branches that part at the root, both continued twice: rows, paths and positions all take part.
        tokens = first.topk(2, dim=1).indices[0]
        paths = torch.arange(2, device=network.device)[:, None]
        texts = tokens[:, None]
        scores = branching.step(tokens, paths)
        for depth in range(2):
            tokens = scores.argmax(dim=1)
            new = torch.arange(2, device=network.device)[:, None] + 2 * (depth + 1)
            paths, texts = torch.cat([paths, new], dim=1), torch.cat([texts, tokens[:, None]], dim=1)
            scores = branching.step(tokens, paths)
        for row, text in enumerate(texts.tolist()):
            expected = network.forced(start, [*text, text[-1]])[-1].log_softmax(dim=0)
            found = scores[row].log_softmax(dim=0)
            worst = float((expected - found).exp().sub(1).mul(expected.exp()).nan_to_num(0.0).abs().max())
            if not worst <= tolerance:
                return f"probabilities differ by {worst:.2g} from those of a plain pass"
    except (Unfoldable, RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return None
