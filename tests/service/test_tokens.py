"""Keys for programs and people. The token itself is shown once and is nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import postgres_fixtures
from matins import Matins
from matins.errors import InvalidInput, NotAllowed, StoreUnavailable
from matins.model.principal import OWNER, Principal
from matins.service.documents import document
from matins.service.tokens import Keys
from matins.testing import Bench, ManualClock

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.url
START = "2026-03-27T08:00:00Z"
HOUR = 3_600_000
VIEWER, ADA = Principal("viewer", "vic"), Principal("operator", "ada")


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    with closing(Bench(url, clock=ManualClock(START))) as made:
        yield made


@pytest.fixture
def memory() -> Iterator[Bench]:
    with closing(Bench(clock=ManualClock(START))) as made:
        yield made


def keys(bench: Bench) -> Keys:
    return Keys(bench.store, bench.clock)


def test_a_token_lets_its_bearer_in_as_whom_it_was_made_for(bench: Bench) -> None:
    made = bench.create_token("laptop", role="operator")
    assert keys(bench).principal_of(made.token) == Principal("operator", "laptop")
    assert (made.role, made.created_by, made.expires_at) == ("operator", "owner", None)


def test_the_form_is_a_prefix_an_id_and_160_random_bits(memory: Bench) -> None:
    tokens = [memory.create_token(f"t{number}") for number in range(50)]
    assert len({made.token for made in tokens}) == len({made.id for made in tokens}) == 50
    for made in tokens:
        prefix, token_id, secret = made.token.split("_")
        assert (prefix, token_id) == ("mtn", made.id)
        assert len(secret) == 32  # of 32 letters: five bits each
        assert set(secret) <= set("abcdefghijklmnopqrstuvwxyz234567")


@pytest.mark.parametrize("change", ["last", "first", "id", "longer", "shorter", "case", "empty", "other", "not ascii"])
def test_whatever_is_not_the_token_opens_nothing(memory: Bench, change: str) -> None:
    token = memory.create_token("laptop").token
    other = memory.create_token("phone").token
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


def test_one_that_is_revoked_opens_nothing_at_once(bench: Bench) -> None:
    made = bench.create_token("laptop")
    opener = keys(bench)
    assert opener.principal_of(made.token) is not None
    assert bench.revoke_token(made.id) is True
    assert opener.principal_of(made.token) is None
    assert bench.revoke_token(made.id) is False
    assert bench.revoke_token("abcdefgh") is False


def test_one_that_expires_opens_nothing_from_then_on(bench: Bench) -> None:
    clock: Any = bench.clock
    made = bench.create_token("laptop", expires_at=clock.now_ms() + HOUR)
    clock.advance(HOUR - 1)
    assert keys(bench).principal_of(made.token) is not None
    clock.advance(1)
    assert keys(bench).principal_of(made.token) is None


def test_when_it_was_used_is_written_once_a_minute(bench: Bench) -> None:
    clock: Any = bench.clock
    made, opener, begun = bench.create_token("laptop"), keys(bench), clock.now_ms()

    def used() -> int | None:
        return bench.tokens()[0].used_at

    assert used() is None
    opener.principal_of(made.token)
    assert used() == begun
    clock.advance(59_000)
    opener.principal_of(made.token)
    assert used() == begun
    clock.advance(1_000)
    opener.principal_of(made.token)
    assert used() == begun + 60_000


def test_a_store_that_cannot_be_written_lets_people_look(memory: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    made = memory.create_token("laptop")

    def full(now: int) -> Any:
        raise StoreUnavailable("There is no room left")

    monkeypatch.setattr(memory.store, "transaction", full)
    assert keys(memory).principal_of(made.token) == Principal("owner", "laptop")


def test_some_of_a_roles_rights(bench: Bench) -> None:
    made = bench.create_token("reporter", role="operator", rights=["read", "run"])
    principal = keys(bench).principal_of(made.token)
    assert principal == Principal("operator", "reporter", rights=frozenset({"read", "run"}))
    bench.job("work")(lambda run: None)
    bench.add("s", when="every 1h", do="work")
    acting = bench.acting_as(principal)
    assert acting.run("s").schedule == "s"
    for refused in (lambda: acting.pause("s"), lambda: acting.edit("s", payload=1), lambda: acting.create_token("x")):
        with pytest.raises(NotAllowed):
            refused()


def test_fewer_rights_are_fewer_also_through_the_owner_of_the_file(tmp_path: Path) -> None:
    """B7: what another process asks for, it asks with the rights that it has."""
    store = f"sqlite:///{tmp_path}/matins.db"
    with Matins(store) as engine, closing(Matins(store)) as other:
        reader = other.acting_as(Principal("owner", "ci", rights=frozenset({"read", "run"})))
        with pytest.raises(NotAllowed):
            reader.create_token("x")
        assert other.acting_as(Principal("owner", "ci")).create_token("y").created_by == "ci"
        assert [token.name for token in other.tokens()] == ["y"]
        engine.stop()
        engine.close()


def test_an_owner_without_the_right_to_govern_sets_no_words_of_the_owners(memory: Bench) -> None:
    """What decides who is asked and what may be spent takes the right to govern, not the name of the role."""
    acting = memory.acting_as(Principal("owner", "ci", rights=frozenset({"read", "change"})))
    memory.job("work")(lambda run: None)
    memory.add("s", when="every 1h", do="work", approval="owner_approve")
    with pytest.raises(NotAllowed, match='Only the owner sets "approval"'):
        acting.edit("s", approval="auto")


@pytest.mark.parametrize("principal", [VIEWER, ADA, Principal("agent", "scout", 7)], ids=lambda who: who.role)
def test_only_the_owner_makes_sees_and_revokes_them(memory: Bench, principal: Principal) -> None:
    made = memory.create_token("laptop")
    acting = memory.acting_as(principal)
    for refused in (lambda: acting.create_token("x"), acting.tokens, lambda: acting.revoke_token(made.id)):
        with pytest.raises(NotAllowed):
            refused()
    assert [token.id for token in memory.tokens()] == [made.id]


def test_nobody_gives_away_more_than_they_have(memory: Bench) -> None:
    """B7: a key with some of the owner's rights does not make one with all of them."""
    acting = memory.acting_as(Principal("owner", "ci", rights=frozenset({"read", "govern"})))
    with pytest.raises(NotAllowed, match="does not have the right to approve"):
        acting.create_token("all")
    assert acting.create_token("some", role="viewer").rights is None


def test_an_agents_token_is_never_more_than_an_agents(memory: Bench) -> None:
    """B7: neither when it is made, nor when the store was changed by hand."""
    for right in ("govern", "approve", "operate"):
        with pytest.raises(InvalidInput, match=f"cannot have the right to {right}"):
            memory.create_token("scout", role="agent", rights=["read", right])
    made = memory.create_token("scout", role="agent")
    connection: Any = memory.store
    connection._connection.execute('UPDATE tokens SET rights = \'["read","govern","approve"]\'')
    principal = keys(memory).principal_of(made.token)
    assert principal is not None
    acting = memory.acting_as(principal)
    with pytest.raises(NotAllowed):
        acting.limit("global", 3)
    assert acting.list() == []


@pytest.mark.parametrize(
    ("words", "field"),
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
def test_what_cannot_be_made(memory: Bench, words: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        memory.create_token(**words)
    assert refused.value.field == field
    assert memory.tokens() == []


def test_the_token_is_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """B7: planted, used and listed, it is in no file, no event, no document and no log line; nor is its secret part."""
    caplog.set_level(0)
    with closing(Bench(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock(START))) as bench:
        made = bench.create_token("laptop", rights=["read", "govern"])
        assert keys(bench).principal_of(made.token) is not None
        bench.backup(tmp_path / "copy.db")
        secret = made.token.rpartition("_")[2]
        said = f"{bench.events()} {document(bench.tokens())} {bench.tokens()} {caplog.text}"
        assert secret not in said
        assert made.id in said
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert {"matins.db", "matins.db-wal", "copy.db"} <= {path.name for path in files}
        for path in files:
            assert secret.encode() not in path.read_bytes(), path
        bench.revoke_token(made.id)
        assert "hash" not in document(bench.tokens())[0]


def test_what_happened_to_tokens_is_told(memory: Bench) -> None:
    made = memory.create_token("laptop", role="viewer")
    memory.revoke_token(made.id)
    told = [(event.type, event.data) for event in memory.events(types=["token.created", "token.revoked"])]
    assert told == [
        ("token.created", {"token": made.id, "name": "laptop", "role": "viewer", "rights": None, "by": "owner"}),
        ("token.revoked", {"token": made.id, "by": "owner"}),
    ]
    assert OWNER.rights is None
