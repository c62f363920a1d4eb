"""A server that agents call, for chat completions and signed requests; a word `fault:NAME` in the prompt is a fault:

hang           headers, a first chunk, and then nothing
slow           not even headers
endless        words without end, until the other side has gone
cut            the stream ends before [DONE]
torn           the connection ends in the middle of a chunk
garbage        chunks that are none
halves         characters whose bytes come in different chunks
flood          FLOOD bytes that mean nothing, and a line of 20 MB
rate_limit     429 with Retry-After
unavailable    503 with Retry-After
fails          500
echo           says the key that it was called with, in pieces
echo_fails     400, with the key where an error is cut off
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

FLOOD = 30_000_000
USAGE = {"prompt_tokens": 100, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 60}}
REFUSALS: dict[str, tuple[int, dict[str, str]]] = {
    "rate_limit": (429, {"Retry-After": "3600"}),
    "unavailable": (503, {"Retry-After": "3600"}),
    "fails": (400, {}),
    "echo_fails": (400, {}),
}


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw)


class Endpoint:
    """Serves in threads of its own until it is closed."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.gone = threading.Semaphore(0)
        """Released for every caller that went away while something stayed."""
        self.go_on = threading.Event()
        """What hangs goes on when this is set."""
        self.arrived = threading.Condition()
        self.answer: Callable[[Request], tuple[int, dict[str, str], bytes]] = lambda request: (200, {}, b"")
        """To whatever is not for chat completions."""
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for(self, requests: int, seconds: float = 90) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.requests) >= requests, seconds), len(self.requests)

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint = endpoint


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 90

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, raw)
        with self.server.endpoint.arrived:
            self.server.endpoint.requests.append(request)
            self.server.endpoint.arrived.notify_all()
        self.close_connection = True
        try:
            if self.path.endswith("/chat/completions"):
                self.complete(request)
            else:
                self.reply(*self.fault_or(request))
        except (BrokenPipeError, ConnectionResetError):
            self.server.endpoint.gone.release()

    def fault_or(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        fault = _fault(request.body["prompt"])
        if fault == "slow":
            self.stay()
        if fault in REFUSALS:
            return (*REFUSALS[fault], b"no")
        return self.server.endpoint.answer(request)

    def complete(self, request: Request) -> None:
        asked = [message["content"] for message in request.body["messages"]]
        fault, key = _fault(asked[-1]), request.headers.get("authorization", "").removeprefix("Bearer ")
        if fault == "slow":
            self.stay()
        if fault in REFUSALS:
            words = f"You said {'x' * 455}{key}" if fault == "echo_fails" else "Not now"
            self.reply(*REFUSALS[fault], json.dumps({"error": {"message": words}}).encode())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.stream(fault, key, f"I was asked: {asked[-1]} 🪴")
        self.piece(b"")

    def stream(self, fault: str, key: str, said: str) -> None:
        self.piece(b": hello\n\n")
        if fault == "hang":
            self.stay()
        while fault == "endless":
            self.words("on and on ")
        if fault == "garbage":
            self.piece(b'data: {broken\n\ndata:\n\nevent: x\n\n\xff\xfe\n\ndata: {"choices": 3, "usage": []}\n\n')
        if fault == "flood":
            self.flood()
        if fault == "echo":
            said = f"{key} is the key"
        for part in (said[:8], said[8:]):
            self.words(part, halves=fault == "halves")
        if fault == "torn":
            self.wfile.write(b"ffff\r\ndata: {")
            raise BrokenPipeError
        if fault == "cut":
            return
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self.event({"choices": [], "usage": USAGE})
        self.piece(b"data: [DONE]\n\n")

    def flood(self) -> None:
        noise = b": " + b"x" * 65_000 + b"\n\n"
        for _ in range(FLOOD // len(noise)):
            self.piece(noise)
        for _ in range(20):
            self.piece(b"y" * 1_000_000)
        self.words("the end of a line that is too long")

    def words(self, text: str, *, halves: bool = False) -> None:
        data = b"data: " + json.dumps(_chunk(text), ensure_ascii=False).encode() + b"\n\n"
        if not halves:
            self.piece(data)
        for at in range(len(data) if halves else 0):
            self.piece(data[at : at + 1])

    def event(self, value: dict[str, Any]) -> None:
        self.piece(b"data: " + json.dumps(value).encode() + b"\n\n")

    def piece(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def stay(self) -> None:
        """Until we may go on, or the other side has gone."""
        self.connection.settimeout(0.05)
        while not self.server.endpoint.go_on.is_set():
            try:
                if self.connection.recv(1) == b"":
                    raise BrokenPipeError
            except TimeoutError:
                continue
        self.connection.settimeout(self.timeout)

    def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()


def _fault(prompt: str) -> str:
    found = re.search(r"\bfault:(\w+)", prompt)
    return found[1] if found else ""


def _chunk(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}
