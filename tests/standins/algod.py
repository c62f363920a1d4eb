"""A stand-in for a node of Algorand: it takes transactions over HTTP as algod does, if their signatures are right."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgpack
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

GENESIS = hashlib.sha256(b"a chain of one machine").digest()
ROUND, FEE = 4_711, 1_000


class Algod:
    """`taken` has the transactions that it took. With `refuses`, it takes none, and says so."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.refuses: str | None = None
        self.url = ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if (method, path) == ("GET", "/v2/transactions/params"):
            chain = {"genesis-hash": base64.b64encode(GENESIS).decode(), "genesis-id": "alone-v1"}
            return 200, {"consensus-version": "v1", "fee": 0, "last-round": ROUND, "min-fee": FEE, **chain}
        if (method, path) != ("POST", "/v2/transactions"):
            return 404, {"message": "Not Found"}
        return self._take(msgpack.unpackb(body))

    def _take(self, signed: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        transaction = signed["txn"]
        content = b"TX" + msgpack.packb(dict(sorted(transaction.items())))
        try:
            VerifyKey(transaction["snd"]).verify(content, signed["sig"])
        except BadSignatureError:
            return 400, {"message": "At least one signature didn't pass verification"}
        alive = transaction["fv"] <= ROUND + 1 <= transaction["lv"]
        if self.refuses is not None or transaction["gh"] != GENESIS or not alive or transaction["fee"] < FEE:
            return 400, {"message": self.refuses or "TransactionPool.Remember: malformed"}
        self.taken.append(transaction)
        digest = hashlib.new("sha512_256", content).digest()
        return 200, {"txId": base64.b32encode(digest).decode().rstrip("=")}


def _handler(algod: Algod) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = algod.answer(self.command, self.path, self._body())
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - the name that http.server asks for

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def log_message(self, format: str, *args: Any) -> None:
            """Be quiet."""

    return Handler


@contextmanager
def open_algod() -> Iterator[Algod]:
    algod = Algod()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(algod)) as server:
        algod.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield algod
        finally:
            server.shutdown()
            thread.join()
