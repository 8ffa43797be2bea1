"""From folders of models to records of samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from generation import folders  # noqa: E402

from minrisk.errors import InputError, MinriskError  # noqa: E402
from minrisk.generation import local, searching  # noqa: E402
from minrisk.generation.local import LocalModel, Place  # noqa: E402
from minrisk.generation.prompting import Prompt  # noqa: E402
from minrisk.generation.sampler import Limits, Sampler  # noqa: E402
from minrisk.generation.sampling import Sampling  # noqa: E402
from minrisk.generation.sources import Source  # noqa: E402
from minrisk.generation.wish import Wish  # noqa: E402
from minrisk.types import Segment  # noqa: E402

SOURCES = [Source("ein mann liest", "a"), Source("das buch im park", "b", {"reference": "the book"})]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(folders.marian(tmp_path_factory.mktemp("models") / "marian"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(folders.llama(tmp_path_factory.mktemp("models") / "llama"))


def records(name: str, wish: Wish, prompt: Prompt | None = None, sources: Any = SOURCES) -> list[dict[str, Any]]:
    return list(LocalModel(Place(name=name, device="cpu"), prompt).records(sources, wish))


def total(network: Any, start: Any, tokens: list[int]) -> float:
    """The log-probability of a text in a plain pass."""
    with torch.inference_mode():
        scores = network.forced(start, tokens).log_softmax(dim=1)
    return float(scores[range(len(tokens)), tokens].sum())


class TestSamples:
    wish = Wish(samples=40, longest=8, sampling=Sampling("epsilon", 0.02))

    def test_a_record_is_a_segment(self, marian: str) -> None:
        first, second = records(marian, self.wish)
        assert first["id"] == "a"
        assert second["reference"] == "the book"
        for record in (first, second):
            segment = Segment.of(record)
            assert len(segment.hypotheses) == len(record["logprobs_sampling"]) == 40
            assert all(full <= cut for full, cut in zip(record["logprobs"], record["logprobs_sampling"]))

    def test_samples_depend_on_seed_and_source_alone(self, marian: str) -> None:
        first, second = records(marian, self.wish)
        assert records(marian, self.wish, sources=SOURCES[::-1]) == [second, first]
        other = Wish(samples=40, longest=8, sampling=Sampling("epsilon", 0.02), seed=1)
        assert records(marian, other)[0]["hypotheses"] != first["hypotheses"]

    def test_what_the_configuration_of_the_model_ships_changes_nothing(self, marian: str) -> None:
        model = LocalModel(Place(name=marian, device="cpu"))
        assert model.network.ends == (0,)
        assert model.network.banned == (model.network.vocabulary - 1,)
        start = model.start("ein mann")
        scores = model.network.branching(start).begin()
        assert scores[0, -1] == -torch.inf

    def test_duplicates_stand_in_random_order(self, marian: str) -> None:
        record = records(marian, Wish(samples=300, longest=1, sampling=Sampling("epsilon", 0.05)))[0]
        texts = record["hypotheses"]
        changes = sum(one != other for one, other in itertools.pairwise(texts))
        assert changes > 2 * len(set(texts))

    def test_distinct_goes_on_until_there_are_enough(self, marian: str) -> None:
        wish = Wish(samples=30, longest=4, sampling=Sampling("ancestral"), distinct=True)
        record = records(marian, wish)[0]
        assert len(set(record["hypotheses"])) == len(record["hypotheses"]) == 30
        assert len(record["weights"]) == 30
        assert sum(record["weights"]) >= 30

    def test_distinct_ends_where_there_are_no_more(self, marian: str) -> None:
        wish = Wish(samples=60, longest=1, sampling=Sampling("top-k", 5), distinct=True)
        record = records(marian, wish)[0]
        assert len(record["hypotheses"]) <= 5
        assert sum(record["weights"]) == 60 * (2**local.ROUNDS - 1)

    def test_cut_off_samples_are_marked(self, marian: str) -> None:
        record = records(marian, Wish(samples=40, longest=1, sampling=Sampling("ancestral")))[0]
        ended = [position for position in range(40) if position not in record["unfinished"]]
        assert all(record["hypotheses"][position] == "" for position in ended)

    def test_a_source_that_is_too_long_is_named(self, marian: str) -> None:
        with pytest.raises(InputError, match=r"source 'long' takes \d+ tokens; the model has 64 positions"):
            records(marian, self.wish, sources=[Source("mann " * 400, "long")])

    def test_a_folder_that_is_not_there(self) -> None:
        with pytest.raises(InputError, match=r"there is no model folder '\./nowhere'"):
            records("./nowhere", self.wish)

    def test_a_folder_without_a_model(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="has no config"):
            records(str(tmp_path), self.wish)

    def test_a_prompt_is_nothing_for_an_encoder(self, marian: str) -> None:
        with pytest.raises(InputError, match="takes no prompt"):
            records(marian, self.wish, Prompt(template="{source}"))

    def test_what_no_tokenizer_takes_is_replaced(self, marian: str) -> None:
        found = records(marian, self.wish, sources=[Source("ein \ud800 mann")])[0]
        assert found["source"] == "ein \ud800 mann"
        assert len(found["hypotheses"]) == 40


class TestPlace:
    def place(self, name: str, **settings: Any) -> LocalModel:
        return LocalModel(Place(name=name, **settings))

    @pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 0.1), ("float16", 0.02)])
    def test_precision(self, marian: str, dtype: str, tolerance: float) -> None:
        model = self.place(marian, device="cpu", dtype=dtype)
        assert model.network.model.dtype == getattr(torch, dtype)
        assert model.settings["dtype"] == dtype
        next(model.records(SOURCES, Wish(samples=1, longest=1)))
        assert model.warnings == []
        exact = self.place(marian, device="cpu").network
        start = model.start(SOURCES[0].text)
        sampler = Sampler(Sampling(), Limits(exact.ends, 6))
        draws = sampler.draw(model.network.branching(start), 40, np.random.default_rng(0))
        assert len(draws) > 10
        for draw in draws:
            tokens = [*draw.tokens, 0] if draw.finished else list(draw.tokens)
            assert draw.logprob == pytest.approx(total(exact, start, tokens), abs=tolerance)

    def test_a_cpu_computes_in_single_precision_unless_told_otherwise(self, marian: str) -> None:
        assert self.place(marian, device="cpu").settings["dtype"] == "float32"

    @pytest.mark.parametrize("name", ["cpu cpu", "all", "mps", ""])
    def test_a_single_device(self, marian: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
        if not name:
            monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
            assert self.place(marian, device=name).network.device.type == "cpu"
            return
        with pytest.raises(InputError, match="`device`"):
            self.place(marian, device=name)

    def test_a_gpu(self, marian: str) -> None:
        if not torch.cuda.is_available():
            with pytest.raises(InputError, match="`device` 'cuda' is not to be had here"):
                self.place(marian, device="cuda")
            pytest.skip("no GPU")
        wish = Wish(samples=40, longest=6)
        model = self.place(marian, device="cuda", dtype="float32")
        found, expected = (next(each.records(SOURCES, wish)) for each in (model, self.place(marian, device="cpu")))
        assert model.warnings == []
        known = dict(zip(expected["hypotheses"], expected["logprobs"]))
        both = [place for place, text in enumerate(found["hypotheses"]) if text in known]
        assert both
        for place in both:
            assert found["logprobs"][place] == pytest.approx(known[found["hypotheses"][place]], abs=1e-3)

    def test_a_model_that_does_not_fit(self, marian: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def to(_self: object, _device: object) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

        monkeypatch.setattr(torch.nn.Module, "to", to)
        with pytest.raises(MinriskError, match="marian: does not fit into the memory of cpu"):
            self.place(marian, device="cpu")

    def test_a_source_that_does_not_fit(self, marian: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model = self.place(marian, device="cpu")
        first = model.records(SOURCES, Wish(samples=4, longest=3))
        next(first)

        def begin(_self: object) -> None:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

        monkeypatch.setattr("minrisk.generation.branching.Branching.begin", begin)
        with pytest.raises(MinriskError, match="out of memory with a source alone"):
            next(first)


class TestSearch:
    def test_greedy_is_the_path_of_most_probable_tokens(self, marian: str) -> None:
        model = LocalModel(Place(name=marian, device="cpu"))
        (record,) = model.records(SOURCES[:1], Wish(samples=1, sampling=None, longest=6))
        start, tokens = model.start(SOURCES[0].text), []
        total = 0.0
        while len(tokens) < 6 and 0 not in tokens:
            with torch.inference_mode():
                scores = model.network.forced(start, [*tokens, 0])[-1].log_softmax(dim=0)
            tokens.append(int(scores.argmax()))
            total += float(scores.max())
        assert record["hypotheses"] == [model.text([token for token in tokens if token])]
        assert record["logprobs"] == [pytest.approx(total, abs=1e-4)]

    @pytest.mark.parametrize("batch", [None, 4])
    def test_beams_are_sorted_and_independent_of_the_batch(self, marian: str, batch: int | None) -> None:
        wish = Wish(samples=4, sampling=None, beams=4, longest=6, length_penalty=0.0, batch=batch)
        for record, alone in zip(records(marian, wish), [records(marian, wish, sources=[s])[0] for s in SOURCES]):
            assert record["hypotheses"] == alone["hypotheses"]
            assert record["logprobs"] == pytest.approx(alone["logprobs"], abs=1e-4)
            assert record["logprobs"] == sorted(record["logprobs"], reverse=True)

    @pytest.mark.parametrize("penalty", [-3.0, 0.0, 1.0, 3.0])
    def test_beams_are_ranked_by_length_as_by_transformers(self, marian: str, penalty: float) -> None:
        wish = Wish(samples=4, sampling=None, beams=4, longest=8, length_penalty=penalty)
        model = LocalModel(Place(name=marian, device="cpu"))
        start = model.start(SOURCES[0].text)
        (found,) = searching._searched(model, [start], wish)
        scores = [total(model.network, start, tokens) / len(tokens) ** penalty for tokens, _ in found]
        assert scores == sorted(scores, reverse=True)
        theirs = transformers.MarianMTModel.from_pretrained(marian, dtype=torch.float32).eval()
        theirs.generation_config = transformers.GenerationConfig()
        theirs.final_logits_bias[:, list(model.network.banned)] = -torch.inf
        with torch.inference_mode():
            output = theirs.generate(
                torch.tensor([list(start.inputs)]),
                decoder_input_ids=torch.tensor([list(start.trunk)]),
                num_beams=4,
                num_return_sequences=4,
                length_penalty=penalty,
                max_new_tokens=8,
                eos_token_id=0,
                pad_token_id=0,
                decoder_start_token_id=start.trunk[0],
            )
        assert [tokens for tokens, _ in found] == [
            row[1 : 1 + len(tokens)] for row, (tokens, _) in zip(output.tolist(), found)
        ]

    def test_out_of_memory_halves_the_batch(self, marian: str, monkeypatch: pytest.MonkeyPatch) -> None:
        wish = Wish(samples=2, sampling=None, beams=2, longest=5)
        sources = [Source(f"ein mann liest {word}") for word in ("das", "buch", "im", "park", "hund")]
        expected = records(marian, wish, sources=sources)
        plain, sizes, most = searching._searched, [], 2

        def searched(local: LocalModel, starts: Any, wish: Wish) -> Any:
            sizes.append(len(starts))
            if len(starts) > most:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
            return plain(local, starts, wish)

        monkeypatch.setattr(searching, "_searched", searched)
        assert [each["hypotheses"] for each in records(marian, wish, sources=sources)] == [
            each["hypotheses"] for each in expected
        ]
        assert sizes == [5, 2, 2, 1]
        most = 0
        with pytest.raises(MinriskError, match="out of memory with a single source and 2 beams"):
            records(marian, wish, sources=sources)

    def test_a_search_ends_at_the_last_position_of_the_model(self, marian: str) -> None:
        (record,) = records(marian, Wish(samples=1, sampling=None, longest=1000), sources=SOURCES[:1])
        assert record["unfinished"] == [0]

    @pytest.mark.parametrize("name", ["samples", "beams", "longest", "batch", "seed"])
    @pytest.mark.parametrize("value", [0, -3, 2.5, "3", True])
    def test_numbers_that_are_none(self, name: str, value: Any) -> None:
        if name == "seed" and type(value) is int:
            assert Wish(seed=value).seed == value
            return
        with pytest.raises(InputError, match=f"`{name}` must be a whole number"):
            Wish(**{name: value})

    def test_more_texts_than_beams(self) -> None:
        with pytest.raises(InputError, match="search with 4 beams gives at most 4 of the 5 samples wanted"):
            Wish(samples=5, sampling=None, beams=4)


class TestPrompts:
    languages = ("German", "English")
    wish = Wish(samples=30, longest=12, sampling=Sampling("top-k", 20))

    def test_only_the_continuation_up_to_the_stop_string_is_kept(self, llama: str) -> None:
        prompt = Prompt(languages=self.languages, exemplars=[("hund", "dog")], stops=["a", "\n"])
        model = LocalModel(Place(name=llama, device="cpu"), prompt)
        (record,) = model.records(SOURCES[:1], self.wish)
        assert not any("a" in text or "\n" in text for text in record["hypotheses"])
        assert len(record.get("unfinished", ())) < 30
        assert model.warnings == []
        assert model.settings["shots"] == 1

    def test_logprobs_count_the_tokens_of_the_stop_string(self, llama: str) -> None:
        plain = LocalModel(Place(name=llama, device="cpu"), Prompt(languages=self.languages, stops=[]))
        with torch.inference_mode():
            scores = plain.network.forced(plain.start(SOURCES[0].text), [1])[0].log_softmax(dim=0)
        token = int(scores[5:].argmax()) + 5
        prompt = Prompt(languages=self.languages, stops=[plain.text([token]) or plain.tokenizer.decode([token])])
        model = LocalModel(Place(name=llama, device="cpu"), prompt)
        (record,) = model.records(SOURCES[:1], Wish(samples=200, longest=3, sampling=Sampling("ancestral")))
        found = {logprob for text, logprob in zip(record["hypotheses"], record["logprobs"]) if not text}
        assert any(logprob == pytest.approx(float(scores[token]), abs=1e-4) for logprob in found)

    def test_a_chat_goes_through_the_template_of_the_model(self, llama: str) -> None:
        prompt = Prompt(
            template="from {source_language}: {source}{target}",
            languages=self.languages,
            exemplars=[("hund", "dog")],
            instruction="be brief",
            chat=True,
        )
        model = LocalModel(Place(name=llama, device="cpu"), prompt)
        text = model.tokenizer.decode(model.start("buch").trunk)
        assert text == (
            "<system>be brief</s><user>from German: hund</s><assistant>dog</s><user>from German: buch</s><assistant>"
        )
        assert len(next(iter(model.records(SOURCES, self.wish)))["hypotheses"]) == 30

    def test_a_chat_without_a_template(self, tmp_path: Path) -> None:
        folder = str(folders.llama(tmp_path / "plain", chat=False))
        prompt = Prompt(template="{source}", chat=True)
        with pytest.raises(InputError, match="has no chat template"):
            records(folder, self.wish, prompt)

    def test_greedy_search_stops_too(self, llama: str) -> None:
        prompt = Prompt(template="{source}:{target}\n")
        (one, two) = records(llama, Wish(samples=1, sampling=None, longest=5), prompt)
        alone = records(llama, Wish(samples=1, sampling=None, longest=5), prompt, SOURCES[1:])[0]
        assert two["hypotheses"] == alone["hypotheses"]
        assert two["logprobs"] == pytest.approx(alone["logprobs"], abs=1e-4)
        assert math.isfinite(one["logprobs"][0])

    @pytest.mark.parametrize("beams", [1, 2])
    def test_a_stop_string_ends_a_text_beside_a_longer_one(self, llama: str, beams: int) -> None:
        wish = Wish(samples=1, sampling=None, beams=beams, longest=8)
        first = records(llama, wish, Prompt(template="{source}:{target}", stops=[]))[0]["hypotheses"][0]
        prompt = Prompt(template="{source}:{target}", stops=[first[:2]])
        both = records(llama, wish, prompt)
        alone = [records(llama, wish, prompt, [source])[0] for source in SOURCES]
        # Another beam may overtake the one that is cut short.
        assert (both[0]["hypotheses"] == [""] and "unfinished" not in both[0]) or beams > 1
        for record, single in zip(both, alone):
            assert record["hypotheses"] == single["hypotheses"]
            assert record["logprobs"] == pytest.approx(single["logprobs"], abs=1e-4)
