"""An agent's account is one that the machine of its engine has."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

import postgres_fixtures
from matins.errors import InvalidInput
from matins.testing import Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///{}/matins.db"], ids=["memory", "file"])
def test_an_account_that_is_not_there_is_refused(url: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the machine on which it is missing, and the command that makes it. Nothing is written"""
    with closing(Sandbox(url.format(tmp_path_factory.mktemp("store")))) as m:
        m.agents.set("ann", runner="demo", user="nobody")
        for call, name in ((m.agents.set, "bob"), (m.agents.set, "ann"), (m.agents.edit, "ann")):
            with pytest.raises(InvalidInput) as refused:
                call(name, **({"runner": "demo"} if call == m.agents.set else {}), user="no-such-user")
            assert refused.value.message == f'There is no user "no-such-user" on {socket.gethostname()}.'
            assert (refused.value.field, refused.value.hint) == ("user", "useradd -m no-such-user")
        assert [(agent.name, agent.user) for agent in m.agents.list()] == [("ann", "nobody")]


def test_an_account_that_was_deleted_is_in_nobody_s_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other settings of its agent can be changed, and it can be left out."""
    with closing(Sandbox()) as m:
        with monkeypatch.context() as before:
            before.setattr("matins.service.records.entry_of", lambda user: None)
            m.agents.set("ann", runner="demo", user="no-such-user")
        assert m.agents.edit("ann", max_turns=3).user == "no-such-user"
        assert m.agents.edit("ann", user=None, isolation="none").user is None


def test_engines_on_a_server_may_have_accounts_that_this_machine_has_not(postgres_url: str) -> None:
    with closing(Sandbox(postgres_url)) as m:
        assert m.agents.set("ann", runner="demo", user="no-such-user").user == "no-such-user"
