"""Principals, tokens, people.

Callers of use cases: principals, their tokens, and responses to their idempotent requests.

A person: one principal behind a login, an id in a chat, and the name of an approver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, get_args

from matins.model.settings import Choice, Labels, Name, Names, Records, Setting, Text, Zone

Role = Literal["owner", "operator", "viewer", "agent"]


Right = Literal["read", "run", "change", "approve", "operate", "govern"]


PrincipalKind = Literal["person", "file", "webhook", "chat"]
_NAMED = ("agent", "person", "file")
"""Kinds whose name alone is shown. A webhook and a chat are shown by kind and name."""


@dataclass(frozen=True, slots=True)
class Principal:
    role: Role
    name: str
    run_id: int | None = None
    """The run that an agent calls from. The server sets it, never the agent."""
    rights: frozenset[str] | None = None
    """Rights of the principal, among those of its role; None for all."""
    token: str | None = field(default=None, compare=False)
    """The id of the token that it showed, or that its browser session came from."""
    kind: PrincipalKind = "person"
    """What the name is the name of, unless the role or a token says it."""
    person: str | None = field(default=None, compare=False)
    """The person whose rights of now it has: by a session, a token of theirs, or a chat."""
    session: str | None = field(default=None, compare=False)
    """The id of its browser session."""
    signed_in_at: int | None = field(default=None, compare=False)
    """When its browser signed in; None for principals without a browser."""
    granted: tuple[Grant, ...] = field(default=(), compare=False)
    """The grants that gave it the role, for one call. What they do not cover is refused."""

    @property
    def is_human(self) -> bool:
        return self.role != "agent"

    @property
    def who(self) -> str:
        """Who it is, by kind and id, as it is stored and compared: a person, an agent and a token may have one name. A
        token's name follows its id, for readers; it never changes."""
        if self.role == "agent":
            return f"agent:{self.name}"
        if self.token is not None:
            return f"token:{self.token} {self.name}"
        return "owner" if self.role == self.name == "owner" else f"{self.kind}:{self.name}"

    @property
    def signed(self) -> dict[str, str]:
        """What events say about who did it."""
        return {"by": self.name, "who": self.who}

    @property
    def as_requester(self) -> dict[str, str]:
        """What a run says about who requested it."""
        return {"name": self.name, "role": self.role, "who": self.who}


def name_of(who: str) -> str:
    """The name that people read, of a principal as it is stored. Matins itself, and the owner, have no kind."""
    kind, _, name = who.partition(":")
    if kind == "token":
        return name.partition(" ")[2]
    return name if kind in _NAMED else who


def signed(who: str) -> dict[str, str]:
    """What events say about who did it, of a principal as it is stored."""
    return {"by": name_of(who), "who": who}


OWNER = Principal("owner", "owner")
"""The owner of the store: the library in the same process."""


class Token(NamedTuple):
    """A token of a program or a person. The secret is not stored."""

    id: str
    hash: str
    """SHA-256 of the whole token."""
    name: str
    role: Role
    rights: tuple[str, ...] | None
    """Rights of the token, among those of its role; None for all."""
    created_at: int
    created_by: str
    expires_at: int | None
    person: str | None = None
    """The person whose token it is: it has their rights of now, within its own. None for the token of a program."""
    revoked_at: int | None = None
    used_at: int | None = None

    def is_valid(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


SignInMethod = Literal["link", "invitation", "email", "chat", "password", "provider"]
"""How a browser signs in."""


class BrowserSession(NamedTuple):
    """A link that logs a browser in, and then its session. Neither secret is stored."""

    id: str
    hash: str
    """SHA-256 of the code of the link, then of the cookie."""
    role: Role
    name: str
    rights: tuple[str, ...] | None
    token: str | None
    """The token that it came from and ends with; None for the link that the daemon prints."""
    person: str | None
    """The person whose session it is; it ends with the person."""
    created_at: int
    expires_at: int
    method: SignInMethod = "link"
    browser: str | None = None
    """SHA-256 of the cookie of the browser that asked for the link, and that alone can open it; None: any browser."""
    opened_at: int | None = None
    used_at: int | None = None
    ended_at: int | None = None

    def is_valid(self, now: int) -> bool:
        return self.ended_at is None and self.expires_at > now


class Credential(NamedTuple):
    """What proves that a browser is a person's, or that a name is taken: no secret is stored."""

    kind: Literal["password", "provider", "heir", "left"]
    """`heir`: who gets the schedules of a person who is leaving. `left`: nobody else gets the name of who did."""
    subject: str
    """The name of the person; of a provider, its issuer and the subject there."""
    person: str
    hash: str | None
    """argon2id, of a password."""
    at: int


class IdempotentRequest(NamedTuple):
    """A request with an idempotency key, and its response. `status` is None while the request is being processed."""

    digest: str
    status: int | None
    response: str | None
    at: int


LinkedService = Literal["telegram"]
"""Chat services whose bots take codes."""


class ChatBot(NamedTuple):
    """The bot of a chat service, as its connection knows it."""

    service: str
    name: str | None
    """`@matins_bot`; None until the service has reported it."""
    problem: str | None
    """Why no messages arrive; None while they do."""


class ChatLink(NamedTuple):
    """A code by which a user of a chat service proves to be a person."""

    hash: str
    service: str
    person: str
    expires_at: int


PersonRole = Literal["owner", "operator", "viewer"]
PERSON_ROLES: tuple[PersonRole, ...] = get_args(PersonRole)


# fmt: off
@dataclass(frozen=True, slots=True)
class Grant:
    """Rights in addition to those of the person's role, for some schedules and what belongs to them."""

    agents: Annotated[tuple[str, ...],
        Setting(Names(empty=True), "Agents whose schedules it is for; default: all.", ["scout"])] = ()
    labels: Annotated[dict[str, str] | None,
        Setting(Labels(), "Labels that the schedules have; default: any.", {"team": "web"})] = None
    role: Annotated[Literal["operator"],
        Setting(Choice(("operator",)), "Role that the person has there.", "operator")] = "operator"


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    role: Annotated[PersonRole,
        Setting(Choice(PERSON_ROLES), "What the person may do.", "operator", required=True)]
    slack: Annotated[str | None,
        Setting(Text(100), "Id of the person's Slack user.", "U0ADA")] = None
    telegram: Annotated[str | None,
        Setting(Text(100), "Id of the person's Telegram user.", "81230")] = None
    discord: Annotated[str | None,
        Setting(Text(100), "Id of the person's Discord user.", "81230000000000000")] = None
    email: Annotated[str | None,
        Setting(Text(254), "Address for mail to the person.", "ada@example.com")] = None
    timezone: Annotated[str | None,
        Setting(Zone(), "Time zone of the person; default: that of the machine.",
                "Europe/Berlin", short="-z")] = None
    quiet_hours: Annotated[str | None,
        Setting(Name("quiet_hours"), "Quiet hours in which the person is not disturbed, by name.", "nights")] = None
    grants: Annotated[tuple[Grant, ...],
        Setting(Records(Grant, "grant"), "What else the person may do, by agent and label of schedules.",
                [{"agents": ["scout"], "role": "operator"}])] = ()
# fmt: on
