"""What inbound endpoints can do beside the verbs of every record."""

# pyright: reportReturnType=false
from __future__ import annotations

from typing import TYPE_CHECKING

from matins.api.use_case import use_case

if TYPE_CHECKING:
    from matins.api.arguments import Json
    from matins.api.results import InboundTest


class InboundCalls:
    @use_case("govern", "POST /v1/inbound/{name}/test", max_bytes=9 << 20)
    def test(
        self,
        name: str,
        *,
        body: Json = None,
        type: str | None = None,  # noqa: A002 - the name that senders use
        dry_run: bool = False,
    ) -> InboundTest:
        """Sign a body as the sender would, deliver it, and show which schedules it concerns, with their prompts.

        `type`: the type of the event, where the sender has it in a header. With `dry_run` nothing is fired.
        """
