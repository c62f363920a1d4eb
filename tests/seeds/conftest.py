from collections.abc import Iterator
from pathlib import Path

import pytest
from polpo_bench import Polpo

from matins.testing import ManualClock


@pytest.fixture
def polpo(tmp_path: Path) -> Iterator[Polpo]:
    made = Polpo(f"sqlite:///{tmp_path}/polpo.db", clock=ManualClock("2026-06-29T00:00:00Z"))
    yield made
    made.close()
