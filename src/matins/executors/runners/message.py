"""Agents that hear of their runs by an event, `message.emitted`: nothing is started and nobody is called.

The event is written in the transaction that starts the run and ends it (`runtime/messages.py`): no executor sees one.
"""

from __future__ import annotations

from matins.engine.schedules import MESSAGE_JOB
from matins.executors.runners.base import Call, Line, Told
from matins.executors.runners.checks import check_call


class Message:
    name = MESSAGE_JOB
    provider = MESSAGE_JOB
    chooses_session = False

    def refuse(self, call: Call) -> None:
        check_call(call)

    def speak(self, call: Call, line: Line) -> Told:
        """Only a run that was claimed for another runner comes here: its agent became this one a moment ago."""
        return Told(False, False, error="its agent was given another runner while it began: run it again")
