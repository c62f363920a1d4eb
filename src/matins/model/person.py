"""A person: one principal behind a login, an id in a chat, and the name of an approver."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from matins.model.settings import Choice, Name, Setting, Text, Zone

PersonRole = Literal["owner", "operator", "viewer"]
PERSON_ROLES: tuple[PersonRole, ...] = get_args(PersonRole)


# fmt: off
@dataclass(frozen=True, slots=True)
class Person:
    name: str
    role: Annotated[PersonRole,
        Setting(Choice(PERSON_ROLES), "What the person may do.", "operator", required=True)]
    slack: Annotated[str | None,
        Setting(Text(100), "Id of the person's Slack user.", "U0ADA")] = None
    discord: Annotated[str | None,
        Setting(Text(100), "Id of the person's Discord user.", "81230000000000000")] = None
    email: Annotated[str | None,
        Setting(Text(254), "Address for mail to the person.", "ada@example.com")] = None
    timezone: Annotated[str | None,
        Setting(Zone(), "Time zone of the person; default: that of the machine.",
                "Europe/Berlin", short="-z")] = None
    quiet_hours: Annotated[str | None,
        Setting(Name("quiet_hours"), "Quiet hours in which the person is not disturbed, by name.", "nights")] = None
# fmt: on
