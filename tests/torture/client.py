"""What people and programs do to schedules while engines come and go."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from cast import BROKEN, EDITED, EVERY, MANUAL, PAUSED, STEPS
from diary import Diary

from matins import Matins
from matins.errors import Conflict, NotFound

_ACTS = 6
_KEYS = 400


def play(matins: Matins, rng: Random, diary: Diary) -> None:
    """A few acts; what is promised is told, so that it can be held against the store afterwards."""
    for _ in range(_ACTS):
        act = rng.choice(_CHOICES)
        try:
            act(matins, rng, diary)
        except (Conflict, NotFound) as error:
            diary.tell("refused", error=str(error))  # another client was quicker


def run_by_key(matins: Matins, rng: Random, diary: Diary) -> None:
    """The same keys are used again and again: each stands for one run."""
    key = f"key-{rng.randrange(_KEYS)}"
    diary.tell("promised_run", key=key, run=int(matins.run(MANUAL, key=key).id))


def add(matins: Matins, rng: Random, diary: Diary) -> None:
    name = f"added-{rng.randrange(6)}"
    made = matins.add(name, when=EVERY, job="work", catch_up="run_once")
    diary.tell("promised_schedule", schedule=int(made.id))


def delete(matins: Matins, rng: Random, diary: Diary) -> None:
    matins.delete(f"added-{rng.randrange(6)}")


def pause(matins: Matins, rng: Random, diary: Diary) -> None:
    matins.pause(rng.choice(PAUSED), note="torture")


def resume(matins: Matins, rng: Random, diary: Diary) -> None:
    matins.resume(rng.choice(PAUSED))


def edit(matins: Matins, rng: Random, diary: Diary) -> None:
    matins.edit(rng.choice(EDITED), payload={"ms": rng.choice((0, 50, 300))})


def cancel(matins: Matins, rng: Random, diary: Diary) -> None:
    for run in matins.runs.list(schedule=rng.choice(("queue", "skip", STEPS, BROKEN, *PAUSED)), limit=5):
        if run.live:
            matins.runs.cancel(run.id)
            return


def retry(matins: Matins, rng: Random, diary: Diary) -> None:
    """Steps that succeeded are carried over into a run of its own."""
    for run in matins.runs.list(schedule=BROKEN, state="failed", limit=5):
        key = f"again-{rng.randrange(_KEYS)}"
        again = matins.runs.retry(run.id, from_step=rng.choice((None, "Try")), key=key)
        diary.tell("promised_run", key=key, run=int(again.id))
        return


def look(matins: Matins, rng: Random, diary: Diary) -> None:
    matins.list(limit=3)
    matins.get("queue")


_CHOICES: tuple[Callable[[Matins, Random, Diary], None], ...] = (
    run_by_key,
    run_by_key,
    add,
    delete,
    pause,
    resume,
    resume,
    edit,
    cancel,
    retry,
    look,
)
