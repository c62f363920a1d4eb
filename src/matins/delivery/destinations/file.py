"""A folder on the machine that runs Matins: a file for each answer."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from matins.delivery.destinations import Address, Answer, DestinationKind, NotDelivered, Part, Receipt, text_of
from matins.delivery.destinations.layout import Upload, names_of_files, uploads_of
from matins.delivery.texts import NoticeText
from matins.errors import Example, InvalidInput
from matins.model.destination import Destination
from matins.texts.untrusted_folder import UntrustedFolder, open_or_make_folder

log = logging.getLogger("matins")
_OTHER = re.compile(r"[^\w.-]+")
_OURS = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{4}-.{1,80}\.md")
_MAX_NAME = 60
_CODE = ("```\n", "\n```")


class _Note(NamedTuple):
    name: str
    """Without `.md`: the files of the answer are in a folder of this name."""
    text: str
    files: tuple[Upload, ...] = ()


def parts(address: Address, answer: Answer) -> list[Part]:
    """One file in Markdown, as the agent wrote it. The same message has the same name at each attempt."""
    facts, link = answer.facts, f" · <{answer.link}>" if answer.link else ""
    at = facts.get("slot") or facts.get("ended_at")
    moment = datetime.fromtimestamp(address.now / 1000, UTC) if at is None else datetime.fromisoformat(at)
    number = f"-{facts['number']}" if facts.get("number") else ""
    name = f"{facts.get('schedule') or 'answers'}-{facts.get('run_id', 0)}{number}"
    text = "\n\n".join(
        [f"# {answer.title}", answer.text, *names_of_files(answer), *answer.notes, f"{answer.foot}{link}"]
    )
    title = _named(moment.astimezone(ZoneInfo(facts.get("timezone") or "UTC")), name)
    return [Part(_Note(title, f"{text}\n", tuple(uploads_of(address, answer))))]


def _named(at: datetime, name: str) -> str:
    return f"{at:%Y-%m-%d-%H%M}-{_OTHER.sub('-', name)[-_MAX_NAME:]}"


def send_answer(address: Address, part: Part, key: str) -> Receipt:
    """Write the file, for the owner only, and wait until it is on the disk."""
    note: _Note = part.body
    path = Path(address.to[0]).expanduser()
    try:
        with open_or_make_folder(path) as folder:
            if note.files:
                folder.make_folder(note.name)
            for name, file in _by_name(note.files).items():
                folder.replace(f"{note.name}/{name}", file.read())
            folder.replace(f"{note.name}.md", note.text.encode())
            try:
                _prune(folder, address.destination.keep)
            except OSError as error:  # the answer has arrived: it is not sent again
                log.warning("Old answers in %s cannot be deleted: %s", path, error.strerror)
    except OSError as error:
        raise NotDelivered(f"{path} cannot be written: {error.strerror or error}") from None
    return Receipt(str(path / f"{note.name}.md"))


def _by_name(files: Iterable[Upload]) -> dict[str, Upload]:
    """The files by names that the folder can have. Two of one name are both kept."""
    found: dict[str, Upload] = {}
    for file in files:
        name = _OTHER.sub("-", file.name)[-_MAX_NAME:].lstrip(".") or "file"
        found[f"{len(found) + 1}-{name}" if name in found else name] = file
    return found


def _prune(folder: UntrustedFolder, keep: int) -> None:
    """Delete the oldest notes, with their files."""
    entries = folder.entries()
    folders = {entry.name for entry in entries if entry.is_folder}
    notes = sorted(entry.name for entry in entries if not entry.is_folder and _OURS.fullmatch(entry.name))
    for note in notes[: max(0, len(notes) - keep)]:
        name = note.removesuffix(".md")
        if name in folders:
            for entry in folder.entries(name):
                folder.delete(f"{name}/{entry.name}")
            folder.delete(name, is_folder=True)
        folder.delete(note)


def send(address: Address, message: NoticeText) -> None:
    text = f"# {message.title}\n\n{text_of(message, code=_CODE)}\n"
    at = message.facts.get("opened_at") or message.facts.get("at") or address.now
    name = _named(datetime.fromtimestamp(at / 1000, UTC), f"notice-{message.key or 'test'}")
    send_answer(address, Part(_Note(name, text)), message.key)


def check(destination: Destination) -> None:
    if len(destination.to) != 1 or not destination.to[0].startswith(("/", "~/", "env:", "file:")):
        hint = Example({"to": ["~/reports"]})
        message = 'The kind file needs one folder in "to", as an absolute path or below "~/".'
        raise InvalidInput(message, value=list(destination.to), field="to", hint=hint)


FILE = DestinationKind(
    "file", "A file in a folder (to) of the machine that runs Matins, for each answer.",
    send, needs=("to",), check=check, parts=parts, answer=send_answer, keyed=True, limited=False,
)  # fmt: skip
