"""A payload comes back as it was given, or is refused with where JSON cannot hold it."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from matins import Matins
from matins.errors import InvalidInput
from matins.testing import ManualClock, Sandbox


@dataclass
class Point:
    x: int = 1


class Colour(Enum):
    RED = "red"


KEPT = [None, True, 0, -7, 1.5, "text", "", [], {}, [1, [2, {"a": None}]], {"a": {"b": [1.0, "x", False]}}]
REFUSED: dict[str, tuple[Any, str]] = {
    "datetime": (datetime(2026, 1, 1, tzinfo=UTC), "a value of type datetime at payload"),
    "date": ({"on": date(2026, 1, 1)}, "a value of type date at payload.on"),
    "time": ([time(9)], "a value of type time at payload[0]"),
    "timedelta": (timedelta(1), "a value of type timedelta at payload"),
    "UUID": ({"a": [{"id": uuid.UUID(int=7)}]}, "a value of type UUID at payload.a[0].id"),
    "tuple": ((1, 2), "a value of type tuple at payload"),
    "inner tuple": ({"a": {"b": (1,)}}, "a value of type tuple at payload.a.b"),
    "set": ({1, 2}, "a value of type set at payload"),
    "bytes": (b"x", "a value of type bytes at payload"),
    "Decimal": (Decimal("1.5"), "a value of type Decimal at payload"),
    "dataclass": (Point(), "a value of type Point at payload"),
    "enum": (Colour.RED, "a value of type Colour at payload"),
    "NaN": ({"a": [math.nan]}, "nan"),
    "infinity": (-math.inf, "-inf"),
    "number as key": ({"a": {1: 2}}, "the key 1 in payload.a"),
    "None as key": ({None: 1}, "the key None in payload"),
    "tuple as key": ({(1,): 2}, "the key (1,) in payload"),
}


@pytest.fixture
def bench() -> Iterator[Sandbox]:
    with closing(Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))) as made:
        yield made


@pytest.mark.parametrize("payload", KEPT, ids=repr)
def test_a_payload_comes_back_as_it_was(bench: Sandbox, payload: Any) -> None:
    """To the job, and to who reads the schedule"""
    seen: list[Any] = []
    bench.job("work")(lambda run: seen.append(run.payload))
    bench.add("s", when="every 1h", job="work", payload=payload)
    bench.run("s")
    bench.run_until("2026-03-27T08:00:01Z")
    assert repr(seen) == repr([payload])
    assert bench.get("s").settings.get("payload") == payload


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("way", ["add", "add_many", "edit", "steps"])
def test_what_json_does_not_have_is_refused(bench: Sandbox, way: str, case: str) -> None:
    """Also in a step, with where it is and what to use"""
    payload, what = REFUSED[case]
    bench.job("work")(lambda run: None)
    bench.add("there", when="every 1h", job="work", payload={"kept": 1})
    words = {"when": "every 1h", "job": "work", "payload": payload}
    ways: dict[str, Callable[[], object]] = {
        "add": lambda: bench.add("s", **words),
        "add_many": lambda: bench.add_many([{"name": "s", **words}]),
        "edit": lambda: bench.edit("there", payload=payload),
        "steps": lambda: bench.add("s", when="every 1h", steps=[{"title": "One", "job": "work", "payload": payload}]),
    }
    with pytest.raises(InvalidInput) as told:
        ways[way]()
    assert what in told.value.message
    assert "which JSON does not have" in told.value.message
    assert [one.name for one in bench.list()] == ["there"]
    assert bench.get("there").settings["payload"] == {"kept": 1}


@pytest.mark.parametrize("case", ["datetime", "UUID", "tuple", "inner tuple", "set", "dataclass", "NaN"])
def test_a_client_refuses_it_before_it_is_sent(tmp_path: Path, case: str) -> None:
    """The way to the owner of the file is JSON, which would make text or a list of it"""
    payload, what = REFUSED[case]
    with (
        Matins(f"sqlite:///{tmp_path}/matins.db") as owner,
        closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as other,
    ):
        owner.job("work")(lambda run: None)
        with pytest.raises(InvalidInput, match="JSON does not have") as told:
            other.add("s", when="every 1h", job="work", payload=payload)
        assert what in told.value.message
        assert owner.list() == []


def test_show_counts_runs_by_hand(bench: Sandbox) -> None:
    """Beside those of slots; a list does not count them"""
    bench.job("work")(lambda run: None)
    bench.add("s", when="every 1h", job="work")
    bench.run("s")
    bench.run_until("2026-03-27T08:00:01Z")
    bench.run("s")
    bench.run_until("2026-03-27T09:00:00Z")
    found = bench.get("s")
    assert (found.executions, found.manual_runs) == (1, 2)
    assert bench.list()[0].manual_runs is None
