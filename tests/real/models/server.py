"""One server on 127.0.0.1 that speaks all four protocols, told apart by the path. It remembers what came."""

from __future__ import annotations

import argparse
import gzip
import json
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from real.models import anthropic, chat, gemini, responses
from real.models.wishes import Asked, Json

_PROTOCOLS: tuple[ModuleType, ...] = (anthropic, responses, chat, gemini)
_UNPACK = {"gzip": gzip.decompress, "deflate": zlib.decompress}
_MODELS = ("fake-model", "fake-small")


class Request(NamedTuple):
    path: str
    asked: Asked | None
    """None for a request that asks no model."""
    refused: int | None
    key: str
    """The secret that came with it."""


class ModelServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.closing = threading.Event()
        self._came = threading.Condition()
        self._requests: list[Request] = []
        self._refusals: dict[str, int] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *words: Any) -> None:
        """Tools that are ended hang up as they like."""

    def remember(self, request: Request) -> None:
        with self._came:
            self._requests.append(request)
            self._came.notify_all()

    def requests(self, wish: str | None = None) -> list[Request]:
        """The requests so far; with `wish`, those of the directive with this id."""
        with self._came:
            return [one for one in self._requests if wish is None or (one.asked and one.asked.wish.get("id") == wish)]

    def await_request(self, wish: str, timeout_s: float) -> bool:
        """Whether a request of this directive comes in time."""
        with self._came:
            return self._came.wait_for(lambda: bool(self._find(wish)), timeout_s)

    def _find(self, wish: str) -> list[Request]:
        return [one for one in self._requests if one.asked and one.asked.wish.get("id") == wish]

    def refuses(self, wish: Json) -> bool:
        """Whether this request is to be refused; some directives refuse only so often."""
        if "times" not in wish:
            return "status" in wish
        key = json.dumps(wish, sort_keys=True)
        with self._came:
            self._refusals[key] = self._refusals.get(key, 0) + 1
            return self._refusals[key] <= wish["times"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, *words: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_GET(self) -> None:
        self.server.remember(Request(self.path, None, None, self._key()))
        if urlsplit(self.path).path.rstrip("/").endswith("/models"):
            models = [{"id": n, "object": "model", "name": f"models/{n}", "display_name": n} for n in _MODELS]
            self._send(200, {"object": "list", "data": models, "models": []})
        else:
            self._send(404, {"error": {"message": f"nothing at {self.path}"}})

    def do_POST(self) -> None:
        raw, path = self._body(), urlsplit(self.path).path
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        for protocol in _PROTOCOLS:
            asked = protocol.asked(path, body)
            if asked is not None:
                self._answer(protocol, asked)
                return
        self.server.remember(Request(self.path, None, None, self._key()))
        self._send(200, {"input_tokens": 100, "totalTokens": 100})

    def _answer(self, protocol: ModuleType, asked: Asked) -> None:
        refused = int(asked.wish["status"]) if self.server.refuses(asked.wish) else None
        self.server.remember(Request(self.path, asked, refused, self._key()))
        if asked.wish.get("hang"):
            self.server.closing.wait()
            return
        try:
            if refused is not None:
                headers = {"retry-after": str(asked.wish["retry_after"])} if "retry_after" in asked.wish else {}
                answer = protocol.refusal(asked.wish, refused, headers)
                self._send(refused, answer, headers)
            elif asked.streamed:
                self._stream(protocol, asked)
            else:
                self._send(200, protocol.whole(asked))
        except LookupError as error:
            self._send(400, {"error": {"message": str(error), "type": "invalid_request_error"}})

    def _stream(self, protocol: ModuleType, asked: Asked) -> None:
        events = list(protocol.stream(asked))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for n, (name, data) in enumerate(events):
            if n:
                time.sleep(asked.wish.get("slow", 0))
            if asked.wish.get("cut") and n > len(events) // 2:
                self.close_connection = True
                self.connection.close()
                return
            self._chunk((f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n")
        if protocol is chat:
            self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _key(self) -> str:
        return next(
            (self.headers[name] for name in ("x-api-key", "x-goog-api-key", "authorization") if self.headers[name]), ""
        )

    def _body(self) -> bytes:
        raw = b""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        unpack = _UNPACK.get(self.headers.get("content-encoding", ""))
        return unpack(raw) if unpack else raw

    def _send(self, status: int, answer: Json, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    server = ModelServer(parser.parse_args().port)
    print(server.url, flush=True)  # noqa: T201
    threading.Event().wait()
