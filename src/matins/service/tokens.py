"""Tokens of programs and of people. `find_person`, `person_in_chat`: the person behind a login or a chat id."""

from __future__ import annotations

import builtins
import hmac
import logging
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, get_args

from matins.api import results
from matins.api.results import NewToken
from matins.engine.audit import token_digest
from matins.engine.policies import Policies
from matins.engine.validation import check_name, check_strings, nearest
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput, NotAllowed, NotFound, StoreError
from matins.model.access import Person, Principal, Role, Token, name_of
from matins.model.clock import Clock
from matins.model.rows import NewEvent
from matins.records.people import check_token_name
from matins.runtime import tokens
from matins.runtime.catalog import Catalog
from matins.runtime.tokens import end_sessions
from matins.service.core import Core
from matins.service.permissions import GRANTS, check_granted, governs, rights_of
from matins.store import Store
from matins.store.transaction import Transaction

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
        program: bool = False,
    ) -> NewToken:
        check_name("name", name, "laptop")
        person = None if program or role == "agent" else principal.person
        if person is None:
            check_granted(principal, "govern", "create tokens of programs")
        elif principal.token is not None:
            message, hint = "A token cannot make tokens of a person.", "Sign in to the page, and make it at /me."
            raise NotAllowed(message, value=name, field="name", hint=hint)
        kept = _rights(principal, role, rights, own=person is not None)
        now = self.core.clock.now_ms()
        if expires_at is not None and expires_at <= now:
            message = '"expires_at" must be in the future.'
            raise InvalidInput(message, value=expires_at, field="expires_at", hint="Give a later time.")
        token_id, token = _new()
        made = Token(token_id, hash_of(token), name, role, kept, now, principal.who, expires_at, person)
        with self.core.store.transaction(now) as transaction:
            transaction.lock_policies()  # an agent that is created at this moment has another name
            policies = self.core.catalog.policies(transaction)
            if person is not None:
                find_person(policies, person)  # one who leaves at this moment has no token afterwards
            check_token_name(name, role, policies, transaction.tokens(), now)
            transaction.insert_token(made)
            data = {"token": made.id, "name": name, "role": role, "rights": kept, "person": person, **principal.signed}
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
            person=person,
        )

    def list(self, principal: Principal, *, own: bool = False) -> builtins.list[results.Token]:
        whose = own_only(principal, "list tokens", own=own)
        with self.core.store.reading() as transaction:
            return [_token_result(token) for token in transaction.tokens() if whose in (None, token.person)]

    def revoke(self, principal: Principal, token_id: str) -> bool:
        whose = own_only(principal, "revoke tokens")
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            token = transaction.token(token_id)
            if token is None or whose not in (None, token.person):
                return False
            revoked = transaction.revoke_token(token_id, now)
            if revoked:
                data = {"token": token_id, **principal.signed}
                transaction.events.append(NewEvent(now, "token.revoked", None, None, data))
                end_sessions(transaction, now, principal.who, token=token_id)
        return revoked


def own_only(principal: Principal, what: str, *, own: bool = False) -> str | None:
    """The person whose records alone the principal may see and end; None for those of all."""
    if principal.person is None or (governs(principal) and not own):
        check_granted(principal, "govern", what)
        return None
    return principal.person


def _token_result(token: Token) -> results.Token:
    return results.Token(
        id=token.id,
        name=token.name,
        role=token.role,
        rights=None if token.rights is None else list(token.rights),
        created_at=to_datetime(token.created_at),
        created_by=name_of(token.created_by),
        person=token.person,
        expires_at=to_datetime(token.expires_at),
        revoked_at=to_datetime(token.revoked_at),
        used_at=to_datetime(token.used_at),
    )


class TokenVerifier:
    """Verifies tokens. It reads the store each time, so a revocation takes effect at once."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._catalog = Catalog(cache=False)

    @property
    def reads_wait(self) -> bool:
        """Whether reading the store waits for other machines."""
        return self._store.reads_wait

    def principal_of(self, token: str) -> Principal | None:
        """The principal of a token; None if the token is unknown, expired or revoked."""
        if token.startswith(tokens.PREFIX):
            return tokens.principal_of_run(self._store, token)
        now = self._clock.now_ms()
        found, principal = self._verified(token, now)
        if found is None or principal is None:
            return None
        if not _is_marked(found, now):
            try:
                with self._store.transaction(now) as transaction:
                    transaction.touch_token(found.id, now)
            except StoreError as error:  # the token stays valid when the disk is full
                log.warning("the last use of token %s could not be written: %s", found.id, error)
        return principal

    def at_once(self, token: str) -> Principal | None:
        """The principal of a valid token, by one reading of the store; None if more is needed."""
        if token.startswith(tokens.PREFIX):
            return None
        now = self._clock.now_ms()
        found, principal = self._verified(token, now)
        return principal if found is not None and _is_marked(found, now) else None

    def _verified(self, text: str, now: int) -> tuple[Token | None, Principal | None]:
        """The token as it is stored, if this is its text, with its principal, if it is valid."""
        form, found, principal = _TOKEN.fullmatch(text), None, None
        if form is not None:
            with self._store.reading() as transaction:
                found = transaction.token(form[1])
                principal = None if found is None else of_token(transaction, self._catalog, found, now)
        known = _NOBODY if found is None else found.hash
        return (found, principal) if hmac.compare_digest(hash_of(text), known) else (None, None)


def of_token(transaction: Transaction, catalog: Catalog, token: Token, now: int) -> Principal | None:
    """The principal of a token: of a person, with their rights of now. None when it is not valid, or they left."""
    if not token.is_valid(now):
        return None
    if token.person is None:
        rights = None if token.rights is None else frozenset(token.rights)
        return Principal(token.role, token.name, rights=rights, token=token.id)
    person = catalog.policies(transaction).people.get(token.person)
    return None if person is None else principal_of(person, token.role, token.rights, token.id)


def _is_marked(token: Token, now: int) -> bool:
    """Whether its last use is written, as exactly as it needs to be."""
    return token.used_at is not None and abs(now - token.used_at) < _USED_EVERY_MS


def _rights(principal: Principal, role: Any, rights: Any, *, own: bool) -> tuple[str, ...] | None:
    """The rights of a new token; None for all of its role. `own`: they end at those of its person anyway."""
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
    more = [] if own else sorted(wanted - rights_of(principal))
    if more:
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


def find_person(policies: Policies, name: str) -> Principal:
    """The principal of a person. Raises NotFound when there is none of this name."""
    person = policies.people.get(name)
    if person is None:
        hint = (
            nearest(name, policies.people) if policies.people else f"Create one: matins people set {name} --role viewer"
        )
        raise NotFound(f'There is no person "{name}".', value=name, field="person", hint=hint)
    return principal_of(person)


def person_in_chat(policies: Policies, chat: Literal["slack", "telegram", "discord"], user: str) -> Person | None:
    """The person behind the id of a chat's user; None for strangers, who may do nothing."""
    return next((person for person in policies.people.values() if getattr(person, chat) == user), None)


def principal_of(
    person: Person, role: Role = "owner", rights: Iterable[str] | None = None, token: str | None = None
) -> Principal:
    """The principal of a person, with their rights of now, within a role and rights."""
    kept = GRANTS[role] if rights is None else GRANTS[role].intersection(rights)
    least: Role = role if len(GRANTS[role]) < len(GRANTS[person.role]) else person.role
    cut = None if kept == GRANTS["owner"] else frozenset[str](kept)
    return Principal(least, person.name, rights=cut, token=token, person=person.name)
