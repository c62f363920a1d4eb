"""E-mail by SMTP."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from ipaddress import ip_address

from matins.delivery.destinations import TIMEOUT_S, Address, DestinationKind, NotDelivered, text_of
from matins.delivery.texts import NoticeText
from matins.errors import Example, InvalidInput
from matins.executors.secrets import resolve
from matins.model.destination import Destination, Smtp


def send(address: Address, message: NoticeText) -> None:
    """Send one message to all recipients together. A server that refuses them for good is not tried again."""
    if not address.to:
        raise NotDelivered("there is no recipient, and the person has no e-mail address", retry=False)
    try:
        with _connected(address.smtp) as server:
            server.send_message(_mail(address, message))
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as error:
        raise NotDelivered(
            f"the mail server refused the message: {_reply(error)}", retry=_reply(error).startswith("4")
        ) from None
    except smtplib.SMTPException as error:
        raise NotDelivered(f"the mail server failed: {type(error).__name__}: {error}") from None
    except (OSError, ssl.SSLError) as error:
        raise NotDelivered(f"the mail server {address.smtp.host} cannot be reached: {error}") from None


def _mail(address: Address, message: NoticeText) -> EmailMessage:
    mail, sender = EmailMessage(), address.smtp.sender or "matins@localhost"
    mail["Subject"] = " ".join(message.title.split())
    mail["From"] = sender
    mail["To"] = ", ".join(address.to)
    mail["Date"] = formatdate(address.now / 1000)
    mail["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2] or "localhost")
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(text_of(message))
    return mail


@contextmanager
def _connected(smtp: Smtp) -> Generator[smtplib.SMTP]:
    if smtp.host is None:
        raise NotDelivered("there is no mail server: matins smtp set --host mail.example.com", retry=False)
    if smtp.tls == "none" and not _is_loopback(smtp.host):
        raise NotDelivered(f"mail to {smtp.host} must be encrypted: matins smtp edit --tls starttls", retry=False)
    context = ssl.create_default_context()
    if smtp.tls == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=TIMEOUT_S, context=context)
    else:
        server = smtplib.SMTP(smtp.host, smtp.port, timeout=TIMEOUT_S)
    with server:
        if smtp.tls == "starttls":
            server.starttls(context=context)
        if smtp.user is not None:
            server.login(smtp.user, resolve(smtp.password or "", "password"))
        yield server


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
    return f"{code} {text.decode('utf-8', 'replace') if isinstance(text, bytes) else text}"


def check(destination: Destination) -> None:
    if not destination.to and destination.person is None:
        hint = Example({"to": ["ada@example.com"]})
        raise InvalidInput('E-mail needs "to", or "person".', field="to", hint=hint)


EMAIL = DestinationKind("email", "E-mail to the addresses in `to`, by the server of `smtp`.", send, check=check)
