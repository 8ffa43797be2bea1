"""Shared prefixes change the cost of samples, never their distribution or their log-probabilities."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from generation import tiny  # noqa: E402
from scipy.stats import chi2_contingency, chisquare  # noqa: E402

from minrisk.errors import InputError, MinriskError  # noqa: E402
from minrisk.generation.branching import Network, Start, settle  # noqa: E402
from minrisk.generation.sampler import Draw, Limits, Sampler  # noqa: E402
from minrisk.generation.sampling import DEFAULTS, Sampling  # noqa: E402
from minrisk.generation.splitting import split, surviving  # noqa: E402

INPUTS = (5, 7, 4, 8, 2)
STARTS = {
    family: Start((tiny.PAD,) if family == "t5" else (tiny.BEGIN,), INPUTS)
    if family in tiny.ENCODER_DECODERS
    else Start((0, *INPUTS, 3))
    for family in tiny.FAMILIES
}
BANNED = (tiny.PAD, tiny.BEGIN)
MODEL = tiny.model("marian")
UNFOLDED = ("t5", "gemma2")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def network(family: str, folded: bool | None = None, **changes: Any) -> Network:
    folded = family not in UNFOLDED if folded is None else folded
    return Network(tiny.model(family, **changes), (tiny.END,), BANNED, folded)


def drawn(net: Network, start: Start, count: int, sampling: Sampling, longest: int = 6, **limits: Any) -> list[Draw]:
    sampler = Sampler(sampling, Limits(net.ends, longest, **limits))
    return sampler.draw(net.branching(start), count, np.random.default_rng(7))


def forced_logprobs(net: Network, start: Start, draw: Draw, sampling: Sampling) -> tuple[float, float]:
    """Log-probabilities of a draw by a plain pass and transformers' own truncation."""
    tokens = [*draw.tokens, tiny.END] if draw.finished else list(draw.tokens)
    with torch.inference_mode():
        scores = net.forced(start, tokens)
    places = torch.tensor(tokens)[:, None]
    full = scores.log_softmax(dim=1).gather(1, places).double().sum()
    return float(full), float(warped(scores, sampling).log_softmax(dim=1).gather(1, places).double().sum())


def warped(scores: Any, sampling: Sampling) -> Any:
    """The scores as transformers truncates them."""
    names = {"epsilon": "epsilon_cutoff", "eta": "eta_cutoff", "typical": "typical_p"}
    name = names.get(sampling.kind, sampling.kind.replace("-", "_"))
    chosen = {} if sampling.kind == "ancestral" else {name: sampling.parameter}
    config = transformers.GenerationConfig(
        do_sample=True, temperature=sampling.temperature, **{"top_k": 0, "eos_token_id": tiny.END, **chosen}
    )
    config._eos_token_tensor = torch.tensor([tiny.END])
    processors = transformers.GenerationMixin._get_logits_processor(MODEL, config, device="cpu")
    return processors(torch.zeros((len(scores), 1), dtype=torch.int64), scores)


SAMPLINGS = [Sampling(kind, temperature=heat) for kind in DEFAULTS for heat in (1.0, 0.7)] + [
    Sampling("epsilon", 0.15),
    Sampling("epsilon", 0.9),
    Sampling("eta", 0.2),
    Sampling("top-k", 3),
    Sampling("top-p", 0.5),
    Sampling("min-p", 0.5),
    Sampling("typical", 0.3),
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_truncation_is_that_of_transformers(sampling: Sampling) -> None:
    logits = 3 * torch.randn((200, 60), generator=torch.Generator().manual_seed(1))
    logits[:, 7] = -torch.inf
    logprobs = (logits / sampling.temperature).log_softmax(dim=1)
    kept = surviving(logprobs, sampling)
    expected = ~warped(logits, sampling).isneginf()
    if kept is None:
        kept = ~logprobs.isneginf()
    kept[:, 7] = False
    assert torch.equal(kept, expected)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_a_split_has_the_truncated_distribution(sampling: Sampling) -> None:
    logits = 2 * torch.randn((3, 20), generator=torch.Generator().manual_seed(2))
    counts = torch.tensor([4000, 1, 3000])
    uniforms = torch.from_numpy(np.random.default_rng(3).random(7001))
    children = split(logits, counts, uniforms, sampling)
    assert torch.equal(torch.zeros(3, dtype=torch.int64).index_add(0, children.rows, children.counts), counts)
    expected = warped(logits, sampling).log_softmax(dim=1)
    places = children.rows, children.tokens
    assert torch.allclose(children.sampling_logprobs, expected[places].double(), atol=1e-5)
    assert torch.allclose(children.logprobs, logits.log_softmax(dim=1)[places].double(), atol=1e-5)
    for row in (0, 2):
        probabilities = expected[row].double().exp().numpy()
        found = np.zeros(20)
        found[children.tokens[children.rows == row]] = children.counts[children.rows == row]
        assert not found[probabilities == 0].any()
        few = probabilities * found.sum() < 5
        means = np.append(probabilities[~few], probabilities[few].sum()) * found.sum()
        seen = np.append(found[~few], found[few].sum())
        kept = means > 0
        if kept.sum() > 1:
            assert chisquare(seen[kept], means[kept] * seen.sum() / means[kept].sum()).pvalue > 1e-3


def test_a_draw_at_the_edges_stays_in_its_row() -> None:
    logits = torch.tensor([[0.0, -1.0, -torch.inf], [-torch.inf, 2.0, 1.0]])
    edges = torch.tensor([0.0, 1 - 2**-53, 0.0, 1 - 2**-53], dtype=torch.float64)
    for kind in ("ancestral", "epsilon"):
        children = split(logits, torch.tensor([2, 2]), edges, Sampling(kind))
        assert list(zip(children.rows.tolist(), children.tokens.tolist())) == [(0, 0), (0, 1), (1, 1), (1, 2)]


@pytest.mark.parametrize(
    ("family", "folded"),
    [(family, folded) for family in tiny.FAMILIES for folded in (True, False) if not (folded and family in UNFOLDED)],
)
def test_logprobs_are_those_of_teacher_forcing(family: str, folded: bool) -> None:
    net, sampling = network(family, folded), Sampling("epsilon", 0.05, temperature=1.3)
    assert net.folded == folded
    draws = drawn(net, STARTS[family], 200, sampling)
    assert sum(draw.number for draw in draws) == 200
    assert len({draw.tokens for draw in draws if draw.finished}) == sum(draw.finished for draw in draws)
    assert len(draws) > 5
    for draw in draws:
        full, truncated = forced_logprobs(net, STARTS[family], draw, sampling)
        assert draw.logprob == pytest.approx(full, abs=1e-4)
        assert draw.sampling_logprob == pytest.approx(truncated, abs=1e-4)


def every_text(net: Network, start: Start, longest: int) -> Iterator[tuple[tuple[int, ...], bool, float]]:
    """All texts of up to `longest` tokens with their probabilities, slowly."""
    alphabet = [token for token in range(tiny.VOCABULARY) if token not in (*BANNED, tiny.END)]
    for length in range(longest + 1):
        for tokens in itertools.product(alphabet, repeat=length):
            finished = length < longest
            given = [*tokens, tiny.END] if finished else list(tokens)
            with torch.inference_mode():
                scores = net.forced(start, given).log_softmax(dim=1)
            yield tokens, finished, float(scores.gather(1, torch.tensor(given)[:, None]).double().sum().exp())


@pytest.mark.parametrize("family", ["marian", "llama"])
def test_samples_have_the_enumerated_distribution(family: str) -> None:
    net, count = network(family), 4000
    counts = Counter(
        {(d.tokens, d.finished): d.number for d in drawn(net, STARTS[family], count, Sampling("ancestral"), 3)}
    )
    texts = list(every_text(net, STARTS[family], 3))
    assert math.isclose(sum(probability for *_, probability in texts), 1, abs_tol=1e-4)
    frequent = [(tokens, finished, p) for tokens, finished, p in texts if p * count >= 5]
    seen = [counts[tokens, finished] for tokens, finished, _ in frequent]
    means = [p * count for *_, p in frequent]
    assert chisquare([*seen, count - sum(seen)], [*means, count - sum(means)]).pvalue > 1e-3


@pytest.mark.parametrize("family", ["marian", "t5", "qwen3"])
def test_samples_are_like_those_of_generate(family: str) -> None:
    net, start, count = network(family), STARTS[family], 3000
    ours = {(d.tokens, d.finished): d.number for d in drawn(net, start, count, Sampling("epsilon", 0.1), 4)}
    model = tiny.model(family)
    config = transformers.GenerationConfig(
        do_sample=True,
        num_beams=1,
        top_k=0,
        epsilon_cutoff=0.1,
        max_new_tokens=4,
        num_return_sequences=count,
        eos_token_id=tiny.END,
        pad_token_id=tiny.PAD,
        decoder_start_token_id=start.trunk[0],
        suppress_tokens=list(BANNED),
    )
    given = torch.tensor([start.inputs or start.trunk])
    torch.manual_seed(5)
    output = model.generate(given, generation_config=config, attention_mask=torch.ones_like(given))
    output = output[:, 1 if start.inputs else given.shape[1] :].tolist()
    theirs = Counter(
        (tuple(row[: row.index(tiny.END)]), True) if tiny.END in row else (tuple(row), False) for row in output
    )
    frequent = [key for key in ours.keys() | theirs.keys() if ours.get(key, 0) + theirs[key] >= 20]
    assert len(frequent) > 3
    table = np.array([[ours.get(key, 0) for key in frequent], [theirs[key] for key in frequent]])
    rest = count - table.sum(axis=1)
    table = np.column_stack([table, rest]) if rest.all() else table
    assert chi2_contingency(table).pvalue > 1e-3


def test_no_prefix_is_computed_twice() -> None:
    net = network("marian")
    branching = net.branching(STARTS["marian"])
    draws = Sampler(Sampling("ancestral"), Limits(net.ends, 5)).draw(branching, 300, np.random.default_rng(0))
    prefixes = {d.tokens[:size] for d in draws for size in range(1, len(d.tokens) + (d.finished and len(d.tokens) < 5))}
    assert branching.nodes == len(prefixes)


def test_small_batches_give_the_same_samples() -> None:
    net = network("marian")
    whole = drawn(net, STARTS["marian"], 300, Sampling())
    for rows in (1, 7):
        part = drawn(net, STARTS["marian"], 300, Sampling(), rows=rows)
        assert [(d.tokens, d.number) for d in part] == [(d.tokens, d.number) for d in whole]


def test_out_of_memory_halves_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network("marian")
    whole = drawn(net, STARTS["marian"], 300, Sampling())
    branching = net.branching(STARTS["marian"])
    sampler = Sampler(Sampling(), Limits(net.ends, 6))
    plain = branching.step

    def step(tokens: Any, paths: Any) -> Any:
        scores = plain(tokens, paths)
        if len(tokens) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
        return scores

    monkeypatch.setattr(branching, "step", step)
    draws = sampler.draw(branching, 300, np.random.default_rng(7))
    assert sampler.rows is not None
    assert sampler.rows <= 5
    assert [(d.tokens, d.number) for d in draws] == [(d.tokens, d.number) for d in whole]


def test_a_single_prefix_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network("marian")
    branching = net.branching(STARTS["marian"])

    def step(tokens: Any, paths: Any) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(branching, "step", step)
    sampler = Sampler(Sampling(), Limits(net.ends))
    with pytest.raises(MinriskError, match="out of memory with a single sample"):
        sampler.samples(lambda: branching, 300, np.random.default_rng(7))
    assert sampler.most == 1


def test_a_tree_that_does_not_fit_is_drawn_in_several() -> None:
    net, count = network("marian"), 400
    trees: list[Any] = []

    def branching() -> Any:
        trees.append(net.branching(STARTS["marian"]))
        plain = trees[-1].step

        def step(tokens: Any, paths: Any) -> Any:
            if trees[-1].nodes + len(tokens) > 30:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
            return plain(tokens, paths)

        trees[-1].step = step
        return trees[-1]

    sampler = Sampler(Sampling("ancestral"), Limits(net.ends, 3, rows=64))
    draws = sampler.samples(branching, count, np.random.default_rng(7))
    assert sum(draw.number for draw in draws) == count
    assert sampler.most is not None
    assert count / len(trees) < sampler.most < count
    assert sampler.rows is not None
    assert sampler.rows > 1
    found = Counter()
    for draw in draws:
        found[draw.tokens, draw.finished] += draw.number
    texts = [(tokens, finished, p * count) for tokens, finished, p in every_text(net, STARTS["marian"], 3)]
    frequent = [(tokens, finished, mean) for tokens, finished, mean in texts if mean >= 5]
    seen, means = [found[text[:2]] for text in frequent], [mean for *_, mean in frequent]
    assert chisquare([*seen, count - sum(seen)], [*means, count - sum(means)]).pvalue > 1e-3


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_every_family_settles_on_the_tree(family: str) -> None:
    net = network(family, folded=True)
    reason = settle(net, STARTS[family], 1e-4)
    # Gemma 2 caps its scores and T5 adds a bias by position, which only their own attention does.
    assert net.folded == (family not in UNFOLDED), reason
    assert (reason is None) == net.folded


def test_a_wrong_attention_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from minrisk.generation import tree

    net = network("llama")
    shared = tree._shared_scores
    monkeypatch.setattr(tree, "_shared_scores", lambda query, keys: 2 * shared(query, keys))
    reason = settle(net, STARTS["llama"], 1e-4)
    assert reason is not None
    assert "probabilities differ by" in reason
    assert not net.folded


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("epsilom",), "unknown sampling 'epsilom'; did you mean 'epsilon'"),
        (("epsilon", 1.5), "`epsilon` must lie between 0 and 1, got 1.5"),
        (("top-k", 0.5), "`top-k` must be a whole number of at least 1, got 0.5"),
        (("top-k", math.inf), "`top-k` must be a whole number of at least 1, got inf"),
        (("epsilon", "0.1"), "`parameter` must be a number, got '0.1'"),
        (("ancestral", 0.5), "ancestral sampling has no parameter"),
        (("epsilon", 0.02, 0.0), "`temperature` must be above 0, got 0.0"),
    ],
)
def test_bad_settings(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Sampling(*arguments)
