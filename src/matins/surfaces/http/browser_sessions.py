"""One-time links for a browser, and its sessions. They are in memory: a restart ends them."""

from __future__ import annotations

import hashlib
import secrets
import threading
from typing import NamedTuple

from matins.model.access import Principal
from matins.ports import Clock

COOKIE = "matins_session"
CODE_MS = 10 * 60_000
SESSION_MS = 12 * 3_600_000
_MAX_GRANTS = 1_000


class _Grant(NamedTuple):
    principal: Principal
    until: int
    """In boot time, which clock changes do not affect."""


class BrowserSessions:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._codes: dict[str, _Grant] = {}
        self._sessions: dict[str, _Grant] = {}
        self._lock = threading.Lock()

    def create_code(self, principal: Principal) -> str:
        """A code for `/login?code=…`, valid once and for ten minutes."""
        return self._grant(self._codes, principal, CODE_MS)

    def open(self, code: str) -> str | None:
        """The session that a code opens; None when the code is unknown, used or expired."""
        with self._lock:
            grant = self._codes.pop(_digest(code), None)
        if grant is None or grant.until <= self._clock.boot_ms():
            return None
        return self._grant(self._sessions, grant.principal, SESSION_MS)

    def principal_of(self, session: str) -> Principal | None:
        grant = self._sessions.get(_digest(session))
        return None if grant is None or grant.until <= self._clock.boot_ms() else grant.principal

    def close(self, session: str) -> None:
        with self._lock:
            self._sessions.pop(_digest(session), None)

    def _grant(self, grants: dict[str, _Grant], principal: Principal, lifetime_ms: int) -> str:
        secret, now = secrets.token_urlsafe(32), self._clock.boot_ms()
        with self._lock:
            for old in [key for key, grant in grants.items() if grant.until <= now]:
                del grants[old]
            while len(grants) >= _MAX_GRANTS:
                del grants[next(iter(grants))]
            grants[_digest(secret)] = _Grant(principal, now + lifetime_ms)
        return secret


def _digest(secret: str) -> str:
    """The hash of a secret. Hashes are compared, so that timing reveals nothing about the secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
