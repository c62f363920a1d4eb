"""The variables that tell a process of an agent which run it is, and how it reaches Matins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from matins.executors.runners.protocol import RunInfo

IN_RUN, URL, TOKEN = "MATINS_IN_RUN", "MATINS_URL", "MATINS_TOKEN"


class Address(NamedTuple):
    """How a run reaches Matins."""

    url: str
    token: str


def run_variables(run: RunInfo, agent: str, address: Address | None) -> Mapping[str, str]:
    """The variables of a run. Without an address, as in a library without a server, the run cannot call Matins."""
    variables = {
        IN_RUN: "1",
        "MATINS_RUN_ID": str(run.run_id),
        "MATINS_SCHEDULE": run.schedule,
        "MATINS_AGENT": agent,
        "MATINS_SLOT": run.slot or "",
        "MATINS_ATTEMPT": str(run.attempt),
        "MATINS_KEY": run.key,
    }
    return variables if address is None else {**variables, URL: address.url, TOKEN: address.token}
