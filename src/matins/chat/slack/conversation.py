"""What a user of Slack does, answered: who it is, which command, answer, click or form.

Forms in Slack: a draft, a reason to deny, and a request that is too long for a card.

Cards of approvals in Slack: posted once, and updated wherever the decision was made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from matins.api.results import Approval
from matins.api.schedules import Api
from matins.chat import drafts
from matins.chat.approval_cards import APPROVE, DENY, READ, request_texts, subject_of, title
from matins.chat.dialogue import CHANGE, CREATE, DROP, Dialogue, Incoming, Place, error_message
from matins.chat.drafts import Draft
from matins.chat.messages import ChatMessage, Code, Part, Text, check_length, is_command, text, without_prefix
from matins.chat.settings import ChatApp
from matins.chat.slack.payloads import Heard, mentioned
from matins.chat.slack.rendering import MAX_MODAL_BLOCKS, blocks, modal, plain_text, text_input
from matins.chat.slack.web_api import WebApi
from matins.chat.use_cases import ChatPerson, ChatRecords
from matins.engine.calls import mapping_of
from matins.errors import InvalidInput, MatinsError, NotFound, Stale
from matins.surfaces.transports.in_process import InProcess

DRAFT, DENY_FORM, READ_FORM = "draft_form", "deny_form", "read_form"
_READERS = {"when": "when", "message": "message", "agent": "agent", "name": "name"}


def draft_form(draft: Draft, place: Place) -> dict[str, Any]:
    """What a draft has, and inputs for what it lacks."""
    inputs = [
        text_input("when", "When? For example: every weekday at 9am", value=draft.when or ""),
        text_input("message", "What should the agent do?", value=draft.message or "", lines=True),
        text_input("agent", "Agent", value=draft.agent or "", optional=True),
        text_input("name", "Name", value=draft.name or "", optional=True),
    ]
    return modal(DRAFT, "New schedule", "Preview", inputs, _metadata(c=place.channel, p=place.thread))


def draft_of(fields: Mapping[str, str], clock: drafts.Clock) -> Draft:
    """The draft of a form. Raises InvalidInput for the first field that is wrong."""
    wrong = errors_of(fields, clock)
    if wrong:
        field, message = next(iter(wrong.items()))
        raise InvalidInput(message, field=field)
    draft = Draft()
    for field in _READERS:
        if fields.get(field, "").strip():
            draft = drafts.changed(draft, field, fields[field], clock)
    return draft


def errors_of(fields: Mapping[str, str], clock: drafts.Clock) -> dict[str, str]:
    found: dict[str, str] = {}
    for field in _READERS:
        if not fields.get(field, "").strip():
            continue
        try:
            check_length(fields[field])
            drafts.changed(Draft(), field, fields[field], clock)
        except MatinsError as error:
            found[field] = f"{error.message} {error.hint or ''}".strip()
    return found


def deny_form(asked: Approval, digest: str, channel: str, ts: str) -> dict[str, Any]:
    shown = blocks((Text(f"{title(asked)} (approval {asked.id})"),))
    reason = text_input("note", "Why?", lines=True, optional=True)
    return modal(DENY_FORM, "Deny", "Deny", [*shown, reason], _metadata(a=asked.id, d=digest, c=channel, m=ts))


def read_form(asked: Approval, digest: str, channel: str, ts: str) -> dict[str, Any]:
    """All of a request. Raises InvalidInput when it does not fit, or is no longer the one that the card showed."""
    if asked.digest != digest or asked.state != "pending":
        message = f"Approval {asked.id} has changed since." if asked.state == "pending" else f"It is {asked.state}."
        raise InvalidInput(message, field="approval", hint="Use the newest card.")
    parts: list[Part] = [Text(f"{title(asked)} (approval {asked.id}), bound to sha256:{digest[:16]}…")]
    parts += [part for name, value in request_texts(asked) for part in (Text(f"{name}:"), Code(value))]
    body = blocks(tuple(parts))
    if len(body) > MAX_MODAL_BLOCKS:
        hint = f"Read and decide there: matins approvals show {asked.id}"
        raise InvalidInput("The request is too long for Slack.", field="approval", hint=hint)
    return modal(READ_FORM, "Read and decide", "Approve", body, _metadata(a=asked.id, d=digest, c=channel, m=ts))


def _metadata(**values: str) -> str:
    return orjson.dumps(values).decode()


class Cards:
    def __init__(self, app: ChatApp, records: ChatRecords, api: WebApi, dialogue: Dialogue) -> None:
        self._app = app
        self._records = records
        self._api = api
        self._dialogue = dialogue

    def post(self, approval_id: str) -> None:
        """Post the card of an open request to the admin channel, once."""
        asked, subject = self._approval(approval_id), subject_of(approval_id)
        if self._app.admin is None or asked is None or asked.state != "pending" or self._records.posts(subject):
            return
        ts = self._api.post(self._app.admin, self._dialogue.card(asked, self._zone))
        self._records.add_post(subject, self._app.admin, ts, asked.digest)

    def update(self, approval_id: str) -> None:
        """Show the state of a request on each of its cards."""
        asked = self._approval(approval_id)
        posts = [] if asked is None else self._records.posts(subject_of(approval_id))
        via = next((post.via for post in posts if post.via), None)
        for post in posts:
            if asked is not None and post.digest is not None:
                self._api.update(post.channel, post.ts, self._dialogue.card(asked, self._zone, via))

    def answered(self, approval_id: str, channel: str, ts: str, person: str) -> None:
        """Remember that the request was answered on a card, and say so on all of them."""
        for post in self._records.posts(subject_of(approval_id)):
            if (post.channel, post.ts) == (channel, ts):
                self._records.set_post(post._replace(via=person))
        self.update(approval_id)

    def replace(self, approval_id: str, channel: str, ts: str) -> None:
        """Show the request that replaced an older one on the card of the older one."""
        old = self._approval(approval_id)
        newer = None if old is None else self._newer(old)
        if newer is None:
            return
        subject = subject_of(newer.id)
        if (channel, ts) not in [(post.channel, post.ts) for post in self._records.posts(subject)]:
            self._records.add_post(subject, channel, ts, newer.digest)
        for post in self._records.posts(subject_of(approval_id)):  # the card is no longer about the older one
            if (post.channel, post.ts) == (channel, ts) and newer.id != approval_id:
                self._records.set_post(post._replace(digest=None))
        self._api.update(channel, ts, self._dialogue.card(newer, self._zone))

    def _newer(self, old: Approval) -> Approval | None:
        """The open request about the same subject: itself, where its digest changed."""
        same = [
            asked
            for asked in self._of_owner().approvals.list(limit=1_000)
            if (asked.kind, asked.schedule_id, asked.run_id) == (old.kind, old.schedule_id, old.run_id)
        ]
        return same[-1] if same else None

    def _approval(self, approval_id: str) -> Approval | None:
        try:
            return self._of_owner().approvals.get(approval_id)
        except NotFound:  # its history was pruned
            return None

    def _of_owner(self) -> Api:
        return Api(InProcess(self._records.caller))

    @property
    def _zone(self) -> str:
        return self._records.clock.local_zone()


log = logging.getLogger("matins")
_UNKNOWN = "You are not known to Matins. Ask its owner to add you: matins people set NAME --role operator --slack {}"
_NOT_A_CARD = "This is not a card that Matins posted here."


class Conversation:
    """Answers what was heard. Every person acts with their own rights; whoever is not mapped gets nothing."""

    def __init__(self, app: ChatApp, records: ChatRecords, api: WebApi, dialogue: Dialogue, cards: Cards) -> None:
        self._app = app
        self._records = records
        self._api = api
        self._dialogue = dialogue
        self._cards = cards
        self._kinds: Mapping[str, Callable[[Heard, ChatPerson], None]] = {
            "message": self._message, "command": self._command, "click": self._click, "form": self._form,
        }  # fmt: skip

    def handle(self, heard: Heard) -> None:
        us = self._api.whoami()
        if heard.by_bot or not heard.user or heard.user == us.user:
            return
        if any(team != us.team for team in heard.teams) or not heard.teams:
            log.warning("Slack: a %s of another workspace was ignored.", heard.kind)
            return
        person = self._person(heard)
        if person is not None:
            try:
                self._kinds[heard.kind](heard, person)
            except MatinsError as error:
                self._whisper(heard, error_message(error))

    def _person(self, heard: Heard) -> ChatPerson | None:
        """The person behind the user. A stranger who speaks to Matins learns how to be added, and nothing else."""
        person = self._records.person(heard.user)
        if person is not None and self._api.is_member(heard.user):
            return person
        if self._is_addressed(heard):
            refusal = _UNKNOWN.format(heard.user) if person is None else "Guests and bots cannot use Matins."
            self._whisper(heard, text(refusal))
        return None

    def _is_addressed(self, heard: Heard) -> bool:
        if heard.kind != "message":
            return True
        asked = without_prefix(heard.text) is not None or heard.direct
        return asked or mentioned(heard.text, self._api.whoami().user) is not None

    # -- messages

    def _message(self, heard: Heard, person: ChatPerson) -> None:
        """A command, an answer to a question, a trigger, a word to an agent, or nothing that concerns Matins."""
        place, said = self._place(heard), plain_text(heard.text)
        mention = mentioned(heard.text, self._api.whoami().user)
        after = None if mention is None else plain_text(mention)
        command = without_prefix(said)
        if command is None and self._answer(heard, person, place, said if after is None else after):
            return
        if command is None and after is not None and is_command(after):
            command = after
        if command is None and self._fire(heard, person, place, after, said):
            return
        if command is None and self._reply(heard, person, place, said if after is None else after):
            return
        if command is None and (after is not None or heard.direct):
            command = said if after is None else after
        if command is not None:
            self._say(heard, self._dialogue.command(self._incoming(heard, person, place, command)))

    def _answer(self, heard: Heard, person: ChatPerson, place: Place, said: str) -> bool:
        """Go on with the person's draft. Whether there is one."""
        answer = self._dialogue.answer(self._incoming(heard, person, place, said))
        if answer is not None:
            self._say(heard, answer)
        return answer is not None

    def _fire(self, heard: Heard, person: ChatPerson, place: Place, after: str | None, said: str) -> bool:
        """Start the schedules that listen to the channel. Whether there was one. Viewers start nothing."""
        if person.principal.role == "viewer" or not self._records.listens(heard.channel):
            return False
        key, body = f"{heard.channel}:{heard.ts}", {"mention": after is not None, "place": place.id}
        made = Api(InProcess(self._records.caller, self._records.principal)).calls.fire(
            "chat", heard.channel, key, body=body, type="message", text=said if after is None else after,
            sender=person.name,
        )  # fmt: skip
        return made.outcome == "accepted"

    def _reply(self, heard: Heard, person: ChatPerson, place: Place, said: str) -> bool:
        """Speak to the agent of the thread. Whether there is one."""
        thread = self._records.thread_at(place.id) if heard.thread else None
        if thread is None or not said.strip():
            return False
        self._of(person).threads.reply(thread, said, key=f"slack:{heard.channel}:{heard.ts}")
        return True

    # -- slash commands and forms

    def _command(self, heard: Heard, person: ChatPerson) -> None:
        place = Place(self._api.whoami().team, heard.channel, heard.key)
        asked = self._incoming(heard, person, place, plain_text(heard.text))
        verb, _, rest = asked.text.strip().partition(" ")
        if verb.lower() == "add":
            draft = drafts.begin(rest, asked.agent, drafts.Clock(self._records.clock.now_ms(), person.zone))
            if drafts.question(draft) is not None:
                self._api.open_modal(heard.trigger, draft_form(draft, place))
                return
        self._say(heard, self._dialogue.command(asked), private=True)

    def _form(self, heard: Heard, person: ChatPerson) -> None:
        held = _held(heard.value)
        heard = heard._replace(channel=str(held.get("c", "")), ts=str(held.get("m", "")))
        if heard.action == DRAFT:
            place = Place(self._api.whoami().team, heard.channel, str(held.get("p", "")))
            draft = draft_of(heard.fields, drafts.Clock(self._records.clock.now_ms(), person.zone))
            self._say(heard, self._dialogue.begin(self._incoming(heard, person, place, ""), draft), private=True)
        elif heard.action == DENY_FORM:
            self._decide(heard, person, held, approve=False, note=heard.fields.get("note") or None)
        elif heard.action == READ_FORM:
            self._decide(heard, person, held, approve=True)

    # -- clicks

    def _click(self, heard: Heard, person: ChatPerson) -> None:
        held = _held(heard.value)
        if heard.action in (CREATE, CHANGE, DROP):
            self._draft_click(heard, person, held)
        elif heard.action == APPROVE:
            self._decide(heard, person, held, approve=True)
        elif heard.action in (DENY, READ):
            self._check_card(heard, held)
            asked = self._of(person).approvals.get(str(held.get("a")))
            make = deny_form if heard.action == DENY else read_form
            self._api.open_modal(heard.trigger, make(asked, str(held.get("d")), heard.channel, heard.ts))

    def _draft_click(self, heard: Heard, person: ChatPerson, held: Mapping[str, Any]) -> None:
        place = Place(self._api.whoami().team, heard.channel, str(held.get("p", "")))
        digest = str(held.get("d", ""))
        made = {CREATE: self._dialogue.create, CHANGE: self._dialogue.change}.get(heard.action)
        answer = self._dialogue.drop(place, person) if made is None else made(place, person, digest)
        private = place.thread.startswith("command:")
        self._say(heard._replace(thread="" if private else place.thread), answer, private=private)

    def _decide(
        self, heard: Heard, person: ChatPerson, held: Mapping[str, Any], *, approve: bool, note: str | None = None
    ) -> None:
        """Vote for exactly the request that the card showed."""
        self._check_card(heard, held)
        approvals, number, digest = self._of(person).approvals, str(held.get("a")), str(held.get("d"))
        try:
            (approvals.approve if approve else approvals.deny)(number, note=note, digest=digest)
        except Stale:
            self._cards.replace(number, heard.channel, heard.ts)
            raise
        finally:
            self._cards.update(number)
        self._cards.answered(number, heard.channel, heard.ts, person.name)

    def _check_card(self, heard: Heard, held: Mapping[str, Any]) -> None:
        """Raise unless Matins posted this card about this request, here."""
        posts = self._records.posts(subject_of(str(held.get("a"))))
        if (heard.channel, heard.ts) not in [(post.channel, post.ts) for post in posts]:
            raise InvalidInput(_NOT_A_CARD, field="approval", hint="Ask for one: !schedule approve NUMBER")

    # --

    def _incoming(self, heard: Heard, person: ChatPerson, place: Place, said: str) -> Incoming:
        return Incoming(heard.key, person, place, said, self._app.agent_in(heard.channel))

    def _place(self, heard: Heard) -> Place:
        return Place(self._api.whoami().team, heard.channel, heard.thread or heard.ts, bool(heard.thread))

    def _say(self, heard: Heard, message: ChatMessage, *, private: bool = False) -> None:
        if private and not message.subject:
            self._whisper(heard, message)
            return
        ts = self._api.post(heard.channel, message, heard.thread or (heard.ts if heard.kind == "message" else None))
        if message.subject:
            self._records.add_post(message.subject, heard.channel, ts, message.digest)

    def _whisper(self, heard: Heard, message: ChatMessage) -> None:
        if heard.channel:
            self._api.whisper(heard.channel, heard.user, message, heard.thread or None)

    def _of(self, person: ChatPerson) -> Api:
        return Api(InProcess(self._records.caller, person.principal))


def draft_errors(heard: Heard, clock: drafts.Clock) -> dict[str, str]:
    """What is wrong with a form, by field."""
    return errors_of(heard.fields, clock) if heard.kind == "form" and heard.action == DRAFT else {}


def _held(value: str) -> Mapping[str, Any]:
    try:
        return mapping_of(orjson.loads(value))
    except orjson.JSONDecodeError:
        return {}
