"""The words of schedules, agents and policies as options; whatever they mean, the service says."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import click

from matins.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])
_METAVARS = {"number": "N", "names": "A,B", "json": "JSON", "command": "COMMAND", "shell": "COMMAND"}


class Word(NamedTuple):
    name: str
    help: str
    kind: str = "text"
    """text, number, names (with commas between), command (split as a shell would, or JSON), shell (a text for one, or
    JSON), json (or a text), flag."""
    choices: tuple[str, ...] = ()
    short: str | None = None


SCHEDULE = (
    Word("timezone", 'IANA name, or "local". UTC by default.', short="-z"),
    Word("do", "A job that a program of yours registers, instead of a prompt."),
    Word("about", "What it is for."),
    Word("labels", 'Names and texts, as JSON: {"project": "apollo"}.', "json"),
    Word("payload", "What the job is given: JSON, or a text.", "json"),
    Word("target", "Where a run lands: fresh, or as JSON a channel, session or thread.", "json"),
    Word("overlap", "While a run is under way.", choices=("skip", "queue", "cancel_other", "allow")),
    Word("catch_up", "What becomes of missed slots.", choices=("skip", "run_once", "run_all_capped")),
    Word("cap", "How many of them run_all_capped runs.", "number"),
    Word("grace", "How late a slot may still run: 5m."),
    Word("retries", "How often a failed run is tried again.", "number"),
    Word("retry", "How long before the first of them: 10s."),
    Word("retry_most", "And how long at the most."),
    Word("on_unknown", "When nobody knows how a run ended.", choices=("hold", "retry")),
    Word("timeout", "How long a run may take."),
    Word("jitter", "Percent of its period, 0 to 10.", "number"),
    Word("ends", "An instant after which it does not run."),
    Word("max_executions", "How many runs before it is completed.", "number"),
    Word("pause_after", "Pause after so many failures in a row.", "number"),
    Word("queue_limit", "How many runs may wait in a queue.", "number"),
    Word("at_capacity", "When no place is free.", choices=("wait", "skip")),
    Word("quiet_hours", "Which quiet hours it keeps."),
    Word("provider", "Whose limits hold for it."),
    Word("max_cost", "What one run may spend: $2."),
    Word("max_tokens", "And how many tokens: 200k."),
    Word("approval", "Who is asked first.", choices=("auto", "owner_approve", "council_approve")),
    Word("approvers", "Names, with commas between.", "names"),
    Word("approvals_needed", "How many of them.", "number"),
    Word("approval_expires", "How long they have: 24h."),
    Word("approval_default", "When nobody answers.", choices=("deny", "approve")),
    Word("approval_actions", "Which jobs need approval, with commas between.", "names"),
    Word("pre_check", "A command that may skip a run."),
    Word("before", "A command that may cancel a run."),
    Word("after", "A command that learns how a run ended."),
    Word("check_limit", "How long each of those may take: 15s."),
    Word("fallback", "When its target is gone.", choices=("fresh", "skip", "wait")),
    Word("wait", "How long fallback wait waits."),
    Word("final_fallback", "And then.", choices=("fresh", "skip")),
    Word("work", "Where its work items come from."),
    Word("anchor", "What an interval counts from.", choices=("completion", "start", "grid")),
    Word("first", "The first fire of an interval.", choices=("after_interval", "immediately")),
    Word("dst_gap", "A time that the clocks jump over.", choices=("after", "skip", "shift")),
    Word("dst_overlap", "A time that comes twice.", choices=("first", "both")),
    Word("strict", "Refuse cron beyond numbers, *, ranges, steps and lists.", "flag"),
)
AGENT = (
    Word("runner", "claude, codex, gemini, goose, opencode, shell, demo …"),
    Word("model", "As its tool calls it."),
    Word("workdir", "Where it works."),
    Word("environment", 'As JSON: {"TOKEN": "env:TOKEN"}; env:NAME and file:/path are read when a run starts.', "json"),
    Word("tools", "Which it may use, with commas between.", "names"),
    Word("permission_mode", "As its tool calls it."),
    Word("max_turns", "How many turns a run may take.", "number"),
    Word("wall", "How long a run may take: 1h."),
    Word("idle", "How long it may say nothing: 15m."),
    Word("after_final", "How long it may go on after its last word."),
    Word("max_cost", "What one run may spend: $2."),
    Word("max_concurrent", "How many runs at once.", "number"),
    Word("provider", "Whose limits hold for it."),
    Word("target", "Where its runs land.", "json"),
    Word("url", "Of an endpoint, for runners that call one."),
    Word("command", "For the shell runner: './report.sh --all', or as a list in JSON.", "command"),
    Word("arguments", "More arguments for the tool: '--verbose', or as a list in JSON.", "command"),
    Word("options", "What only its runner knows, as JSON.", "json"),
)
QUIET_HOURS = (
    Word("windows", '22:00-07:00, or "weekdays 22:00-07:00"; several with commas between.', "names"),
    Word("timezone", "Whose clock they go by.", short="-z"),
    Word("mode", "What becomes of a run that is due then.", choices=("skip", "defer")),
)
BUDGET = (
    Word("money", "$5, or another currency that has a rate."),
    Word("tokens", "2M."),
    Word("per", "The period.", choices=("day", "month")),
    Word("scope", "For all together, or for each.", choices=("all", "agent", "schedule")),
    Word("of", "One agent, or one schedule as agent/name."),
    Word("timezone", "Where its days begin.", short="-z"),
)
PRICE = (
    Word("input", "Money for a million tokens that it reads: $1."),
    Word("output", "And that it writes: $8."),
    Word("cached", "And that it reads from its cache; as input where it is not said."),
)
HOOK = (
    Word("command", "A text for the shell, or as JSON a list of a program and its arguments.", "shell"),
    Word("limit", "How long it may take: 15s."),
)
RULES = (
    Word("quota", "How many schedules of its making there may be at once.", "number"),
    Word("depth", "How far schedules may make schedules.", "number"),
    Word("floor", "How often they may fire: 5m."),
    Word("expiry", "How long they last at the most: 30d."),
    Word("approval_expires", "How long a proposal waits for an answer: 7d."),
    Word("auto_one_shots", "Whether one-shots for itself go through unasked.", "flag"),
    Word("auto_jobs", "Which jobs those may start, with commas between.", "names"),
)
SOURCE = (
    Word("kind", "A TASKS.yaml, or issues.", choices=("tasks", "github")),
    Word("path", "Of the TASKS.yaml."),
    Word("repo", "owner/name."),
    Word("labels", "An issue must have them all; with commas between.", "names"),
    Word("priorities", "Labels, the most urgent first.", "names"),
    Word("base_url", "Of the API of another GitHub."),
    Word("token", "Where the token is: env:NAME or file:/path."),
)


def word_options(words: Iterable[Word], *, unset: bool = False) -> Callable[[F], F]:
    """An option for each, and `--set word=value`; their values come as `words`, see `given`."""
    table = tuple(words)

    def decorate(function: F) -> F:
        if unset:
            text = "Back to what is usual; may be said again."
            function = click.option("--unset", multiple=True, metavar="WORD", help=text)(function)
        text = "Any word by its name; may be said again."
        function = click.option("--set", "settings", multiple=True, metavar="WORD=VALUE", help=text)(function)
        for word in reversed(table):
            function = _option(word)(function)
        return function

    return decorate


def _option(word: Word) -> Callable[[F], F]:
    names = [f"--{word.name.replace('_', '-')}", *([word.short] if word.short else []), f"word_{word.name}"]
    if word.kind == "flag":
        return click.option(*names, is_flag=True, default=None, help=word.help)
    kind = click.Choice(word.choices) if word.choices else None
    metavar = None if word.choices else _METAVARS.get(word.kind, "TEXT")
    return click.option(*names, type=kind, metavar=metavar, help=word.help)


def given(table: Iterable[Word], options: Mapping[str, Any]) -> dict[str, Any]:
    """The words that were said, by options and by `--set`, with values of their kind; None for what is unset."""
    kinds = {word.name: word.kind for word in table}
    said = {word: options[f"word_{word}"] for word in kinds if options.get(f"word_{word}") is not None}
    for setting in options.get("settings", ()):
        word, equals, value = setting.partition("=")
        if not equals:
            raise InvalidInput(f'"{setting}" sets nothing', value=setting, field="set", hint="--set word=value")
        said[word.strip().replace("-", "_")] = value
    values: dict[str, Any] = {word: valued(kinds.get(word, "json"), value) for word, value in said.items()}
    return values | {word.replace("-", "_"): None for word in options.get("unset", ())}


def valued(kind: str, value: Any) -> Any:
    """What cannot be read as its kind stays a text: the service says what is wrong with it."""
    if not isinstance(value, str) or kind == "text":
        return value
    if kind == "names":
        return [name.strip() for name in value.split(",") if name.strip()]
    if kind in ("command", "shell") and not value.lstrip().startswith("["):
        return _split(value) if kind == "command" else value
    if kind == "flag":
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.lower(), value)
    try:
        read = json.loads(value)
    except ValueError:
        return value
    return (
        read
        if kind in ("json", "command", "shell") or (isinstance(read, (int, float)) and not isinstance(read, bool))
        else value
    )


def _split(command: str) -> list[str]:
    """A program and its arguments, in quotes where they hold blanks; no shell sees them."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"{error}: {command}", value=command, field="command", hint="close the quotes") from None
