"""An agent: its runner, its directory and its permissions. Annotations are settings, see `settings`."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, get_args

from matins.model.settings import (
    Arguments,
    Choice,
    Duration,
    Flag,
    Int,
    Money,
    Name,
    Names,
    Options,
    Setting,
    Size,
    Text,
    Url,
    Variables,
)
from matins.model.settings import Target as TargetKind_

TargetKind = Literal["fresh", "channel", "session", "thread"]
IsolationMode = Literal["auto", "required", "none"]
Fallback = Literal["fresh", "skip", "wait"]
SessionStore = Literal["local", "shared"]
Worktree = Literal["exclusive", "shared", "per_run"]


class Target(NamedTuple):
    """Where a run happens."""

    kind: TargetKind = "fresh"
    channel: str | None = None
    session: str | None = None
    """The tool's id of a conversation."""
    session_name: str | None = None
    thread: int | str | None = None
    """A string is another system's name of a thread that does not exist here."""


FRESH = Target()


# fmt: off
@dataclass(frozen=True, slots=True)
class Agent:
    """An agent. Durations are milliseconds, money is micro-dollars."""

    name: str
    runner: Annotated[str,
        Setting(Name(), "Tool that runs the agent: claude, codex, gemini, goose, opencode, qwen, openai, http, shell,"
                " demo.",
                "claude", required=True)]
    model: Annotated[str | None, Setting(Name(), "Model, by the runner's name for it.", "claude-sonnet-5-5")] = None
    effort: Annotated[str | None,
        Setting(Name(), "How much the model thinks, by the runner's name for it.", "high")] = None
    workdir: Annotated[str | None, Setting(Text(4_096), "Directory in which the agent works.", "~/src/garden")] = None
    worktree: Annotated[Worktree | None,
        Setting(Choice(get_args(Worktree)),
                "In a git checkout: one run at a time (the default), several at once, or a worktree for each run.",
                "per_run")] = None
    environment: Annotated[tuple[tuple[str, str], ...],
        Setting(Variables(), "Environment variables; env:NAME and file:/path are read when a run starts.",
                {"API_KEY": "env:API_KEY"})] = ()
    tools: Annotated[tuple[str, ...], Setting(Names(), "Tools that the agent may use.", ["Read", "Grep"])] = ()
    permission_mode: Annotated[str | None,
        Setting(Name(), "Permission mode, by the runner's name for it.", "acceptEdits")] = None
    max_turns: Annotated[int | None, Setting(Int(1, 10_000), "Maximum number of turns in one run.", 20)] = None
    timeout_ms: Annotated[int | None,
        Setting(Duration(none=True), "Longest duration of a run; `none` for no limit.", "1h", "timeout")] = 3_600_000
    idle_timeout_ms: Annotated[int | None,
        Setting(Duration(none=True), "Longest silence of a run; `none` for no limit.", "none",
                "idle_timeout")] = 900_000
    exit_timeout_ms: Annotated[int | None,
        Setting(Duration(none=True), "How long the tool may take to exit after its final answer.", "30s",
                "exit_timeout")] = 30_000
    max_cost: Annotated[int | None, Setting(Money(), "Cost at which a run of the agent is stopped.", "$1.50")] = None
    max_concurrent: Annotated[int | None,
        Setting(Int(1, 10_000), "Maximum number of concurrent runs of the agent.", 2)] = None
    runs_on: Annotated[tuple[str, ...],
        Setting(Names(empty=True, labels=True), "Labels that a node must have to run the agent.", ["gpu"])] = ()
    host: Annotated[str | None, Setting(Name(label=True), "Node that runs the agent.", "build-1")] = None
    session_store: Annotated[SessionStore,
        Setting(Choice(get_args(SessionStore)),
                "Whether its tool keeps conversations on the node that began them, or where all nodes have them.",
                "shared")] = "local"
    provider: Annotated[str | None,
        Setting(Name(), "Provider whose rate limits apply; default: the runner's.", "anthropic")] = None
    target: Annotated[Target,
        Setting(TargetKind_(), "Where runs of the agent happen, unless a schedule has a target.", "fresh")] = FRESH
    deliver: Annotated[tuple[str, ...],
        Setting(Names(empty=True, of="destinations"),
                "Destinations that get the answers of its runs, unless a schedule names its own.", ["phone"])] = ()
    url: Annotated[str | None,
        Setting(Url(), "URL of the endpoint, for runners that call one.", "http://localhost:11434/v1")] = None
    command: Annotated[tuple[str, ...],
        Setting(Arguments(), "Program of the shell runner, with its arguments.", ["./work.sh", "--once"])] = ()
    arguments: Annotated[tuple[str, ...],
        Setting(Arguments(), "Additional arguments for the tool.", ["--verbose"])] = ()
    options: Annotated[dict[str, Any],
        Setting(Options(), "Options that only the runner knows.",
                {"temperature": 0.2})] = field(default_factory=dict[str, Any])
    mcp: Annotated[bool,
        Setting(Flag(), "Whether the agent has the tools of Matins in its runs.", False)] = True
    isolation: Annotated[IsolationMode,
        Setting(Choice(get_args(IsolationMode)),
                "Whether the agent is kept from the files of Matins: where the system can, always or never.",
                "required")] = "auto"
    user: Annotated[str | None,
        Setting(Name(), "Account that the agent runs as; only where Matins is root.", "robin")] = None
    hidden: Annotated[tuple[str, ...],
        Setting(Arguments(), "More directories that an isolated agent does not see.", ["~/.ssh"])] = ()
    memory: Annotated[int | None,
        Setting(Size(32_000_000, none=True), "Memory of all processes of a run; `none` for no limit.", "8GB")
    ] = 4_000_000_000
    processes: Annotated[int, Setting(Int(1, 1_000_000), "Maximum number of processes of a run.", 100)] = 500
    open_files: Annotated[int, Setting(Int(32, 1_000_000), "Maximum number of open files of a process.", 1_024)] = 4_096
    cpu_seconds: Annotated[int | None,
        Setting(Int(1, 1_000_000_000), "CPU time of a process, in seconds.", 3_600)] = None
    file_size: Annotated[int | None,
        Setting(Size(1_000, none=True), "Size of a file that a run writes; `none` for no limit.", "100MB")
    ] = 4_000_000_000
