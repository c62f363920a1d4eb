"""The path of a schedule's ping URL is a key: only who governs reads it, by whatever call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from matins import MatinsError
from matins.api.use_case import USE_CASES
from matins.model.access import OWNER, Principal
from matins.surfaces.transports.in_process import InProcess
from matins.testing import ManualClock, Sandbox

KEY = "0f3a-key-17"
URL = f"https://hc.example.com/ping/{KEY}"
GIVEN: dict[str, Any] = {
    "name": "nightly", "run_id": "1", "approval_id": "1", "schedule": "nightly", "when": "1h", "job": "work",
    "at": "2026-03-27T08:30:00Z", "since": "2026-03-27T08:00:00Z",
}  # fmt: skip


def everything_read(principal: Principal) -> dict[str, str]:
    """What each call that only reads says, of those that need no more than names."""
    with Sandbox(clock=ManualClock("2026-03-27T08:00:00Z")) as bench:
        bench.jobs["work"] = lambda run: None
        bench.add("nightly", when="1h", job="work", ping=URL, approval="owner_approve")
        bench.edit("nightly", ping=f"{URL}-2")
        bench.run_until("2026-03-27T09:00:00Z")
        said: dict[str, str] = {}
        for use_case in USE_CASES.values():
            needed = [one.name for one in use_case.parameters.values() if one.required]
            if use_case.method == "GET" and all(name in GIVEN for name in needed):
                try:
                    arguments = {name: GIVEN[name] for name in needed}
                    said[use_case.name] = str(InProcess(bench, principal).document(use_case, arguments))
                except MatinsError:
                    continue  # it is not theirs, or there is none
        return said


@pytest.mark.parametrize("principal", [Principal("viewer", "vera"), Principal("operator", "otto")])
def test_the_path_of_a_ping_is_hidden(principal: Principal) -> None:
    """V6 B14: viewers and operators see where it goes"""
    said = everything_read(principal)
    assert len(said) > 30
    assert [name for name, text in said.items() if KEY in text] == []
    for name in ("schedules.get", "schedules.list", "runs.snapshot", "approvals.get"):
        assert "https://hc.example.com'" in said[name], name


def test_changes_of_it_are_told_without_it() -> None:
    """V6 B14: the address that is and the one that an agent proposes, and one that was taken away"""
    with Sandbox() as bench:
        bench.jobs["work"] = lambda run: None
        bench.agents.set("ann", runner="demo")
        bench.add("nightly", when="1h", job="work", agent="ann", ping=URL)
        ann, host = bench.acting_as(Principal("agent", "ann")), "https://hc.example.com"
        for given, after in ((f"https://hc.example.org/{KEY}", "https://hc.example.org"), (None, None)):
            shown = ann.preview_edit("nightly", ping=given).settings
            assert [(one.before, one.after) for one in shown if one.setting == "ping"] == [(host, after)]
        bench.edit("nightly", ping=None, payload="edited")
        (change, _) = bench.acting_as(Principal("viewer", "vera")).history("nightly")
        assert [(one.setting, one.before, one.after) for one in change.settings] == [
            ("payload", None, "edited"),
            ("ping", host, None),
        ]


def test_the_owner_reads_it() -> None:
    said = everything_read(OWNER)
    assert f"{URL}-2" in said["schedules.get"]
    assert f"{URL}-2" in said["schedules.history"]


def test_the_plan_of_a_file_hides_it_too(tmp_path: Path) -> None:
    """V6: `matins diff` of somebody who may only read"""
    text = f"schedules:\n  nightly: {{ when: 1h, job: work, ping: '{URL}' }}\n"
    (tmp_path / "matins.yaml").write_text(text, encoding="utf-8")
    with Sandbox() as bench:
        bench.jobs["work"] = lambda run: None
        bench.watch_file(tmp_path / "matins.yaml")
        said = {who.role: str(bench.acting_as(who).file.plan()) for who in (OWNER, Principal("viewer", "vera"))}
    assert URL in said["owner"]
    assert KEY not in said["viewer"]
    assert "'https://hc.example.com'" in said["viewer"]
