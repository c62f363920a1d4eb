"""How people sign in: invitations, passwords, links by mail; what is refused is told; who leaves has nothing left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import postgres_fixtures
from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound, SignInAgain, SignInRefused, TooManyTries
from matins.model.access import Principal
from matins.service.permissions import FRESH_MS
from matins.service.sign_in import IDLE_MS, INVITATION_MS, LONGEST_MS, TRIES, TRIES_MS, SessionVerifier, SignIn
from matins.service.tokens import TokenVerifier
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url
PASSWORD = "correct horse battery"
DAY = 86_400_000


@pytest.fixture
def bench(url: str) -> Iterator[Sandbox]:
    with closing(Sandbox(url, clock=ManualClock("2026-03-27T08:00:00Z"))) as made:
        yield made


@pytest.fixture
def memory() -> Iterator[Sandbox]:
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as made:
        yield made


@pytest.fixture
def sign_in(memory: Sandbox) -> Iterator[SignIn]:
    with closing(SignIn(SessionVerifier(memory.store, memory.clock))) as made:
        yield made


def code_of(link: str) -> str:
    return link.partition("=")[2]


def joined(bench: Sandbox, name: str, role: Any = "operator", password: str = PASSWORD) -> tuple[Principal, str]:
    """A person who was invited and joined: the principal of the session, and its secret."""
    verifier = SessionVerifier(bench.store, bench.clock)
    invitation = bench.people.invite(f"{name}@example.com", role=role)
    opened = verifier.open(code_of(invitation.link), password=password)
    assert opened is not None
    principal = verifier.principal_of(opened.secret)
    assert principal is not None
    return principal, opened.secret


def told(bench: Sandbox, *types: str) -> list[tuple[str, Any]]:
    return [(event.type, event.data) for event in bench.events.list(types=list(types))]


def test_an_invited_person_joins_once_and_has_a_password(bench: Sandbox) -> None:
    """B23"""
    made = bench.people.invite("Ada.Lovelace@example.com", role="viewer")
    assert (made.person, made.role, made.mailed) == ("ada-lovelace", "viewer", False)
    verifier = SessionVerifier(bench.store, bench.clock)
    with pytest.raises(InvalidInput, match="12 to 200 characters"):
        verifier.open(code_of(made.link), password="short")
    opened = verifier.open(code_of(made.link), password=PASSWORD)
    assert opened is not None
    assert verifier.principal_of(opened.secret) == Principal("viewer", "ada-lovelace")
    assert verifier.open(code_of(made.link)) is None
    with closing(SignIn(verifier)) as sign_in:
        for name in ("ada-lovelace", "ada.lovelace@EXAMPLE.com"):
            again = sign_in.password(name, PASSWORD, None)
            assert verifier.principal_of(again.secret) == Principal("viewer", "ada-lovelace")
    invited = told(bench, "person.invited")
    assert [(data["person"], data["role"], data["by"]) for _, data in invited] == [("ada-lovelace", "viewer", "owner")]
    methods = [data["method"] for _, data in told(bench, "session.opened")]
    assert methods == ["invitation", "password", "password"]
    secrets = {PASSWORD, code_of(made.link), opened.secret, "argon2"}
    assert not [each for each in secrets if each in str(bench.events.list(limit=1000))]


def test_an_invitation_ends_after_seven_days_and_is_made_again(memory: Sandbox) -> None:
    """B23"""
    clock: Any = memory.clock
    verifier = SessionVerifier(memory.store, memory.clock)
    late = memory.people.invite("ada@example.com").link
    clock.advance(INVITATION_MS)
    assert verifier.open(code_of(late)) is None
    assert verifier.open(code_of(memory.people.invite("ada@example.com").link)) is not None
    with pytest.raises(Conflict, match='"ada" has this address'):
        memory.people.invite("ada@example.com", name="eve")
    with pytest.raises(Conflict, match='"ada" is another person'):
        memory.people.invite("ada@other.example", name="ada")
    assert memory.people.invite("ada@other.example").person == "ada-2"


def test_who_guesses_is_stopped_after_five_tries_in_15_minutes(memory: Sandbox, sign_in: SignIn) -> None:
    """B23: also for names that nobody has; a right one is then too late; refusals are events without the words"""
    clock: Any = memory.clock
    joined(memory, "ada")
    for name in ("ada", "nobody"):
        for number in range(TRIES):
            with pytest.raises(SignInRefused, match="name or the password is wrong"):
                sign_in.password(name, f"wrong number {number}", None)
        with pytest.raises(TooManyTries, match="Too many tries"):
            sign_in.password(name.upper(), PASSWORD, None)
    clock.advance(TRIES_MS)
    assert sign_in.password("ada", PASSWORD, None) is not None
    refused = told(memory, "sign_in.refused")
    assert [data["person"] for _, data in refused] == ["ada"] * TRIES + [None] * TRIES
    assert "wrong number" not in str(refused)
    assert "nobody" not in str(refused)


def test_one_address_tries_no_more_than_20_names(memory: Sandbox, sign_in: SignIn) -> None:
    """B23"""
    for number in range(20):
        with pytest.raises(SignInRefused):
            sign_in.password(f"name-{number}", "wrong", "192.0.2.7")
    with pytest.raises(TooManyTries):
        sign_in.password("name-21", "wrong", "192.0.2.7")
    with pytest.raises(SignInRefused):
        sign_in.password("name-21", "wrong", "192.0.2.8")


def test_a_right_password_forgets_the_wrong_ones_before_it(memory: Sandbox, sign_in: SignIn) -> None:
    """B23"""
    joined(memory, "ada")
    for _ in range(3):
        for _ in range(TRIES - 1):
            with pytest.raises(SignInRefused):
                sign_in.password("ada", "wrong", None)
        assert sign_in.password("ada", PASSWORD, None) is not None


def test_a_session_lasts_30_days_unused_and_90_at_most(memory: Sandbox) -> None:
    """B23"""
    clock: Any = memory.clock
    verifier = SessionVerifier(memory.store, memory.clock)
    _, secret = joined(memory, "ada")
    clock.advance(IDLE_MS - 1)
    assert verifier.principal_of(secret) is not None
    clock.advance(IDLE_MS)
    assert verifier.principal_of(secret) is None
    _, secret = joined(memory, "bob")
    for _ in range(LONGEST_MS // (20 * DAY)):
        clock.advance(20 * DAY)
        assert verifier.principal_of(secret) is not None
    clock.advance(10 * DAY)
    assert verifier.principal_of(secret) is None


def test_what_gives_rights_away_needs_a_sign_in_within_the_hour(memory: Sandbox) -> None:
    """B23"""
    clock: Any = memory.clock
    verifier = SessionVerifier(memory.store, memory.clock)
    principal, secret = joined(memory, "ada", "owner")
    memory.acting_as(principal).tokens.create("laptop")
    clock.advance(FRESH_MS + 1)
    late = verifier.principal_of(secret)
    assert late is not None
    acting = memory.acting_as(late)
    for refused in (
        lambda: acting.tokens.create("phone"),
        lambda: acting.people.invite("eve@example.com"),
        lambda: acting.people.edit("ada", timezone="Europe/Berlin"),
        lambda: acting.people.delete("ada"),
        lambda: acting.people.leave("ada"),
        lambda: acting.people.password(PASSWORD),
    ):
        with pytest.raises(SignInAgain, match="within the last hour"):
            refused()
    acting.budgets.set("day", max_cost="$5", period="day")
    assert acting.people.edit_me(timezone="Europe/Berlin").timezone == "Europe/Berlin"
    again = Principal("owner", "ada", person="ada", session="s", signed_in_at=clock.now_ms())
    assert memory.acting_as(again).tokens.create("phone").person == "ada"
    assert memory.acting_as(again).people.password(PASSWORD)
    said = {(event.type, str(event.data.get("by"))) for event in memory.events.list(after=0, limit=1_000)}
    assert {("policy.set", "ada"), ("person.password_set", "ada")} <= said


def test_what_cannot_be_undone_needs_a_sign_in_within_the_hour(memory: Sandbox) -> None:
    clock: Any = memory.clock
    with_schedules(memory)
    run = memory.run("web")
    memory.settle()
    late = Principal("owner", "ada", person="ada", session="s", signed_in_at=clock.now_ms())
    memory.people.set("ada", role="owner")
    clock.advance(FRESH_MS + 1)
    acting = memory.acting_as(late)
    for refused in (
        lambda: acting.runs.erase(int(run.id)),
        lambda: acting.system.backup("/nowhere/copy.db"),
        lambda: acting.bulk.apply("delete", "all"),
        lambda: acting.file.apply(text="people: {eve: {role: owner}}"),
        lambda: acting.people.delete("ada"),
    ):
        with pytest.raises(SignInAgain, match="within the last hour"):
            refused()
    assert len(memory.list()) == 2
    assert acting.delete("web") is True  # it can be undeleted
    assert memory.undelete("web").name == "web"


def test_a_token_of_a_person_has_their_rights_of_now_within_its_own(bench: Sandbox) -> None:
    """B23"""
    ada, _ = joined(bench, "ada", "operator")
    acting = bench.acting_as(ada)
    full, small = acting.tokens.create("laptop"), acting.tokens.create("screen", role="viewer")
    keys = TokenVerifier(bench.store, bench.clock)
    assert keys.principal_of(full.token) == Principal("operator", "ada")
    found = keys.principal_of(small.token)
    assert found == Principal("viewer", "ada", rights=frozenset({"read"}))
    assert (found.person, found.who) == ("ada", f"token:{small.id} ada")
    bench.people.edit("ada", role="viewer")
    assert keys.principal_of(full.token) == Principal("viewer", "ada")
    bench.people.edit("ada", role="owner")
    assert keys.principal_of(full.token) == Principal("owner", "ada")
    assert keys.principal_of(small.token) == found
    assert {token.id for token in acting.tokens.list()} == {full.id, small.id}
    program = bench.tokens.create("ci")
    assert [token.person for token in acting.tokens.list()] == ["ada", "ada"]
    assert acting.tokens.revoke(program.id) is False
    assert acting.tokens.revoke(full.id) is True
    with pytest.raises(NotAllowed):
        bench.acting_as(found).tokens.create("more")
    with pytest.raises(NotAllowed, match="tokens of programs"):
        acting.tokens.create("ci", program=True)
    assert bench.audit.verify().problems == []


def test_sessions_of_others_are_not_seen_or_ended(memory: Sandbox) -> None:
    """B23"""
    ada, _ = joined(memory, "ada")
    bob, _ = joined(memory, "bob", "owner")
    assert [(each.name, each.this, each.method) for each in memory.acting_as(ada).sessions.list()] == [
        ("ada", True, "invitation")
    ]
    assert memory.acting_as(ada).sessions.revoke(str(bob.session)) is False
    assert [each.name for each in memory.acting_as(bob).sessions.list(own=True)] == ["bob"]
    assert memory.acting_as(bob).sessions.revoke(str(ada.session)) is True
    with pytest.raises(NotAllowed):
        memory.acting_as(ada).sessions.create(person="bob")
    with pytest.raises(NotAllowed):
        memory.acting_as(Principal("operator", "ada")).sessions.list()


# -- grants


def with_schedules(bench: Sandbox) -> Sandbox:
    bench.agents.set("scout", runner="demo")
    bench.agents.set("other", runner="demo")
    bench.add("web", when="every 1h", agent="scout", prompt="Look", labels={"team": "web"})
    bench.add("ops", when="every 1h", agent="other", prompt="Look", labels={"team": "ops"})
    return bench


def test_a_grant_adds_rights_for_an_agent_and_hides_nothing(bench: Sandbox) -> None:
    """B23"""
    with_schedules(bench)
    ben, _ = joined(bench, "ben", "viewer")
    acting = bench.acting_as(ben)
    with pytest.raises(NotAllowed, match='role "viewer" cannot pause'):
        acting.pause("web")
    bench.people.edit("ben", grants=[{"agents": ["scout"]}])
    assert acting.pause("web").state == "paused"
    assert acting.resume("web").state == "active"
    run = acting.run("web")
    assert acting.runs.cancel(run.id).state == "cancelled"
    assert acting.edit("web", prompt="Look again").prompt == "Look again"
    assert acting.add("more", when="every 1h", agent="scout", prompt="Look").agent == "scout"
    assert {schedule.name for schedule in acting.list()} == {"web", "ops", "more"}
    mine = bench.run("ops")
    for refused in (
        lambda: acting.pause("ops"),
        lambda: acting.delete("ops"),
        lambda: acting.run("ops"),
        lambda: acting.runs.cancel(mine.id),
        lambda: acting.add("x", when="every 1h", agent="other", prompt="Look"),
        lambda: acting.add("ops", when="every 1h", agent="scout", prompt="Look", replace=True),
        lambda: acting.edit("web", steps=[{"title": "a", "agent": "other", "prompt": "x"}]),
        lambda: acting.bulk.apply("pause", "all"),
        lambda: acting.runs.bulk("cancel", select="all"),
        lambda: acting.people.edit("ben", grants=[{"agents": ["scout", "other"]}]),
        lambda: acting.people.set("ben", role="owner"),
        lambda: acting.budgets.set("day", max_cost="$5", period="day"),
    ):
        with pytest.raises(NotAllowed):
            refused()
    grants = told(bench, "grant.set")
    assert [(data["person"], data["grants"], data["by"]) for _, data in grants] == [
        ("ben", ["operator of scout"], "owner")
    ]
    bench.people.edit("ben", grants=None)
    with pytest.raises(NotAllowed):
        acting.pause("web")


def test_a_grant_by_label_stays_within_it(memory: Sandbox) -> None:
    """B23"""
    with_schedules(memory)
    ben, _ = joined(memory, "ben", "viewer")
    memory.people.edit("ben", grants=[{"labels": {"team": "web"}}])
    acting = memory.acting_as(ben)
    assert acting.edit("web", prompt="x").prompt == "x"
    with pytest.raises(NotAllowed):
        acting.edit("web", labels={"team": "ops"})
    with pytest.raises(NotAllowed):
        acting.edit("ops", labels={"team": "web"})
    with pytest.raises(NotAllowed):
        acting.add("x", when="every 1h", agent="other", prompt="Look")
    assert acting.add("x", when="every 1h", agent="other", prompt="Look", labels={"team": "web"}).name == "x"
    small = memory.acting_as(ben).tokens.create("screen", role="viewer")
    cut = TokenVerifier(memory.store, memory.clock).principal_of(small.token)
    assert cut is not None
    with pytest.raises(NotAllowed):
        memory.acting_as(cut).pause("web")


def test_no_change_moves_a_schedule_into_a_grant_or_out_of_it(memory: Sandbox) -> None:
    """Not by an edit, a reset, an undo, an old run, a name that was deleted, or an edit with an approval."""
    with_schedules(memory)
    ben, _ = joined(memory, "ben", "viewer")
    memory.people.edit("ben", grants=[{"agents": ["scout"], "labels": {"team": "web"}}])
    acting = memory.acting_as(ben)
    memory.add("gone", when="every 1h", agent="scout", prompt="Look", labels={"team": "ops"})
    memory.delete("gone")
    acting.add("gone", when="every 1h", agent="scout", prompt="Look", labels={"team": "web"})
    memory.add("moved", when="every 1h", agent="scout", prompt="Look", labels={"team": "ops"})
    memory.edit("moved", labels={"team": "web"})
    memory.add("asks", when="1d", agent="scout", prompt="Ship", labels={"team": "web"}, approval="owner_approve")
    memory.run("asks")
    memory.add("old", when="1d", agent="scout", labels={"team": "web"},
               steps=[{"title": "a", "agent": "other", "prompt": "x"}])  # fmt: skip
    old = memory.run("old")
    memory.settle()
    memory.runs.cancel(old.id) if memory.runs.get(old.id).live else None
    memory.edit("old", steps=None, prompt="Ship")
    (asked,) = memory.approvals.list()
    memory.add("after", when="after scout/web succeeds", agent="other", prompt="Look", labels={"team": "ops"})
    for refused in (
        lambda: acting.rename("web", "other-name"),  # it would change what follows it
        lambda: acting.edit("web", labels=None),
        lambda: acting.edit("web", labels={"team": "ops"}),
        lambda: acting.undo("moved"),
        lambda: acting.undelete("gone", new_name="back"),
        lambda: acting.approvals.approve(asked.id, digest=asked.digest, edits={"labels": {"team": "ops"}}),
        lambda: acting.runs.retry(old.id),
        lambda: acting.add("x", when="every 1h", agent="scout", prompt="Look"),
        lambda: acting.add("other/x", when="every 1h", prompt="Look", labels={"team": "web"}),
        lambda: acting.add("x", when="every 1h", agent="scout", labels={"team": "web"},
                           steps=[{"title": "a", "agent": "other", "prompt": "x"}]),
        lambda: acting.add_many([{"name": "x", "when": "1h", "agent": "scout", "prompt": "Look",
                                            "labels": {"team": "web"}}]),
        lambda: acting.file.apply(text="people: {ben: {role: owner}}"),
    ):  # fmt: skip
        with pytest.raises(NotAllowed):
            refused()
    with pytest.raises(NotAllowed, match="do not cover this schedule: scout, team=ops"):
        acting.undo("moved")
    found = acting.bulk.apply("edit", "web", settings={"labels": {"team": "ops"}})
    assert (found.total, "do not cover" in found.skipped[0].reason) == (0, True)
    assert {each.name: each.labels for each in memory.list()} == {
        "web": {"team": "web"}, "ops": {"team": "ops"}, "gone": {"team": "web"}, "moved": {"team": "web"},
        "asks": {"team": "web"}, "old": {"team": "web"}, "after": {"team": "ops"},
    }  # fmt: skip


def test_a_grant_is_for_many_schedules_when_it_is_for_each(memory: Sandbox) -> None:
    clock: Any = memory.clock
    with_schedules(memory)
    ben, _ = joined(memory, "ben", "viewer")
    memory.people.edit("ben", grants=[{"agents": ["scout"]}])
    acting = memory.acting_as(ben)
    clock.advance(DAY)
    for name in ("web", "ops"):
        memory.edit(name, when="0 * * * *", overlap="allow")
        memory.backfills.create(name, start="2026-03-25T00:00:00Z", end="2026-03-25T06:00:00Z")
    memory.run("ops", at="2026-03-29T00:00:00Z")
    web, ops = sorted(memory.backfills.list(), key=lambda each: each.id)
    assert acting.backfills.pause(web.id).state == "paused"
    assert acting.backfills.cancel(web.id).state == "cancelled"
    for refused in (
        lambda: acting.backfills.pause(ops.id),
        lambda: acting.backfills.cancel(ops.id),
        lambda: acting.bulk.apply("pause", "all"),
        lambda: acting.runs.bulk("cancel", select="agent=other"),
    ):
        with pytest.raises(NotAllowed):
            refused()
    assert {each.state for each in memory.list()} == {"active"}
    assert acting.bulk.apply("pause", "agent=scout").total == 1
    assert memory.get("web").state == "paused"


def test_who_has_a_grant_approves_and_nobody_their_own(memory: Sandbox) -> None:
    """B23"""
    with_schedules(memory)
    ada, _ = joined(memory, "ada", "operator")
    ben, _ = joined(memory, "ben", "viewer")
    memory.people.edit("ben", grants=[{"agents": ["scout"]}])
    memory.add("deploy", when="1d", agent="scout", prompt="Ship", approval="owner_approve")
    run = memory.acting_as(ada).run("deploy")
    memory.settle()
    (asked,) = memory.approvals.list()
    with pytest.raises(NotAllowed, match="only the owner can answer it"):
        memory.acting_as(ada).approvals.approve(asked.id, digest=asked.digest)
    voted = memory.acting_as(ben).approvals.approve(asked.id, digest=asked.digest)
    assert (voted.state, voted.run_id) == ("approved", run.id)
    memory.add("again", when="1d", agent="scout", prompt="Ship", approval="owner_approve")
    memory.acting_as(ben).run("again")
    memory.settle()
    (own,) = memory.approvals.list()
    with pytest.raises(NotAllowed, match="made, changed or started themselves"):
        memory.acting_as(ben).approvals.approve(own.id, digest=own.digest)


def test_of_several_owners_none_approves_their_own(memory: Sandbox) -> None:
    """B23"""
    with_schedules(memory)
    memory.add("deploy", when="1d", agent="scout", prompt="Ship", approval="owner_approve")
    ada, _ = joined(memory, "ada", "owner")
    memory.acting_as(ada).run("deploy")
    memory.settle()
    (asked,) = memory.approvals.list()
    joined(memory, "bob", "owner")
    with pytest.raises(NotAllowed, match="another owner answers"):
        memory.acting_as(ada).approvals.approve(asked.id, digest=asked.digest)
    memory.people.delete("bob")
    assert memory.acting_as(ada).approvals.approve(asked.id, digest=asked.digest).state == "approved"


def test_a_budget_of_each_person_is_drawn_on_by_who_starts_a_run(bench: Sandbox) -> None:
    """B23: Who started it, else who made the schedule; of a person who left, who got their schedules."""

    @bench.job("buy")
    def buy(run: Any) -> None:
        run.spend("$0.10")

    ada, _ = joined(bench, "ada")
    ben, _ = joined(bench, "ben")
    bench.acting_as(ada).add("hers", when="0 9 * * *", job="buy")
    bench.budgets.set("each", scope="person", max_cost="$5", period="month")

    def spent(budget: str = "each") -> dict[str, str]:
        return {used.of: used.money for used in bench.budgets.get(budget).usage}

    bench.acting_as(ben).run("hers")
    bench.settle()
    assert spent() == {"person:ben": "$0.10"}
    bench.run_until("2026-03-27T09:30:00Z")
    assert spent() == {"person:ben": "$0.10", "person:ada": "$0.10"}
    bench.budgets.set("later", scope="person", max_cost="$9", period="month")
    assert spent("later") == spent()
    bench.people.leave("ada", give_to="ben")
    bench.run_until("2026-03-28T09:30:00Z")
    assert spent() == {"person:ben": "$0.20", "person:ada": "$0.10"}
    bench.budgets.set("bens", scope="person", of="ben", max_cost="$0.20", period="day")
    assert spent("bens") == {"person:ben": "$0.10"}


# -- leaving


def test_who_leaves_has_nothing_left(bench: Sandbox) -> None:
    """B23: Sessions, links, tokens, password and open votes end; the name is nobody's; schedules go on."""
    with_schedules(bench)
    ada, secret = joined(bench, "ada")
    joined(bench, "ben")
    acting = bench.acting_as(ada)
    token = acting.tokens.create("laptop")
    acting.add("hers", when="every 1h", agent="scout", prompt="Look")
    link = bench.sessions.create(person="ada").path
    bench.add("deploy", when="1d", agent="scout", prompt="Ship", approval="council_approve",
              approvers=["ada", "ben", "owner"], approvals_required=2)  # fmt: skip
    bench.run("deploy")
    bench.settle()
    (asked,) = bench.approvals.list()
    acting.approvals.approve(asked.id, digest=asked.digest)
    left = bench.people.leave("ada", give_to="ben")
    assert (left.given_to, left.schedules, left.sessions, left.tokens, left.votes) == ("ben", 1, 2, 1, 1)
    verifier = SessionVerifier(bench.store, bench.clock)
    assert verifier.principal_of(secret) is None
    assert verifier.open(code_of(str(link))) is None
    assert TokenVerifier(bench.store, bench.clock).principal_of(token.token) is None
    with closing(SignIn(verifier)) as sign_in, pytest.raises(SignInRefused):
        sign_in.password("ada", PASSWORD, None)
    assert bench.approvals.get(asked.id).votes[0].vote == "withdrawn"
    bench.acting_as(Principal("operator", "ben", person="ben")).approvals.approve(asked.id, digest=asked.digest)
    assert bench.approvals.get(asked.id).state == "pending"
    assert bench.get("hers").state == "active"
    with pytest.raises(Conflict, match='"ada" left'):
        bench.people.set("ada", role="viewer")
    assert bench.people.invite("ada@example.com").person == "ada-2"
    with pytest.raises(NotFound):
        acting.tokens.create("more")
    with pytest.raises(NotFound):
        bench.people.leave("ada")
    data = told(bench, "person.left")[0][1]
    assert (data["person"], data["given_to"], data["schedules"]) == ("ada", "ben", 1)
    assert bench.audit.verify().problems == []


def test_nobody_leaves_who_alone_approves(memory: Sandbox) -> None:
    """B23"""
    with_schedules(memory)
    _, secret = joined(memory, "ada")
    memory.add("deploy", when="1d", agent="scout", prompt="Ship", approval="owner_approve", approvers=["ada"])
    for leaving in (lambda: memory.people.leave("ada"), lambda: memory.people.delete("ada")):
        with pytest.raises(Conflict, match='"deploy" has no other approver'):
            leaving()
    assert SessionVerifier(memory.store, memory.clock).principal_of(secret) is not None
    memory.edit("deploy", approvers=["ada", "owner"])
    memory.people.leave("ada")


def test_a_name_that_was_never_used_is_free_again(memory: Sandbox) -> None:
    """B23"""
    memory.people.set("adda", role="viewer")
    memory.people.delete("adda")
    assert memory.people.set("adda", role="viewer").name == "adda"


def test_a_person_has_one_account_of_a_provider_until_the_address_changes(memory: Sandbox, sign_in: SignIn) -> None:
    """B23: whoever gets an address that was given away before is not the person who had it"""
    memory.sign_in.set(issuer="https://accounts.example.com", client_id="matins")
    memory.people.set("ada", role="operator", email="ada@example.com")

    def whom(subject: str, email: str) -> str | None:
        claims = {"iss": "https://accounts.example.com", "sub": subject, "email": email, "email_verified": True}
        with memory.store.transaction(memory.clock.now_ms()) as transaction:
            person, reason = sign_in.person_of(transaction, claims, memory.clock.now_ms())
        return reason if person is None else person.name

    assert whom("1", "ada@example.com") == "ada"
    assert whom("2", "ada@example.com") == "the person signs in with another account of the provider"
    assert whom("1", "elsewhere@example.com") == "ada"
    memory.people.edit("ada", email="countess@example.com")
    assert whom("1", "ada@example.com") == "no person has this address"
    assert whom("2", "countess@example.com") == "ada"
