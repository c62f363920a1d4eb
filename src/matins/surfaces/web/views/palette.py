"""`/ui/palette`: what a typed text may mean: a view, an action, a record."""

from __future__ import annotations

from typing import NamedTuple

from matins.surfaces.web.paths import full_name, schedule_path
from matins.surfaces.web.visit import Page, Visit


class Entry(NamedTuple):
    group: str
    icon: str
    text: str
    path: str
    key: str = ""


_GO = [
    Entry("Go to", "now", "Now", "/", "G N"),
    Entry("Go to", "sched", "Schedules", "/schedules", "G S"),
    Entry("Go to", "play", "Runs", "/runs", "G R"),
    Entry("Go to", "inbox", "Approvals", "/approvals", "G A"),
    Entry("Go to", "graph", "Missions", "/missions", "G M"),
    Entry("Go to", "pulse", "Events", "/events", "G E"),
    Entry("Go to", "agent", "Agents", "/agents"),
    Entry("Go to", "gear", "Settings", "/settings"),
    Entry("Actions", "new", "New schedule…", "/schedules/new", "C"),
    Entry("Go to", "ok", "Getting started", "/welcome"),
]
_SCHEDULES = 500
_SHOWN = 8


def palette(visit: Visit) -> Page:
    text = visit.query.get("q", "").strip().lower()
    found = [entry for entry in _GO if text in entry.text.lower()]
    if text:
        found += _schedules(visit, text)
        if text.removeprefix("run ").isdigit():
            number = text.removeprefix("run ")
            found.append(Entry("Runs", "play", f"Run {number}", f"/runs/{number}"))
    return Page("_palette.html", "Search", {"entries": found})


def _schedules(visit: Visit, text: str) -> list[Entry]:
    names = [full_name(schedule) for schedule in visit.api.list(limit=_SCHEDULES)]
    hits = [name for name in names if text in name.lower()][:_SHOWN]
    found = [Entry("Schedules", "sched", name, schedule_path(name)) for name in hits]
    return found + [
        Entry("Schedules", "unk", f"Why did {name} run, or not?", f"{schedule_path(name)}#why") for name in hits[:2]
    ]
