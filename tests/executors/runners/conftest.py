"""Stand-ins for the agents' tools."""

from pathlib import Path

import pytest
from driving import TOOLS, Driver

from matins.executors.runners.protocol import Runner


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest) -> Runner:
    return TOOLS[request.param]
