"""Hints of people and runs that have no token, a wrong one, or one that may not."""

from __future__ import annotations

import pytest
from cli_daemon import served
from cli_user import User

from matins.errors import NotAllowed
from matins.surfaces.cli.context import exit_code
from matins.surfaces.transports.http_client import Http
from matins.testing import Sandbox

OWNER = "The owner creates one where the daemon runs: matins tokens create NAME"


@pytest.mark.parametrize(
    ("token", "says"),
    [(None, "Authentication is required."), ("mtn_no_such", "The token is invalid, expired or revoked.")],
)
def test_b10_without_a_valid_token_the_hint_leads_to_the_owner(
    bench: Sandbox, user: User, monkeypatch: pytest.MonkeyPatch, token: str | None, says: str
) -> None:
    """B10: `matins tokens create` would need a token itself, from here"""
    with served(bench) as client:
        stranger = Http(client.url, token)
        monkeypatch.setattr(user.app, "transport", lambda **location: stranger)
        said = user.complains("list", code=4)
        stranger.close()
    assert says in said
    assert OWNER in said


def test_b10_a_run_is_not_sent_to_another_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """B10: a process of a run may use no other one"""

    def refuse() -> None:
        raise NotAllowed("no")

    assert exit_code(refuse) == 4
    assert "--token TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("MATINS_IN_RUN", "1")
    assert exit_code(refuse) == 4
    told = capsys.readouterr().err
    assert "Ask the owner" in told
    assert "--token" not in told
