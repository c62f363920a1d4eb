"""A provider of OpenID Connect on a socket of its own. It signs in whom the test says, without a page, and can lie."""

from __future__ import annotations

import json
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, SECRET = "matins", "the secret of matins"


class Oidc:
    """`person`: the claims of who signs in. `lie` changes a part of what it says: claims, key, discovery."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.other_key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.person: dict[str, Any] = {"sub": "ada-1", "email": "ada@example.com", "email_verified": True}
        self.claims: dict[str, Any] = {}
        self.wrong_key = False
        self.algorithm = "RS256"
        self.discovered: dict[str, Any] = {}
        self.told: dict[str, Any] | None = None
        """What it tells apart from the ID token, which then has only the subject."""
        self.codes: dict[str, dict[str, str]] = {}
        self.issuer = ""

    def get(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        if path == "/.well-known/openid-configuration":
            place = self.issuer
            return 200, {}, {
                "issuer": place, "authorization_endpoint": f"{place}/authorize", "token_endpoint": f"{place}/token",
                "jwks_uri": f"{place}/keys", **self.discovered,
            }  # fmt: skip
        if path == "/keys":
            return 200, {}, KeySet([self.key]).as_dict(private=False)
        if path == "/me":
            return 200, {}, self.told
        if path == "/authorize":
            code = secrets.token_urlsafe(16)
            self.codes[code] = query
            answer = urlencode({"code": code, "state": query["state"], "iss": self.issuer})
            return 303, {"Location": f"{query['redirect_uri']}?{answer}"}, {}
        return 404, {}, {}

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, Any]:
        asked = self.codes.pop(form.get("code", ""), None)
        pair = b64decode(authorization.removeprefix("Basic ")).decode()
        challenge = urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest()).decode().rstrip("=")
        wanted = (CLIENT, "the%20secret%20of%20matins")
        if asked is None or tuple(pair.split(":")) != wanted or challenge != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        if form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims |= {**(self.person if self.told is None else {"sub": self.person["sub"]}), **self.claims}
        key = self.other_key if self.wrong_key else self.key
        header = {"alg": self.algorithm, "kid": "one"}
        if self.algorithm == "none":
            parts = (json.dumps(part).encode() for part in (header, claims))
            return 200, {"id_token": ".".join([*(urlsafe_b64encode(part).decode().rstrip("=") for part in parts), ""])}
        return 200, {"id_token": jwt.encode(header, claims, key), "access_token": "x"}


@contextmanager
def open_provider() -> Iterator[Oidc]:
    oidc = Oidc()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            split = urlsplit(self.path)
            self._say(*oidc.get(split.path, dict(parse_qsl(split.query))))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, said = oidc.token(dict(parse_qsl(body)), self.headers.get("Authorization", ""))
            self._say(status, {}, said)

        def _say(self, status: int, headers: dict[str, str], said: Any) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            usual = {"Content-Type": "application/json", "Content-Length": str(len(body))}
            for name, value in {**headers, **usual}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    oidc.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, name="oidc")
    thread.start()
    try:
        yield oidc
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
