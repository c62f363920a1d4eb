"""Chat: the app of a service. Annotations are settings, see `settings`."""

from dataclasses import dataclass
from typing import Annotated

from matins.model.settings import Labels, Secret, Setting, Text, Url


# fmt: off
@dataclass(frozen=True, slots=True)
class ChatApp:
    service: str
    bot_token: Annotated[str,
        Setting(Secret(), "Where the bot's token is: env:NAME or file:/path.", "env:SLACK_BOT_TOKEN", required=True)]
    app_token: Annotated[str | None,
        Setting(Secret(), "Where the app-level token for Socket Mode is.", "env:SLACK_APP_TOKEN")] = None
    signing_secret: Annotated[str | None,
        Setting(Secret(), "Where the signing secret for requests to /chat/slack is.",
                "env:SLACK_SIGNING_SECRET")] = None
    admin: Annotated[str | None,
        Setting(Text(100), "Id of the channel for requests for approval and for notes.", "C0OPS")] = None
    channels: Annotated[dict[str, str] | None,
        Setting(Labels(), "Agents by the id of the channel in which they are spoken to.",
                {"C07ABCDEF": "scout"})] = None
    url: Annotated[str | None,
        Setting(Url(), "URL of the service's API; default: https://slack.com/api/.",
                "https://slack-gov.com/api/")] = None
# fmt: on

    def agent_in(self, channel: str) -> str | None:
        return (self.channels or {}).get(channel)
