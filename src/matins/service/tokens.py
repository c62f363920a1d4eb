"""Keys for programs and people: made, listed and revoked by the owner; kept as hashes only."""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple, get_args

from matins.engine.given import check_name, check_texts
from matins.errors import InvalidInput, NotAllowed, StoreError
from matins.model.desk import Token
from matins.model.principal import Principal, Role
from matins.model.records import NewEvent
from matins.ports import Clock, Store
from matins.service.base import UseCases
from matins.service.rights import GRANTS, needs, rights_of

log = logging.getLogger("matins")
_TOKEN = re.compile(r"mtn_([a-z2-7]{8})_[a-z2-7]{32}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_USED_EVERY_MS = 60_000
_NOBODY = "0" * 64


class NewToken(NamedTuple):
    id: str
    token: str
    """Shown now and never again."""
    name: str
    role: Role
    rights: tuple[str, ...] | None
    created_at: int
    created_by: str
    expires_at: int | None


class Tokens(UseCases):
    @needs("govern")
    def create_token(
        self,
        principal: Principal,
        name: str,
        role: Role = "owner",
        rights: Iterable[str] | None = None,
        expires_at: int | None = None,
    ) -> NewToken:
        """A key with the rights of a role, or with some of them. The token itself is shown here and never again.

        For an agent, `name` is the agent's."""
        check_name("name", name)
        kept = _rights(principal, role, rights)
        now = self._clock.now_ms()
        if expires_at is not None and (type(expires_at) is not int or expires_at <= now):
            raise InvalidInput('"expires_at" must be an instant to come', value=expires_at, field="expires_at")
        token_id, token = _new()
        made = Token(token_id, _hash(token), name, role, kept, now, principal.name, expires_at)
        with self._store.transaction(now) as transaction:
            transaction.insert_token(made)
            data = {"token": made.id, "name": name, "role": role, "rights": kept, "by": principal.name}
            transaction.events.append(NewEvent(now, "token.created", None, None, data))
        return NewToken(made.id, token, name, role, kept, now, principal.name, expires_at)

    @needs("govern")
    def tokens(self, principal: Principal) -> list[Token]:
        """Every key, the oldest first, also those that open nothing any more."""
        with self._store.reading() as transaction:
            return transaction.tokens()

    @needs("govern")
    def revoke_token(self, principal: Principal, token_id: str) -> bool:
        """From now on it opens nothing. False when there is none, or it was revoked before."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            revoked = transaction.revoke_token(token_id, now)
            if revoked:
                data = {"token": token_id, "by": principal.name}
                transaction.events.append(NewEvent(now, "token.revoked", None, None, data))
        return revoked


class Keys:
    """Whose a token is. The store is asked each time, so that what is revoked is revoked at once."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def principal_of(self, token: str) -> Principal | None:
        """None for one that is unknown, expired or revoked."""
        form = _TOKEN.fullmatch(token)
        found = None if form is None else self._found(form[1])
        known = _NOBODY if found is None else found.hash
        if not hmac.compare_digest(_hash(token), known) or found is None:
            return None
        now = self._clock.now_ms()
        if found.revoked_at is not None or (found.expires_at is not None and found.expires_at <= now):
            return None
        self._mark_used(found, now)
        return Principal(found.role, found.name, rights=None if found.rights is None else frozenset(found.rights))

    def _found(self, token_id: str) -> Token | None:
        with self._store.reading() as transaction:
            return transaction.token(token_id)

    def _mark_used(self, token: Token, now: int) -> None:
        if token.used_at is not None and abs(now - token.used_at) < _USED_EVERY_MS:
            return
        try:
            with self._store.transaction(now) as transaction:
                transaction.use_token(token.id, now)
        except StoreError as error:  # who may look may look, also when the disk is full
            log.warning("when the token %s was used could not be written: %s", token.id, error)


def _rights(principal: Principal, role: Any, rights: Any) -> tuple[str, ...] | None:
    if role not in get_args(Role):
        allowed = ", ".join(get_args(Role))
        raise InvalidInput(f'There is no role "{role}"', value=role, field="role", allowed=allowed, hint=allowed)
    granted = GRANTS[role]
    wanted = granted if rights is None else frozenset(check_texts("rights", rights, "a list of rights"))
    allowed = ", ".join(sorted(granted))
    if beyond := sorted(wanted - granted):
        message = f"A token of the role {role} cannot have the right to {beyond[0]}"
        raise InvalidInput(message, value=beyond[0], field="rights", allowed=allowed, hint=f"some of: {allowed}")
    if more := sorted(wanted - rights_of(principal)):
        message = f"{principal.name} does not have the right to {more[0]}, and cannot give it away"
        raise NotAllowed(message, value=more[0], field="rights", hint="ask the owner")
    return None if rights is None else tuple(sorted(wanted))


def _new() -> tuple[str, str]:
    """An id by which it is found, and the whole, of which 160 bits nobody can guess."""
    token_id = "".join(secrets.choice(_LETTERS) for _ in range(8))
    return token_id, f"mtn_{token_id}_" + "".join(secrets.choice(_LETTERS) for _ in range(32))


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "replace")).hexdigest()
