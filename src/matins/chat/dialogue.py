"""The dialogue: a command of a person becomes calls of use cases and a message. It knows no service and does no I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from matins.api.results import Approval, Schedule
from matins.api.schedules import Api
from matins.chat import drafts
from matins.chat.approval_cards import approval_card, can_approve, ended_card
from matins.chat.drafts import CANCEL, LIFETIME_MS, Draft
from matins.chat.messages import (
    HELP,
    MIN_DIGEST,
    Button,
    Buttons,
    ChatMessage,
    Code,
    Command,
    Fields,
    Heading,
    Manner,
    Text,
    check_length,
    parse_command,
    text,
)
from matins.chat.use_cases import ChatPerson, ChatRecords
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput, MatinsError
from matins.model.words import joined
from matins.surfaces.text_values import inputs_from, words_of
from matins.surfaces.transports.in_process import InProcess

CREATE, CHANGE, DROP = "draft_create", "draft_change", "draft_cancel"
MAX_LINES = 20
_MAX_LISTED = 1_000
_PLACE = re.compile(r"(?P<service>[a-z]+):(?P<team>[^/]+)/(?P<channel>[^/]+)/(?P<thread>[^/]+)")
_ICONS = {"active": "✓", "paused": "⏸", "pending": "?", "broken": "✗"}


class Place(NamedTuple):
    """Where a message is: a channel, and a thread in it. A message that is in no thread begins one."""

    team: str
    channel: str
    thread: str
    in_thread: bool
    service: str

    @property
    def id(self) -> str:
        return f"{self.service}:{self.team}/{self.channel}/{self.thread}"

    @classmethod
    def of(cls, place: str) -> Place | None:
        """The place with this id; None for a text that is none."""
        found = _PLACE.fullmatch(place)
        return None if found is None else cls(found["team"], found["channel"], found["thread"], True, found["service"])


class Incoming(NamedTuple):
    """A message of a person."""

    key: str
    """A key that is the same for a repetition of the message, and for no other message."""
    person: ChatPerson
    place: Place
    text: str
    """A command without its prefix, or an answer."""
    agent: str | None = None
    """The agent of the channel."""


class Dialogue:
    """`url` is the address of the pages, for links."""

    def __init__(self, records: ChatRecords, url: Callable[[], str | None], manner: Manner) -> None:
        self._records = records
        self._url = url
        self._manner = manner
        self._verbs: dict[str, Callable[[Incoming, Command], ChatMessage]] = {
            "list": self._list, "add": self._add, "show": self._show, "why": self._why, "next": self._next,
            "run": self._run, "pause": self._pause, "resume": self._resume, "remove": self._remove,
            "approve": self._approve, "deny": self._deny, "help": self._help,
            "login": lambda incoming, command: text("Write login to the bot as a message, in a private chat."),
        }  # fmt: skip

    def command(self, incoming: Incoming) -> ChatMessage:
        """The answer to a command. An error is an answer too."""
        try:
            command = parse_command(incoming.text)
            verb = self._verbs[command.verb]
            return self._records.once(incoming.person.principal, incoming.key, lambda: verb(incoming, command))
        except MatinsError as error:
            return error_message(error)

    def answer(self, incoming: Incoming) -> ChatMessage | None:
        """The next question after an answer, or the preview; None when the person has no draft here."""
        place, person = incoming.place, incoming.person
        known = self._records.draft(place.id, person.name)
        if known is None:
            return None
        draft = drafts.load(known)
        if incoming.text.strip().lower() == CANCEL:
            return self.drop(place, person, incoming.key)
        if drafts.question(draft) is None:
            return text("Use the buttons above: Create, Change or Cancel.")
        try:
            check_length(incoming.text)
            return self._proceed(incoming, drafts.answered(draft, incoming.text, self._clock(person)))
        except MatinsError as error:
            return error_message(error, drafts.question(draft))

    def create(self, place: Place, person: ChatPerson, digest: str, key: str) -> ChatMessage:
        """Make the schedule of a draft, as it was shown. A draft that cannot be made stays, and can be changed."""

        def make() -> ChatMessage:
            draft = self._shown_draft(place, person, digest)
            if not self._records.delete_draft(place.id, person.name):
                raise _no_draft()
            made = self._api(person).add(draft.name, **self._settings(draft, place, person))
            return ChatMessage((Text(f"Created {made.agent}/{made.name}."), *self._schedule(made, person).parts[1:]))

        return self._records.once(person.principal, key, make)

    def change(self, place: Place, person: ChatPerson, digest: str, key: str) -> ChatMessage:
        draft = self._shown_draft(place, person, digest)._replace(changing=True)
        self._save(place, person, draft)
        asked = drafts.question(draft)
        assert asked is not None
        return text(asked.text)

    def drop(self, place: Place, person: ChatPerson, key: str) -> ChatMessage:
        def end() -> ChatMessage:
            if not self._records.delete_draft(place.id, person.name):
                raise _no_draft()
            return text("Cancelled. Nothing was made.")

        return self._records.once(person.principal, key, end)

    # -- drafts

    def _add(self, incoming: Incoming, command: Command) -> ChatMessage:
        clock = self._clock(incoming.person)
        draft = drafts.begin(command.text, incoming.agent, clock, in_thread=incoming.place.in_thread)
        return self._proceed(incoming, draft)

    def begin(self, incoming: Incoming, draft: Draft) -> ChatMessage:
        """Ask for what a draft lacks, or show it."""
        try:
            return self._proceed(incoming, draft)
        except MatinsError as error:
            return error_message(error)

    def _proceed(self, incoming: Incoming, draft: Draft) -> ChatMessage:
        if draft.agent is None:
            known = [agent.name for agent in self._api(incoming.person).agents.list()]
            draft = draft._replace(agent=known[0]) if len(known) == 1 else draft
        asked = drafts.question(draft)
        preview = self._preview(incoming.place, incoming.person, draft) if asked is None else None
        self._save(incoming.place, incoming.person, draft)
        if preview is not None:
            return preview
        assert asked is not None
        return text(asked.text, f"Write {CANCEL} to stop.")

    def _preview(self, place: Place, person: ChatPerson, draft: Draft) -> ChatMessage:
        """What would be made: how it is read, when it fires, where its answers are."""
        settings = self._settings(draft, place, person, open_thread=False)
        found = self._api(person).preview_new(draft.name, count=3, **settings)
        forecast = found.forecast
        fires = [
            _local(slot.at, person.zone)
            + ("" if slot.verdict == "runs" else f" ({slot.verdict}: {joined(slot.sentence, slot.quote)})")
            for slot in forecast.slots
        ]
        pairs = [
            ("reads as", f"{forecast.trigger_text} ({forecast.timezone})"),
            ("next", ", ".join(fires) or "This would never run."),
            ("agent", forecast.agent),
            ("cost per day", forecast.cost_per_day),
            ("answers", "in this thread" if draft.in_thread else "in this channel"),
            ("name", forecast.schedule),
        ]
        notes = [Text("\n".join(found.notes))] if found.notes else []
        shown = place.thread, draft.digest
        buttons = Buttons((
            Button(CREATE, "Create", *shown, "primary"),
            Button(CHANGE, "Change", *shown),
            Button(DROP, "Cancel", *shown),
        ))  # fmt: skip
        parts = (Heading("Create this schedule?"), Fields(tuple(pairs)), Code(draft.message or ""), *notes, buttons)
        return ChatMessage(parts)

    def _settings(self, draft: Draft, place: Place, person: ChatPerson, *, open_thread: bool = True) -> dict[str, Any]:
        assert draft.when is not None
        assert draft.message is not None
        assert draft.agent is not None
        settings: dict[str, Any] = {
            "when": draft.when, "prompt": draft.message, "agent": draft.agent, "timezone": person.zone,
        }  # fmt: skip
        here: dict[str, Any] = {"channel": place.channel}
        in_thread = draft.in_thread and open_thread
        if in_thread:
            here["thread"] = self._records.thread_for(place.id, place.channel, draft.agent)
        target = "current-thread" if in_thread else "current-channel"
        return {**settings, "target": target, "context": here}

    def _shown_draft(self, place: Place, person: ChatPerson, digest: str) -> Draft:
        known = self._records.draft(place.id, person.name)
        if known is None:
            raise _no_draft()
        draft = drafts.load(known)
        same = len(digest) >= MIN_DIGEST and draft.digest.startswith(digest)
        if not same or drafts.question(draft) is not None:
            raise InvalidInput("The draft has changed since.", field="draft", hint="Use the buttons of the newest one.")
        return draft

    def _save(self, place: Place, person: ChatPerson, draft: Draft) -> None:
        self._records.save_draft(place.id, person.name, drafts.dump(draft), LIFETIME_MS)

    # -- commands on schedules

    def _list(self, incoming: Incoming, command: Command) -> ChatMessage:
        wanted = command.text.lower()
        found = [
            schedule
            for schedule in self._api(incoming.person).list(limit=_MAX_LISTED)
            if wanted in f"{schedule.agent}/{schedule.name} {schedule.trigger_text} {schedule.state}".lower()
        ]
        if not found:
            return text(f'No schedule matches "{command.text}".' if wanted else "There are no schedules yet.")
        lines = [_line(schedule, incoming.person.zone) for schedule in found[:MAX_LINES]]
        left = len(found) - len(lines)
        more = [] if left <= 0 else [f"… and {left} more{self._link('/schedules')}"]
        return text(*lines, *more)

    def _next(self, incoming: Incoming, command: Command) -> ChatMessage:
        found = self._api(incoming.person).upcoming(limit=command.most)
        return (
            text(*(_line(schedule, incoming.person.zone) for schedule in found)) if found else text("Nothing is due.")
        )

    def _show(self, incoming: Incoming, command: Command) -> ChatMessage:
        schedule = self._api(incoming.person).get(command.name)
        shown = self._schedule(schedule, incoming.person)
        return shown if schedule.prompt is None else ChatMessage((*shown.parts, Code(schedule.prompt)))

    def _schedule(self, schedule: Schedule, person: ChatPerson) -> ChatMessage:
        after = "" if schedule.next_run_at is None else _local(schedule.next_run_at, person.zone)
        last = "" if schedule.last_run is None else f"{schedule.last_run.state} (run {schedule.last_run.id})"
        pairs = [
            ("state", schedule.state + (f": {schedule.note}" if schedule.note else "")),
            ("when", f"{schedule.trigger_text} ({schedule.timezone})"),
            ("next run", after),
            ("last run", last),
            ("made by", schedule.created_by),
        ]
        fields = Fields(tuple((name, value) for name, value in pairs if value))
        notes = [Text("\n".join(schedule.notes))] if schedule.notes else []
        return ChatMessage((Heading(f"{schedule.agent}/{schedule.name}"), fields, *notes))

    def _why(self, incoming: Incoming, command: Command) -> ChatMessage:
        at = None
        if command.time:
            at = to_datetime(drafts.instant_of(command.time, self._clock(incoming.person), past=True))
        found = self._api(incoming.person).why(command.name, at=at)
        refused = [joined(report.sentence, report.quote) for report in found.now if report.passes is False]
        return text(joined(found.summary, found.quote), *(["If it were due now:", *refused] if refused else []))

    def _run(self, incoming: Incoming, command: Command) -> ChatMessage:
        given = inputs_from(words_of(command.text), _no_file)
        key = f"{incoming.place.service}:{incoming.key}"
        run = self._api(incoming.person).run(command.name, input=given, key=key)
        return text(f"Run {run.id} of {run.schedule}: {run.status}.")

    def _pause(self, incoming: Incoming, command: Command) -> ChatMessage:
        clock = self._clock(incoming.person)
        until = to_datetime(drafts.instant_of(command.time, clock)) if command.time else None
        made = self._api(incoming.person).pause(command.name, until=until, note=command.text or None)
        end = "" if until is None else f" until {_local(until, incoming.person.zone)}"
        return text(f"Paused {made.agent}/{made.name}{end}. Running runs continue.")

    def _resume(self, incoming: Incoming, command: Command) -> ChatMessage:
        made = self._api(incoming.person).resume(command.name)
        after = "" if made.next_run_at is None else f" Next run: {_local(made.next_run_at, incoming.person.zone)}."
        return text(f"Resumed {made.agent}/{made.name}.{after}")

    def _remove(self, incoming: Incoming, command: Command) -> ChatMessage:
        api = self._api(incoming.person)
        found = api.get(command.name)  # names the nearest one where there is none
        api.delete(found.name, agent=found.agent)
        return text(f"Removed {found.agent}/{found.name}. Its history is kept.")

    # -- approvals

    def _approve(self, incoming: Incoming, command: Command) -> ChatMessage:
        """Show the request. With the beginning of its digest, which a card shows, approve it."""
        api = self._api(incoming.person)
        asked = api.approvals.get(command.name)
        if not command.text:
            return self.card(asked, incoming.person.zone)
        if asked.state == "pending" and not can_approve(self.card(asked, incoming.person.zone)):
            hint = f"Use its card: {self._manner.prefix}approve {asked.id}"
            raise InvalidInput("The request does not fit here. Read all of it first.", field="approval", hint=hint)
        if not asked.digest.startswith(command.text):
            raise InvalidInput(f"Approval {asked.id} has another digest.", value=command.text, hint="Read it again.")
        return self.card(
            api.approvals.approve(asked.id, digest=asked.digest), incoming.person.zone, incoming.person.name
        )

    def _deny(self, incoming: Incoming, command: Command) -> ChatMessage:
        made = self._api(incoming.person).approvals.deny(command.name, note=command.text or None)
        return self.card(made, incoming.person.zone, incoming.person.name)

    def card(self, approval: Approval, zone: str, via: str | None = None) -> ChatMessage:
        """The card of a request. `via`: the person who decided it in this service."""
        now, title = self._records.clock.now_ms(), self._manner.title
        if approval.state == "pending":
            return approval_card(approval, now, zone, self._url(), self._manner)
        return ended_card(approval, now, zone, f"in {title}" if via else f"outside {title}")

    def _help(self, incoming: Incoming, command: Command) -> ChatMessage:
        return ChatMessage((Text(self._manner.help), Fields(HELP)))

    # --

    def _api(self, person: ChatPerson) -> Api:
        return Api(InProcess(self._records.caller, person.principal))

    def _clock(self, person: ChatPerson) -> drafts.Clock:
        return drafts.Clock(self._records.clock.now_ms(), person.zone)

    def _link(self, path: str) -> str:
        url = self._url()
        return f": {url}{path}" if url else ""


def error_message(error: MatinsError, asked: drafts.Question | None = None) -> ChatMessage:
    """The error with its hint; during a dialogue, and the question again."""
    lines = [error.message, *([error.hint] if error.hint else []), *([asked.text] if asked else [])]
    return text(*lines)


def _no_file(given: str) -> str:
    raise InvalidInput("A file cannot be given in chat.", value=given, field="input", hint="Write name=text.")


def _no_draft() -> InvalidInput:
    return InvalidInput("You have no draft here.", field="draft", hint="It ended, or it is another person's.")


def _line(schedule: Schedule, zone: str) -> str:
    """`✓ nightly-deps · every day at 02:30 · next Fri 02:30 · succeeded`."""
    after = "no next run" if schedule.next_run_at is None else f"next {_local(schedule.next_run_at, zone)}"
    last = "never ran" if schedule.last_run is None else schedule.last_run.state
    state = "" if schedule.state == "active" else f"{schedule.state} · "
    icon = _ICONS.get(schedule.state, "·")
    return f"{icon} {schedule.agent}/{schedule.name} · {schedule.trigger_text} · {state}{after} · {last}"


def _local(at: datetime, zone: str) -> str:
    return at.astimezone(ZoneInfo(zone)).strftime("%a %d %b %H:%M")
