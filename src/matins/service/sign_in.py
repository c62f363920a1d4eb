"""How browsers sign in: by links, by a password, by a provider. Sessions; only hashes of their secrets are stored.

Who guesses is stopped: five tries in 15 minutes for one name, twenty from one address. A person has rights of now:
those of their record, so a session or a link never outlives it.
"""

from __future__ import annotations

import builtins
import logging
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from matins.api import results
from matins.api.results import NewChatLink, NewSession
from matins.engine.policies import Policies
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound, SignInRefused, TooManyTries
from matins.executors.secrets import resolve
from matins.model.access import (
    BrowserSession,
    ChatLink,
    Credential,
    LinkedService,
    Person,
    PersonRole,
    Principal,
    SignInMethod,
)
from matins.model.clock import Clock
from matins.model.destination import Destination, Smtp
from matins.model.rows import NewEvent
from matins.records.kind import RecordChange
from matins.records.people import PEOPLE, RESERVED, departure_of, provider_accounts, provider_of
from matins.runtime.catalog import Catalog
from matins.runtime.tokens import end_sessions
from matins.service.core import Core
from matins.service.permissions import check_granted
from matins.service.records import Records
from matins.service.tokens import find_person, hash_of, new_id, of_token, own_only, principal_of
from matins.store import Store
from matins.store.transaction import Transaction

log = logging.getLogger("matins")
LINK_MS = 10 * 60_000
INVITATION_MS = 7 * 86_400_000
IDLE_MS = 30 * 86_400_000
LONGEST_MS = 90 * 86_400_000
_KEPT_MS = 30 * 86_400_000
_USED_EVERY_MS = 60_000
TRIES, TRIES_FROM_ADDRESS, TRIES_MS = 5, 20, 15 * 60_000
MIN_PASSWORD, MAX_PASSWORD = 12, 200


def _principal(transaction: Transaction, catalog: Catalog, session: BrowserSession, now: int) -> Principal | None:
    """The principal of a session: of a token or a person, with their rights of now; None when they have none."""
    found: Principal | None = None
    if session.token is not None:
        token = transaction.token(session.token)
        found = None if token is None else of_token(transaction, catalog, token, now)
    elif session.person is not None:
        person = catalog.policies(transaction).people.get(session.person)
        found = None if person is None else principal_of(person)
    else:
        rights = None if session.rights is None else frozenset(session.rights)
        found = Principal(session.role, session.name, rights=rights)
    return found


def _not_after(transaction: Transaction, token_id: str | None, until: int) -> int:
    """The instant, or the end of the token if that is sooner."""
    token = None if token_id is None else transaction.token(token_id)
    return until if token is None or token.expires_at is None else min(until, token.expires_at)


def new_link(
    transaction: Transaction, whose: Principal, now: int, by: Principal, method: SignInMethod,
    lifetime_ms: int = LINK_MS, browser: str | None = None,
) -> tuple[BrowserSession, str]:  # fmt: skip
    """A link that signs a browser in once, and its code. `browser`: the hash of the cookie of the only one."""
    code = secrets.token_urlsafe(32)
    rights = None if whose.rights is None else tuple(sorted(whose.rights))
    until = _not_after(transaction, whose.token, now + lifetime_ms)
    made = BrowserSession(
        new_id(), hash_of(code), whose.role, whose.name, rights, whose.token, whose.person, now, until, method, browser
    )
    transaction.delete_sessions(now - _KEPT_MS)
    transaction.insert_session(made)
    data = {"session": made.id, "name": made.name, "role": made.role, "token": made.token, "method": method}
    transaction.events.append(NewEvent(now, "session.created", None, None, data | by.signed))
    return made, code


@dataclass(frozen=True)
class Sessions:
    core: Core

    def create(self, principal: Principal, *, token_id: str | None = None, person: str | None = None) -> NewSession:
        if token_id is not None and person is not None:
            hint = "Omit one of them."
            raise InvalidInput('A link is for a token or for a person: not "token_id" and "person".', hint=hint)
        by_chat = principal.person is not None and principal.session is None and principal.token is None
        if token_id is not None or person is not None or not by_chat:
            check_granted(principal, "govern", "create sessions")
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            whose = self._whose(transaction, principal, token_id, person, now)
            if whose.role == "agent":
                message, hint = "An agent has no browser session.", "Use the token of a person."
                raise NotAllowed(message, field="token_id", hint=hint)
            method: SignInMethod = "chat" if by_chat and whose is principal else "link"
            made, code = new_link(transaction, whose, now, principal, method)
        return NewSession(id=made.id, path=f"/login?code={code}", expires_at=to_datetime(made.expires_at))

    def _whose(
        self, transaction: Transaction, principal: Principal, token_id: str | None, person: str | None, now: int
    ) -> Principal:
        """The principal of a new session: a person, that of a token, or the caller."""
        policies = self.core.catalog.policies(transaction)
        if person is not None:
            transaction.lock_policies()  # a person who is deleted at this moment has no session afterwards
            return find_person(self.core.catalog.policies(transaction), person)
        if token_id is None:
            return principal if principal.person is None else find_person(policies, principal.person)
        token = transaction.token(token_id)
        found = None if token is None else of_token(transaction, self.core.catalog, token, now)
        if found is None:
            message = f'There is no valid token "{token_id}".'
            raise NotFound(message, value=token_id, field="token_id", hint="List them: matins tokens list")
        return found

    def list(self, principal: Principal, *, own: bool = False) -> builtins.list[results.BrowserSession]:
        whose = own_only(principal, "list sessions", own=own)
        now = self.core.clock.now_ms()
        with self.core.store.reading() as transaction:
            return [
                session_result(session, principal)
                for session in transaction.sessions()
                if session.is_valid(now) and whose in (None, session.person)
            ]

    def revoke(self, principal: Principal, session_id: str) -> bool:
        whose = own_only(principal, "revoke sessions")
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            found = next((each for each in transaction.sessions() if each.id == session_id), None)
            if found is None or whose not in (None, found.person):
                return False
            return bool(end_sessions(transaction, now, principal.who, session_id=session_id))


def session_result(session: BrowserSession, principal: Principal) -> results.BrowserSession:
    return results.BrowserSession(
        id=session.id,
        name=session.name,
        role=session.role,
        rights=None if session.rights is None else list(session.rights),
        token=session.token,
        person=session.person,
        method=session.method,
        this=session.id == principal.session,
        created_at=to_datetime(session.created_at),
        opened_at=to_datetime(session.opened_at),
        used_at=to_datetime(session.used_at),
        expires_at=to_datetime(session.expires_at),
    )


class OpenedSession(NamedTuple):
    secret: str
    lifetime_s: int


class SessionVerifier:
    """Opens, verifies and closes the sessions of browsers. It reads the store each time, so an end takes effect at
    once."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.catalog = Catalog(cache=False)

    def open(self, code: str, browser: str | None = None, password: str = "") -> OpenedSession | None:
        """The session that the code of a link opens; None when the code is unknown, used or expired. `browser`: the
        cookie of the one that asked. With `password`, the person of an invitation sets one."""
        now = self.clock.now_ms()
        hashed = hashed_password(password) if password else None
        with self.store.transaction(now) as transaction:
            link = transaction.session(hash_of(code))
            if link is None or link.opened_at is not None or not link.is_valid(now):
                return None
            if _principal(transaction, self.catalog, link, now) is None:
                return None
            if link.browser is None or link.browser == hash_of(browser or ""):
                if hashed is not None and link.method == "invitation" and link.person is not None:
                    transaction.set_credential(Credential("password", link.person, link.person, hashed, now))
                return self.opened(transaction, link, now)
            refuse(transaction, now, link.method, "another browser", link.person)
        message = "This link was asked for in another browser."
        raise SignInRefused(message, field="code", hint="Open it there, or ask for a link here.")

    def opened(self, transaction: Transaction, link: BrowserSession, now: int) -> OpenedSession | None:
        """The session of a link that is opened now; None when it was opened or ended at this moment."""
        secret = secrets.token_urlsafe(32)
        until = _not_after(transaction, link.token, now + IDLE_MS)
        if not transaction.open_session(link.id, link.hash, hash_of(secret), now, until):
            return None
        data = {"session": link.id, "name": link.name, "role": link.role, "token": link.token, "method": link.method}
        transaction.events.append(NewEvent(now, "session.opened", None, None, data))
        return OpenedSession(secret, LONGEST_MS // 1000)

    def principal_of(self, secret: str) -> Principal | None:
        now = self.clock.now_ms()
        with self.store.reading() as transaction:
            session = transaction.session(hash_of(secret))
            if session is None or session.opened_at is None or not session.is_valid(now):
                return None
            principal = _principal(transaction, self.catalog, session, now)
        if principal is None:
            return None
        if abs(now - (session.used_at or session.opened_at)) >= _USED_EVERY_MS:
            with self.store.transaction(now) as transaction:
                until = min(now + IDLE_MS, session.opened_at + LONGEST_MS)
                transaction.touch_session(session.id, now, _not_after(transaction, session.token, until))
        return replace(principal, session=session.id, signed_in_at=session.opened_at)

    def close(self, secret: str) -> None:
        now = self.clock.now_ms()
        with self.store.transaction(now) as transaction:
            session = transaction.session(hash_of(secret))
            if session is not None:
                principal = _principal(transaction, self.catalog, session, now)
                end_sessions(transaction, now, principal.who if principal else session.name, session_id=session.id)


def refuse(transaction: Transaction, now: int, method: SignInMethod, reason: str, person: str | None) -> None:
    """Say in the log that a sign-in was refused. What was typed is not in it: it may be a password."""
    data = {"method": method, "reason": reason, "person": person}
    transaction.events.append(NewEvent(now, "sign_in.refused", None, None, data))


def hasher() -> Any:
    """argon2id, as OWASP sets it."""
    try:
        from argon2 import PasswordHasher
    except ImportError:
        hint = 'pip install "matins[people]"'
        raise InvalidInput("Passwords need argon2-cffi.", field="password", hint=hint) from None
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def hashed_password(password: str) -> str:
    """The hash of a new password. Raises InvalidInput for one that is too short, or absurdly long."""
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        message = f"A password has {MIN_PASSWORD} to {MAX_PASSWORD} characters."
        raise InvalidInput(message, field="password", hint="A few words are easier to remember than signs.")
    return hasher().hash(password)


class Ways(NamedTuple):
    """How a browser can sign in here."""

    email: bool
    password: bool
    provider: str | None
    """The host of the provider."""
    bots: tuple[str, ...]
    """Bots that answer `login` with a link."""


class SignIn:
    """What a browser without a session can do to get one."""

    def __init__(self, sessions: SessionVerifier) -> None:
        self.sessions = sessions
        self._mails = ThreadPoolExecutor(1, "matins-http")

    def close(self) -> None:
        self._mails.shutdown()

    def ways(self) -> Ways:
        with self.sessions.store.reading() as transaction:
            policies = self.sessions.catalog.policies(transaction)
            credentials = transaction.credentials()
            bots = tuple(f"{bot.name}" for bot in transaction.chat_bots() if bot.name and not bot.problem)
            provider = provider_of(transaction, policies)
        mailed = policies.smtp.host is not None and any(person.email for person in policies.people.values())
        host = None if provider is None else provider.issuer.partition("://")[2].partition("/")[0]
        return Ways(mailed, any(each.kind == "password" for each in credentials), host, bots)

    def invited(self, code: str) -> tuple[str, str] | None:
        """The name and the role of the person whom a code invites; None for other links."""
        now = self.sessions.clock.now_ms()
        with self.sessions.store.reading() as transaction:
            link = transaction.session(hash_of(code))
        invites = link is not None and link.method == "invitation" and link.opened_at is None and link.is_valid(now)
        return (link.name, link.role) if link is not None and invites else None

    def mail(self, address: str, browser: str, base: str, peer: str | None) -> None:
        """Mail a link to the person of an address, if there is one. The caller learns nothing of it: not by the
        answer, and not by its time."""
        self.count_try("mail", address, peer)
        self._mails.submit(self.mail_link, address, browser, base)

    def mail_link(self, address: str, browser: str, base: str) -> None:
        now = self.sessions.clock.now_ms()
        with self.sessions.store.transaction(now) as transaction:
            policies = self.sessions.catalog.policies(transaction)
            person = person_at(policies, address)
            if person is None:
                refuse(transaction, now, "email", "unknown address", None)
                return
            whose = principal_of(person)
            made, code = new_link(transaction, whose, now, whose, "email", browser=hash_of(browser))
        text = "Open this link in the browser in which you asked for it. It works once, for ten minutes."
        letter = "Sign in to Matins", text, f"{base}/login?code={code}"
        mailed(self.sessions.store, now, policies.smtp, person, letter, made.id)

    def password(self, name: str, password: str, peer: str | None) -> OpenedSession:
        """The session of a person who gives a name, or an address, and the password."""
        self.count_try("password", name, peer)
        store, now = self.sessions.store, self.sessions.clock.now_ms()
        with store.reading() as transaction:
            policies = self.sessions.catalog.policies(transaction)
            person = policies.people.get(name.strip()) or person_at(policies, name)
            held = None if person is None else transaction.credential("password", person.name)
        right = verified(None if held is None else held.hash, password)
        with store.transaction(now) as transaction:
            if person is not None and right:
                transaction.delete_tries(try_key("password", name), now - TRIES_MS)
                made, _ = new_link(transaction, principal_of(person), now, principal_of(person), "password")
                opened = self.sessions.opened(transaction, made, now)
                assert opened is not None
                return opened
            refuse(transaction, now, "password", "wrong password", None if person is None else person.name)
        hint = "Try again, or ask for a link by e-mail."
        raise SignInRefused("The name or the password is wrong.", field="password", hint=hint)

    def count_try(self, kind: str, name: str, peer: str | None) -> None:
        """Count a try, before it is known whether it is right. Raises TooManyTries."""
        now = self.sessions.clock.now_ms()
        limits = [(try_key(kind, name), TRIES)]
        limits += [] if peer is None else [(try_key("peer", peer), TRIES_FROM_ADDRESS)]
        with self.sessions.store.transaction(now) as transaction:
            transaction.delete_tries(None, now - TRIES_MS)
            full = any(transaction.tries(key, now - TRIES_MS) >= limit for key, limit in limits)
            for key, _ in limits if not full else ():
                transaction.insert_try(key, now)
        if full:
            raise TooManyTries("Too many tries to sign in.", field=kind, hint="Wait for 15 minutes.")

    # -- a provider

    def begin(self, redirect: str) -> tuple[str, str]:
        """The address at the provider that signs in, and the secret of this try, for a cookie."""
        secret = secrets.token_urlsafe(32)
        return self._provider().authorise_url(secret, redirect), secret

    def finish(self, given: Mapping[str, str], secret: str | None, redirect: str) -> OpenedSession:
        """The session of the person whom the provider names. Raises SignInRefused."""
        from matins.net.oidc import ProviderError

        store, now = self.sessions.store, self.sessions.clock.now_ms()
        try:
            claims = self._provider().claims(given, secret, redirect, now // 1000)
        except ProviderError as error:
            with store.transaction(now) as transaction:
                refuse(transaction, now, "provider", error.reason, None)
            raise SignInRefused(str(error.message), field="provider", hint=error.hint) from None
        with store.transaction(now) as transaction:
            transaction.lock_policies()
            person, reason = self.person_of(transaction, claims, now)
            if person is not None:
                whose = principal_of(person)
                made, _ = new_link(transaction, whose, now, whose, "provider")
                opened = self.sessions.opened(transaction, made, now)
                assert opened is not None
                return opened
            refuse(transaction, now, "provider", reason, None)
        hint = "Ask the owner to invite this address: matins people invite ADDRESS"
        raise SignInRefused(f"The provider's answer matches no person here: {reason}.", field="provider", hint=hint)

    def person_of(self, transaction: Transaction, claims: Mapping[str, Any], now: int) -> tuple[Person | None, str]:
        """The person whom verified claims name, or why there is none. The first time, it is found by its address, and
        bound to the provider's subject: later addresses change nothing."""
        policies = self.sessions.catalog.policies(transaction)
        provider = provider_of(transaction, policies)
        subject = f"{claims['iss']} {claims['sub']}"
        bound = transaction.credential("provider", subject)
        if bound is not None:
            return policies.people.get(bound.person), "the person left"
        address = str(claims.get("email") or "")
        if not address or claims.get("email_verified") is not True:
            return None, "the address is not verified"
        domain = address.rpartition("@")[2].lower()
        if provider is None or (provider.domains and domain not in provider.domains):
            return None, "the domain of the address is not one of ours"
        person = person_at(policies, address)
        if person is None and provider.role is not None:
            person = Person(free_name(transaction, policies, address), provider.role, email=address)
            by = Principal("owner", "sign-in", kind="file")
            change = RecordChange(transaction, by, policies, now)
            PEOPLE.storage.put(PEOPLE, person.name, person, change)
            PEOPLE.changed(person, None, change)
        if person is None:
            return None, "no person has this address"
        if any(
            bound.subject.partition(" ")[0] == claims["iss"] for bound in provider_accounts(transaction, person.name)
        ):
            return None, "the person signs in with another account of the provider"
        transaction.set_credential(Credential("provider", subject, person.name, None, now))
        return person, ""

    def _provider(self) -> Any:
        from matins.net.oidc import Provider

        with self.sessions.store.reading() as transaction:
            found = provider_of(transaction, self.sessions.catalog.policies(transaction))
        if found is None:
            hint = "matins sign-in set --issuer https://accounts.example.com --client-id matins"
            raise NotFound("No provider is set up.", field="sign_in", hint=hint)
        secret = None if found.client_secret is None else resolve(found.client_secret, "client_secret")
        return Provider(found.issuer, found.client_id, secret)


def try_key(kind: str, whose: str) -> str:
    return hash_of(f"{kind} {whose.strip().lower()}")


def verified(held: str | None, password: str) -> bool:
    """Whether a password is the one of a hash. Without a hash it takes as long: nobody learns who has one."""
    checker = hasher()
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return checker.verify(held or _NO_PASSWORD, password[:MAX_PASSWORD]) and held is not None
    except (VerificationError, InvalidHashError):
        return False


_NO_PASSWORD = "$argon2id$v=19$m=19456,t=2,p=1$bWF0aW5zLW1hdGlucw$4yxjMhYUBc9v5jPDCvzNb8TpE4hAEmbV6c2dGdRZxr0"


def person_at(policies: Policies, address: str) -> Person | None:
    """The person with an e-mail address."""
    wanted = address.strip().lower()
    return next((each for each in policies.people.values() if each.email and each.email.lower() == wanted), None)


def free_name(transaction: Transaction, policies: Policies, address: str) -> str:
    """A name for the person of an address that nobody has or had."""
    start = "".join(letter if letter.isalnum() else "-" for letter in address.partition("@")[0].lower()).strip("-")
    names = [start or "person", *(f"{start or 'person'}-{number}" for number in range(2, 1_000))]
    taken = {*policies.people, *policies.agents, *RESERVED}
    return next(name for name in names if name not in taken and transaction.credential("left", name) is None)


def mailed(
    store: Store, now: int, smtp: Smtp, person: Person, letter: tuple[str, str, str], session: str
) -> str | None:
    """Mail a link to a person; why it could not be, or None. The log says which, never the link."""
    from matins.delivery.destinations import Address, NotDelivered
    from matins.delivery.destinations.email import EMAIL
    from matins.delivery.texts import NoticeText

    title, text, link = letter
    to = Address(Destination("sign-in", "email", to=(person.email or "",)), smtp, now)
    problem: str | None = None
    try:
        EMAIL.send(to, NoticeText(title, text, link=link, key=session))
    except NotDelivered as error:
        problem = error.reason
        log.warning("A link to sign in was not mailed to %s: %s", person.name, problem)
    with store.transaction(now) as transaction:
        data = {"session": session, "person": person.name, "problem": problem}
        transaction.events.append(NewEvent(now, "session.mailed", None, None, data))
    return problem


def myself(principal: Principal) -> str:
    """The person who calls, by themselves."""
    hint = "Sign in to the page as a person: matins login NAME prints a link."
    if principal.person is None:
        raise InvalidInput("Only a person has this.", value=principal.name, field="principal", hint=hint)
    if principal.token is not None:
        raise NotAllowed("A token cannot change this.", value=principal.name, field="principal", hint=hint)
    return principal.person


@dataclass(frozen=True)
class People:
    core: Core
    records: Records

    def link(self, principal: Principal, name: str, service: LinkedService) -> NewChatLink:
        now, code = self.core.clock.now_ms(), new_id()
        with self.core.store.transaction(now) as transaction:
            find_person(self.core.catalog.policies(transaction), name)
            bot = next((bot.name for bot in transaction.chat_bots() if bot.service == service), None)
            if bot is None:
                hint = f"Set it up, and start the daemon: matins chat set {service} --token env:NAME"
                raise Conflict(f"No bot of {service} is connected.", value=service, field="service", hint=hint)
            transaction.delete_chat_links(service, name, now)
            transaction.insert_chat_link(ChatLink(hash_of(code), service, name, now + LINK_MS))
            data = {"person": name, "service": service, **principal.signed}
            transaction.events.append(NewEvent(now, "link.created", None, None, data))
        return NewChatLink(name, service, bot, code, to_datetime(now + LINK_MS))

    def invite(
        self, principal: Principal, email: str, *, role: PersonRole = "operator", name: str | None = None
    ) -> results.Invitation:
        now = self.core.clock.now_ms()
        with self.core.store.reading() as transaction:
            policies = self.core.catalog.policies(transaction)
            known = person_at(policies, email)
            name = name or (free_name(transaction, policies, email) if known is None else known.name)
        if known is None:
            if name in policies.people:
                hint = f"Set their address: matins people edit {name} --email {email}"
                raise Conflict(f'"{name}" is another person.', value=name, field="name", hint=hint)
            self.records.set(PEOPLE, principal, name, role=role, email=email)
        elif name != known.name:
            raise Conflict(f'"{known.name}" has this address.', value=email, field="email", hint="Omit the name.")
        with self.core.store.transaction(now) as transaction:
            transaction.lock_policies()
            policies = self.core.catalog.policies(transaction)
            whose = find_person(policies, name)
            made, code = new_link(transaction, whose, now, principal, "invitation", INVITATION_MS)
            data = {"person": name, "role": whose.role, "session": made.id, **principal.signed}
            transaction.events.append(NewEvent(now, "person.invited", None, None, data))
        base, person = self.core.local.url(), policies.people[name]
        link, sent = f"{base or ''}/login?code={code}", False
        if base is not None and policies.smtp.host is not None:
            text = f"{principal.name} invites you to Matins as {whose.name} ({whose.role}). It works once, for 7 days."
            sent = mailed(self.core.store, now, policies.smtp, person, ("Join Matins", text, link), made.id) is None
        return results.Invitation(name, whose.role, link, sent, to_datetime(made.expires_at))

    def edit_me(self, principal: Principal, *, timezone: str | None = None) -> Any:
        return self.records.edit(PEOPLE, principal, myself(principal), timezone=timezone)

    def password(self, principal: Principal, password: str) -> bool:
        name = myself(principal)
        hashed, now = hashed_password(password), self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            transaction.lock_policies()
            find_person(self.core.catalog.policies(transaction), name)
            transaction.set_credential(Credential("password", name, name, hashed, now))
            data = {"person": name, **principal.signed}
            transaction.events.append(NewEvent(now, "person.password_set", None, None, data))
        return True

    def leave(self, principal: Principal, name: str, *, give_to: str | None = None) -> results.Departure:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            transaction.lock_policies()
            policies = self.core.catalog.policies(transaction)
            find_person(policies, name)
            if give_to is not None and find_person(policies, give_to).name == name:
                hint = "Name another person, or omit it: then they belong to the owner."
                raise Conflict("Schedules cannot be given to who leaves.", value=give_to, field="give_to", hint=hint)
            counts = departure_of(transaction, name, now)
            transaction.delete_credential("heir", name)
            if give_to is not None:  # read where the person is deleted, which may be by the file
                transaction.set_credential(Credential("heir", name, give_to, None, now))
        self.records.delete(PEOPLE, principal, name)
        return results.Departure(name, give_to or "owner", **counts)
