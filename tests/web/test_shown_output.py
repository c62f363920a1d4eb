"""The output of a run: as it comes, as a transcript, and what it wrote to stderr."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from page_server import Browsing, PageServer
from playwright.sync_api import expect

YEARLY = "0 0 1 1 *"


def test_output_follows_a_run_until_its_end(
    server: PageServer, browse: Callable[..., Browsing], tmp_path: Path
) -> None:
    """Lines appear while the run writes them, with what they hide written out; its end appears by itself."""
    m, gate = server.matins, tmp_path / "gate"
    script = f"printf 'one\\033[2J\\n'; while ! test -e {gate}; do sleep 0.05; done; echo two"
    m.agents.set("writer", runner="shell", command=["sh", "-c", script])
    m.add("slow", when=YEARLY, agent="writer", prompt="x")
    page = browse().sign_in().page()
    page.goto(f"/runs/{m.run('slow').id}")
    expect(page.locator("#out")).to_contain_text("oneESC[2J")
    gate.touch()
    expect(page.locator("#out")).to_contain_text("two")
    expect(page.locator(".state-panel h2")).to_have_text("Succeeded")


def test_b4_output_of_a_tool_is_read_as_a_transcript(
    server: PageServer, browse: Callable[..., Browsing], tmp_path: Path
) -> None:
    """B4: words, calls and results of an agent's tool while it runs, pieces of a message as one; raw has the bytes."""
    (recorded,) = (Path(__file__).parents[1] / "recordings").glob("goose-*/tool_call.out")
    head, middle, rest = recorded.read_text("utf-8").partition('"text":"te"')
    first, last, gate = tmp_path / "first", tmp_path / "last", tmp_path / "gate"
    cut = head.rfind("\n") + 1
    first.write_text(head[:cut], "utf-8")
    last.write_text(head[cut:] + middle + rest, "utf-8")
    m = server.matins
    script = f"cat {first}; while ! test -e {gate}; do sleep 0.05; done; cat {last}"
    m.agents.set("writer", runner="shell", command=["sh", "-c", script])
    m.add("talk", when=YEARLY, agent="writer", prompt="x")
    page = browse().sign_in().page()
    run_id = m.run("talk").id
    page.goto(f"/runs/{run_id}")
    expect(page.locator("#out .entry-call")).to_contain_text("write /home/ann/work/tool_call/greeting.txt")
    expect(page.locator("#out .entry-words")).to_have_text("Writ")
    gate.touch()
    expect(page.locator("#out .entry-words")).to_have_text("Written.")
    expect(page.locator("#out .entry-note")).to_have_text("Ended, 3,468 tokens")
    page.get_by_role("link", name="Raw").click()
    expect(page.locator("#out")).to_contain_text('"type":"toolRequest"')


def test_b4_a_run_that_wrote_to_stderr_only_shows_that(server: PageServer, browse: Callable[..., Browsing]) -> None:
    """B4: a failing command mostly writes nowhere else."""
    m = server.matins
    m.agents.set("failing", runner="shell", command=["sh", "-c", "echo 'no such table' >&2; exit 1"])
    m.add("report", when="every 1 day", agent="failing", prompt="x")
    run = m.runs.wait(m.run("report").id, timeout=60)
    page = browse().sign_in().page()
    page.goto(f"/runs/{run.id}")
    expect(page.get_by_role("log")).to_have_text("no such table")
    page.get_by_role("link", name="Output").click()
    expect(page.get_by_text("It wrote nothing to stdout.")).to_be_visible()
