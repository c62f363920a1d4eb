"""An office whose agents call a server that stands in for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from office import Office

from matins import Run
from standins.endpoint import Endpoint

KEY = "sk-4711-very-secret"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def office(tmp_path: Path, endpoint: Endpoint) -> Iterator[Office]:
    made = Office(f"sqlite:///{tmp_path}/matins.db")
    made.matins.allowed_hosts.set(hosts=[f"127.0.0.1:{endpoint.port}"])
    with made.matins:
        yield made
    made.matins.close()


def ask(office: Office, endpoint: Endpoint, prompt: str, schedule: dict[str, Any] | None = None, **agent: Any) -> int:
    """Begin to wake somebody who is called; the run."""
    m = office.matins
    m.agents.set("ann", **{"runner": "openai", "model": "m", "url": endpoint.url, **agent})
    m.add("s", when="every day at 09:00", agent="ann", prompt=prompt, **(schedule or {}))
    return m.run("s").id


def asked(office: Office, endpoint: Endpoint, prompt: str, schedule: dict[str, Any] | None = None, **agent: Any) -> Run:
    ask(office, endpoint, prompt, schedule, **agent)
    return office.wait("s")
