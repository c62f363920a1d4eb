"""What destinations can do beside the verbs of every record."""

# pyright: reportReturnType=false
from __future__ import annotations

from typing import TYPE_CHECKING

from matins.api.use_case import use_case

if TYPE_CHECKING:
    from matins.api.results import TestedDestination


class DestinationsCalls:
    @use_case("govern", "POST /v1/destinations/{name}/test")
    def test(self, name: str) -> TestedDestination:
        """Send a test message to a destination now, and say whether it arrived."""
