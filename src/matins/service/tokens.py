"""Use cases on API tokens. Only their hashes are stored."""

from __future__ import annotations

import builtins
import hmac
import logging
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, get_args

from matins.api import results
from matins.api.results import NewToken
from matins.engine.audit import token_digest
from matins.engine.validation import check_name, check_strings
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput, NotAllowed, StoreError
from matins.model.access import Principal, Role, Token, name_of
from matins.model.clock import Clock
from matins.model.rows import NewEvent
from matins.records.names import check_token_name
from matins.runtime import run_tokens
from matins.runtime.browser_sessions import end_sessions
from matins.service.core import Core
from matins.service.permissions import GRANTS, rights_of
from matins.store import Store

log = logging.getLogger("matins")
_TOKEN = re.compile(r"mtn_([a-z2-7]{8})_[a-z2-7]{32}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_USED_EVERY_MS = 60_000
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Tokens:
    core: Core

    def create(
        self,
        principal: Principal,
        name: str,
        *,
        role: Role = "owner",
        rights: Iterable[str] | None = None,
        expires_at: int | None = None,
    ) -> NewToken:
        check_name("name", name, "laptop")
        kept = _rights(principal, role, rights)
        now = self.core.clock.now_ms()
        if expires_at is not None and expires_at <= now:
            message = '"expires_at" must be in the future.'
            raise InvalidInput(message, value=expires_at, field="expires_at", hint="Give a later time.")
        token_id, token = _new()
        made = Token(token_id, hash_of(token), name, role, kept, now, principal.who, expires_at)
        with self.core.store.transaction(now) as transaction:
            transaction.lock_policies()  # an agent that is created at this moment has another name
            check_token_name(name, role, self.core.catalog.policies(transaction), transaction.tokens(), now)
            transaction.insert_token(made)
            data = {"token": made.id, "name": name, "role": role, "rights": kept, **principal.signed}
            data["digest"] = token_digest(made)
            transaction.events.append(NewEvent(now, "token.created", None, None, data))
        return NewToken(
            id=made.id,
            token=token,
            name=name,
            role=role,
            rights=None if kept is None else list(kept),
            created_at=to_datetime(now),
            created_by=principal.name,
            expires_at=to_datetime(expires_at),
        )

    def list(self, principal: Principal) -> builtins.list[results.Token]:
        with self.core.store.reading() as transaction:
            return [_token_result(token) for token in transaction.tokens()]

    def revoke(self, principal: Principal, token_id: str) -> bool:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            revoked = transaction.revoke_token(token_id, now)
            if revoked:
                data = {"token": token_id, **principal.signed}
                transaction.events.append(NewEvent(now, "token.revoked", None, None, data))
                end_sessions(transaction, now, principal.who, token=token_id)
        return revoked


def _token_result(token: Token) -> results.Token:
    return results.Token(
        id=token.id,
        name=token.name,
        role=token.role,
        rights=None if token.rights is None else list(token.rights),
        created_at=to_datetime(token.created_at),
        created_by=name_of(token.created_by),
        expires_at=to_datetime(token.expires_at),
        revoked_at=to_datetime(token.revoked_at),
        used_at=to_datetime(token.used_at),
    )


class TokenVerifier:
    """Verifies tokens. It reads the store each time, so a revocation takes effect at once."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @property
    def reads_wait(self) -> bool:
        """Whether a look into the store waits for other machines."""
        return self._store.reads_wait

    def principal_of(self, token: str) -> Principal | None:
        """The principal of a token; None if the token is unknown, expired or revoked."""
        if token.startswith(run_tokens.PREFIX):
            return run_tokens.principal_of_run(self._store, token)
        found, now = self._verified(token), self._clock.now_ms()
        if found is None or not found.is_valid(now):
            return None
        if not _is_marked(found, now):
            self._mark_used(found, now)
        return found.principal

    def at_once(self, token: str) -> Principal | None:
        """The principal of a valid token, from one look into the store; None if it takes more than that."""
        if token.startswith(run_tokens.PREFIX):
            return None
        found, now = self._verified(token), self._clock.now_ms()
        return found.principal if found is not None and found.is_valid(now) and _is_marked(found, now) else None

    def _verified(self, token: str) -> Token | None:
        """The token as it is stored, if this is its text."""
        form = _TOKEN.fullmatch(token)
        found = None if form is None else self._found(form[1])
        known = _NOBODY if found is None else found.hash
        return found if hmac.compare_digest(hash_of(token), known) else None

    def _found(self, token_id: str) -> Token | None:
        with self._store.reading() as transaction:
            return transaction.token(token_id)

    def _mark_used(self, token: Token, now: int) -> None:
        try:
            with self._store.transaction(now) as transaction:
                transaction.touch_token(token.id, now)
        except StoreError as error:  # the token stays valid when the disk is full
            log.warning("the last use of token %s could not be written: %s", token.id, error)


def _is_marked(token: Token, now: int) -> bool:
    """Whether its last use is written, as exactly as it needs to be."""
    return token.used_at is not None and abs(now - token.used_at) < _USED_EVERY_MS


def _rights(principal: Principal, role: Any, rights: Any) -> tuple[str, ...] | None:
    if role not in get_args(Role):
        allowed = ", ".join(get_args(Role))
        raise InvalidInput(
            f'There is no role "{role}".', value=role, field="role", allowed=allowed, hint=f"Use one of: {allowed}."
        )
    granted = GRANTS[role]
    wanted = granted if rights is None else frozenset(check_strings("rights", rights, "a list of rights"))
    allowed = ", ".join(sorted(granted))
    if beyond := sorted(wanted - granted):
        message = f'A token with the role "{role}" cannot have the right "{beyond[0]}".'
        raise InvalidInput(message, value=beyond[0], field="rights", allowed=allowed, hint=f"Use some of: {allowed}.")
    if more := sorted(wanted - rights_of(principal)):
        message = f'{principal.name} does not have the right "{more[0]}" and cannot grant it.'
        raise NotAllowed(message, value=more[0], field="rights", hint="Ask the owner.")
    return None if rights is None else tuple(sorted(wanted))


def new_id() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(8))


def _new() -> tuple[str, str]:
    """A new token's id, by which it is found, and the token, with 160 random bits."""
    token_id = new_id()
    return token_id, f"mtn_{token_id}_" + "".join(secrets.choice(_LETTERS) for _ in range(32))


def hash_of(token: str) -> str:
    return sha256(token.encode("utf-8", "replace")).hexdigest()
