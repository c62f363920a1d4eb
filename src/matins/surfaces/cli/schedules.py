"""`matins add`, `list`, `show`, `edit`, `pause`, `resume`, `rm`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

import click

from matins.errors import Conflict, InvalidInput, MatinsError, NotFound
from matins.surfaces.cli.commands import Command, agent_option, complete_agents, name_argument, pass_desk, removed
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.instants import AHEAD
from matins.surfaces.cli.paging import Page, page_options
from matins.surfaces.cli.states import last_run, next_run, schedule_state
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import block, one_line, plain
from matins.surfaces.cli.times import in_full
from matins.surfaces.cli.words import SCHEDULE, given, word_options

_STATES = ("active", "paused", "pending", "completed", "expired", "rejected", "broken")
_COLUMNS = (Column("NAME"), Column("AGENT", 6), Column("WHEN", 10), Column("NEXT", 9), Column("LAST", 12))
_EMPTY = 'No schedules yet. Make one: matins add "every weekday at 9am" --agent claude "Summarise my open PRs"'
_LONGEST_NAME, _NAME_WORDS, _TRIES = 40, 6, 50
_SAYS_ITS_ZONE = re.compile(r"^\s*(in|after)\b|(Z|[+-]\d\d:?\d\d)\s*$", re.IGNORECASE)
_SHOWN_BEFORE = ("when", "timezone", "prompt")


@click.command(cls=Command)
@click.argument("when")
@click.argument("prompt", required=False)
@click.argument("more", nargs=-1, metavar="")
@click.option("--agent", "-a", metavar="AGENT", shell_complete=complete_agents,
              help="Who is woken. The name of a runner makes that agent.")  # fmt: skip
@click.option("--name", "-n", metavar="NAME", help="By default, from the first words of the prompt.")
@word_options(SCHEDULE)
@pass_desk
def add(
    desk: Desk,
    when: str,
    prompt: str | None,
    more: tuple[str, ...],
    agent: str | None,
    name: str | None,
    **options: Any,
) -> None:
    """Make a schedule: WHEN it wakes an agent, and the PROMPT.

    \b
    matins add "every weekday at 9am" --agent claude "Summarise my open PRs"
    matins add "0 2 * * *" --name backup --do backup --timezone Europe/London
    """
    if more:
        said = " ".join([when, str(prompt), *more])
        hint = 'put quotes around each: matins add "every weekday at 9am" "Summarise my open PRs"'
        raise InvalidInput(f"WHEN and PROMPT are two texts, these are more: {said}", field="when", hint=hint)
    words = {"when": when, "prompt": prompt, "agent": agent, **given(SCHEDULE, options)}
    words = {word: value for word, value in words.items() if value is not None}
    if prompt is None and "do" not in words and "work" not in words:
        raise InvalidInput("Nothing is said that it should do", field="prompt", hint="a prompt, or --do JOB")
    if "do" not in words and agent is None:
        raise InvalidInput("Nobody is named who should do it", field="agent", hint=_whom(desk))
    made = "do" not in words and _made_agent(desk, str(agent))
    try:
        document = _added(desk, name, prompt or words.get("do") or words["work"], words)
    except MatinsError:
        if made:
            desk.ask("drop_agent", name=agent)
        raise
    if made:
        desk.tell(f'Made the agent "{agent}" with the runner {agent}. It works in a folder of its own ({_own(agent)});')
        desk.tell(f"  elsewhere: matins agents edit {agent} --workdir DIR")
    desk.show(document, lambda: _told(desk, "Added", document))
    _tell_what_is_missing(desk, document, words)


def _whom(desk: Desk) -> str:
    known = [agent["name"] for agent in desk.ask("agents")]
    return f"--agent {' or '.join(known[:5])}" if known else "--agent claude, or another runner: codex, gemini, demo …"


def _made_agent(desk: Desk, name: str) -> bool:
    """An agent that does not exist is made where a runner has its name."""
    try:
        desk.ask("get_agent", name=name)
        return False
    except NotFound as unknown:
        try:
            desk.ask("set_agent", name=name, runner=name, workdir=_own(name))
        except InvalidInput as error:
            if error.field != "runner":
                raise
            hint = _nearest_agent(desk, name, str(error.allowed or error.hint))
            raise NotFound(unknown.message, value=name, field="agent", hint=hint) from None
        return True


def _own(agent: str | None) -> str:
    """Beside the store; it is made when the agent is first woken."""
    return f"agents/{agent}"


def _nearest_agent(desk: Desk, name: str, runners: str) -> str:
    from difflib import get_close_matches

    known = [agent["name"] for agent in desk.ask("agents")]
    close = get_close_matches(name, [*known, *runners.split(", ")], n=1)
    new = f"matins agents set {shlex.quote(name)} --runner claude"
    return f'did you mean "{close[0]}"? A new one: {new}' if close else f"make it: {new}; runners: {runners}"


def _added(desk: Desk, name: str | None, subject: str, words: dict[str, Any]) -> dict[str, Any]:
    """Under its name, or under the first free one that its subject gives."""
    if name is not None:
        return desk.ask("look", **_found(desk.ask("add", name=name, **words)))
    plain = derived_name(subject)
    for number in range(1, _TRIES + 1):
        free = plain if number == 1 else f"{plain}-{number}"
        try:
            return desk.ask("look", **_found(desk.ask("add", name=free, **words)))
        except Conflict as error:
            if error.field != "name" or number == _TRIES:
                raise
    raise AssertionError(plain)


def _found(schedule: dict[str, Any]) -> dict[str, Any]:
    return {"name": schedule["name"], "agent": schedule["agent"]}


def derived_name(subject: str) -> str:
    """summarise-my-open-prs."""
    words = re.findall(r"\w+", subject.lower())[:_NAME_WORDS]
    while len(words) > 1 and len("-".join(words)) > _LONGEST_NAME:
        words.pop()
    return "-".join(words)[:_LONGEST_NAME] or "schedule"


def _told(desk: Desk, verb: str, schedule: dict[str, Any]) -> str:
    """Added morning: every weekday at 09:00 (UTC), next in 3d (Mon 09:00)."""
    coming = "" if schedule["next_run_at"] is None else f", next {desk.when(schedule['next_run_at'])}"
    standing = "" if schedule["state"] == "active" else f", {schedule_state(schedule).text}"
    return one_line(f"{verb} {schedule['name']}: {schedule['description']} ({schedule['timezone']}){coming}{standing}")


def _tell_what_is_missing(desk: Desk, schedule: dict[str, Any], words: dict[str, Any]) -> None:
    kind, name = schedule["trigger"]["kind"], shlex.quote(schedule["name"])
    if "timezone" not in words and schedule["timezone"] == "UTC" and kind != "interval":
        if kind != "once":
            desk.tell(f"Its times are in UTC. On your own clock: matins edit {name} --timezone local")
        elif not _SAYS_ITS_ZONE.search(words["when"]):
            when = shlex.quote(words["when"])
            desk.tell(f"Its time is in UTC. On your own clock: matins edit {name} --when {when} --timezone local")
    if not _tell_of_its_job(desk, schedule["do"], words):
        desk.tell_if_nothing_runs()


def _tell_of_its_job(desk: Desk, job: str, words: dict[str, Any]) -> bool:
    """Whether there is something to tell. It is no error: the program that has the job may be yet to come."""
    known = desk.ask("known_jobs") if "do" in words else {"names": [job]}
    if job in known["names"]:
        return False
    if known["engine"]:
        desk.tell(f'No engine here has the job "{job}": its runs fail, unless a program that registers it takes them.')
    elif known["others"]:
        desk.tell(f'It needs an engine that has the job "{job}".')
    else:
        desk.tell(f'Nothing runs yet: start the program of yours that registers the job "{job}"; matins up has none.')
    return True


@click.command("list", cls=Command)
@click.option("--agent", "-a", metavar="AGENT", shell_complete=complete_agents, help="Of one agent.")
@click.option("--state", "-s", type=click.Choice(_STATES))
@page_options("--after")
@pass_desk
def list_schedules(desk: Desk, agent: str | None, state: str | None, after: str | None, limit: int) -> None:
    """Schedules, when they fire next, and how the last run went."""
    page = Page.of(limit, lambda most: desk.ask("overview", agent=agent, state=state, after=after, limit=most))
    desk.show(page.items, lambda: _listed(desk, page.items, filtered=bool(agent or state or after)))
    page.tell_more(desk, "matins list --after", page.last_id)


def _listed(desk: Desk, items: list[dict[str, Any]], *, filtered: bool) -> Iterable[str]:
    if not items:
        return ["No schedule matches." if filtered else _EMPTY]
    rows = [
        (item["name"], item["agent"] or "–", item["description"], next_run(item, desk.now),
         last_run(item["last_run"], desk.now))
        for item in items
    ]  # fmt: skip
    return desk.table(_COLUMNS, rows)


@click.command(cls=Command)
@name_argument
@agent_option
@pass_desk
def show(desk: Desk, name: str, agent: str | None) -> None:
    """One schedule: all that it says, and how it stands."""
    item = desk.ask("look", name=name, agent=agent)
    desk.show(item, lambda: _shown(desk, item))


def _shown(desk: Desk, item: dict[str, Any]) -> list[str]:
    words = {word: value for word, value in item["words"].items() if word not in _SHOWN_BEFORE}
    place = item["file"]
    lines = desk.fields(
        ("name", item["name"]),
        ("agent", item["agent"]),
        ("state", _standing(desk, item)),
        ("when", f"{item['description']} ({item['timezone']})"),
        ("next", item["next_run_at"] and f"{desk.away(item['next_run_at'])}, {in_full(item['next_run_at'])}"),
        ("last", last_run(item["last_run"], desk.now).text),
        *((word.replace("_", " "), plain(value)) for word, value in words.items()),
        ("fired", _fired(item)),
        ("file", place and f"{place['path']}:{place['line']}"),
        ("made", f"{desk.away(item['created_at'])} by {item['created_by']}, revision {item['rev']}"),
    )
    if item["prompt"]:
        lines += ["", *(f"  {line}" for line in block(item["prompt"]).split("\n"))]
    return lines


def _fired(item: dict[str, Any]) -> str:
    return f"{item['executions']} times" + (f", {item['failures']} failed in a row" if item["failures"] else "")


def _standing(desk: Desk, item: dict[str, Any]) -> str:
    if item["state"] != "paused":
        return schedule_state(item).text
    until = f", until {desk.until(item['paused_until'])}" if item["paused_until"] else ""
    note = f": {item['note']}" if item["note"] else ""
    return f"‖ paused by {item['paused_by']} {desk.away(item['paused_at'])}{until}{note}"


@click.command(cls=Command)
@name_argument
@agent_option
@click.option("--when", "word_when", metavar="TEXT", help="When it fires.")
@click.option("--prompt", "-p", "word_prompt", metavar="TEXT", help="What its agent is told.")
@word_options(SCHEDULE, unset=True)
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@pass_desk
def edit(desk: Desk, name: str, agent: str | None, dry_run: bool, **options: Any) -> None:
    """Change what a schedule says; runs under way keep theirs."""
    words = given(SCHEDULE, options)
    words |= {word: options[f"word_{word}"] for word in ("when", "prompt") if options[f"word_{word}"] is not None}
    if not words:
        raise InvalidInput("Nothing is said that should change", field="set", hint="--when, --prompt, --set word=value")
    forecast = desk.door.call("preview_change", name=name, agent=agent, **words)
    if dry_run:
        desk.show(forecast, lambda: [*_changes(forecast), "Nothing is changed: this was a dry run."])
        return
    changed = desk.door.call("edit", name=name, agent=agent, **words)
    item = desk.ask("look", **_found(changed))
    desk.show(item, lambda: [*_changes(forecast), _told(desk, "Changed", item)])
    _tell_of_its_job(desk, item["do"], words)
    if forecast["voids"]:
        desk.tell("What was asked about it counts no more, and is asked again: matins approvals")


def _changes(forecast: dict[str, Any]) -> list[str]:
    lines = [
        f"  {change['word'].replace('_', ' ')}: {plain(change['before'])} → {plain(change['after'])}"
        for change in forecast["words"]
    ]
    return lines or ["  It says that already."]


@click.command(cls=Command)
@name_argument
@agent_option
@click.option("--note", "-m", metavar="TEXT", help="Why.")
@click.option("--until", type=AHEAD, metavar="INSTANT", help="It goes on by itself then: 2h, 2026-12-31T18:00.")
@pass_desk
def pause(desk: Desk, name: str, agent: str | None, note: str | None, until: str | None) -> None:
    """Nothing new starts until it is resumed; what runs goes on."""
    item = desk.ask("pause", name=name, agent=agent, note=note, until=until)
    desk.show(item, lambda: one_line(f"Paused {item['name']}" + _until(desk, item)))


def _until(desk: Desk, item: dict[str, Any]) -> str:
    if item["paused_until"]:
        return f" until {desk.until(item['paused_until'])}."
    return f". To go on: matins resume {shlex.quote(item['name'])}"


@click.command(cls=Command)
@name_argument
@agent_option
@pass_desk
def resume(desk: Desk, name: str, agent: str | None) -> None:
    """Let it go on: an interval from now, all else at its next time."""
    item = desk.ask("resume", name=name, agent=agent)
    coming = f", next {desk.when(item['next_run_at'])}" if item["next_run_at"] else ""
    desk.show(item, lambda: one_line(f"{item['name']} is {item['state']}{coming}"))


@click.command("rm", cls=Command)
@name_argument
@agent_option
@pass_desk
def remove(desk: Desk, name: str, agent: str | None) -> None:
    """Remove a schedule; its history stays. It is no error when there is none."""
    desk.show(*removed("schedule", one_line(name), bool(desk.ask("remove", name=name, agent=agent))))
