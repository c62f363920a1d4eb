"""Agents that hear of their runs by an event, `message.emitted`: nothing is started and nobody is called.

The event is written in the transaction that starts the run and ends it (`runtime/messages.py`): no executor sees one.
"""

from __future__ import annotations

from matins.engine.schedules import MESSAGE_JOB
from matins.executors.runners.call_checks import check_call
from matins.executors.runners.protocol import Call, EndpointConnection, RunnerResult


class Message:
    name = MESSAGE_JOB
    provider = MESSAGE_JOB
    chooses_session = False

    def check(self, call: Call) -> None:
        check_call(call)

    def call(self, call: Call, connection: EndpointConnection) -> RunnerResult:
        """Only a run that was claimed for another runner comes here: its agent became this one a moment ago."""
        return RunnerResult(False, False, error="its agent was given another runner while it began: run it again")
