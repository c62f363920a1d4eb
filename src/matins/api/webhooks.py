"""What webhooks can do beside the verbs of every record."""

# pyright: reportReturnType=false
from __future__ import annotations

from typing import TYPE_CHECKING

from matins.api.use_case import use_case

if TYPE_CHECKING:
    from matins.api._results import Webhook
    from matins.api.arguments import EventTypes
    from matins.api.results import NewWebhook


class WebhooksCalls:
    @use_case("govern", "POST /v1/webhooks", status=201, secret="secret", location="/v1/webhooks/{name}")
    def add(self, name: str, url: str, *, types: EventTypes | None = None, secret: str | None = None) -> NewWebhook:
        """Add a webhook for events from now on. A name that is taken is refused.

        The result has the signing secret, which is not shown again. `secret`: one of your own, or a reference.
        """

    @use_case("govern", "POST /v1/webhooks/{name}/pause")
    def pause(self, name: str, *, note: str | None = None) -> Webhook:
        """Pause a webhook. Nothing is sent until it is resumed; then it continues where it was."""

    @use_case("govern", "POST /v1/webhooks/{name}/resume")
    def resume(self, name: str) -> Webhook:
        """Resume a paused webhook."""
