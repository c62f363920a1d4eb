"""Every word of the file, as tables: what may stand there, and what it means. Reader and schema come from these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from matins.config.presets import PRESETS
from matins.engine import agent_rules, agents, budgets, prices, quiet_hours, schedules
from matins.engine.policies import HOOKS
from matins.work.base import KINDS as SOURCES
from matins.work.base import LISTS as SOURCE_LISTS

Shape = Literal[
    "text", "duration", "number", "decimal", "truth", "choice", "texts", "command", "amount", "mapping", "variables",
    "target", "windows", "pause", "anything",
]  # fmt: skip
Edits = Literal["refuse", "write_back"]


class Word(NamedTuple):
    says: str
    shape: Shape = "text"
    choices: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    needed: bool = False


Table = Mapping[str, Word]

_SCHEDULE_SAYS = {
    "about": "What it is for, for people to read.",
    "labels": "Names and texts by which other systems find it again.",
    "prompt": "What its agent is told; {{slot}} and the like are filled in.",
    "target": "Where its runs land: fresh, or a channel, a session or a thread.",
    "do": "The registered job that it starts, where it does not talk to an agent.",
    "payload": "What its job is given: anything that JSON can hold.",
    "jitter": "So many percent of its period later at the most, 0 to 10.",
    "ends": "An instant after which nothing of it runs.",
    "catch_up": "What becomes of slots for which nobody was there.",
    "overlap": "What happens when it is due and its last run is still at work.",
    "at_capacity": "What happens when as many run as may.",
    "on_unknown": "What happens to a run of which nobody knows how it ended.",
    "approval": "Whether people are asked before each run.",
    "approval_default": "What a question that nobody answers comes to.",
    "fallback": "What happens when its target is gone.",
    "final_fallback": "What happens when waiting for its target was in vain.",
    "cap": "So many runs at the most for one missed window, with catch_up: run_all_capped.",
    "queue_limit": "So many runs wait at the most, with overlap: queue.",
    "retries": "How often a run that failed is tried again.",
    "max_executions": "After so many runs it is completed.",
    "pause_after": "It is paused after so many failures in a row.",
    "approvals_needed": "So many must approve.",
    "grace": "How late a slot may still run.",
    "retry": "How long before the first retry; it doubles each time.",
    "retry_most": "The longest time before a retry.",
    "timeout": "How long a run may take.",
    "check_limit": "How long pre_check and hooks may take, each.",
    "approval_expires": "How long a question waits for its answer.",
    "wait": "How long fallback: wait waits for a target that is gone.",
    "quiet_hours": "The quiet hours that it keeps, by name.",
    "provider": "Whose limits hold for it; its agent's where it is not said.",
    "work": "Where its work items come from, by name.",
    "approvers": "Who may approve; the owner where it is not said.",
    "approval_actions": "Which jobs need approval.",
    "pre_check": "A command; when it fails, this fire is skipped.",
    "before": "A hook that may cancel a run before it starts.",
    "after": "A hook that learns how a run ended.",
    "max_cost": "A run that has spent this is ended.",
    "max_tokens": "A run that has used so many tokens is ended.",
    "timezone": "An IANA name such as Europe/Berlin, or local for the machine's own.",
    "dst_gap": "What becomes of a time that the clocks jump over.",
    "dst_overlap": "What becomes of a time that comes twice when the clocks go back.",
    "anchor": "What an interval counts from.",
    "first": "Whether an interval begins at once or after its first period.",
    "strict": "Cron of five plain fields only: no aliases, seconds, names, L, W or #.",
}
_AGENT_SAYS = {
    "runner": "What wakes it: claude, codex, gemini, goose, opencode, openai, shell, demo, or one that you added.",
    "model": "The model, by the runner's own name for it.",
    "workdir": "The folder in which it works.",
    "permission_mode": "How freely it may act, by the runner's own name for it.",
    "provider": "Whose limits hold for it; the runner's own where it is not said.",
    "url": "Of an endpoint, for runners that call one.",
    "tools": "The tools that it may use.",
    "command": "The program of the shell runner, with its arguments.",
    "arguments": "More arguments for the tool.",
    "max_turns": "So many turns in one run at the most.",
    "max_concurrent": "So many of its runs at once.",
    "wall": "How long a run may take; none for no limit.",
    "idle": "How long a run may be silent; none for no limit.",
    "after_final": "How long it may stay once it has said its last word.",
    "environment": "Names and values; env:NAME and file:/path are read when a run starts.",
    "max_cost": "What one run may cost.",
    "target": "Where its runs land, unless a schedule says otherwise.",
    "options": "What only its runner knows.",
}
_RULE_SAYS = {
    "quota": "How many schedules of its making there may be at once.",
    "depth": "How far schedules may make schedules.",
    "auto_one_shots": "Whether a one-shot for itself goes through unasked.",
    "auto_jobs": "Which jobs such one-shots may start.",
    "floor": "How often they may fire.",
    "expiry": "How long they last at the most.",
    "approval_expires": "How long a proposal waits for an answer.",
}
_BUDGET_SAYS = {
    "scope": "Whose money it is: each schedule's, each agent's, or all of it.",
    "of": "One agent, or one schedule as agent/name.",
    "per": "A day or a month.",
    "money": "So much, such as $5.",
    "tokens": "So many, such as 2M.",
    "timezone": "Where its days begin and end.",
}
_QUIET_SAYS = {
    "windows": 'Stretches such as "22:00-07:00" or "sat,sun 00:00-24:00".',
    "timezone": "Where these times are shown by the clock.",
    "mode": "Whether what is due then is skipped, or runs once at their end.",
}
_PRICE_SAYS = {
    "input": "Money for a million tokens that it reads.",
    "output": "Money for a million tokens that it writes.",
    "cached": "Money for a million tokens that it reads from its cache.",
}
_SOURCE_SAYS = {
    "kind": "tasks for a TASKS.yaml, github for issues.",
    "path": "The TASKS.yaml, counted from the agent's workdir.",
    "repo": "owner/name.",
    "labels": "An issue must have them all.",
    "priorities": "Labels, the most urgent first.",
    "base_url": "Of the API of another GitHub.",
    "token": "Where the token is: env:NAME or file:/path.",
}


def _schedule(word: str) -> Word:
    says = _SCHEDULE_SAYS[word]
    if word in schedules.CHOICES:
        return Word(says, "choice", schedules.CHOICES[word])
    if word == "strict":
        return Word(says, "truth")
    if word in schedules.TRIGGER_CHOICES:
        return Word(says, "choice", schedules.TRIGGER_CHOICES[word])
    if word in schedules.NUMBERS:
        low, high = schedules.NUMBERS[word]
        return Word(says, "number", low=low, high=high)
    if word in schedules.DURATIONS:
        return Word(says, "duration")
    if word in schedules.LISTS:
        return Word(says, "texts")
    if word in schedules.COMMANDS:
        return Word(says, "command")
    return _SCHEDULE_SHAPES.get(word, Word(""))._replace(says=says)


_SCHEDULE_SHAPES = {
    "labels": Word("", "mapping"),
    "payload": Word("", "anything"),
    "target": Word("", "target"),
    "jitter": Word("", "decimal", low=0, high=10),
    "max_cost": Word("", "amount"),
    "max_tokens": Word("", "amount"),
}


def _agent(word: str) -> Word:
    says = _AGENT_SAYS[word]
    if word in agents.LISTS:
        return Word(says, "texts")
    if word in agents.NUMBERS:
        return Word(says, "number", low=1, high=agents.NUMBERS[word])
    if word in agents.DURATIONS:
        return Word(says, "duration", ("none",))
    shapes: dict[str, Shape] = {
        "environment": "variables",
        "options": "mapping",
        "target": "target",
        "max_cost": "amount",
    }
    return Word(says, shapes.get(word, "text"), needed=word == "runner")


def _rule(word: str) -> Word:
    says = _RULE_SAYS[word]
    if word in agent_rules.DURATIONS:
        return Word(says, "duration")
    if word == "auto_one_shots":
        return Word(says, "truth")
    return Word(says, "texts") if word == "auto_jobs" else Word(says, "number", low=0, high=10_000)


def _budget(word: str) -> Word:
    says = _BUDGET_SAYS[word]
    choices = {"scope": get_args(budgets.Scope), "per": get_args(budgets.Period)}
    if word in choices:
        return Word(says, "choice", choices[word], needed=word == "per")
    return Word(says, "amount" if word in ("money", "tokens") else "text")


def _quiet(word: str) -> Word:
    says = _QUIET_SAYS[word]
    if word == "windows":
        return Word(says, "windows", needed=True)
    return Word(says, "choice", quiet_hours.MODES) if word == "mode" else Word(says)


def _source(word: str) -> Word:
    says = _SOURCE_SAYS[word]
    if word == "kind":
        return Word(says, "choice", tuple(SOURCES), needed=True)
    return Word(says, "texts" if word in SOURCE_LISTS else "text")


OWN_WORDS = {word: _schedule(word) for word in schedules.WORDS}
"""What `defaults` may say too."""
SCHEDULE: Table = {
    "when": Word('When: "every weekday at 9am", "0 2 * * *", "5m", an ISO instant, an RRULE.'),
    "agent": Word("Who is woken, by name."),
    "preset": Word("Whose defaults hold for it.", "choice", tuple(PRESETS)),
    "paused": Word("Paused as long as the file says so; a text says why.", "pause"),
    "type": Word("As herdctl writes it: with interval or expression, in the place of when.", "choice",
                 ("interval", "cron")),
    "interval": Word("With type: interval.", "duration"),
    "expression": Word("With type: cron."),
    **OWN_WORDS,
}  # fmt: skip
AGENT: Table = {word: _agent(word) for word in agents.WORDS}
RULES: Table = {word: _rule(word) for word in agent_rules.WORDS}
BUDGET: Table = {word: _budget(word) for word in budgets.WORDS}
QUIET_HOURS: Table = {word: _quiet(word) for word in quiet_hours.WORDS}
PRICE: Table = {word: Word(_PRICE_SAYS[word], "amount", needed=word != "cached") for word in prices.WORDS}
SOURCE: Table = {word: _source(word) for word in _SOURCE_SAYS}
HOOK: Table = {
    "command": Word("A text for the shell, or a list of a program and its arguments.", "command", needed=True),
    "limit": Word("How long it may take.", "duration"),
}
WEBHOOK: Table = {
    "url": Word("Where signed events are sent.", needed=True),
    "types": Word("Which events; all where it is not said.", "texts"),
    "secret": Word("Where the secret is that signs them: env:NAME or file:/path.", needed=True),
}


class Section(NamedTuple):
    """A mapping of names to things of one kind."""

    says: str
    kind: str
    table: Table
    names: tuple[str, ...] = ()
    """Which names there may be; any where none is said."""


SECTIONS: Mapping[str, Section] = {
    "agents": Section("Who is woken, by name; their schedules may stand below them.", "agent", AGENT),
    "schedules": Section("When who is woken for what, by name.", "schedule", SCHEDULE),
    "quiet_hours": Section("When nothing begins, by name.", "quiet_hours", QUIET_HOURS),
    "budgets": Section("What may be spent, by name.", "budget", BUDGET),
    "prices": Section("What models cost, by name.", "price", PRICE),
    "hooks": Section("Commands for every schedule.", "hook", HOOK, HOOKS),
    "webhooks": Section("Who hears of events, by name.", "webhook", WEBHOOK),
    "work_sources": Section("Where work items come from, by name.", "work", SOURCE),
    "agent_rules": Section('What agents may schedule, by name; "*" for all others.', "agents", RULES),
}
SIMPLE: Table = {
    "preset": Word("Whose defaults hold for the schedules of this file.", "choice", tuple(PRESETS)),
    "edits": Word("Whether changes elsewhere to what the file defines are refused, or written back into it.", "choice",
                  get_args(Edits)),
    "allowed_hosts": Word("Hosts of your own network that webhooks may lead to, whatever their address.", "texts"),
    "heartbeat": Word("An address outside that is called every minute while all is well."),
}  # fmt: skip
NUMBERED = {
    "rates": Word("What one of a currency is worth in dollars.", "decimal", low=0),
    "limits": Word("So many runs at once: global, or agent:NAME.", "number", low=1, high=10_000),
}
DEFAULTS = "defaults"
TOP = (*SIMPLE, DEFAULTS, *SECTIONS, *NUMBERED)
NESTED = "schedules"
"""Below an agent, beside its own words."""
