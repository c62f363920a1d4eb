"""`matins status`: the first screen, in a terminal of 80 columns."""

from __future__ import annotations

from cli_user import User

from matins.executors.job_context import JobContext
from matins.testing import Sandbox


def fill(bench: Sandbox) -> None:
    """A day with a failure, a quiet night, a run that waits for a person, and one that never fails."""

    @bench.job("flaky")
    def flaky(run: JobContext) -> None:
        if run.slot.hour == 20:
            raise ValueError("the registry answered 503, and then it closed the connection without another word")

    bench.job("fine")(lambda run: None)
    bench.quiet_hours.set("nights", windows=["00:00-06:00"])
    bench.agents.set("ann", runner="demo")
    bench.add("digest", when="0 */4 * * *", job="flaky", agent="ann", retries=0)
    bench.add("triage", when="30 * * * *", job="fine", quiet_hours="nights")
    bench.add("deploy", when="0 12 * * *", job="fine", approval="owner_approve", approval_timeout="9d")
    bench.run_until("2026-03-28T02:10:00Z")


def test_b12_the_first_screen(user: User) -> None:
    """B12: what needs a person, what failed, a day with now in it, and the last slots, in 80 columns"""
    fill(user.bench)
    lines = user.says("status").splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    heads = ["need", "NEEDS YOU", "\nFAILED", " now ", "LAST SLOTS"]
    assert [text.index(head) for head in heads] == sorted(text.index(head) for head in heads)
    assert "the run of deploy" in text
    (failed,) = [line for line in lines if line.startswith("digest")]
    assert "503" in failed
    assert "6h ago" in failed
    assert "matins approvals show" in text


def test_b12_a_day_of_the_timeline(user: User) -> None:
    """B12: what was is left of now, what comes is right of it, and trouble is not hidden by what went well"""
    fill(user.bench)
    lines = user.says("status").splitlines()
    ann, jobs = (next(line for line in lines if line.startswith(f"{lane} ")) for lane in ("ann", "jobs"))
    before, after = ann[14:].split("│")
    assert (before.strip().split(), after.replace(" ", "")) == (["✗", "✓"], "····")
    before, after = jobs[14:].split("│")
    assert before.startswith("◆")  # it has waited since before, and hides what went well there
    assert before.count("✓") == 5
    assert before.count("↷") == 2  # the quiet night
    assert after.lstrip().startswith("↷")
    assert after.count("·") == 13
    hours = next(line for line in lines if " now " in line)
    assert hours.index("now") == ann.index("│")


def test_b12_strips_of_the_last_slots(user: User) -> None:
    """B12 V3: what needs attention first, a mark for each of the last 20 records"""
    fill(user.bench)
    lines = user.says("status").splitlines()
    first = next(n for n, line in enumerate(lines) if "LAST SLOTS" in line)
    strips = {line[22:].split()[0]: line[:20].strip() for line in lines[first + 1 : first + 4]}
    assert list(strips) == ["deploy", "triage", "digest"]
    assert strips["digest"] == "✓✓✗✓"
    assert strips["deploy"] == "◆"
    assert strips["triage"].endswith("✓✓↷↷")
    assert len(strips["triage"]) == 18


def test_nothing_is_scheduled(user: User) -> None:
    """B12: no empty tables; `--json` is the document of the API"""
    assert len(user.says("status").splitlines()) == 1
    assert user.json("status")["summary"] in user.says("status")


def test_a_narrow_terminal(user: User) -> None:
    fill(user.bench)
    lines = user.types("status", columns=50).stdout.splitlines()
    assert max(map(len, lines)) <= 54
