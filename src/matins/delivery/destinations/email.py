"""E-mail by SMTP.

Everything that is sent again has the same Message-ID: mail programs show it once.
"""

from __future__ import annotations

import shlex
import smtplib
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from email import policy
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from ipaddress import ip_address
from typing import NamedTuple

from matins.delivery.destinations import (
    TIMEOUT_S,
    Address,
    Answer,
    AnswerFile,
    DestinationKind,
    NotDelivered,
    Part,
    Receipt,
    text_of,
)
from matins.delivery.destinations.layout import Upload, body_of, foot, names_of_files, uploads_of
from matins.delivery.texts import NoticeText
from matins.errors import Example, InvalidInput
from matins.executors.secrets import resolve
from matins.model.destination import Destination, Smtp
from matins.texts.markdown import plain, to_html

_SEVEN_BITS = policy.default.clone(cte_type="7bit")
"""Not every server on the way takes eight."""
_MAX_CONVERSATION_S = 300
"""With a mail server, for one message of all sizes."""
_MAX_ATTACHED = 20_000_000
"""Most servers refuse larger messages. Other files are only named."""


def parts(address: Address, answer: Answer) -> list[Part]:
    """One message with all of the answer, as text and as HTML."""
    attached, named = _attachable(answer)
    ending = foot(answer, *names_of_files(answer._replace(files=named)))
    body = [*body_of(address, answer), *ending]
    page = f'<div style="font-family:sans-serif;font-size:15px;line-height:1.45;max-width:720px">{to_html(body)}</div>'
    return [Part(_Letter(answer.title, plain(body), page, tuple(uploads_of(address, answer._replace(files=attached)))))]


def _attachable(answer: Answer) -> tuple[tuple[AnswerFile, ...], tuple[AnswerFile, ...]]:
    """The files that fit into a message, and the others."""
    attached: list[AnswerFile] = []
    for file in answer.files:
        if sum(one.size for one in attached) + file.size <= _MAX_ATTACHED:
            attached.append(file)
    return tuple(attached), tuple(file for file in answer.files if file not in attached)


class _Letter(NamedTuple):
    subject: str
    text: str
    html: str | None = None
    files: tuple[Upload, ...] = ()


def send_answer(address: Address, part: Part, key: str) -> Receipt:
    return _sent(address, part.body, key)


def send(address: Address, message: NoticeText) -> None:
    _sent(address, _Letter(message.title, text_of(message)), message.key)


def ready(address: Address) -> None:
    if not address.to:
        name = address.destination.name
        hint = f"matins destinations edit {shlex.quote(name)} --to ada@example.com"
        raise InvalidInput("There is no recipient, and the person has no e-mail address.", field="to", hint=hint)
    if address.smtp.host is None:
        raise InvalidInput("There is no mail server.", field="smtp", hint="matins smtp set --host mail.example.com")


def _sent(address: Address, letter: _Letter, key: str) -> Receipt:
    """Send one message to all recipients together. A server that refuses them for good is not tried again."""
    try:
        ready(address)
    except InvalidInput as error:
        raise NotDelivered(f"{error.message[0].lower()}{error.message[1:-1]}: {error.hint}", retry=False) from None
    mail, sending = _mail(address, letter, key), False
    try:
        with _connected(address.smtp) as server:
            sending = True
            refused: dict[str, tuple[int, bytes]] = server.send_message(mail)
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as error:
        raise NotDelivered(
            f"the mail server refused the message: {_reply(error)}", retry=_reply(error).startswith("4")
        ) from None
    except smtplib.SMTPException as error:
        raise NotDelivered(f"the mail server failed: {type(error).__name__}: {error}", sent=sending) from None
    except (OSError, ssl.SSLError) as error:
        reason = f"the mail server {address.smtp.host} cannot be reached: {error}"
        raise NotDelivered(reason, sent=sending) from None
    others = ", ".join(f"{name} ({_text(*reply)})" for name, reply in refused.items())
    return Receipt(mail["Message-ID"], f"the mail server refused it for {others}" if others else None)


def _mail(address: Address, letter: _Letter, key: str) -> EmailMessage:
    mail, sender = EmailMessage(_SEVEN_BITS), address.smtp.sender or "matins@localhost"
    domain = sender.rpartition("@")[2].rstrip(">") or "localhost"
    mail["Subject"] = " ".join(letter.subject.split())
    mail["From"] = sender
    mail["To"] = ", ".join(address.to)
    mail["Date"] = formatdate(address.now / 1000)
    mail["Message-ID"] = f"<{key}@{domain}>" if key else make_msgid(domain=domain)
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(letter.text)
    if letter.html is not None:
        mail.add_alternative(letter.html, subtype="html")
    for file in letter.files:
        kind, _, subtype = file.media_type.partition("/")
        mail.add_attachment(file.read(), maintype=kind, subtype=subtype, filename=file.name)
    return mail


@contextmanager
def _connected(smtp: Smtp) -> Generator[smtplib.SMTP]:
    assert smtp.host is not None
    if smtp.tls == "none" and not _is_loopback(smtp.host):
        raise NotDelivered(f"mail to {smtp.host} must be encrypted: matins smtp edit --tls starttls", retry=False)
    context = ssl.create_default_context()
    tls = smtp.tls == "tls"
    server = smtplib.SMTP_SSL(timeout=TIMEOUT_S, context=context) if tls else smtplib.SMTP(timeout=TIMEOUT_S)
    server._host = smtp.host  # pyright: ignore # the name in the certificate; smtplib sets it only where it connects at once
    ending = threading.Timer(_MAX_CONVERSATION_S, _end, [server])
    ending.daemon = True
    ending.start()
    try:
        code, greeting = server.connect(smtp.host, smtp.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, greeting)
        if smtp.tls == "starttls":
            server.starttls(context=context)
        if smtp.user is not None:
            server.login(smtp.user, resolve(smtp.password or "", "password"))
        yield server
        with suppress(smtplib.SMTPException, OSError):  # it has taken the message, whatever it answers to a farewell
            server.quit()
    finally:
        ending.cancel()
        server.close()


def _end(server: smtplib.SMTP) -> None:
    """End the wait for a server that answers, but byte by byte."""
    if server.sock is not None:
        with suppress(OSError):  # it has just gone
            server.sock.shutdown(socket.SHUT_RDWR)


def _is_loopback(host: str) -> bool:
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
        return bool(addresses) and all(ip_address(found).is_loopback for found in addresses)
    except OSError:
        return False


def _reply(error: smtplib.SMTPException) -> str:
    codes: dict[str, tuple[int, bytes]] = getattr(error, "recipients", {})
    code, text = (
        next(iter(codes.values())) if codes else (getattr(error, "smtp_code", 0), getattr(error, "smtp_error", b""))
    )
    return _text(code, text)


def _text(code: int, text: bytes | str) -> str:
    return f"{code} {text.decode('utf-8', 'replace') if isinstance(text, bytes) else text}"


def check(destination: Destination) -> None:
    if not destination.to and destination.person is None:
        hint = Example({"to": ["ada@example.com"]})
        raise InvalidInput('E-mail needs "to", or "person".', field="to", hint=hint)


EMAIL = DestinationKind(
    "email", "E-mail to the addresses in `to`, by the server of `smtp`.",
    send, check=check, parts=parts, answer=send_answer, ready=ready, keyed=True,
)  # fmt: skip
