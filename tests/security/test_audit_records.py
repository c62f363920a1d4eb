"""Tokens and pruning are bound to the log: what is changed beside it is found."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from security_cast import Open, Watched, at

DAY = 86_400_000
FORGED = {
    "a role": ("UPDATE tokens SET role = 'owner'", "Token {} was changed after it was created."),
    "rights": ("UPDATE tokens SET rights = NULL", "Token {} was changed after it was created."),
    "a longer life": ("UPDATE tokens SET expires_at = NULL", "Token {} was changed after it was created."),
    "a revocation": ("UPDATE tokens SET revoked_at = NULL", "Token {} was revoked, and is valid again."),
    "another hash": ("UPDATE tokens SET hash = 'x'", "Token {} was changed after it was created."),
    "a new token": ("UPDATE tokens SET id = 'abcdefgh'", "Token abcdefgh is not in the log."),
}


@pytest.fixture
def bench(tmp_path: Path, open_bench: Open) -> Watched:
    return open_bench(f"sqlite:///{tmp_path}/matins.db", history_days=30)


def forge(bench: Watched, sql: str) -> None:
    connection = apsw.Connection(str(bench.store.path))
    connection.execute(sql)
    connection.close()


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("what", FORGED)
def test_b16_a_token_that_was_changed_in_the_store_is_found(bench: Watched, what: str, pruned: bool) -> None:
    """B16: also when the event of its creation is pruned"""
    made = bench.tokens.create("ci", role="agent", rights=["read"], expires_at=at("09:00"))
    bench.tokens.revoke(made.id)
    if pruned:
        bench.clock.advance(60 * DAY)
        bench.settle()
        bench.add("s", when="5 * * * *", job="work")
        bench.settle()
    assert bench.audit.verify().problems == []
    sql, problem = FORGED[what]
    forge(bench, sql)
    assert bench.audit.verify().problems == [problem.format(made.id)]


def test_b16_a_forged_pruning_is_found(bench: Watched) -> None:
    """B16: whoever deletes the first events, and says that they were pruned"""
    bench.tokens.create("ci")
    bench.add("s", when="5 * * * *", job="work")
    bench.settle()
    assert bench.audit.verify().problems == []
    forge(
        bench,
        "UPDATE writers SET pruned_seq = 1,"
        " pruned_hash = (SELECT hash FROM events WHERE writer = writers.id AND seq = 1);"
        "DELETE FROM events WHERE seq = 1",
    )
    problems = bench.audit.verify().problems
    assert problems
    assert "are gone, and the log does not say so" in problems[0]
