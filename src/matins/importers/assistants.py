"""What importers of assistants share (OpenClaw, Hermes): their chats become destinations."""

from __future__ import annotations

from typing import Any, cast

from matins.engine.when.parse import parse_trigger
from matins.errors import InvalidInput, TriggerError
from matins.importers.entries import (
    Cron,
    Imported,
    ImportEntry,
    OldTimes,
    Row,
    agents_of,
    slug,
)

_CHATS = {"telegram": "TELEGRAM_BOT_TOKEN", "slack": "SLACK_BOT_TOKEN", "discord": "DISCORD_BOT_TOKEN"}
"""The kinds of destinations that are sent to with the token of a bot, and where its token usually is."""
_FIELDS = 5
_TOOL = "Its tool is not known here: it wakes Claude Code. --agent NAME gives the prompts to an agent that you have."


class Assistant:
    """What the jobs of one file have in common."""

    def __init__(self, source: str, zone: str) -> None:
        self.source, self.zone = source, zone
        self.names: set[str] = set()
        self.agents: set[str] = set()
        self.destinations: dict[str, ImportEntry] = {}

    def agent(self, name: str) -> str:
        """The agent that gets a prompt."""
        made = slug(f"{self.source} {name}", set(), self.source)
        self.agents.add(made)
        return made

    def deliver(self, platform: str, chat: str, origin: str) -> tuple[list[str] | None, str | None]:
        """The destination of a chat, or why there is none."""
        secret = _CHATS.get(platform)
        if secret is None or not chat:
            return None, f"Its answers went to {platform}{f' {chat}' if chat else ''}: say deliver yourself."
        chat = chat.removeprefix("channel:").removeprefix("user:")
        name = slug(f"{platform} {chat}", set(), platform)
        settings = {"kind": platform, "to": [chat], "token": f"env:{secret}"}
        note = f"It sends by the bot whose token is in {secret}."
        self.destinations[name] = ImportEntry("destination", name, settings, origin, notes=(note,))
        return [name], None

    def cron(self, expression: str, zone: str) -> tuple[str, OldTimes | None]:
        try:
            parse_trigger(expression, now_ms=0, timezone=zone)
        except TriggerError as error:
            raise InvalidInput(f"its times cannot be read: {error.message}", field="schedule") from None
        old = Cron(expression, zone) if len(expression.split()) == _FIELDS else None
        return expression, old

    def found(self, imported: Imported, path: str) -> Imported:
        """With the agents and destinations that the schedules need before them."""
        before = [*agents_of(self.agents, path, _TOOL), *self.destinations.values()]
        return imported._replace(entries=(*before, *imported.entries))


def mapping(row: Row, name: str) -> dict[str, Any]:
    found = row.json(name)
    if not isinstance(found, dict):
        raise InvalidInput(f"its {name} is no object.", field=name)
    return cast("dict[str, Any]", found)
