"""An OpenAI-compatible server on the loopback that follows a script: it answers, fails and lies as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]] | None
"""Status, body (bytes as they are, else as JSON) and headers; None: the connection is cut."""
Script = Callable[[int, dict[str, Any]], Answer]
"""From the number of a request and its body to the answer."""


class Server:
    """What was asked so far."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        self.together = 0
        self.most_together = 0


@contextmanager
def serving(script: Script) -> Iterator[Server]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(server.bodies)
                server.bodies.append(body)
                server.paths.append(self.path)
                server.keys.append(self.headers.get("Authorization"))
                server.together += 1
                server.most_together = max(server.most_together, server.together)
            answer = script(number, body)
            with lock:
                server.together -= 1
            if answer is None:
                self.close_connection = True
                self.connection.close()
                return
            status, content, headers = (*answer, {})[:3]
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(data))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.handle_error = lambda *_: None  # type: ignore[method-assign]
    server = Server(f"http://127.0.0.1:{listening.server_address[1]}/v1")
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def choices(body: dict[str, Any], count: int | None = None, logprobs: bool = True) -> Answer:
    """A good answer: texts that tell the seed and the place of the choice."""
    made = []
    for place in range(body.get("n", 1) if count is None else count):
        text = f" text {body['seed']}-{place}" if "seed" in body else " greedy"
        choice: dict[str, Any] = {"index": place, "finish_reason": "stop"}
        if "messages" in body:
            choice["message"] = {"role": "assistant", "content": text}
            told: Any = {"content": [{"token": "a", "logprob": -1.5}, {"token": "b", "logprob": -0.25}]}
        else:
            choice["text"] = text
            told = {"tokens": ["a", "b"], "token_logprobs": [-1.5, -0.25]}
        choice["logprobs"] = told if logprobs and "logprobs" in body else None
        made.append(choice)
    return 200, {"object": "list", "choices": made}
