"""People: one principal behind a login, an id in a chat, and the name of an approver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import postgres_fixtures
from matins.errors import Conflict, InvalidFile, InvalidInput, MatinsError, NotAllowed, NotFound
from matins.model.access import Principal
from matins.service.sign_in import SessionVerifier
from matins.service.tokens import find_person, person_in_chat
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url
ADA = Principal("operator", "ada")


@pytest.fixture
def bench(url: str) -> Iterator[Sandbox]:
    with closing(Sandbox(url, clock=ManualClock("2026-03-27T08:00:00Z"))) as made:
        yield made


@pytest.fixture
def memory() -> Iterator[Sandbox]:
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as made:
        made.people.set("ada", role="operator", slack="U0ADA", discord="812", email="ada@example.com")
        yield made


def log_in(bench: Sandbox, person: str) -> tuple[SessionVerifier, str]:
    verifier = SessionVerifier(bench.store, bench.clock)
    opened = verifier.open(str(bench.sessions.create(person=person).path).partition("=")[2])
    assert opened is not None
    return verifier, opened.secret


def test_a_persons_link_logs_in_that_person_and_ends_with_them(bench: Sandbox) -> None:
    """B12: the session has the person's name and role; another role counts at once, and their end ends it"""
    bench.people.set("ada", role="operator")
    verifier, secret = log_in(bench, "ada")
    assert verifier.principal_of(secret) == ADA
    bench.people.edit("ada", slack="U0ADA")
    assert verifier.principal_of(secret) == ADA
    bench.people.edit("ada", role="viewer")
    assert verifier.principal_of(secret) == Principal("viewer", "ada")
    link = str(bench.sessions.create(person="ada").path).partition("=")[2]
    assert verifier.principal_of(secret) == Principal("viewer", "ada")
    assert {(found.name, found.person) for found in bench.sessions.list()} == {("ada", "ada")}
    assert bench.people.delete("ada") is True
    assert verifier.principal_of(secret) is None
    assert verifier.open(link) is None
    assert bench.sessions.list() == []
    assert [event.type for event in bench.events.list(types=["session.ended"])] == ["session.ended"] * 2


def test_an_approver_is_a_person_however_they_come(memory: Sandbox) -> None:
    """B7: the vote has the person's name, by a login as by a chat; who is not mapped is nobody"""
    memory.agents.set("scout", runner="demo")
    memory.add("deploy", when="1h", agent="scout", prompt="Ship it", approval="owner_approve", approvers=["ada"])
    memory.run("deploy")
    memory.settle()
    asked = memory.approvals.list()[0]
    verifier, secret = log_in(memory, "ada")
    by_login = verifier.principal_of(secret)
    by_chat = person_in_chat(memory._loader.policies(), "slack", "U0ADA")
    assert by_login == ADA == find_person(memory._loader.policies(), "ada")
    assert by_chat is not None
    assert by_chat.name == "ada"
    assert person_in_chat(memory._loader.policies(), "slack", "U0EVE") is None
    assert person_in_chat(memory._loader.policies(), "discord", "812") == by_chat
    voted = memory.acting_as(by_login).approvals.approve(asked.id, digest=asked.digest)
    assert [vote.voter for vote in voted.votes] == ["ada"]


def test_only_the_owner_sets_people_and_sees_their_addresses(memory: Sandbox) -> None:
    for principal in (ADA, Principal("viewer", "vic"), Principal("agent", "scout")):
        with pytest.raises(NotAllowed):
            memory.acting_as(principal).people.set("eve", role="owner")
        seen = memory.acting_as(principal).people.get("ada")
        assert (seen.role, seen.slack, seen.discord, seen.email) == ("operator", None, None, None)
        with pytest.raises(NotAllowed):
            memory.acting_as(principal).sessions.create(person="ada")


@pytest.mark.parametrize(
    ("name", "settings", "kind", "field"),
    [
        ("owner", {"role": "owner"}, InvalidInput, "name"),
        ("bob", {}, InvalidInput, "role"),
        ("bob", {"role": "agent"}, InvalidInput, "role"),
        ("bob", {"role": "viewer", "slack": "U0ADA"}, Conflict, "slack"),
        ("bob", {"role": "viewer", "email": "ada@example.com"}, Conflict, "email"),
        ("bob", {"role": "viewer", "email": "ada@example.com, eve@example.com"}, InvalidInput, "email"),
        ("bob", {"role": "viewer", "timezone": "Mars/Base"}, InvalidInput, "timezone"),
        ("bob", {"role": "viewer", "quiet_hours": "nights"}, InvalidInput, "quiet_hours"),
    ],
)
def test_what_is_refused(
    memory: Sandbox, name: str, settings: dict[str, str], kind: type[MatinsError], field: str
) -> None:
    with pytest.raises(kind) as caught:
        memory.people.set(name, **settings)  # type: ignore[typeddict-item]
    assert getattr(caught.value, "field", None) == field
    assert [person.name for person in memory.people.list()] == ["ada"]


def test_quiet_hours_that_a_person_has_stay(memory: Sandbox) -> None:
    memory.quiet_hours.set("nights", windows=["22:00-07:00"])
    memory.people.edit("ada", quiet_hours="nights", timezone="Europe/Berlin")
    with pytest.raises(Conflict, match="used by ada"):
        memory.quiet_hours.delete("nights")
    memory.people.edit("ada", quiet_hours=None)
    assert memory.quiet_hours.delete("nights") is True


def test_a_link_needs_somebody_who_is_there(memory: Sandbox) -> None:
    with pytest.raises(NotFound) as caught:
        memory.sessions.create(person="adda")
    assert caught.value.hint == 'Did you mean "ada"?'
    token = memory.tokens.create("laptop").id
    with pytest.raises(InvalidInput, match="token or for a person"):
        memory.sessions.create(person="ada", token_id=token)


def test_people_in_the_file(memory: Sandbox, tmp_path: Path) -> None:
    """C7: people and the quiet hours they name come from one file; a name that nobody defines is told with its line"""
    path = tmp_path / "matins.yaml"
    path.write_text(
        "people:\n  grace: {role: owner, slack: U0GRACE, quiet_hours: nights}\n"
        'quiet_hours:\n  nights: {windows: ["22:00-07:00"]}\n'
    )
    memory.watch_file(path)
    assert memory.file.apply().state == "applied"
    assert memory.people.get("grace").quiet_hours == "nights"
    verifier, secret = log_in(memory, "grace")
    path.write_text("people:\n  grace: {role: owner, quiet_hours: night}\n")
    with pytest.raises(
        InvalidFile, match=r'line 2.*people\.grace\.quiet_hours: there is no quiet hours policy "night"'
    ):
        memory.file.plan()
    path.write_text("people: {}\n")
    memory.file.apply()
    assert verifier.principal_of(secret) is None
