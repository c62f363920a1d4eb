"""People, destinations, and names that nobody else may have.

People: one principal behind a login, an id in a chat, and the name of an approver.

Names of principals: an agent cannot have the name of a person or of a token, because readers see names only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args

from matins.errors import Conflict, Example, InvalidInput
from matins.model.access import PERSON_ROLES, Credential, Grant, LinkedService, Person, PersonRole, name_of, signed
from matins.model.destination import NOBODY, THREAD, Destination
from matins.model.event import ANSWERS_PREFIX, NOTICES_PREFIX
from matins.model.rows import NewEvent
from matins.model.settings import Choice, Names, Secret, Setting, Text, Url
from matins.records.kind import POLICIES, Column, DestinationStorage, Document, RecordChange, RecordContext, RecordKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from matins.engine.policies import Policies
    from matins.model.access import Token
    from matins.model.policies import Approval, Vote
    from matins.model.rows import ScheduleRow
    from matins.store.transaction import Transaction


def check_token_name(name: str, role: str, policies: Policies, tokens: Iterable[Token], now: int) -> None:
    """Raise if a token would have the name of an agent, or an agent's token that of a person."""
    valid = [token for token in tokens if token.name == name and token.is_valid(now)]
    if role != "agent":
        if name in policies.agents or any(token.role == "agent" for token in valid):
            raise _taken(name, "an agent", "token")
        return
    if name == "owner" or name in policies.people:
        raise _taken(name, "a person", "token")
    if any(token.role != "agent" for token in valid):
        raise _taken(name, "a token", "agent's token")


def check_agent_name(agent: Any, before: Any, change: RecordChange) -> None:
    """Raise if a new agent would have the name of a person or of a token that is no agent's."""
    if before is not None:
        return
    if agent.name == "owner" or agent.name in change.policies.people:
        raise _taken(agent.name, "a person", "agent")
    tokens = change.transaction.tokens()
    if any(one.name == agent.name and one.role != "agent" and one.is_valid(change.now) for one in tokens):
        raise _taken(agent.name, "a token", "agent")


def check_person_name(person: Any, before: Any, change: RecordChange) -> None:
    """Raise if a new person would have the name of an agent."""
    if before is not None:
        return
    tokens = change.transaction.tokens()
    of_agents = {one.name for one in tokens if one.role == "agent" and one.is_valid(change.now)}
    if person.name in change.policies.agents or person.name in of_agents:
        raise _taken(person.name, "an agent", "person")


def _taken(name: str, what: str, other: str) -> Conflict:
    return Conflict(
        f'The name "{name}" belongs to {what}.', value=name, field="name", hint=f"Use another name for the {other}."
    )


RESERVED = ("owner", "matins")
_ALL = 1 << 31
_UNIQUE = ("slack", "telegram", "discord", "email")


def _complete_person(person: Person, context: RecordContext) -> Person:
    if person.name in RESERVED:
        message = f'"{person.name}" is the name of another principal.'
        raise InvalidInput(message, value=person.name, field="name", hint="Use the name of a person, such as ada.")
    if person.email is not None and not _is_address(person.email):
        hint = "For example: ada@example.com."
        raise InvalidInput('"email" must be an address.', value=person.email, field="email", hint=hint)
    return person


def _is_address(text: str) -> bool:
    local, at, host = text.rpartition("@")
    return bool(local and at and host) and not any(letter.isspace() or letter in "<>,;" for letter in text)


def _changed(person: Person, before: Person | None, change: RecordChange) -> None:
    check_person_name(person, before, change)
    for other in change.policies.people.values():
        for field in _UNIQUE:
            value = getattr(person, field)
            if other.name != person.name and value is not None and getattr(other, field) == value:
                message = f'"{other.name}" has this {field} already.'
                raise Conflict(message, value=value, field=field, hint="An id belongs to one person.")
    if before is None and change.transaction.credential("left", person.name) is not None:
        message = f'"{person.name}" left, and what they did has this name.'
        raise Conflict(message, value=person.name, field="name", hint="Use another name.")
    if before is not None and person.email != before.email:  # the new address may be another account there
        for bound in provider_accounts(change.transaction, person.name):
            change.transaction.delete_credential("provider", bound.subject)
    if person.grants != (() if before is None else before.grants):
        data = {"person": person.name, "grants": [_grant_text(each) for each in person.grants]}
        change.transaction.events.append(NewEvent(change.now, "grant.set", None, None, data | change.principal.signed))


def provider_accounts(transaction: Transaction, name: str) -> list[Credential]:
    """The accounts of providers by which a person signs in."""
    return [each for each in transaction.credentials() if (each.kind, each.person) == ("provider", name)]


def _grant_text(grant: Grant) -> str:
    where = [*grant.agents, *(f"{name}={value}" for name, value in (grant.labels or {}).items())]
    return f"{grant.role} of {' '.join(where) or 'all schedules'}"


def _deleted(person: Person, before: Person | None, change: RecordChange) -> None:
    """End what the person could do: sessions, links, tokens, credentials, votes on open requests."""
    from matins.runtime.tokens import end_sessions

    transaction, now, by = change.transaction, change.now, change.principal
    check_approvers(transaction, person.name, change.policies)
    counts = departure_of(transaction, person.name, now)
    used = any(each.person == person.name and each.opened_at is not None for each in transaction.sessions())
    held = any(each.person == person.name for each in (*transaction.tokens(), *transaction.credentials()))
    heir = transaction.credential("heir", person.name)
    end_sessions(transaction, now, by.who, person=person.name)
    for token in transaction.tokens():
        if token.person == person.name and transaction.revoke_token(token.id, now):
            transaction.events.append(NewEvent(now, "token.revoked", None, None, {"token": token.id, **by.signed}))
    transaction.delete_credentials(person.name)
    transaction.delete_credential("heir", person.name)
    for service in get_args(LinkedService):
        transaction.delete_chat_links(service, person.name, now)
    for asked, vote in _open_votes(transaction, person.name):
        withdrawn = vote._replace(vote="withdrawn", at=now)
        transaction.upsert_vote(asked.id, withdrawn)
        ballot = {"vote": withdrawn.vote, **signed(vote.voter), "note": vote.note, "digest": vote.digest}
        data = {"approval": str(asked.id), **ballot}
        transaction.events.append(NewEvent(now, "approval.voted", asked.schedule_id, asked.run_id, data))
    given_to = "owner" if heir is None else heir.person
    if used or held or any(counts.values()):  # otherwise nothing has the name
        transaction.set_credential(Credential("left", person.name, given_to, None, now))
    data = {"person": person.name, "given_to": given_to, **counts, **by.signed}
    transaction.events.append(NewEvent(now, "person.left", None, None, data))


def departure_of(transaction: Transaction, name: str, now: int) -> dict[str, Any]:
    """What a person has, who may leave."""
    tokens = [each for each in transaction.tokens() if each.is_valid(now)]
    return {
        "schedules": sum(name_of(row.created_by) == name for row in _schedules(transaction)),
        "sessions": sum(each.person == name and each.is_valid(now) for each in transaction.sessions()),
        "tokens": sum(each.person == name for each in tokens),
        "votes": len(_open_votes(transaction, name)),
        "program_tokens": [each.id for each in tokens if each.person is None and name_of(each.created_by) == name],
    }


def _open_votes(transaction: Transaction, name: str) -> list[tuple[Approval, Vote]]:
    open_requests = transaction.approvals_in("pending", 0, _ALL)
    return [(asked, vote) for asked in open_requests for vote in asked.votes if name_of(vote.voter) == name]


def _schedules(transaction: Transaction) -> Iterator[ScheduleRow]:
    after = 0
    while page := transaction.schedules(after, None, 1_000):
        yield from page
        after = page[-1].id


def check_approvers(transaction: Transaction, name: str, policies: Policies) -> None:
    """Raise if a schedule would have too few approvers without the person."""
    from matins.runtime.catalog import schedule_record

    there = {"owner", *policies.people} - {name}
    for row in _schedules(transaction):
        definition = schedule_record(row).definition
        if (
            name in definition.approvers
            and len(there.intersection(definition.approvers)) < definition.approvals_required
        ):
            message = f'"{row.name}" has no other approver.'
            hint = f"Name others: matins edit {row.name} --approvers NAME"
            raise Conflict(message, value=row.name, field="approvers", hint=hint)


def _without_addresses(document: Document) -> Document:
    return {**document, **dict.fromkeys(_UNIQUE)}


def _grants_text(document: Document) -> str:
    return str(len(document["grants"] or ()) or "")


def _domains_text(document: Document) -> str:
    return ", ".join(document["domains"]) or "all"


PEOPLE = RecordKind(
    kind="person",
    noun="people",
    one="person",
    value=Person,
    help="Manage people: who may log in, approve and receive messages.",
    file_help="Who may log in, approve and receive messages, by name.",
    storage=POLICIES,
    complete=_complete_person,
    changed=_changed,
    deleted=_deleted,
    hidden=_without_addresses,
    fresh=True,
    columns=(
        Column("NAME", "name"),
        Column("ROLE", "role"),
        Column("SLACK", "slack"),
        Column("TELEGRAM", "telegram"),
        Column("DISCORD", "discord"),
        Column("EMAIL", "email"),
        Column("TIMEZONE", "timezone"),
        Column("QUIET HOURS", "quiet_hours"),
        Column("GRANTS", _grants_text),
    ),
    example="matins people set ada --role operator --slack U0ADA",
)


# fmt: off
@dataclass(frozen=True, slots=True)
class SignInProvider:
    """A provider of OpenID Connect, by which people sign in."""

    issuer: Annotated[str, Setting(Url(), "URL of the provider.", "https://accounts.example.com", required=True)] = ""
    client_id: Annotated[str, Setting(Text(200), "Id of Matins at the provider.", "matins", required=True)] = ""
    client_secret: Annotated[str | None,
        Setting(Secret(), "Where the secret of Matins at the provider is: env:NAME or file:/path.",
                "env:OIDC_SECRET")] = None
    domains: Annotated[tuple[str, ...],
        Setting(Names(empty=True), "Domains of the addresses that sign in; default: all.", ["example.com"])] = ()
    role: Annotated[PersonRole | None,
        Setting(Choice(PERSON_ROLES),
                "Role of a person who is created for a verified address; default: only people who are here sign in.",
                "viewer")] = None
# fmt: on


def _complete_provider(value: SignInProvider, context: RecordContext) -> SignInProvider:
    if value.role is not None and not value.domains:
        hint = Example({"domains": ["example.com"], "role": value.role})
        raise InvalidInput(
            '"role" needs "domains": each person at the provider would join.', field="domains", hint=hint
        )
    return value


SIGN_IN = RecordKind(
    kind="sign_in",
    noun="sign_in",
    one="sign-in provider",
    key="",
    value=SignInProvider,
    help="Manage the provider of OpenID Connect by which people sign in.",
    file_help="Provider of OpenID Connect by which people sign in.",
    storage=POLICIES,
    complete=_complete_provider,
    fresh=True,
    columns=(
        Column("ISSUER", "issuer"),
        Column("CLIENT", "client_id"),
        Column("DOMAINS", _domains_text),
        Column("ROLE", "role"),
    ),
    example="matins sign-in set --issuer https://accounts.example.com --client-id matins",
)


def provider_of(transaction: Transaction, policies: Policies) -> SignInProvider | None:
    """The provider by which people sign in."""
    return next(iter(SIGN_IN.storage.read(SIGN_IN, transaction, policies).values()), None)


_REFERENCES = ("env:", "file:")
_STANDING_FOR = {NOBODY: "no destination", THREAD: "the place in chat of a run's thread"}


def _complete_destination(destination: Destination, context: RecordContext) -> Destination:
    from matins.delivery.destinations import destination_kinds
    from matins.engine.validation import nearest

    if destination.name in _STANDING_FOR:
        message = f'The name "{destination.name}" stands for {_STANDING_FOR[destination.name]}.'
        raise Conflict(message, value=destination.name, field="name", hint="Use another name.")
    kinds = destination_kinds()
    kind = kinds.get(destination.kind)
    if kind is None:
        message, allowed = f'There is no kind of destination "{destination.kind}".', ", ".join(sorted(kinds))
        hint = nearest(destination.kind, sorted(kinds))
        raise InvalidInput(message, value=destination.kind, field="kind", allowed=allowed, hint=hint)
    for name in kind.needs:
        if not getattr(destination, name):
            hint = Example({name: DESTINATIONS.table[name].setting.example})
            raise InvalidInput(f'The kind {kind.name} needs "{name}".', field=name, hint=hint)
    if destination.label is not None and not all(destination.label.partition("=")):
        message = f'"label" must name a label as key=value, not {destination.label!r}.'
        raise InvalidInput(message, value=destination.label, field="label", hint=Example({"label": "team=ops"}))
    kind.check(destination)
    if kind.url_kind == "http":
        from urllib.parse import urlsplit

        from matins.net.outbound import check_url

        # Its host may have any address, because the owner sets it.
        if destination.url is not None and not destination.url.startswith(_REFERENCES):
            check_url(destination.url, [urlsplit(destination.url).netloc])
    return destination


def _state(transaction: Transaction, now: int) -> Callable[[Destination], Document]:
    found = {subscription.name: subscription for subscription in transaction.subscriptions()}

    def state(destination: Destination) -> Document:
        own = (found.get(f"{prefix}{destination.name}") for prefix in (NOTICES_PREFIX, ANSWERS_PREFIX))
        held = next((each for each in own if each is not None and each.state == "paused"), None)
        return {"state": "active" if held is None else held.state, "note": None if held is None else held.note}

    return state


def _without_path(document: Document) -> Document:
    from matins.engine.settings import origin

    url = document["url"]
    return {**document, "url": url if url is None or url.startswith(_REFERENCES) else origin(url)}


def _to(document: Document) -> str:
    return ", ".join(document["to"]) or document["url"] or "–"


DESTINATIONS = RecordKind(
    kind="destination",
    noun="destinations",
    one="destination",
    value=Destination,
    help="Manage where people hear of incidents, and where answers go.",
    file_help="Where people hear of incidents, and where answers go, by name.",
    storage=DestinationStorage(),
    order=0,
    complete=_complete_destination,
    state=_state,
    state_types={"state": "SubscriptionState", "note": "Content[str | None]"},
    hidden=_without_path,
    columns=(
        Column("NAME", "name"),
        Column("KIND", "kind"),
        Column("TO", _to),
        Column("STATE", "state"),
    ),
    example="matins destinations set phone --kind ntfy --to env:NTFY_TOPIC",
    examples={
        "mail": "matins destinations set mail --kind email --to ada@example.com",
        "telegram": "matins destinations set telegram --kind telegram --token env:TELEGRAM_TOKEN --to 81230",
        "slack": "matins destinations set slack --kind slack --url env:SLACK_WEBHOOK",
        "discord": "matins destinations set discord --kind discord --url env:DISCORD_WEBHOOK",
        "desktop": "matins destinations set desktop --kind desktop",
        "report": "matins destinations set reports --kind file --to ~/reports",
        "note": "matins destinations set notes --kind file --to ~/notes",
    },
)
