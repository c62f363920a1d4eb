"""What a file means: presets and defaults filled in, each thing defined, and all that speaks against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from matins.config.defining import SETTINGS, World, define_thing
from matins.config.presets import PRESETS
from matins.config.problems import Problem, nearest
from matins.config.reading import Block, Draft, Said, Spot
from matins.config.scheduling import define_schedule, resolve
from matins.engine.schedules import TALK
from matins.errors import InvalidInput
from matins.executors.deliveries import ALLOWED_HOSTS
from matins.texts.yaml_nodes import Items, Place, Scalar

_WHEN = ("when", "timezone", "dst_gap", "dst_overlap", "anchor", "first", "strict")
PAUSED = "+paused"
_NUMBERED = {"rates": "rate", "limits": "limit"}
_FIRST = ("setting", "rate")
"""What others are judged by."""
_MOST_TRIES = 12
_ANY_TIME = "1d"
"""In the place of one that cannot be used, so that the other words are looked at too."""


class Entry(NamedTuple):
    """A thing that the file defines."""

    kind: str
    name: str
    """Of a schedule: agent/name."""
    words: Mapping[str, Any]
    """As the use cases take them."""
    digest: str
    spot: Spot
    meant: Any
    """As the store keeps it; of a schedule, `Meant`."""
    paused: bool | str = False

    @property
    def line(self) -> int:
        return self.spot.key.place.line

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name


class Meaning(NamedTuple):
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    edits: str = "refuse"
    empty: bool = False


def understand(draft: Draft, world: World, *, loosely: bool = False) -> Meaning:
    """`loosely`: agents need not exist yet, as in other systems' files."""
    return _Judge(draft, world, loosely).judge()


def when_changed(before: str, after: str) -> bool:
    """Whether two digests of schedules differ in when they fire."""
    return before.partition("-")[0] != after.partition("-")[0]


class _Judge:
    def __init__(self, draft: Draft, world: World, loosely: bool) -> None:
        self.draft = draft
        self.loosely = loosely
        self.problems = list(draft.problems)
        self.preset = draft.simple.get("preset")
        self.world = world

    def judge(self) -> Meaning:
        things = [*self._extras(), *self.draft.said]
        things.sort(key=lambda said: _NUMBERED.get(said.kind, said.kind) not in _FIRST)
        entries: dict[tuple[str, str], Entry] = {}
        for said in things:
            entry = self._schedule(said) if said.kind == "schedule" else self._thing(said)
            if entry is not None and entry.key in entries:
                self._twice(entry, entries[entry.key])
            elif entry is not None:
                entries[entry.key] = entry
                self._learn(entry)
        self._references()
        self._limits_said_twice(entries)
        edits = self.draft.simple.get("edits") or "refuse"
        return Meaning(tuple(entries.values()), tuple(self.problems), edits, self.draft.empty)

    def _extras(self) -> Iterator[Said]:
        """What stands in no mapping of names: settings, and what a preset says for the whole file."""
        for name in SETTINGS:
            if self.draft.simple.get(name) is not None:
                spot = self.draft.top[name]
                yield Said("setting", name, "", Block(spot, {"value": self.draft.simple[name]}, {"value": spot}))
        limited = {said.name for said in self.draft.said if said.kind == "limits"}
        for scope, size in PRESETS[self.preset].limits.items() if self.preset else ():
            if scope not in limited:
                spot = self.draft.top["preset"]
                yield Said("limits", scope, "", Block(spot, {"value": size}, {"value": spot}))

    def _thing(self, said: Said) -> Entry | None:
        kind = _NUMBERED.get(said.kind, said.kind)
        words = dict(said.block.values)
        if kind in ("quiet_hours", "budget") and words.get("timezone") is None and self.draft.defaults:
            words["timezone"] = self.draft.defaults.values.get("timezone")
        words = {word: value for word, value in words.items() if value is not None}
        meant = self._tried(said, words, lambda given: define_thing(kind, said.name, given, self.world))
        return None if meant is None else Entry(kind, said.name, words, _digest(words), said.block.spot, meant)

    def _schedule(self, said: Said) -> Entry | None:
        try:
            resolved = resolve(said, self.draft.defaults, self.preset)
        except InvalidInput as error:
            self._complain(said, error)
            return None
        words = dict(resolved.words)
        paused = words.pop("paused", None) or False
        meant = self._tried(said, words, lambda given: define_schedule(given, resolved, self.world))
        if meant is None:
            return None
        name = f"{meant.agent}/{meant.name}"
        return Entry("schedule", name, words, _schedule_digest(words, paused), said.block.spot, meant, paused)

    def _tried(self, said: Said, words: dict[str, Any], define: Callable[[Mapping[str, Any]], Any]) -> Any:
        """Defined, or None. A word that cannot be used is told, and the others are looked at without it."""
        given, told = dict(words), set[str]()
        for _ in range(_MOST_TRIES):
            try:
                meant = define(given)
            except InvalidInput as error:
                if error.field in told:
                    return None
                word = self._complain(said, error)
                if word is None or given.pop(word, None) is None:
                    return None
                told.add(word)
                if word == "when":
                    given[word] = _ANY_TIME
            else:
                return None if told else meant
        return None

    def _complain(self, said: Said, error: InvalidInput) -> str | None:
        """Say it where it stands; the word that it is about."""
        word, spot = _spot_of(said.block, self.draft.defaults, error)
        wrong_already = any(f"{p.path}.".startswith(f"{spot.path}.") for p in self.draft.problems)
        if not wrong_already:
            self.problems.append(
                Problem(_place(spot, error), spot.path, error.message, error.value, error.allowed, error.hint)
            )
        return word

    def _learn(self, entry: Entry) -> None:
        if entry.kind == "rate":
            self.world = self.world._replace(rates={**self.world.rates, entry.name: entry.meant})
        elif entry.key == ("setting", ALLOWED_HOSTS):
            self.world = self.world._replace(allowed_hosts=entry.meant)

    def _twice(self, entry: Entry, other: Entry) -> None:
        what = f'{entry.kind} "{entry.name}" is defined on line {other.line} too'
        self.problems.append(
            Problem(entry.spot.key.place, entry.spot.path, what, entry.name, hint="take one of them out")
        )

    def _references(self) -> None:
        """Whatever a name refers to must be in the file, whole or not, or beside it."""
        agents, hours, sources = (self._known(kind) for kind in ("agent", "quiet_hours", "work"))
        schedules = self._known("schedule")
        for block in filter(None, (self.draft.defaults, *(s.block for s in self.draft.said if s.kind == "schedule"))):
            self._refer(block, "quiet_hours", hours, "are no quiet hours", "quiet_hours")
            self._refer(block, "work", sources, "is no source of work", "work_sources")
        for said in self.draft.said:
            if said.kind == "schedule" and not self.loosely:
                self._check_agent(said, agents)
            elif said.kind == "budget" and said.block.values.get("scope") == "schedule":
                self._refer(said.block, "of", schedules, "is no schedule", "schedules")
            elif said.kind == "budget" and said.block.values.get("scope") == "agent":
                self._refer(said.block, "of", agents, "is no agent", "agents")

    def _known(self, kind: str) -> set[str]:
        beside = {
            "agent": self.world.agents,
            "quiet_hours": self.world.quiet_hours,
            "work": self.world.work,
            "schedule": self.world.schedules,
        }[kind]
        said = [said for said in self.draft.said if said.kind == kind]
        names = {f"{_agent_of(s)}/{s.name}" for s in said} if kind == "schedule" else {s.name for s in said}
        return names | beside

    def _check_agent(self, said: Said, known: set[str]) -> None:
        defaults = self.draft.defaults.values if self.draft.defaults else {}
        if (said.block.values.get("do") or defaults.get("do") or TALK) != TALK:
            return
        if not _agent_of(said) and said.block.values.get("prompt") is not None:
            what = "it has a prompt, and no agent to tell it to"
            self._say(said.block.spot, what, None, ", ".join(sorted(known)), "agent: NAME")
        elif not said.agent:
            self._refer(said.block, "agent", known, "is no agent", "agents")

    def _refer(self, block: Block, word: str, known: set[str], is_none: str, section: str) -> None:
        name = block.values.get(word)
        if name is not None and name not in known:
            hint = nearest(name, sorted(known)) if known else f"define it under {section}"
            self._say(block.spots[word], f'there {is_none} "{name}"', name, ", ".join(sorted(known)), hint)

    def _limits_said_twice(self, entries: Mapping[tuple[str, str], Entry]) -> None:
        for entry in entries.values():
            other = entries.get(("limit", f"agent:{entry.name}"))
            if entry.kind == "agent" and other is not None and entry.meant.get("max_concurrent") is not None:
                self._twice(entry._replace(kind="limit", name=other.name), other)

    def _say(self, spot: Spot, what: str, value: Any, allowed: str | None, hint: str | None) -> None:
        self.problems.append(Problem(_place(spot), spot.path, what, value, allowed, hint))


def _agent_of(said: Said) -> str:
    return said.agent or said.block.values.get("agent") or ""


def _spot_of(block: Block, defaults: Block | None, error: InvalidInput) -> tuple[str | None, Spot]:
    """The word that an error is about, and where it stands: there, among the defaults, or at least whose it is."""
    field = (error.field or "").partition("[")[0].partition(".")[0]
    for word in (field, "when"):
        spot = _find_spot(block, defaults, word) if word != "when" or _about_time(error, field) else None
        if spot is not None:
            return word, spot
    return None, block.spot


def _about_time(error: InvalidInput, field: str) -> bool:
    return field == "when" or type(error).__name__ in (
        "CronParseError", "IntervalParseError", "PhraseError", "RruleError", "InstantError", "TriggerError",
    )  # fmt: skip


def _find_spot(block: Block, defaults: Block | None, word: str) -> Spot | None:
    others = {"when": ("when", "expression", "interval"), "value": ("value",)}.get(word, (word,))
    for candidate in others:
        if candidate in block.spots:
            return block.spots[candidate]
    return defaults.spots.get(word) if defaults is not None else None


def _place(spot: Spot, error: InvalidInput | None = None) -> Place:
    """Of the value; of the name, where the value is a mapping or nothing at all."""
    number = (error.field or "").partition("[")[2].partition("]")[0] if error is not None else ""
    if isinstance(spot.node, Items) and number.isdecimal() and int(number) < len(spot.node.items):
        return spot.node.items[int(number)].place
    return spot.node.place if isinstance(spot.node, Scalar) and spot.node.value is not None else spot.key.place


def _digest(words: Any) -> str:
    return sha256(orjson.dumps(words, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _schedule_digest(words: Mapping[str, Any], paused: bool | str) -> str:
    """When it fires, what else it says, and whether it is paused, so that each can be compared alone."""
    when = _digest({word: value for word, value in words.items() if word in _WHEN})
    rest = _digest([{word: value for word, value in words.items() if word not in _WHEN}, paused])
    return f"{when}-{rest}{PAUSED if paused else ''}"
