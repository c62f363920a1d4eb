"""The job types of the core.

`message`: the payload is emitted as an event, in the transaction that records the run.

`scheduled-task`: the schedule's own prompt goes to its agent.

`expect_ping`: the work happens elsewhere, and its ping ends the run.

`send_message`: a message wakes another agent, in its thread with the sender.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

from matins.engine.jobs import AGENT_JOB, MESSAGE_JOB, PING_JOB
from matins.errors import Conflict
from matins.executors.job_context import JobContext
from matins.model.job import JobType
from matins.model.settings import Name, Setting, Text

MESSAGE = JobType(MESSAGE_JOB, "Emit the payload as an event; its texts may contain placeholders.")


SCHEDULED_TASK = JobType(AGENT_JOB, "Send the schedule's prompt to its agent.")


@dataclass(frozen=True)
class Custom:
    prompt: Annotated[str, Setting(Text(100_000, lines=True), "Prompt to the agent.", "Tidy the shed", required=True)]


CUSTOM = JobType(
    "custom", "Send any prompt to the agent.", Custom, prompt=lambda inputs: inputs.prompt, destructive=False,
    owner_only=True,
)  # fmt: skip


class PingedError(Exception):
    """The work elsewhere failed, or did not report."""


def _pinged(context: JobContext) -> str:
    """The text of the ping. A run that got none was started without one."""
    payload = context.payload
    ping: Mapping[str, Any] | None = cast("dict[str, Any]", payload).get("ping") if isinstance(payload, dict) else None
    if ping is None:
        raise PingedError("No ping came. A ping starts a run of its own: matins pings")
    if ping["code"]:
        raise PingedError("\n".join(part for part in (ping["text"], f"exit code {ping['code']}") if part))
    return ping["text"]


EXPECT_PING = JobType(PING_JOB, "Wait for a ping of work that happens elsewhere.", None, _pinged, destructive=False)


@dataclass(frozen=True)
class SendMessage:
    to_agent_id: Annotated[
        str, Setting(Name("agents"), "Agent that receives the message.", "scout", name="toAgentId", required=True)
    ]
    message: Annotated[
        str, Setting(Text(20_000, lines=True), "Text of the message.", "The build is red", required=True)
    ]


def run(context: JobContext) -> str:
    """The message becomes a run of the other agent, so that its session, budgets and limits hold."""
    inputs: SendMessage = context.inputs
    sender = context.agent or context.schedule
    try:
        made = context.api.add(
            f"message-{context.key}",
            when="in 1s",
            agent=inputs.to_agent_id,
            prompt=f"Message from {sender}:\n\n{inputs.message}",
            target={"kind": "channel", "channel": f"from-{sender}"},
            description=f"Sent by {context.schedule}",
        )
    except Conflict:  # an earlier attempt of this run has sent it
        return f"Sent to {inputs.to_agent_id}"
    return f"Sent to {inputs.to_agent_id} as {made.name}"


SEND_MESSAGE = JobType(
    "send_message", "Send a message to another agent.", SendMessage, run, destructive=False, services=("messenger",)
)
