"""A stand-in for Slack: its Web API over HTTP, and Socket Mode over a websocket. It keeps what it is told."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

TEAM, BOT = "T0HOME", "U0BOT"
PATIENCE_S = 30
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Call(NamedTuple):
    method: str
    arguments: dict[str, Any]

    @property
    def text(self) -> str:
        """Every text of the message, as a reader sees it."""
        return "\n".join(_texts(self.arguments.get("view") or self.arguments))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["text"]] if isinstance(value.get("text"), str) else []
        return own + [text for item in value.values() for text in _texts(item)]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []


def member(**more: Any) -> dict[str, Any]:
    return {"team_id": TEAM, "is_bot": False, "is_restricted": False, "is_ultra_restricted": False, **more}


def message(ts: str, text: str, user: str, channel: str, **more: Any) -> dict[str, Any]:
    """A message of a user, as Slack sends it."""
    event = {"type": "message", "channel": channel, "user": user, "text": text, "ts": ts, "team": TEAM, **more}
    return {"type": "event_callback", "team_id": TEAM, "event_id": f"Ev{ts}", "event": event}


def signed(secret: str, at: int | str, body: str) -> dict[str, str]:
    """The headers of a request of Slack."""
    mac = hmac.new(secret.encode(), f"v0:{at}:{body}".encode(), hashlib.sha256)
    return {"X-Slack-Request-Timestamp": str(at), "X-Slack-Signature": f"v0={mac.hexdigest()}"}


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client may end its connection whenever it likes."""


class Slack:
    """`url` is the address of the Web API. `answers` replaces the answer to a method."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.users: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]] = {}
        self.acknowledged: list[dict[str, Any]] = []
        self.connections = 0
        self._changed = threading.Condition()
        self._socket: socket.socket | None = None
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}/api/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.cut()
        self._server.shutdown()
        self._server.server_close()

    # -- the Web API

    def said(self, method: str = "chat.postMessage") -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def wait(self, until: Callable[[], Any]) -> None:
        with self._changed:
            assert self._changed.wait_for(until, PATIENCE_S), self.calls

    def answer(self, method: str, arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._changed:
            self.calls.append(Call(method, arguments))
            number = len(self.calls)
            self._changed.notify_all()
        if method in self.answers:
            return self.answers[method](arguments)
        return 200, {"ok": True, **self._answer(method, arguments, number)}

    def _answer(self, method: str, arguments: dict[str, Any], number: int) -> dict[str, Any]:
        match method:
            case "auth.test":
                return {"team_id": TEAM, "user_id": BOT}
            case "users.info":
                known = self.users.get(arguments["user"])
                return {"user": known} if known else {"ok": False, "error": "user_not_found"}
            case "chat.postMessage":
                return {"ts": f"1700000000.{number:06}", "channel": arguments["channel"]}
            case "files.getUploadURLExternal":
                return {"upload_url": f"http://{self.host}/upload", "file_id": "F1"}
            case "files.completeUploadExternal":
                return {"files": [{"id": "F1"}]}
            case "apps.connections.open":
                return {"url": f"ws://{self.host}/ws"}
            case _:
                return {}

    # -- Socket Mode

    def send(self, envelope_id: str, kind: str, payload: dict[str, Any]) -> None:
        envelope = {"envelope_id": envelope_id, "type": kind, "payload": payload, "accepts_response_payload": True}
        self.wait(lambda: self._socket is not None)
        assert self._socket is not None
        body = json.dumps(envelope).encode()
        head = bytes([0x81, len(body)]) if len(body) < 126 else b"\x81\x7e" + struct.pack(">H", len(body))
        self._socket.sendall(head + body)

    def cut(self) -> None:
        """End the connection, as a restart of Slack does."""
        held, self._socket = self._socket, None
        if held is not None:
            with suppress(OSError):  # the client may have ended it
                held.shutdown(socket.SHUT_RDWR)

    def opened(self, held: socket.socket) -> None:
        with self._changed:
            self._socket, self.connections = held, self.connections + 1
            self._changed.notify_all()

    def heard(self, message: dict[str, Any]) -> None:
        with self._changed:
            self.acknowledged.append(message)
            self._changed.notify_all()


def _handler(slack: Slack) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            media = self.headers.get("Content-Type", "")
            if media.startswith("application/json"):
                arguments = json.loads(body or b"{}")
            else:
                form = body.decode("utf-8", "replace") or urlsplit(self.path).query
                arguments = {name: values[0] for name, values in parse_qs(form).items()}
            status, answer = slack.answer(urlsplit(self.path).path.removeprefix("/api/"), arguments)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            if urlsplit(self.path).path != "/ws":
                self.do_POST()
                return
            key = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + _MAGIC).encode()).digest()
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(key).decode())
            self.end_headers()
            self.close_connection = True
            slack.opened(self.connection)
            while (frame := self._frame()) is not None:
                code, data = frame
                if code == 1:
                    slack.heard(json.loads(data))
                elif code == 9:
                    self.connection.sendall(bytes([0x8A, len(data)]) + data)

        def _frame(self) -> tuple[int, bytes] | None:
            try:
                head = self.rfile.read(2)
                if len(head) < 2:
                    return None
                size = head[1] & 0x7F
                size = struct.unpack(">H", self.rfile.read(2))[0] if size == 126 else size
                mask = self.rfile.read(4)
                data = self.rfile.read(size)
            except OSError:
                return None
            return head[0] & 0xF, bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))

    return Handler
