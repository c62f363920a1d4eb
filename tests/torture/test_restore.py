"""A store that is set back to older copies of itself while engines are killed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from restorer import Restorer
from stage import Stage
from theatre import Cover, Theatre

_LIVES = 6


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_called_done_was_done_whatever_was_restored(tmp_path: Path, seed: int) -> None:
    """B8, S7: other slots get the ids of runs, but no slot gets another's key, result or end."""
    rng, folder = Random(seed), tmp_path / "stage"
    folder.mkdir()
    restorer = Restorer(Theatre(Stage("main", f"sqlite:///{tmp_path}/main.db", folder, few=True), Cover()), str(seed))
    restorer.set_stage()
    for number in range(_LIVES):
        restorer.live()
        if rng.random() < 0.4 and number < _LIVES - 1:
            restorer.save()
        else:
            restorer.restore()
    done, wrong = restorer.check()
    assert wrong == []
    assert done > 10
