"""The variables that tell a process of an agent which run it is, and how it reaches Matins."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from matins.executors.runners.protocol import RunInfo

IN_RUN, URL, TOKEN = "MATINS_IN_RUN", "MATINS_URL", "MATINS_TOKEN"
_PROGRAMS = str(Path(__file__).with_name("bin"))
"""The folder that has `matins` and nothing else: an agent must not find the `pip` of Matins' own environment."""


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


def with_own_program(path: str | None) -> Mapping[str, str]:
    """The variables with which a process finds `matins`, after all programs of its own PATH."""
    return {"PATH": os.pathsep.join([path or os.defpath, _PROGRAMS]), "MATINS_PYTHON": sys.executable}
