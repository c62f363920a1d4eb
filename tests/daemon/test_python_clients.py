"""Python clients of a daemon in another process: `AsyncClient`, and the program of docs/library.md. Row B19."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from house import House
from matins import AsyncClient, NotFound

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
PATIENCE = 90


def token(house: House) -> str:
    return (house.home / "token").read_text().strip()


def test_b19_an_async_client_of_a_daemon(shared: House) -> None:
    """B19: add, run, wait, follow, errors, many at once, and a wait that is cancelled"""

    async def main() -> None:
        async with AsyncClient(shared.url, token(shared)) as m:
            await m.agents.set("echo", runner="shell", command=["sh", "-c", "echo done"], isolation="none")
            await m.agents.set("sleeper", runner="shell", command=["sh", "-c", "sleep 600"], isolation="none")
            await m.add("echoed", when="every 1 day", agent="echo", prompt="Go.")
            await m.add("asleep", when="every 1 day", agent="sleeper", prompt="Go.")
            start = (await m.events.list())[-1].id
            slow, quick = await asyncio.gather(m.run("asleep"), m.run("echoed"))
            waiting = asyncio.create_task(m.runs.wait(slow.id))
            assert (await m.runs.wait(quick.id, timeout=PATIENCE)).state == "succeeded"
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            async for event in m.events.follow(run_id=quick.id, after=start):
                if event.type == "run.succeeded":
                    break
            with pytest.raises(NotFound):
                await m.runs.get("99999")
            listed = await asyncio.gather(*(m.runs.list(schedule="echoed") for _ in range(30)))
            assert {runs[0].id for runs in listed} == {quick.id}
            await m.runs.cancel(slow.id)
            assert (await m.runs.wait(slow.id, timeout=PATIENCE)).state == "cancelled"

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_the_client_of_the_page(shared: House, capsys: pytest.CaptureFixture[str]) -> None:
    """B19: as it is on the page, with an address and a token that exist"""
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "import Client" in block]
    shared.ask("agents.set", name="scout", runner="shell", command=["sh", "-c", "echo done"])
    program = example.replace("http://127.0.0.1:7411", shared.url).replace("mtn_…", token(shared))
    assert program != example
    named: dict[str, object] = {}
    exec(program, named)
    named["m"].close()  # type: ignore[attr-defined]
    assert re.fullmatch(r"succeeded 20\d\d-\S+ \S+\n", capsys.readouterr().out)
