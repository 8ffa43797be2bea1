"""Packing, memory that does not suffice, tokens, pairs, loading."""

from __future__ import annotations

import copy
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `neural` is not installed")
pytest.importorskip("transformers", reason="the extra `neural` is not installed")

import torch
from hypothesis import given
from hypothesis import strategies as st
from neural.models import GOLDEN

import minrisk
from minrisk.neural import loading, packages
from minrisk.neural.batching import Packer, out_of_memory, packed
from minrisk.neural.comet import sparsemax
from minrisk.neural.linear import linear, quickened
from minrisk.neural.matching import TokenVectors, matched
from minrisk.neural.tokens import Recent, Tokens, clean, cut_pair, pair_layout
from minrisk.utilities.xcomet import mqm

torch.set_num_threads(1)


@given(st.lists(st.integers(0, 60), max_size=80), st.integers(1, 200))
def test_batches_hold_everything_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = packed(lengths, budget)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= budget
    longest = [max(lengths[place] for place in batch) for batch in batches]
    assert longest == sorted(longest, reverse=True)


@pytest.mark.parametrize(("width", "tokens"), [(64, 2048), (512, 781), (1536, 260), (4096, 256)])
def test_on_the_cpu_wide_models_get_small_batches(width: int, tokens: int) -> None:
    for option in ("intermediate_size", "d_ff"):
        replica = SimpleNamespace(config=SimpleNamespace(**{option: width}))
        assert Packer([replica], "cpu").budget == tokens
        assert Packer([replica], "cuda").budget == 32768
        assert Packer([replica], "cpu", 99).budget == 99


class Memory:
    """A device that holds so many tokens at a time."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.sizes: list[int] = []

    def work(self, _: object, batch: list[int]) -> list[int]:
        self.sizes.append(len(batch))
        if len(batch) * 10 > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return [place * place for place in batch]


@pytest.mark.parametrize("replicas", [1, 2])
def test_out_of_memory_halves_the_batch_and_goes_on(replicas: int) -> None:
    device = Memory(60)
    packer = Packer([None] * replicas, "cpu", 320)
    assert packer.run([10] * 64, device.work) == [place * place for place in range(64)]
    assert packer.budget <= 80
    before = len(device.sizes)
    packer.run([10] * 64, device.work)
    assert max(device.sizes[before:]) <= 8


def test_a_single_text_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(minrisk.UtilityError, match="out of memory on a single text of 10 tokens"):
        Packer([None], "cpu", 40).run([10] * 4, Memory(5).work)


def test_other_failures_pass() -> None:
    def broken(_: object, batch: list[int]) -> list[int]:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        Packer([None], "cpu").run([1, 2], broken)
    assert out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"))


def test_tokens_sees_each_text_once() -> None:
    seen: list[str] = []

    def tokenize(texts: list[str]) -> list[list[int]]:
        seen.extend(texts)
        return [[len(text)] for text in texts]

    tokens = Tokens(tokenize)
    assert tokens.of(["a", "bb", "a", ""]) == [(1,), (2,), (1,), (0,)]
    assert tokens.of(["bb", "ccc"]) == [(2,), (3,)]
    assert seen == ["a", "bb", "", "ccc"]


def test_recent_memory_is_bounded_and_keeps_what_is_used() -> None:
    recent = Recent(4)
    for number in range(40):
        recent.put(number, number)
        assert recent.get(0) in (0, None)
    assert len(recent._recent) + len(recent._older) <= 8
    assert recent.get(39) == 39


def test_clean_leaves_only_what_utf_8_can_hold() -> None:
    assert clean("a\ud800b") == "a\ufffdb"
    assert clean("\ud83d\ude00 é") == "😀 é"


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 20))
def test_pairs_are_cut_token_by_token_from_the_longer(one: int, other: int, room: int) -> None:
    lengths = [one, other]
    while sum(lengths) > room:
        lengths[0 if lengths[0] > lengths[1] else 1] -= 1
    first, second = cut_pair(list(range(one)), list(range(other)), room, odd_to_first=True)
    assert [len(first), len(second)] == lengths
    first, second = cut_pair(list(range(one)), list(range(other)), room)
    assert abs(len(first) - lengths[0]) <= 1
    assert len(first) + len(second) == sum(lengths)


def test_a_layout_joins_pairs_as_the_tokenizer_does() -> None:
    for folder in ("nli", "xlmr"):
        tokenizer = loading.tokenizer_of(str(GOLDEN / folder))
        layout = pair_layout(tokenizer)
        first, second = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("the dogs", "a man reads"))
        whole = tokenizer("the dogs", "a man reads", return_token_type_ids=True)
        assert layout.joined(first, second) == whole["input_ids"]
        assert layout.types_of(first, second) == whole["token_type_ids"]


@given(st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=12))
def test_sparsemax_is_the_nearest_point_of_the_simplex(scores: list[float]) -> None:
    found = sparsemax(torch.tensor(scores)).numpy()
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(), 1, atol=1e-5)
    # Where it is above zero, it is the scores, moved by one number; where not, they lie below that number.
    shift = (np.array(scores) - found)[found > 0]
    np.testing.assert_allclose(shift, shift[0], atol=1e-5)
    assert (np.array(scores)[found == 0] <= shift[0] + 1e-5).all()


@pytest.mark.parametrize(
    ("labels", "quality"),
    [([0, 0], 1.0), ([1, 1, 0], 0.96), ([2, 3, 0, 3, 0], 0.4), ([0, 3], 1.0), ([3, 0] * 4, 0.0), ([2, 0, 1], 0.8)],
)
def test_quality_by_errors(labels: list[int], quality: float) -> None:
    assert mqm(np.array(labels)) == pytest.approx(quality)


@given(st.integers(0, 40), st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_a_linear_layer_is_that_of_torch(rows: int, width: int, out: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    inputs, weight = torch.randn(2, rows, width, generator=generator), torch.randn(out, width, generator=generator)
    for bias in (None, torch.randn(out, generator=generator)):
        for values in (inputs, inputs.transpose(0, 1), inputs[0]):
            with torch.inference_mode():
                found = linear(values, weight, bias)
                activated = {how: linear(values, weight, bias, gelu=how) for how in ("none", "tanh")}
            expected = torch.nn.functional.linear(values, weight, bias)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
            for how, values_found in activated.items():
                gelu = torch.nn.functional.gelu(expected, approximate=how)
                torch.testing.assert_close(values_found, gelu, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quickened_models_give_the_same(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 3)).to(dtype)
    inputs = torch.randn(5, 8, dtype=dtype)
    with torch.inference_mode():
        expected = model(inputs)
        torch.testing.assert_close(quickened(model)(inputs), expected)
        torch.testing.assert_close(copy.deepcopy(model)(inputs), expected)
        monkeypatch.setattr("minrisk.neural.linear.available", lambda: False)
        torch.testing.assert_close(model(inputs), expected, rtol=0, atol=0)


def test_wide_layers_are_activated_along_with_their_product() -> None:
    from transformers import BertConfig, BertModel, MT5Config, MT5EncoderModel

    shape: dict[str, Any] = {"vocab_size": 20, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1}
    bert = BertModel(BertConfig(**shape, num_attention_heads=2)).eval()
    mt5 = MT5EncoderModel(MT5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2)).eval()
    for model, gelu in ((bert, "none"), (mt5, "tanh")):
        with torch.inference_mode():
            expected = model(torch.arange(10)[None]).last_hidden_state
            found = quickened(model)(torch.arange(10)[None]).last_hidden_state
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert [how for module in model.modules() if (how := getattr(module, "gelu", None))] == [gelu]


@given(st.integers(0, 2**32 - 1))
def test_matching_is_that_of_each_pair_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(int(rng.integers(1, 40))):
        vectors = torch.tensor(rng.normal(size=(int(rng.integers(1, 7)), 5)), dtype=torch.float32)
        weights = torch.tensor(rng.random(len(vectors)), dtype=torch.float32)
        texts.append(TokenVectors(vectors / vectors.norm(dim=1, keepdim=True), weights / weights.sum()))
    left, right = rng.integers(len(texts), size=(2, int(rng.integers(1, 300))))
    found, found_back = matched(texts, left, right)
    for place in range(len(left)):
        one, other = texts[left[place]], texts[right[place]]
        similarity = one.vectors @ other.vectors.T
        np.testing.assert_allclose(found[place], float((similarity.amax(1) * one.weights).sum()), atol=1e-5)
        np.testing.assert_allclose(found_back[place], float((similarity.amax(0) * other.weights).sum()), atol=1e-5)


def named(name: str) -> type[Exception]:
    return type(name, (Exception,), {})


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("GatedRepoError", "is gated: accept its licence .* `hf auth login`"),
        ("LocalEntryNotFoundError", "the hub cannot be reached; give a local folder, or run `hf download some/model`"),
        ("RepositoryNotFoundError", "there is no model 'some/model'"),
        ("HfHubHTTPError", "cannot be had from the hub: it is down"),
    ],
)
def test_what_the_hub_says_becomes_one_line(monkeypatch: pytest.MonkeyPatch, kind: str, message: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise named(kind)("it is\ndown")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.utility("embedding", model="some/model").score(["a"], ["b"])


@pytest.mark.parametrize("model", ["./nowhere", "/nowhere/model", "a/b/c", "two words"])
def test_a_folder_that_is_not_there(model: str) -> None:
    with pytest.raises(minrisk.InputError, match="there is no model folder"):
        minrisk.utility("comet", model=model).score(["a"], ["b"], ["c"])


def test_offline_a_hub_name_says_what_to_do() -> None:
    code = (
        "import minrisk\n"
        "try: minrisk.utility('bleurt', device='cpu').score(['a'], ['b'])\n"
        "except minrisk.InputError as error: print(error)"
    )
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": "/nonexistent", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert "model 'lucadiliello/BLEURT-20' is not on this machine" in done.stdout


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(packages, "import_module", absent)
    with pytest.raises(minrisk.MissingExtraError, match=r"pip install 'minrisk\[neural\]'"):
        minrisk.utility("comet", model=str(GOLDEN / "comet")).score(["a"], ["b"], ["c"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda:7"}, "`device` 'cuda:7' is not to be had here; known: auto, cpu"),
        ({"dtype": "half"}, "`dtype` must be one of"),
    ],
)
def test_bad_devices_and_types(options: dict[str, str], message: str) -> None:
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.utility("bertscore", model=str(GOLDEN / "bert"), **options).score(["a"], ["b"])


def test_listing_utilities_imports_no_torch() -> None:
    code = (
        "import sys\nfrom minrisk.utilities import UTILITIES\n"
        "for name in UTILITIES: UTILITIES.summary(name)\n"
        "print([name for name in ('torch', 'transformers', 'sentencepiece') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
