"""Embedding: schedules on functions, programs that start again, and programs with an event loop."""

from __future__ import annotations

import asyncio
import pydoc
import traceback
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from matins import InvalidInput, Matins
from matins.runtime.engine import EngineOptions, EngineSettings
from matins.testing import ManualClock, Sandbox


def test_b8_a_function_with_its_schedule() -> None:
    """B8, B10: with the run or without, sync or async; the function stays itself"""
    m, told = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z")), list[str]()

    @m.schedule("every day at 9am", timezone="Europe/London")
    def plain() -> None:
        told.append("plain")

    @m.schedule("every day at 10am", name="with-run", retries=2)
    def second(run: Any) -> None:
        told.append(run.schedule)

    @m.schedule("every day at 11am")
    async def third() -> None:
        told.append("third")

    plain()
    m.run_until("2026-03-27T12:00:00Z")
    assert told == ["plain", "plain", "with-run", "third"]
    assert (m.get("plain").timezone, m.get("with-run").settings["retries"]) == ("Europe/London", 2)


def test_b8_a_program_that_starts_again(tmp_path: Path) -> None:
    """B8: nothing changes; another time changes the schedule and keeps its history"""
    clock, url = ManualClock("2026-03-27T08:00:00Z"), f"sqlite:///{tmp_path}/m.db"
    for when in ("every day at 9am", "every day at 9am", "every day at 10am"):
        m = Sandbox(url, clock=clock)
        m.schedule(when, name="report")(lambda: None)
        rev = m.get("report").rev
        m.run_until("2026-03-27T09:00:00Z")
        m.engine.close()
        m.close()
        assert rev == (2 if when == "every day at 10am" else 1)
    m = Sandbox(url, clock=clock)
    assert [run.state for run in m.runs.list()] == ["succeeded"]
    assert m.get("report").trigger_text == "every day at 10:00"
    m.engine.close()
    m.close()


def test_b8_a_program_with_an_event_loop() -> None:
    """B8: the loop goes on while Matins starts, calls and stops"""

    async def main() -> tuple[str, list[str]]:
        m, turns = Matins("sqlite://"), list[str]()

        @m.schedule("every hour")
        async def tidy() -> str:
            return "tidied"

        async with m:
            asyncio.get_running_loop().call_soon(turns.append, "the loop went on")
            run = await m.awaitable.run("tidy")
            ended = await m.awaitable.runs.wait(run.id, timeout=60)
            listed = await m.awaitable.list()
        assert [item.name for item in listed] == ["tidy"]
        return ended.state, turns

    assert asyncio.run(main()) == ("succeeded", ["the loop went on"])


def test_b19_what_a_person_sees_of_a_mistake_and_of_help() -> None:
    """B19: a traceback ends with the hint; `help` has every setting, with its meaning"""
    assert get_type_hints(EngineSettings) == get_type_hints(EngineOptions)
    with pytest.raises(InvalidInput, match='"thread"') as caught:
        Matins("sqlite://", thread=4)  # type: ignore[call-arg]
    assert "threads" in str(caught.value.hint)
    m = Sandbox()
    with pytest.raises(InvalidInput) as caught:
        m.add("a", when="every day at 25pm", job="work")
    shown = "".join(traceback.format_exception(caught.value)).splitlines()
    assert shown[-2].startswith("matins.errors.PhraseError: ")
    assert shown[-1].startswith("Hint: ")
    text = pydoc.plain(pydoc.render_doc(Matins.add))
    for line in ("Add a schedule.", "`connection` is a connection of psycopg 3", "retries: Number of retries after a"):
        assert line in text
    assert text.index("psycopg") < text.index("Settings:") < text.index("retries:")
    assert "Start a run now" in pydoc.plain(pydoc.render_doc(Matins.run))
    assert {"add", "runs", "awaitable", "quiet_hours", "schedule"} <= set(dir(m))
    m.engine.close()
    m.close()
