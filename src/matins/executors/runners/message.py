"""Agents that receive their runs as an event, `message.emitted`. Nothing is started or called.

The transaction that starts the run writes the event and ends the run (`runtime/message_runs.py`): no executor sees one.
"""

from __future__ import annotations

from matins.engine.jobs import MESSAGE_JOB
from matins.executors.runners.call_checks import check_call
from matins.executors.runners.protocol import Call, EndpointConnection, RunnerResult


class Message:
    name = MESSAGE_JOB
    provider = MESSAGE_JOB
    chooses_session = False

    def check(self, call: Call) -> None:
        check_call(call)

    def call(self, call: Call, connection: EndpointConnection) -> RunnerResult:
        """Fail a run that was claimed for another runner: its agent changed after the claim."""
        return RunnerResult(
            False, False, error="the agent got another runner while the run started: start the run again"
        )
