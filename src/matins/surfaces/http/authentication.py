"""Authentication of requests: by a token, or by a browser session."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from matins.model.access import Principal
from matins.service.sign_in import SessionVerifier
from matins.service.tokens import TokenVerifier
from matins.surfaces.http.problem_json import HttpError

COOKIE = "matins_session"
CSRF = b"x-matins-csrf"
SAFE = frozenset({"GET", "HEAD"})
_BEARER = re.compile(r"[Bb]earer ([A-Za-z0-9._~+/=-]{1,512})")
_OURS = ("Bearer mtn_", "Bearer mtr_", "bearer mtn_", "bearer mtr_")
"""How tokens of Matins begin. What else is in the header is for the program around the application."""
_CREATED = "The owner creates one where the daemon runs: matins tokens create NAME"
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="matins"'}


def header(scope: Any, name: bytes) -> str | None:
    """The value of a header. Raises HttpError if the header occurs twice, since that is ambiguous."""
    found = [value for key, value in scope["headers"] if key == name]
    if not found:
        return None
    if len(found) > 1:
        text = name.decode()
        message, hint = f"The header {text} occurs twice.", "Send it once."
        raise HttpError(400, "duplicate_header", message, field=text, hint=hint)
    return found[0].decode("latin-1")


class Authenticator:
    """`who` finds the person whom the program around the application has signed in; None when there is none."""

    def __init__(
        self, tokens: TokenVerifier, sessions: SessionVerifier, who: Callable[[Any], Principal | None] | None = None
    ) -> None:
        self._tokens = tokens
        self._sessions = sessions
        self._who = who

    def principal_of(self, scope: Any) -> Principal:
        """The principal of a request. It reads the store, so call it outside the event loop."""
        authorization = header(scope, b"authorization")
        if authorization is not None and (self._who is None or authorization.startswith(_OURS)):
            match = _BEARER.fullmatch(authorization)
            principal = self._tokens.principal_of(match[1]) if match else None
            if principal is None:
                hint = f"Use another one. That of a run is valid while the run is in progress. {_CREATED}"
                raise _unauthorized("The token is invalid, expired or revoked.", hint)
            return principal
        if self._who is not None and (known := self._who(scope)) is not None:
            return _checked(scope, known)
        session = cookie_of(scope, COOKIE)
        if session is None:
            hint = f"Send Authorization: Bearer mtn_…, or give commands --token. {_CREATED}"
            raise _unauthorized("Authentication is required.", hint)
        principal = self._sessions.principal_of(session)
        if principal is None:
            hint = "Sign in again at /login, or open a new link: matins login prints one."
            raise _unauthorized("The session is invalid or has ended.", hint)
        return _checked(scope, principal)

    def at_once(self, scope: Any) -> Principal | None:
        """The principal, if one short look into the store on this machine is enough; the event loop may call it."""
        authorization = None if self._tokens.reads_wait else header(scope, b"authorization")
        match = _BEARER.fullmatch(authorization) if authorization is not None else None
        return self._tokens.at_once(match[1]) if match else None


def _checked(scope: Any, principal: Principal) -> Principal:
    """The principal of a browser. Another site can have it send a form, but not a header."""
    if scope["method"] not in SAFE and header(scope, CSRF) is None:
        message, hint = "A browser's request needs the header X-Matins-CSRF.", "Send X-Matins-CSRF: 1."
        raise HttpError(403, "csrf", message, field="X-Matins-CSRF", hint=hint)
    return principal


def _unauthorized(message: str, hint: str) -> HttpError:
    return HttpError(401, "unauthorized", message, hint=hint, headers=_CHALLENGE)


def cookie_of(scope: Any, wanted: str) -> str | None:
    for part in (header(scope, b"cookie") or "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted:
            return value
    return None
