"""Keys for programs and people. The token itself is shown once and is nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import postgres_fixtures
from matins import Matins
from matins.api.codec import to_document
from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput, NotAllowed, StoreUnavailable
from matins.model.access import OWNER, Principal
from matins.service.tokens import TokenVerifier
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url
START = "2026-03-27T08:00:00Z"
HOUR = 3_600_000
VIEWER, ADA = Principal("viewer", "vic"), Principal("operator", "ada")


@pytest.fixture
def bench(url: str) -> Iterator[Sandbox]:
    with closing(Sandbox(url, clock=ManualClock(START))) as made:
        yield made


@pytest.fixture
def memory() -> Iterator[Sandbox]:
    with closing(Sandbox(clock=ManualClock(START))) as made:
        yield made


def keys(bench: Sandbox) -> TokenVerifier:
    return TokenVerifier(bench.store, bench.clock)


def test_a_token_lets_its_bearer_in_as_whom_it_was_made_for(bench: Sandbox) -> None:
    made = bench.tokens.create("laptop", role="operator")
    assert keys(bench).principal_of(made.token) == Principal("operator", "laptop")
    assert (made.role, made.created_by, made.expires_at) == ("operator", "owner", None)


def test_the_form_is_a_prefix_an_id_and_160_random_bits(memory: Sandbox) -> None:
    tokens = [memory.tokens.create(f"t{number}") for number in range(50)]
    assert len({made.token for made in tokens}) == len({made.id for made in tokens}) == 50
    for made in tokens:
        prefix, token_id, secret = made.token.split("_")
        assert (prefix, token_id) == ("mtn", made.id)
        assert len(secret) == 32  # of 32 letters: five bits each
        assert set(secret) <= set("abcdefghijklmnopqrstuvwxyz234567")


@pytest.mark.parametrize("change", ["last", "first", "id", "longer", "shorter", "case", "empty", "other", "not ascii"])
def test_whatever_is_not_the_token_opens_nothing(memory: Sandbox, change: str) -> None:
    token = memory.tokens.create("laptop").token
    other = memory.tokens.create("phone").token
    wrong = {
        "last": token[:-1] + ("a" if token[-1] != "a" else "b"),
        "first": token[:13] + ("a" if token[13] != "a" else "b") + token[14:],
        "id": other[:13] + token[13:],
        "longer": token + "a",
        "shorter": token[:-1],
        "case": token.upper(),
        "empty": "",
        "other": "Bearer " + token,
        "not ascii": token[:-1] + "\udcff",
    }[change]
    assert keys(memory).principal_of(wrong) is None
    assert keys(memory).principal_of(token) is not None


def test_one_that_is_revoked_opens_nothing_at_once(bench: Sandbox) -> None:
    made = bench.tokens.create("laptop")
    opener = keys(bench)
    assert opener.principal_of(made.token) is not None
    assert bench.tokens.revoke(made.id) is True
    assert opener.principal_of(made.token) is None
    assert bench.tokens.revoke(made.id) is False
    assert bench.tokens.revoke("abcdefgh") is False


def test_one_that_expires_opens_nothing_from_then_on(bench: Sandbox) -> None:
    clock: Any = bench.clock
    made = bench.tokens.create("laptop", expires_at=clock.now_ms() + HOUR)
    clock.advance(HOUR - 1)
    assert keys(bench).principal_of(made.token) is not None
    clock.advance(1)
    assert keys(bench).principal_of(made.token) is None


def test_when_it_was_used_is_written_once_a_minute(bench: Sandbox) -> None:
    clock: Any = bench.clock
    made, opener, begun = bench.tokens.create("laptop"), keys(bench), clock.now_ms()

    def used() -> int | None:
        at = bench.tokens.list()[0].used_at
        return None if at is None else to_ms(at)

    assert used() is None
    opener.principal_of(made.token)
    assert used() == begun
    clock.advance(59_000)
    opener.principal_of(made.token)
    assert used() == begun
    clock.advance(1_000)
    opener.principal_of(made.token)
    assert used() == begun + 60_000


def test_a_store_that_cannot_be_written_lets_people_look(memory: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    made = memory.tokens.create("laptop")

    def full(now: int) -> Any:
        raise StoreUnavailable("There is no room left")

    monkeypatch.setattr(memory.store, "transaction", full)
    assert keys(memory).principal_of(made.token) == Principal("owner", "laptop")


def test_some_of_a_roles_rights(bench: Sandbox) -> None:
    made = bench.tokens.create("reporter", role="operator", rights=["read", "run"])
    principal = keys(bench).principal_of(made.token)
    assert principal == Principal("operator", "reporter", rights=frozenset({"read", "run"}))
    bench.job("work")(lambda run: None)
    bench.add("s", when="every 1h", job="work")
    acting = bench.acting_as(principal)
    assert acting.run("s").schedule == "s"
    for refused in (lambda: acting.pause("s"), lambda: acting.edit("s", payload=1), lambda: acting.tokens.create("x")):
        with pytest.raises(NotAllowed):
            refused()


def test_fewer_rights_are_fewer_also_through_the_owner_of_the_file(tmp_path: Path) -> None:
    """B7: through the socket only the owner acts, so that no process can say of itself who it is."""
    store = f"sqlite:///{tmp_path}/matins.db"
    with Matins(store) as engine, closing(Matins(store)) as other:
        for principal in (Principal("owner", "ci", rights=frozenset({"read", "run"})), Principal("owner", "ci"), ADA):
            with pytest.raises(NotAllowed, match="Only the owner can act beside the engine of another process") as told:
                other.acting_as(principal).tokens.create("x")
            assert "matins tokens create" in str(told.value.hint)
        assert other.tokens.create("y").created_by == "owner"
        assert [token.name for token in other.tokens.list()] == ["y"]
        engine.stop()
        engine.close()


def test_an_owner_without_the_right_to_govern_sets_no_settings_of_the_owners(memory: Sandbox) -> None:
    """What decides who is asked and what may be spent takes the right to govern, not the name of the role."""
    acting = memory.acting_as(Principal("owner", "ci", rights=frozenset({"read", "change"})))
    memory.job("work")(lambda run: None)
    memory.add("s", when="every 1h", job="work", approval="owner_approve")
    with pytest.raises(NotAllowed, match='Only the owner can set "approval"'):
        acting.edit("s", approval="auto")


@pytest.mark.parametrize("principal", [VIEWER, ADA, Principal("agent", "scout", 7)], ids=lambda who: who.role)
def test_only_the_owner_makes_sees_and_revokes_them(memory: Sandbox, principal: Principal) -> None:
    made = memory.tokens.create("laptop")
    acting = memory.acting_as(principal)
    for refused in (lambda: acting.tokens.create("x"), acting.tokens.list, lambda: acting.tokens.revoke(made.id)):
        with pytest.raises(NotAllowed):
            refused()
    assert [token.id for token in memory.tokens.list()] == [made.id]


def test_nobody_gives_away_more_than_they_have(memory: Sandbox) -> None:
    """B7: a key with some of the owner's rights does not make one with all of them."""
    acting = memory.acting_as(Principal("owner", "ci", rights=frozenset({"read", "govern"})))
    with pytest.raises(NotAllowed, match='does not have the right "approve"'):
        acting.tokens.create("all")
    assert acting.tokens.create("some", role="viewer").rights is None


def test_an_agents_token_is_never_more_than_an_agents(memory: Sandbox) -> None:
    """B7: neither when it is made, nor when the store was changed by hand."""
    for right in ("govern", "approve", "operate"):
        with pytest.raises(InvalidInput, match=f'cannot have the right "{right}"'):
            memory.tokens.create("scout", role="agent", rights=["read", right])
    made = memory.tokens.create("scout", role="agent")
    connection: Any = memory.store
    connection._connection.execute('UPDATE tokens SET rights = \'["read","govern","approve"]\'')
    principal = keys(memory).principal_of(made.token)
    assert principal is not None
    acting = memory.acting_as(principal)
    with pytest.raises(NotAllowed):
        acting.limits.set("global", size=3)
    assert acting.list() == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x", "role": "root"}, "role"),
        ({"name": "x", "rights": []}, "rights"),
        ({"name": "x", "rights": ["fly"]}, "rights"),
        ({"name": "x", "role": "viewer", "rights": ["run"]}, "rights"),
        ({"name": "x", "expires_at": 5}, "expires_at"),
        ({"name": "x", "expires_at": "soon"}, "expires_at"),
    ],
    ids=str,
)
def test_what_cannot_be_made(memory: Sandbox, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        memory.tokens.create(**arguments)
    assert refused.value.field == field
    assert memory.tokens.list() == []


def test_the_token_is_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """B7: planted, used and listed, it is in no file, no event, no document and no log line; nor is its secret part."""
    caplog.set_level(0)
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock(START))) as bench:
        made = bench.tokens.create("laptop", rights=["read", "govern"])
        assert keys(bench).principal_of(made.token) is not None
        bench.system.backup(tmp_path / "copy.db")
        secret = made.token.rpartition("_")[2]
        said = f"{bench.events.list()} {to_document(bench.tokens.list())} {bench.tokens.list()} {caplog.text}"
        assert secret not in said
        assert made.id in said
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert {"matins.db", "matins.db-wal", "copy.db"} <= {path.name for path in files}
        for path in files:
            assert secret.encode() not in path.read_bytes(), path
        bench.tokens.revoke(made.id)
        assert "hash" not in to_document(bench.tokens.list())[0]


def test_what_happened_to_tokens_is_told(memory: Sandbox) -> None:
    made = memory.tokens.create("laptop", role="viewer")
    memory.tokens.revoke(made.id)
    events = memory.events.list(types=["token.created", "token.revoked"])
    told = [(event.type, {name: value for name, value in event.data.items() if name != "digest"}) for event in events]
    assert told == [
        (
            "token.created",
            {"token": made.id, "name": "laptop", "role": "viewer", "rights": None, "person": None, **OWNER.signed},
        ),
        ("token.revoked", {"token": made.id, **OWNER.signed}),
    ]
    assert OWNER.rights is None
