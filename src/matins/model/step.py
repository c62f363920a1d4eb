"""A step: one part of the work of a schedule. Annotations are settings, see `settings`."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from matins.model.agent import Target
from matins.model.settings import Choice, Duration, Int, Json, Money, Name, Names, Setting, Template, Text
from matins.model.settings import Target as TargetKind

OnUnknown = Literal["hold", "retry"]
ApprovalPolicy = Literal["auto", "owner_approve", "council_approve"]
POLPO_SPELLINGS = (("description", "prompt"), ("assignTo", "agent"), ("dependsOn", "after"))
"""The fields of Polpo's tasks. Their titles have the same name."""


# fmt: off
@dataclass(frozen=True, slots=True)
class Step:
    """A job, or a prompt to an agent. None is the schedule's own setting."""

    title: Annotated[str, Setting(Text(), "Title of the step, unique in its schedule.", "Build", required=True)]
    agent: Annotated[str, Setting(Name(), "Agent of the step; default: the schedule's.", "coder", notable=True)] = ""
    job: Annotated[str,
        Setting(Name(), "Registered job to run instead of a prompt.", "report", notable=True)] = ""
    prompt: Annotated[str | None,
        Setting(Template(), "Text sent to the agent; default: the title. {{steps.build.text}} is the answer of the "
                "step \"Build\".", "Build the release")] = None
    payload: Annotated[Any, Setting(Json(), "JSON value passed to the job.", {"depth": 3})] = None
    after: Annotated[tuple[str, ...],
        Setting(Names(empty=True), "Titles of the steps that must succeed first.", ["Build"])] = ()
    target: Annotated[Target | None,
        Setting(TargetKind(), "Where the step happens: a new conversation, or a channel, session or thread.",
                {"kind": "channel", "channel": "C07ABCDEF"}, notable=True)] = None
    work_source: Annotated[str | None,
        Setting(Name("work_sources"), "Source of work items, by name.", "backlog", notable=True)] = None
    retries: Annotated[int, Setting(Int(0, 100), "Number of retries of the step after a failure.", 2)] = 0
    timeout_ms: Annotated[int | None,
        Setting(Duration(), "Longest duration of an attempt of the step.", "1h", "timeout")] = None
    on_unknown: Annotated[OnUnknown | None,
        Setting(Choice(get_args(OnUnknown)),
                "What to do with a step whose outcome is unknown; default: as for the schedule.",
                "hold")] = None
    max_cost: Annotated[int | None,
        Setting(Money(), "Cost at which the step is stopped.", "$2", owner_only=True)] = None
    approval: Annotated[ApprovalPolicy | None,
        Setting(Choice(get_args(ApprovalPolicy)), "Whether the step needs approval.", "owner_approve",
                owner_only=True)] = None
