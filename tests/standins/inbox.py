"""A server that takes messages as Slack, Discord, ntfy and other chat servers do, and answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    text: str

    @property
    def document(self) -> Any:
        return json.loads(self.text)


class Inbox:
    """What arrived. `status` is the answer; `released` is cleared to let requests hang."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.answer: Any = {"ok": True, "id": "1"}
        self.url = ""
        self.released = threading.Event()
        self.released.set()
        self.arrived = threading.Semaphore(0)

    @property
    def titles(self) -> list[str]:
        return [one.document["title"] for one in self.received]


def _handler(inbox: Inbox) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            inbox.received.append(Received(self.path, headers, text))
            inbox.arrived.release()
            inbox.released.wait(60)
            body = json.dumps(inbox.answer).encode()
            self.send_response(inbox.status)
            for name, value in {**inbox.headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Be quiet."""

    return Handler


@contextmanager
def open_inbox() -> Iterator[Inbox]:
    inbox = Inbox()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(inbox)) as server:
        server.daemon_threads = True
        inbox.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield inbox
        finally:
            inbox.released.set()
            server.shutdown()
            thread.join()
