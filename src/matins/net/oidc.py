"""OpenID Connect: the code flow with PKCE, state and nonce, and the check of the ID token.

One secret of a try, kept in a cookie of the browser, gives its state, nonce and verifier: nothing is stored here, and
an answer that another browser asked for does not match.
"""

from __future__ import annotations

import hmac
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import orjson

from matins.errors import MatinsError
from matins.net.outbound import HttpClient

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures by a key of the provider: a secret that both have proves nothing."""
_LEEWAY_S = 60
_DISCOVERY = "/.well-known/openid-configuration"


class ProviderError(MatinsError):
    """The provider's answer signs nobody in. `reason` is what the log says."""

    code = "provider"

    def __init__(self, reason: str, hint: str = "Sign in again.") -> None:
        super().__init__(f"The sign-in with the provider failed: {reason}.", hint=hint)
        self.reason = reason


def derived(secret: str, what: str) -> str:
    """The state, nonce or verifier of a try."""
    code = hmac.digest(secret.encode(), what.encode(), sha256)
    return urlsafe_b64encode(code).decode().rstrip("=")


class Provider:
    def __init__(self, issuer: str, client_id: str, client_secret: str | None) -> None:
        self._issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        # Its host may have any address, because the owner sets it.
        self._client = HttpClient([urlsplit(issuer).netloc], timeout_s=10)

    def authorise_url(self, secret: str, redirect: str) -> str:
        """Where a browser signs in at the provider."""
        challenge = urlsafe_b64encode(sha256(derived(secret, "verifier").encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code", "client_id": self._client_id, "redirect_uri": redirect,
            "scope": "openid email profile", "state": derived(secret, "state"), "nonce": derived(secret, "nonce"),
            "code_challenge": challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        start: str = self._discovered()["authorization_endpoint"]
        return f"{start}{'&' if '?' in start else '?'}{urlencode(query)}"

    def claims(self, given: Mapping[str, str], secret: str | None, redirect: str, now_s: int) -> dict[str, Any]:
        """The verified claims of the person whom the provider sent back with `given`. Raises ProviderError."""
        if secret is None:
            raise ProviderError("it began in another browser, or more than ten minutes ago")
        if not hmac.compare_digest(given.get("state", "").encode(), derived(secret, "state").encode()):
            raise ProviderError("the state is not that of this browser")
        if given.get("iss", self._issuer) != self._issuer:
            raise ProviderError("the answer has another issuer")
        if "error" in given or not given.get("code"):
            raise ProviderError(f"the provider says {ascii(given.get('error', 'nothing'))[:60]}")
        found = self._discovered()
        form = {
            "grant_type": "authorization_code", "code": given["code"], "redirect_uri": redirect,
            "code_verifier": derived(secret, "verifier"), "client_id": self._client_id,
        }  # fmt: skip
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if self._client_secret is not None and "client_secret_basic" in methods:
            pair = f"{quote(self._client_id, safe='')}:{quote(self._client_secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        elif self._client_secret is not None:
            form["client_secret"] = self._client_secret
        answer = self._fetched("POST", found["token_endpoint"], urlencode(form).encode(), headers)
        keys = self._fetched("GET", found["jwks_uri"])
        claims = self.checked(str(answer.get("id_token", "")), keys, derived(secret, "nonce"), now_s)
        if "email" in claims or not (place := found.get("userinfo_endpoint")):
            return claims
        bearer = {"Authorization": f"Bearer {answer.get('access_token', '')}", "Accept": "application/json"}
        told = self._fetched("GET", str(place), headers=bearer)
        if told.get("sub") != claims["sub"]:
            raise ProviderError("it tells of another subject than its ID token")
        return {**claims, **{name: told[name] for name in ("email", "email_verified") if name in told}}

    def checked(self, token: str, keys: dict[str, Any], nonce: str, now_s: int) -> dict[str, Any]:
        try:
            from joserfc import jwt
            from joserfc.errors import JoseError
            from joserfc.jwk import KeySet
        except ImportError:
            raise ProviderError("joserfc is not installed here", 'pip install "matins[people]"') from None
        rules = jwt.JWTClaimsRegistry(
            now=now_s,
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            claims: dict[str, Any] = jwt.decode(
                token, KeySet.import_key_set(cast("Any", keys)), algorithms=_ALGORITHMS
            ).claims
            rules.validate(claims)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise ProviderError(f"its ID token is not valid: {error}") from None
        if claims.get("azp", self._client_id) != self._client_id:
            raise ProviderError("its ID token is for another program")
        return claims

    def _discovered(self) -> dict[str, Any]:
        found = self._fetched("GET", f"{self._issuer.rstrip('/')}{_DISCOVERY}")
        if found.get("issuer") != self._issuer:
            raise ProviderError("its discovery document has another issuer", "Set the issuer exactly as it says.")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
            url = str(found.get(name, "" if name != "userinfo_endpoint" else self._issuer))
            if not url.startswith("https://") and urlsplit(url).netloc != urlsplit(self._issuer).netloc:
                raise ProviderError(f'its "{name}" is not an address with https')
        return found

    def _fetched(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        try:
            reply = self._client.send(method, url, body=body, headers=headers)
            found = orjson.loads(reply.body)
        except (MatinsError, orjson.JSONDecodeError) as error:
            raise ProviderError(f"it does not answer as a provider: {error}", "Try again later.") from None
        if reply.status != 200 or not isinstance(found, dict):
            raise ProviderError(f"it answered {reply.status}")
        return cast("dict[str, Any]", found)
