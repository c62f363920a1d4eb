"""What the messages of an answer consist of: its title, its text in parts, its foot, and its files."""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

from matins.delivery.destinations import Address, Answer, NotDelivered, sent_again
from matins.delivery.texts import NoticeText
from matins.texts.markdown import Block, Size, Span, Style, blocks, packed, plain
from matins.texts.untrusted_folder import read_file

MAX_PARTS = 5
MAX_FILE_BYTES = 10_000_000
_BOLD: frozenset[Style] = frozenset({"bold"})
_FILE_BELOW = "The answer is longer: the file below has all of it."


class Upload(NamedTuple):
    """A file to send: its content, or where it is."""

    name: str
    media_type: str
    data: bytes | None
    path: str = ""
    digest: str = ""
    """Digest of the copy that was made for the answer. Outcomes of workers elsewhere name paths, too."""
    note: str = ""
    """Text that goes with the file."""

    def read(self) -> bytes:
        if self.data is not None:
            return self.data
        try:
            data = read_file(self.path, MAX_FILE_BYTES)
        except OSError as error:
            raise NotDelivered(f"the file {self.name} cannot be read: {error.strerror}") from None
        if sha256(data).hexdigest() != self.digest:
            raise NotDelivered(f"the file {self.name} is not the one that was attached", retry=False)
        return data


def body_of(address: Address, answer: Answer) -> list[Block]:
    """The text of an answer that is one message; and that it is a copy, if a first one may have arrived."""
    return [*([_mark(address)] if answer.again else []), *blocks(answer.text)]


def _mark(address: Address) -> Block:
    return Block("text", (Span(sent_again(address)),))


def foot(answer: Answer, *notes: str) -> list[Block]:
    """The notes, and the line with run, duration, cost and link."""
    link = () if answer.link is None else (Span(" · "), Span("Open", url=answer.link))
    return [
        *(Block("text", (Span(note),)) for note in (*notes, *answer.notes)),
        Block("text", (Span(answer.foot), *link)),
    ]


def names_of_files(answer: Answer) -> tuple[str, ...]:
    """For kinds that send no files."""
    names = ", ".join(file.name for file in answer.files)
    return (f"Files of the run: {names}.",) if names else ()


class Messages(NamedTuple):
    parts: list[list[Block]]
    whole: bool
    """Whether the parts hold all of the answer."""


def messages(address: Address, answer: Answer, limit: int, size: Size, *notes: str, uploads: bool) -> Messages:
    """The answer as at most five messages within a limit. The last one has the foot, and says how to get the rest.
    Each has room for the mark of a copy, so that the others go on where it ends, whether it is sent once or twice."""
    rest = _FILE_BELOW if uploads else f"The answer is longer. All of it: matins logs {answer.facts.get('run_id', '')}"
    mark, title = _mark(address), Block("text", (Span(answer.title, _BOLD),))
    room = limit - sum(size(block) + 2 for block in (mark, *foot(answer, *notes, rest)))
    groups, whole = packed([title, *blocks(answer.text)], room, size, MAX_PARTS)
    if answer.again:
        groups = [[*group[: number == 0], mark, *group[number == 0 :]] for number, group in enumerate(groups)]
    return Messages([*groups[:-1], [*groups[-1], *foot(answer, *notes, *([] if whole else [rest]))]], whole)


def as_notice(address: Address, answer: Answer, fits: Callable[[NoticeText], bool]) -> NoticeText:
    """The answer as one plain message that fits: what is too much is cut."""
    ending = plain([Block("text", (Span(note),)) for note in (*names_of_files(answer), *answer.notes, answer.foot)])
    level = "bad" if answer.facts.get("state") == "failed" else "good"
    whole = plain(body_of(address, answer))
    notice = NoticeText(answer.title, f"{whole}\n\n{ending}", link=answer.link, level=level, facts=answer.facts)
    if fits(notice):
        return notice

    def cut(length: int) -> NoticeText:
        return notice._replace(text=f"{whole[:length].rstrip()}…\n\n{ending}")

    return cut(bisect_left(range(len(whole)), True, key=lambda length: not fits(cut(length + 1))))


def uploads_of(address: Address, answer: Answer, *, whole: bool = True) -> list[Upload]:
    """The files to send after the messages: the answer itself if it is too long for them, and those of the run."""
    name = f"{answer.facts.get('schedule') or 'answer'}-{answer.facts.get('run_id', '')}.md"
    text = [] if whole else [Upload(name, "text/markdown", answer.text.encode())]
    found = [*text, *(Upload(file.name, file.media_type, None, file.path, file.digest) for file in answer.files)]
    return [file._replace(note=sent_again(address)) for file in found] if answer.again else found


def form_data(fields: Mapping[str, str], uploads: Mapping[str, Upload]) -> tuple[bytes, dict[str, str]]:
    """The body and the header of a multipart form."""
    boundary = secrets.token_hex(16)
    parts = [f'form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    for name, upload in uploads.items():
        file = upload.name.translate(_QUOTED)
        head = f'form-data; name="{name}"; filename="{file}"\r\ncontent-type: {upload.media_type}\r\n\r\n'
        parts.append(head.encode() + upload.read())
    begin = f"--{boundary}\r\ncontent-disposition: ".encode()
    body = b"".join(begin + part + b"\r\n" for part in parts) + f"--{boundary}--\r\n".encode()
    return body, {"content-type": f"multipart/form-data; boundary={boundary}"}


_QUOTED = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


def utf16(text: str) -> int:
    """The length as most services count it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def size_by(write: Callable[[Block], str]) -> Size:
    return lambda block: utf16(write(block))
