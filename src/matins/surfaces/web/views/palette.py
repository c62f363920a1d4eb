"""`/ui/palette`: what a typed text may mean: a view, an action, a record."""

from __future__ import annotations

from typing import NamedTuple

from matins.api.results import Found
from matins.surfaces.web.visit import Page, Visit


class Entry(NamedTuple):
    group: str
    icon: str
    text: str
    address: str
    note: str = ""
    """A key, or the state of a record."""


_GO = [
    Entry("Go to", "now", "Now", "/", "G N"),
    Entry("Go to", "schedules", "Schedules", "/schedules", "G S"),
    Entry("Go to", "play", "Runs", "/runs", "G R"),
    Entry("Go to", "inbox", "Approvals", "/approvals", "G A"),
    Entry("Go to", "graph", "Missions", "/missions", "G M"),
    Entry("Go to", "pulse", "Events", "/events", "G E"),
    Entry("Go to", "agent", "Agents", "/agents"),
    Entry("Go to", "stuck", "Incidents", "/incidents"),
    Entry("Go to", "money", "Spend", "/spend"),
    Entry("Go to", "back", "Catch-up", "/catch-up"),
    Entry("Go to", "gear", "Settings", "/settings"),
    Entry("Actions", "new", "New schedule…", "/schedules/new", "C"),
    Entry("Go to", "succeeded", "Getting started", "/welcome"),
]
_SHOWN = 8
_FOUND = {"schedule": ("Schedules", "schedules"), "run": ("Runs", "play"), "agent": ("Agents", "agent")}


def palette(visit: Visit) -> Page:
    text = visit.query.get("q", "").strip()
    found = [_entry(visit, each) for each in visit.api.search(text, limit=_SHOWN)] if text else []
    whys = [
        Entry("Why?", "unknown", f"Why did {entry.text} run, or not?", f"{entry.address}#why")
        for entry in found
        if entry.group == "Schedules"
    ]
    views = [
        entry._replace(address=visit.address(entry.address)) for entry in _GO if text.lower() in entry.text.lower()
    ]
    return Page("_palette.html", "Search", {"groups": _grouped([*found, *whys[:1], *views])})


def _entry(visit: Visit, found: Found) -> Entry:
    group, icon = _FOUND[found.kind]
    if found.kind == "schedule":
        name = f"{found.agent}/{found.title}" if found.agent else found.title
        return Entry(group, icon, name, visit.address("/schedules", found.agent, found.title), found.detail)
    return Entry(group, icon, found.title, visit.address(f"/{found.kind}s", found.id), found.detail)


def _grouped(entries: list[Entry]) -> list[tuple[str, list[Entry]]]:
    """The entries by group, in the order in which groups come first."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.group, []).append(entry)
    return list(groups.items())
