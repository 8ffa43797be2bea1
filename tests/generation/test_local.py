"""From folders of models to records of samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from generation import folders  # noqa: E402

from minrisk.errors import InputError  # noqa: E402
from minrisk.generation import local  # noqa: E402
from minrisk.generation.local import LocalModel, Place  # noqa: E402
from minrisk.generation.prompting import Prompt  # noqa: E402
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

    def test_a_search_ends_at_the_last_position_of_the_model(self, marian: str) -> None:
        (record,) = records(marian, Wish(samples=1, sampling=None, longest=1000), sources=SOURCES[:1])
        assert record["unfinished"] == [0]

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
