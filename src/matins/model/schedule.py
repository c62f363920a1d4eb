"""A schedule: its trigger, its job and its policies. Annotations are settings, see `settings`.

A step: one part of the work of a schedule. Annotations are settings, see `settings`.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args

from matins.model.agent import Fallback, Target
from matins.model.call import CallTrigger
from matins.model.destination import DELIVER_ON, NOTICES, DeliverIf
from matins.model.settings import (
    Arguments,
    Calls,
    Choice,
    Command,
    Decimal,
    Duration,
    Flag,
    Inputs,
    Instant,
    Int,
    Json,
    Labels,
    Money,
    Name,
    Names,
    Records,
    Setting,
    Template,
    Text,
    Tokens,
    Url,
    Variables,
    Zone,
)
from matins.model.settings import Target as TargetKind
from matins.model.trigger import Anchor, DstGap, DstOverlap, First, TriggerDefinition

OnUnknown = Literal["hold", "retry"]
ApprovalPolicy = Literal["auto", "owner_approve", "council_approve"]
POLPO_SPELLINGS = (("description", "prompt"), ("assignTo", "agent"), ("dependsOn", "after"))
"""The fields of Polpo's tasks. Their titles have the same name."""


CommandLine = str | tuple[str, ...]
"""A text for the shell, or a program with its arguments."""


InputType = Literal["text", "int", "number", "bool", "choice", "date", "json"]


class Input(NamedTuple):
    """A declared input of runs."""

    name: str
    type: InputType
    default: Any = None
    required: bool = True
    """Whether a run needs one: it has no default, and nothing says otherwise."""
    values: tuple[str, ...] = ()
    """Those of a choice."""
    description: str = ""


# fmt: off
@dataclass(frozen=True, slots=True)
class Step:
    """A job, a command, or a prompt to an agent. None is the schedule's own setting."""

    title: Annotated[str, Setting(Text(), "Title of the step, unique in its schedule.", "Build", required=True)]
    agent: Annotated[str,
        Setting(Name(), "Agent of the step; default: the schedule's, or shell for a command.", "coder",
                notable=True)] = ""
    job: Annotated[str,
        Setting(Name(), "Registered job to run instead of a prompt.", "report", notable=True)] = ""
    prompt: Annotated[str | None,
        Setting(Template(), "Text sent to the agent; default: the title. {{steps.build.text}} is the answer of the "
                "step \"Build\".", "Build the release")] = None
    command: Annotated[CommandLine | None,
        Setting(Command(), "Command to run instead of a prompt: a text for the shell, or a program with its arguments.",
                "make release", owner_only=True)] = None
    stdin: Annotated[str | None,
        Setting(Template(), "Text that the command reads; may contain placeholders; default: nothing.",
                "{{steps.build.text}}", owner_only=True)] = None
    workdir: Annotated[str | None,
        Setting(Text(4_096), "Directory in which the step works; default: the schedule's.", "~/src/garden",
                owner_only=True)] = None
    environment: Annotated[tuple[tuple[str, str], ...],
        Setting(Variables(), "Environment variables, over those of the schedule.", {"API_KEY": "env:API_KEY"},
                owner_only=True)] = ()
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


MoveTo = Literal["next_day"]
CatchUp = Literal["skip", "run_once", "run_all_capped"]
Overlap = Literal["skip", "queue", "cancel_other", "allow"]
AtCapacity = Literal["wait", "skip"]
MissingJob = Literal["wait", "fail"]
FailureBackoff = Literal["exponential", "none"]
ApprovalDefault = Literal["deny", "approve"]
PingStyle = Literal["healthchecks", "plain"]
FinalFallback = Literal["fresh", "skip"]
ScheduleState = Literal["pending", "active", "paused", "completed", "expired", "rejected", "broken", "removed"]
HELD_STATES: tuple[ScheduleState, ...] = ("pending", "paused", "rejected", "broken")
"""The states in which nothing of a schedule starts: its waiting runs are held."""
MissionStatus = Literal["draft", "scheduled", "recurring", "active", "paused", "completed", "failed", "cancelled"]


def _choice(values: Any) -> Choice:
    return Choice(get_args(values))


# fmt: off
@dataclass(frozen=True, slots=True)
class ScheduleDefinition:
    """The settings of a schedule. An edit makes a new one, with the next revision number."""

    trigger: TriggerDefinition
    job: Annotated[str, Setting(Name(), "Registered job to run instead of a prompt.", "report")]
    description: Annotated[str | None,
        Setting(Text(2_000, lines=True), "Purpose of the schedule.", "Reviews must not wait")] = None
    labels: Annotated[dict[str, str] | None,
        Setting(Labels(), "Key-value pairs for other systems.", {"project": "apollo"})] = None
    prompt: Annotated[str | None,
        Setting(Template(), "Text sent to the agent; may contain placeholders such as {{slot}}.",
                "Summarise my open PRs", short="-p")] = None
    command: Annotated[CommandLine | None,
        Setting(Command(), "Command to run instead of a prompt: a text for the shell, or a program with its arguments.",
                "pg_dump app | gzip > ~/app.gz", owner_only=True)] = None
    stdin: Annotated[str | None,
        Setting(Template(), "Text that the command reads; may contain placeholders; default: nothing.",
                "{{slot}}", owner_only=True)] = None
    workdir: Annotated[str | None,
        Setting(Text(4_096), "Directory in which a run works; default: the agent's.", "~/src/garden",
                owner_only=True)] = None
    environment: Annotated[tuple[tuple[str, str], ...],
        Setting(Variables(), "Environment variables, over those of the agent.", {"API_KEY": "env:API_KEY"},
                owner_only=True)] = ()
    model: Annotated[str | None,
        Setting(Name(), "Model of its runs; default: the agent's.", "claude-opus-5-5", notable=True)] = None
    effort: Annotated[str | None,
        Setting(Name(), "How much the model thinks in its runs; default: the agent's.", "high", notable=True)] = None
    prompt_prefix: Annotated[bool, Setting(Flag(), "Whether `[Scheduled Task]` precedes the prompt.", False)] = True
    target: Annotated[Target | None,
        Setting(TargetKind(), "Where runs happen: a new conversation, or a channel, session or thread.",
                {"kind": "channel", "channel": "C07ABCDEF"}, notable=True)] = None
    """None: the default of the agent."""
    on: Annotated[tuple[CallTrigger, ...],
        Setting(Calls(), "Calls that start a run: a webhook, a chat message, or the outcome of another schedule.",
                {"webhook": "github-prs"}, notable=True)] = ()
    payload: Annotated[Any,
        Setting(Json(), "JSON value passed to the job; what a run is given goes over it.", {"depth": 3})] = None
    inputs: Annotated[tuple[Input, ...],
        Setting(Inputs(), "What a run may be given, with type and default; default: anything.",
                {"repo": {"type": "choice", "values": ["api", "web"], "default": "api"}, "days": 7})] = ()
    work_source: Annotated[str | None,
        Setting(Name("work_sources"), "Source of work items, by name.", "backlog", notable=True)] = None
    steps: Annotated[tuple[Step, ...],
        Setting(Records(Step, "step", spellings=POLPO_SPELLINGS),
                "Parts of the work, each a prompt, a command or a job; some may wait for others.",
                [{"title": "Build", "agent": "coder"}, {"title": "Deploy", "agent": "ops", "after": ["Build"]}],
                notable=True)] = ()
    runs_on: Annotated[tuple[str, ...],
        Setting(Names(empty=True, labels=True), "Labels that a node must have to run it, beside those of the agent.",
                ["gpu"], notable=True)] = ()
    host: Annotated[str | None, Setting(Name(label=True), "Node that runs it.", "build-1", notable=True)] = None
    overlap: Annotated[Overlap,
        Setting(_choice(Overlap),
                "What to do when the previous run has not finished; default: skip, or queue without `when`.",
                "queue")] = "skip"
    queue_limit: Annotated[int, Setting(Int(1, 100_000), "Maximum number of queued runs.", 10)] = 100
    at_capacity: Annotated[AtCapacity,
        Setting(_choice(AtCapacity), "What to do when a concurrency limit is reached.", "skip")] = "wait"
    missing_job: Annotated[MissingJob,
        Setting(_choice(MissingJob), "What to do with a run whose job no running engine has.", "fail")] = "wait"
    held_keeps_capacity: Annotated[bool,
        Setting(Flag(), "Whether a held run counts for concurrency limits until a person resolves it.", False)] = True
    catch_up: Annotated[CatchUp,
        Setting(_choice(CatchUp), "What to do with slots missed while no engine was running.", "run_once")] = "skip"
    catch_up_limit: Annotated[int, Setting(Int(1, 1_000), "Maximum number of runs for one missed window.", 3)] = 10
    grace_ms: Annotated[int | None,
        Setting(Duration(zero=True), "How late a slot may still start; 0s: only on time.", "2h", "grace")] = None
    """None: a day for one-shots, else half a period and at most 2 h."""
    retries: Annotated[int, Setting(Int(0, 100), "Number of retries after a failure.", 2)] = 0
    retry_delay_ms: Annotated[int,
        Setting(Duration(), "Delay before the first retry; it doubles each time.", "30s", "retry_delay")] = 10_000
    max_retry_delay_ms: Annotated[int,
        Setting(Duration(), "Longest delay between retries.", "10m", "max_retry_delay")] = 3_600_000
    on_unknown: Annotated[OnUnknown | None,
        Setting(_choice(OnUnknown),
                "What to do with a run whose outcome is unknown; default: retry for jobs, hold for others.",
                "hold")] = None
    timeout_ms: Annotated[int | None, Setting(Duration(), "Longest duration of an attempt.", "1h", "timeout")] = None
    jitter: Annotated[float,
        Setting(Decimal(0, 10, unit="percent"), "Random delay, as a percentage of the period.", 5)] = 0
    ends_at: Annotated[int | None, Setting(Instant(), "Time after which no run starts.", "2099-12-31T18:00")] = None
    max_executions: Annotated[int | None,
        Setting(Int(1, 1 << 53), "Number of runs after which the schedule is complete.", 30)] = None
    pause_after_failures: Annotated[int | None,
        Setting(Int(1, 1_000), "Consecutive failures after which the schedule is paused.", 5)] = None
    failure_backoff: Annotated[FailureBackoff,
        Setting(_choice(FailureBackoff),
                "Whether slots are skipped after three failures in a row, for longer after each further one.",
                "none")] = "exponential"
    quiet_hours: Annotated[str | None,
        Setting(Name("quiet_hours"), "Quiet hours to observe, by name.", "nights", owner_only=True)] = None
    skip_on: Annotated[tuple[str, ...],
        Setting(Names(empty=True, of="calendars"),
                "Days without a run: calendars, days such as `2026-12-25` or `12-25`, and ranges.",
                ["holidays-de", "12-24..12-31"])] = ()
    move_to: Annotated[MoveTo | None,
        Setting(_choice(MoveTo), "Where a run moves whose day is in `skip_on`; default: it is skipped.",
                "next_day")] = None
    provider: Annotated[str | None,
        Setting(Name(), "Provider whose rate limits apply; default: the agent's.", "anthropic", owner_only=True)] = None
    max_cost: Annotated[int | None, Setting(Money(), "Cost at which a run is stopped.", "$2", owner_only=True)] = None
    max_tokens: Annotated[int | None,
        Setting(Tokens(), "Number of tokens at which a run is stopped.", "200k", owner_only=True)] = None
    pre_check: Annotated[CommandLine | None,
        Setting(Command(), "Command that must succeed, or the slot is skipped.", "true", owner_only=True)] = None
    before_run: Annotated[CommandLine | None,
        Setting(Command(), "Command that may cancel a run before it starts.", ["true"], owner_only=True)] = None
    after_run: Annotated[CommandLine | None,
        Setting(Command(), "Command that receives the outcome of a run.", "true", owner_only=True)] = None
    check_timeout_ms: Annotated[int,
        Setting(Duration(), "Longest duration of a pre-check or hook.", "15s", "check_timeout")] = 15_000
    approval: Annotated[ApprovalPolicy,
        Setting(_choice(ApprovalPolicy), "Whether runs need approval.", "owner_approve", owner_only=True)] = "auto"
    approval_jobs: Annotated[tuple[str, ...],
        Setting(Names(), "Jobs that need approval; default: all but harmless ones.", ["scheduled-task"],
                owner_only=True)] = ()
    approvers: Annotated[tuple[str, ...],
        Setting(Names(), "Who may approve; default: the owner.", ["ada", "grace"], owner_only=True)] = ()
    approvals_required: Annotated[int, Setting(Int(1, 100), "Number of approvals required.", 1, owner_only=True)] = 1
    approval_timeout_ms: Annotated[int,
        Setting(Duration(), "How long a request stays open.", "12h", "approval_timeout", owner_only=True)] = 86_400_000
    approval_default: Annotated[ApprovalDefault,
        Setting(_choice(ApprovalDefault), "Decision when a request expires.", "deny", owner_only=True)] = "deny"
    notify: Annotated[tuple[str, ...],
        Setting(Names(empty=True, of="destinations"),
                "Destinations that get its messages, or none; default: those of `notify`.", ["phone"],
                owner_only=True)] = ()
    notify_on: Annotated[tuple[str, ...],
        Setting(Names(empty=True, values=NOTICES), "What messages are sent for; default: that of `notify`.",
                ["failed", "recovered"], owner_only=True)] = ()
    late_after_ms: Annotated[int | None,
        Setting(Duration(), "How long after its time people hear that a slot has not started; default: never.", "15m",
                "late_after")] = None
    slow_after_ms: Annotated[int | None,
        Setting(Duration(auto=True),
                "How long a run may take before people hear of it; auto: three times what 95 % of them take; "
                "default: never.", "1h", "slow_after")] = None
    deliver: Annotated[tuple[str, ...],
        Setting(Names(empty=True, of="destinations"),
                "Destinations that get the answers of its runs, or none; default: the agent's, or those of `deliver`.",
                ["phone"], notable=True)] = ()
    deliver_on: Annotated[tuple[str, ...],
        Setting(Names(empty=True, values=DELIVER_ON),
                "Outcomes whose answers are delivered; default: that of `deliver`, which is succeeded.",
                ["succeeded", "failed"])] = ()
    deliver_if: Annotated[DeliverIf | None,
        Setting(_choice(DeliverIf),
                "Which answers are delivered: all, those with text, other ones than before, or news; default: that of "
                "`deliver`, which is text.", "news")] = None
    attach: Annotated[tuple[str, ...],
        Setting(Arguments(), "Files below the agent's directory that are delivered with the answer.",
                ["reports/*.pdf"], notable=True)] = ()
    ping: Annotated[str | None,
        Setting(Url(private=True), "URL that is called when a run starts and ends, as Healthchecks expects it.",
                "https://hc.example.com/ping/0f3a", owner_only=True)] = None
    ping_style: Annotated[PingStyle,
        Setting(_choice(PingStyle), "Whether starts and failures are reported too, or successes only.", "plain",
                owner_only=True)] = "healthchecks"
    fallback: Annotated[Fallback, Setting(_choice(Fallback), "What to do when the target is gone.", "wait")] = "fresh"
    fallback_timeout_ms: Annotated[int,
        Setting(Duration(), "How long the fallback `wait` waits for the target.", "30m",
                "fallback_timeout")] = 3_600_000
    final_fallback: Annotated[FinalFallback,
        Setting(_choice(FinalFallback), "What to do when the fallback `wait` found no target.", "skip")] = "fresh"
    fresh_after: Annotated[int | None,
        Setting(Int(1, 10_000), "Number of runs after which the target's conversation starts afresh.", 20)] = None
    fresh_after_tokens: Annotated[int | None,
        Setting(Tokens(), "Number of tokens after which the target's conversation starts afresh.", "500k")] = None
    keep: Annotated[str | None,
        Setting(Text(2_000, lines=True), "What the last run of a conversation writes down for the next one.",
                "open questions and decisions")] = None
    job_prompt: str | None = None
    """The prompt of the job type, written when the schedule is made; None for a function."""
    harmless: bool = False
    """Whether the type of the job says that runs need no approval under `owner_approve`."""
    step_jobs: tuple[tuple[str | None, bool], ...] = ()
    """`job_prompt` and `harmless` of each step."""
    files: tuple[tuple[str, str], ...] = ()
    """The files that its commands run, each with the digest of its content when a person set the command."""


@dataclass(frozen=True, slots=True)
class TriggerSettings:
    """The settings of a schedule that belong to *when*. The trigger holds them."""

    timezone: Annotated[str, Setting(Zone(), "IANA time zone, or `local`.", "Europe/Berlin", short="-z")] = "UTC"
    dst_gap: Annotated[DstGap,
        Setting(_choice(DstGap), "What to do with a time that is skipped when clocks go forward.", "after")] = "after"
    dst_overlap: Annotated[DstOverlap,
        Setting(_choice(DstOverlap), "What to do with a time that occurs twice.", "first")] = "first"
    anchor: Annotated[Anchor, Setting(_choice(Anchor), "What an interval is measured from.", "start")] = "completion"
    first: Annotated[First,
        Setting(_choice(First), "When the first run of an interval happens.", "immediately")] = ("after_interval")
    strict: Annotated[bool, Setting(Flag(), "Allow only cron with five plain fields.", True)] = False


# fmt: on
@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule in the store. Instants are UTC milliseconds."""

    id: int
    name: str
    agent: str
    state: ScheduleState
    rev: int
    definition: ScheduleDefinition
    note: str | None
    paused_by: str | None
    paused_at: int | None
    next_slot: int | None
    due_at: int | None
    executions: int
    failures: int
    """The number of consecutive failures."""
    failed_at: int | None
    """The instant of the last of them, while the schedule may back off."""
    created_at: int
    updated_at: int
    paused_until: int | None = None
    created_by: str = "owner"
    creator_role: str = "owner"
    creator_run: int | None = None
    """The run that created the schedule, if an agent did."""
    parent: int | None = None
    """The schedule of that run."""
    depth: int = 0
    """Depth in the chain of schedules that created one another; 0 for a person's schedule."""
