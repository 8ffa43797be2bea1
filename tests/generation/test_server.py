"""Samples from servers that work, lack things, fail and lie."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")

from generation.scripted import Answer, Script, choices, serving

from minrisk.cli.main import main
from minrisk.errors import InputError, MinriskError
from minrisk.generation.prompting import Prompt
from minrisk.generation.sampling import Sampling
from minrisk.generation.server import Endpoint, ServerModel, _asked_wait, _wait
from minrisk.generation.sources import Source
from minrisk.generation.wish import Wish

SOURCES = [Source(f"source {number}", str(number)) for number in range(5)]
PROMPT = Prompt(template="{source} ={target}\n")
KEY = "sk-very-secret"


class Kept:
    """A keeper in memory."""

    def __init__(self) -> None:
        self.parts: dict[int, list[Any]] = {}

    def receive(self, number: int, received: list[Any]) -> None:
        self.parts.setdefault(number, []).extend(received)

    def received(self, number: int) -> list[Any]:
        return list(self.parts.get(number, []))


class Ask:
    """Samples from a scripted server, with what was asked and waited for on the way."""

    def __init__(self, script: Script, prompt: Prompt = PROMPT, **settings: Any) -> None:
        self.script, self.prompt, self.settings = script, prompt, settings
        self.waits: list[float] = []
        self.kept = Kept()

    async def pause(self, seconds: float) -> None:
        self.waits.append(seconds)

    def __call__(self, samples: int = 6, sources: Any = SOURCES, **wish: Any) -> list[dict[str, Any]]:
        wish = {"sampling": Sampling("ancestral"), "longest": 20} | wish
        with serving(self.script) as self.server:
            endpoint = Endpoint(self.server.url, "m", KEY, pause=self.pause, **self.settings)
            self.model = ServerModel(endpoint, self.prompt)
            return list(self.model.records(sources, Wish(samples=samples, **wish), self.kept))


def good(number: int, body: dict[str, Any]) -> Answer:
    return choices(body)


def test_one_request_with_n_choices_where_n_is_honoured() -> None:
    ask = Ask(good)
    records = ask()
    assert [record["id"] for record in records] == [source.id for source in SOURCES]
    assert all(len(set(record["hypotheses"])) == 6 for record in records)
    assert all(record["logprobs"] == [-1.75] * 6 for record in records)
    assert len(ask.server.bodies) == 5
    body = next(body for body in ask.server.bodies if body["prompt"].startswith("source 0"))
    seed = body.pop("seed")
    assert body == {
        "model": "m",
        "max_tokens": 20,
        "prompt": "source 0 =",
        "n": 6,
        "stop": ["\n"],
        "logprobs": 1,
        "temperature": 1.0,
        "top_p": 1.0,
    }
    assert records[0]["hypotheses"][0] == f"text {seed}-0"
    assert set(ask.server.paths) == {"/v1/completions"}
    assert set(ask.server.keys) == {f"Bearer {KEY}"}
    assert ask.model.warnings == []


def test_a_chat() -> None:
    ask = Ask(good, Prompt(template="{source}", chat=True, instruction="be brief"))
    assert all(record["logprobs"] == [-1.75] * 6 for record in ask())
    assert set(ask.server.paths) == {"/v1/chat/completions"}
    assert [turn["role"] for turn in ask.server.bodies[0]["messages"]] == ["system", "user"]
    assert ask.server.bodies[0]["logprobs"] is True


@pytest.mark.parametrize("given", [1, 2, 4])
def test_fewer_choices_than_were_asked_for_are_found_out(given: int) -> None:
    ask = Ask(lambda number, body: choices(body, min(given, body.get("n", 1))))
    records = ask(samples=11)
    assert all(len(set(record["hypotheses"])) == 11 for record in records)
    assert len({body["seed"] for body in ask.server.bodies}) == len(ask.server.bodies)
    assert ask.model.warnings == [f"the server gives {given} of 11 choices a request; it is asked repeatedly"]


def test_the_same_samples_for_the_same_seed() -> None:
    first, again, other = Ask(good)(), Ask(good)(sources=SOURCES[::-1])[::-1], Ask(good)(seed=1)
    assert first == again
    assert first != other


def test_too_large_an_n_is_halved() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        many = body.get("n", 1) > 3
        return (400, {"error": {"message": "n must be at most 3"}}) if many else choices(body)

    ask = Ask(script)
    assert all(len(record["hypotheses"]) == 13 for record in ask(samples=13))


def test_without_logprobs() -> None:
    ask = Ask(lambda number, body: choices(body, logprobs=False))
    assert all("logprobs" not in record for record in ask())

    def refuses(number: int, body: dict[str, Any]) -> Answer:
        return (400, {"error": {"message": "logprobs are not supported"}}) if "logprobs" in body else choices(body)

    ask = Ask(refuses)
    assert all("logprobs" not in record and len(record["hypotheses"]) == 6 for record in ask())
    assert ask.model.warnings == ["the server gives no log-probabilities"]


@pytest.mark.parametrize("told", [None, float("nan"), float("-inf"), True, "x"])
def test_logprobs_that_are_no_numbers_are_left_out(told: object) -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        answer = choices(body)
        assert answer is not None
        answer[1]["choices"][0]["logprobs"] = {"token_logprobs": [told, -1.0]}
        return answer

    records = Ask(script)(samples=2)
    assert all(len(record["hypotheses"]) == 2 and "logprobs" not in record for record in records)


def test_what_a_server_says_cannot_steer_a_terminal() -> None:
    ask = Ask(lambda number, body: (404, {"error": {"message": "\x1b[2J\nno \x9bsuch\u202e model"}}))
    with pytest.raises(MinriskError, match=r"status 404: \[2J no such model$"):
        ask(samples=1)


def test_no_more_requests_at_a_time_than_allowed() -> None:
    ask = Ask(lambda number, body: choices(body, 1), concurrency=3)
    ask(samples=9)
    assert ask.server.most_together <= 3


TROUBLES: dict[str, Answer] = {
    "cut": None,
    "busy": (503, {"error": "loading"}),
    "limited": (429, {"error": {"message": "slow down"}}, {"Retry-After": "7"}),
    "no JSON": (200, b"<html>gateway</html>"),
    "half JSON": (200, b'{"choices": [{"te', {"Content-Length": "400"}),
    "no choices": (200, {"choices": []}),
    "no list": (200, {"choices": None}),
    "another shape": (200, [1, 2]),
    "no text": (200, {"choices": [{"index": 0}]}),
    "null text": (200, {"choices": [{"index": 0, "text": None}]}),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_that_passes(trouble: str) -> None:
    ask = Ask(lambda number, body: TROUBLES[trouble] if number % 3 == 0 else choices(body))
    assert all(len(set(record["hypotheses"])) == 6 for record in ask())
    assert ask.waits
    assert all(wait >= (7 if trouble == "limited" else 0.25) for wait in ask.waits)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_that_stays_ends_the_run_and_loses_nothing(trouble: str) -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        return TROUBLES[trouble] if number >= 7 else choices(body, 1)

    ask = Ask(script, retries=2, concurrency=2)
    with pytest.raises(MinriskError, match=r"http://127.*: no answer after 2 retries .*the same command goes on"):
        ask(samples=9)
    assert sum(len(parts) for parts in ask.kept.parts.values()) == 7
    kept = ask.kept
    ask = Ask(lambda number, body: choices(body, 1))
    ask.kept = kept
    before = {number: list(parts) for number, parts in kept.parts.items()}
    records = ask(samples=9)
    assert len(ask.server.bodies) == 5 * 9 - 7
    for number, parts in before.items():
        assert {text.strip() for text, *_ in parts} <= set(records[number]["hypotheses"])


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "the key is missing or refused; name its variable"),
        (404, "has no such address or model, status 404: no model m"),
        (400, "refuses the request, status 400: no model m"),
    ],
)
def test_what_is_refused_is_not_repeated_and_the_key_is_not_shown(status: int, message: str) -> None:
    ask = Ask(lambda number, body: (status, {"error": {"message": f"no model m for {KEY}"}}))
    with pytest.raises(MinriskError, match=message) as caught:
        ask(samples=1, sources=SOURCES[:1])
    assert len(ask.server.bodies) <= 2
    assert KEY not in str(caught.value)
    assert KEY not in repr(ask.model.endpoint)


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_waits_grow_from_retry_to_retry(retries: int) -> None:
    ask = Ask(lambda number, body: (500, {"error": "broken"}), retries=retries)
    with pytest.raises(MinriskError, match=rf"no answer after {retries} retr(y|ies) \(status 500: broken\)"):
        ask(samples=1, sources=SOURCES[:1])
    assert len(ask.server.bodies) == retries + 1
    assert len(ask.waits) == retries
    assert all(0.25 * 2**attempt <= wait <= 0.5 * 2**attempt for attempt, wait in enumerate(ask.waits))


def test_a_retry_is_the_same_request() -> None:
    ask = Ask(lambda number, body: (502, {}) if number < 3 else choices(body))
    first = ask(samples=4, sources=SOURCES[:1])
    assert [body == ask.server.bodies[0] for body in ask.server.bodies] == [True] * 4
    assert Ask(good)(samples=4, sources=SOURCES[:1]) == first


def test_what_utf_8_cannot_hold_is_replaced() -> None:
    for prompt in (PROMPT, Prompt(template="{source}", chat=True)):
        (record,) = Ask(good, prompt)(samples=1, sources=[Source("ein \ud800 mann")])
        assert record["source"] == "ein \ud800 mann"


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY} {KEY}", "schlüssel"])
def test_a_key_that_cannot_be_sent_is_not_shown(key: str) -> None:
    with pytest.raises(InputError, match="the server's key holds a space, a line break") as caught:
        Endpoint("http://localhost/v1", "m", key)
    assert key.strip() not in str(caught.value)


def test_a_server_that_is_not_there() -> None:
    with serving(good) as server:
        url = server.url
    ask = Ask(good)
    model = ServerModel(Endpoint(url, "m", retries=1, pause=ask.pause), PROMPT)
    with pytest.raises(MinriskError, match=r"no answer after 1 retry \(ConnectError"):
        list(model.records(SOURCES, Wish(samples=2, sampling=Sampling("ancestral"))))


def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "sock://localhost:1")
    with pytest.raises(InputError, match=r"no requests can be sent: .*sock"):
        Ask(good)()


def test_who_stops_reading_leaves_nothing_open() -> None:
    with serving(good) as server:
        model = ServerModel(Endpoint(server.url, "m"), PROMPT)
        records = model.records(SOURCES, Wish(samples=2, sampling=Sampling("ancestral")))
        next(records)
        records.close()
    assert model._client.is_closed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_that_waits_for_a_server(number: signal.Signals, tmp_path: Path) -> None:
    """The first source is answered; the request for the second sends the signal, and is answered after the end."""
    asked, ended = threading.Event(), threading.Event()

    def script(_number: int, body: dict[str, Any]) -> Answer:
        if "two" in body["prompt"]:
            asked.set()
            ended.wait(60)
        return choices(body)

    (tmp_path / "news.txt").write_text("one\ntwo\n")
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from minrisk.cli.main import main; sys.exit(main())"
    with serving(script) as server:
        given = ("--server", server.url, "--model", "m", "--prompt", "{source}", "--samples", "2", "--concurrency", "1")
        process = subprocess.Popen(
            [sys.executable, "-c", code, "generate", "news.txt", *given, "-o", "out.jsonl"],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert asked.wait(60)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        ended.set()
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert "Traceback" not in err
    assert len((tmp_path / "out.jsonl.partial").read_text().splitlines()) == 3


def test_a_server_that_stays_greedy_is_noticed() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        return choices({name: value for name, value in body.items() if name != "seed"}, 1)

    ask = Ask(script)
    assert ask(samples=16, sources=SOURCES[:1])[0]["hypotheses"] == ["greedy"] * 16
    assert any("may decode greedily" in warning for warning in ask.model.warnings)


def test_greedy_and_cut_off() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        answer = choices(body)
        assert answer is not None
        answer[1]["choices"][0]["finish_reason"] = "length"
        return answer

    ask = Ask(script)
    (record,) = ask(samples=1, sampling=None, sources=SOURCES[:1])
    assert record["unfinished"] == [0]
    assert ask.server.bodies[0]["temperature"] == 0.0
    assert "seed" not in ask.server.bodies[0]


def test_distinct() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        answer = choices(body, 1)
        assert answer is not None
        answer[1]["choices"][0]["text"] = f" {body['seed'] % 3}"
        return answer

    (record,) = Ask(script)(samples=3, distinct=True, sources=SOURCES[:1])
    assert sorted(record["hypotheses"]) == ["0", "1", "2"]
    assert sum(record["weights"]) >= 3
    (record,) = Ask(script)(samples=4, distinct=True, sources=SOURCES[:1])
    assert len(record["hypotheses"]) == 3
    assert sum(record["weights"]) >= 4 * 32


@pytest.mark.parametrize(
    ("sampling", "option"), [(Sampling("top-p", 0.8), ("top_p", 0.8)), (Sampling("top-k", 7), ("top_k", 7))]
)
def test_options_of_requests(sampling: Sampling, option: tuple[str, Any]) -> None:
    ask = Ask(good, options={"do_sample": True})
    ask(sampling=sampling)
    assert ask.server.bodies[0][option[0]] == option[1]
    assert ask.server.bodies[0]["do_sample"] is True


@pytest.mark.parametrize("wish", [{"sampling": Sampling("epsilon")}, {"sampling": None, "beams": 4}])
def test_what_no_server_offers(wish: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="servers offer no"):
        Ask(good)(samples=2, **wish)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://a/v1",
        "http://[::1/v1",
        "http://host:99999/v1",
        "http://a host/v1",
        "http://user:word@host/v1",
        "http://host/v1?key=secret",
        "http://host/v1#secret",
    ],
)
def test_bad_addresses(url: str) -> None:
    with pytest.raises(InputError, match="`server` must") as caught:
        Endpoint(url, "m")
    assert "word" not in str(caught.value).replace("password", "")
    assert "secret" not in str(caught.value)


def test_waits() -> None:
    assert 0.25 <= _wait(0, 0) <= 0.5
    assert 30 <= _wait(20, 0) <= 60
    assert _wait(0, 30) == 30
    assert _wait(0, 1e9) == 900
    assert _asked_wait("2.5") == 2.5
    assert _asked_wait("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert _asked_wait("Wed, 21 Oct 2215 07:28:00 GMT") > 1e9
    assert _asked_wait("soon") == _asked_wait(None) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--retries", "-1"), "0 retries are needed, got 8, -1"),
        (
            ("--key-variable", "NOT_SET_ANYWHERE"),
            "environment variable NOT_SET_ANYWHERE (--key-variable) is not set",
        ),
        (("--device", "cuda"), "--device goes with a model on this machine"),
        (("--epsilon", "0.02"), "servers offer no epsilon sampling"),
        (("--server-set", "api_key=sk-very"), "`api_key` would be written beside the samples"),
        (("--server-set", "n"), "n"),
        (("--prompt", "broken"), "broken: not UTF-8 at byte 2"),
    ],
)
def test_what_the_command_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("news.txt").write_text("one\n")
    Path("broken").write_bytes(b"a\xff{source}")
    given = ("generate", "news.txt", "--server", "http://localhost:1/v1", "--model", "m", "--prompt", "{source}")
    assert main((*given, *options)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(f"minrisk: error: .*{re.escape(message)}.*\n", err)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    Path("news.txt").write_text("one\ntwo\n")
    dead = False

    def script(number: int, body: dict[str, Any]) -> Answer:
        return (400, {"error": "broken"}) if dead and "two" in body["prompt"] else choices(body, 1)

    with serving(script) as server:
        given = ("generate", "news.txt", "--server", server.url, "--model", "m", "--prompt", "{source} ->{target}\\n")
        given = (*given, "--samples", "4", "--key-variable", "MY_KEY", "--server-set", "top_k=-1", "-o", "out.jsonl")
        dead = True
        assert main(given) == 2
        captured = capsys.readouterr()
        assert "status 400: broken" in captured.err
        assert KEY not in captured.err + Path("out.jsonl.partial").read_text()
        dead = False
        assert main(given) == 0
        assert sum("one" in body["prompt"] for body in server.bodies) == 4
    found = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [len(each["hypotheses"]) for each in found] == [4, 4]
    assert found[0]["generation"]["server"] == server.url
    assert server.bodies[0]["top_k"] == -1
    assert KEY not in Path("out.jsonl").read_text()
    assert sorted(path.name for path in Path().iterdir()) == ["news.txt", "out.jsonl"]
