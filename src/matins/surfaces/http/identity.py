"""Who asks: the bearer of a token, or a browser with a session."""

from __future__ import annotations

import re
from typing import Any, Protocol

from matins.model.principal import Principal
from matins.surfaces.http.logins import COOKIE, Logins
from matins.surfaces.http.problems import Refused

CSRF = b"x-matins-csrf"
SAFE = frozenset({"GET", "HEAD"})
_BEARER = re.compile(r"[Bb]earer ([A-Za-z0-9._~+/=-]{1,512})")
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="matins"'}


class Keys(Protocol):
    """Who knows the tokens."""

    def principal_of(self, token: str) -> Principal | None: ...


def header(scope: Any, name: bytes) -> str | None:
    """A header that may be there once; whoever says it twice means to be read in two ways."""
    found = [value for key, value in scope["headers"] if key == name]
    if len(found) > 1:
        raise Refused(400, "header_twice", f"The header {name.decode()} is there twice", field=name.decode())
    return found[0].decode("latin-1") if found else None


class Identity:
    def __init__(self, keys: Keys, logins: Logins) -> None:
        self._keys = keys
        self._logins = logins

    def of(self, scope: Any) -> Principal:
        """Looks the token up in the store: not for the event loop."""
        said = header(scope, b"authorization")
        if said is not None:
            return self._bearer(said)
        session = session_of(scope)
        if session is None:
            hint = "send Authorization: Bearer mtn_…; `matins token create` makes one"
            raise Refused(401, "unauthorized", "Nobody is let in without a token", hint=hint, headers=_CHALLENGE)
        return self._browser(scope, session)

    def _bearer(self, said: str) -> Principal:
        match = _BEARER.fullmatch(said)
        principal = self._keys.principal_of(match[1]) if match else None
        if principal is None:
            hint = "it may be revoked or expired; `matins token create` makes another"
            raise Refused(401, "unauthorized", "This token opens nothing", hint=hint, headers=_CHALLENGE)
        return principal

    def _browser(self, scope: Any, session: str) -> Principal:
        principal = self._logins.principal_of(session)
        if principal is None:
            hint = "open a new link: `matins up` prints one"
            raise Refused(401, "unauthorized", "This session is over", hint=hint, headers=_CHALLENGE)
        if scope["method"] not in SAFE and header(scope, CSRF) is None:
            hint = "send X-Matins-CSRF: 1, which no other site can"
            raise Refused(403, "csrf", "A browser must say that it means it", field="X-Matins-CSRF", hint=hint)
        return principal


def session_of(scope: Any) -> str | None:
    for part in (header(scope, b"cookie") or "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return None
