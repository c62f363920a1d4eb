"""How long a follower of events waits for a daemon that is gone."""

from __future__ import annotations

import pytest

from matins.errors import StoreUnavailable
from matins.surfaces.transports.http_client import Daemon, Patience

REFUSED = ConnectionRefusedError("refused")
RESET = ConnectionResetError("reset")


def followed() -> Patience:
    """It has heard something at 1,000 seconds."""
    patience = Patience(Daemon("http://127.0.0.1:7411", None))
    patience.heard(1_000.0)
    return patience


def given_up(patience: Patience, error: Exception, now: float) -> tuple[float, str]:
    """When it gives up, and what it says, if all tries from now on fail in this way."""
    while True:
        try:
            now += patience.wait_s(error, now)
        except StoreUnavailable as told:
            return now, told.message


def test_a_daemon_that_was_stopped_is_given_up_in_seconds() -> None:
    """S7: its stream ends in order, and then nobody listens. A restart takes less."""
    patience = followed()
    now, told = given_up(patience, REFUSED, 1_000.0 + patience.wait_s(None, 1_000.0))
    assert 1_005.0 <= now <= 1_007.0
    assert told == "The daemon at http://127.0.0.1:7411 has stopped."


def test_a_daemon_that_listens_again_is_waited_for() -> None:
    """S7: nobody listens for a while, then it answers that its store is not there yet, and so on."""
    patience, now = followed(), 1_000.0
    for error in [REFUSED] * 5 + [StoreUnavailable("not yet")] + [REFUSED] * 5:
        now += patience.wait_s(error, now)
    assert now > 1_005.0
    patience.heard(now)
    assert patience.wait_s(REFUSED, now) < 1.0


def test_a_network_that_fails_is_waited_for_longer() -> None:
    """S7: what cuts connections off may pass by, and nobody has stopped the daemon."""
    now, told = given_up(followed(), RESET, 1_000.0)
    assert 1_020.0 <= now <= 1_060.0
    assert told == "No daemon answers at http://127.0.0.1:7411: reset."
    now, _ = given_up(followed(), TimeoutError(), 1_045.0)
    assert now <= 1_061.0


@pytest.mark.parametrize("error", [REFUSED, RESET])
def test_the_first_connection_must_succeed(error: Exception) -> None:
    """S7"""
    with pytest.raises(StoreUnavailable, match="No daemon answers"):
        Patience(Daemon("http://127.0.0.1:7411", None)).wait_s(error, 1_000.0)
