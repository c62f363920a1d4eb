"""What is told to whom, and the server that sends e-mail: single records of the file."""

from matins.model.destination import Notify, Smtp
from matins.records.kind import Column, Document, RecordKind, always
from matins.records.storage import POLICIES


def _to(document: Document) -> str:
    return ", ".join(document["to"]) or "all destinations"


def _on(document: Document) -> str:
    return ", ".join(document["on"])


NOTIFY = RecordKind(
    kind="notify",
    noun="notify",
    one="notification settings",
    key="",
    value=Notify,
    help="Manage what messages are sent for, and to which destinations.",
    file_help="What messages are sent for, and where to, unless a schedule has its own settings.",
    storage=POLICIES,
    usual=always(Notify()),
    columns=(Column("TO", _to), Column("ON", _on)),
    example="matins notify set --to ops,phone",
)
SMTP = RecordKind(
    kind="smtp",
    noun="smtp",
    one="mail server",
    key="",
    value=Smtp,
    help="Manage the server that sends e-mail.",
    file_help="The server that sends e-mail.",
    storage=POLICIES,
    usual=always(Smtp()),
    columns=(
        Column("HOST", "host"),
        Column("PORT", "port", right=True),
        Column("SENDER", "sender"),
        Column("TLS", "tls"),
    ),
    example="matins smtp set --host mail.example.com --sender matins@example.com",
)
