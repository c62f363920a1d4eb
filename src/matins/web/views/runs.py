"""`/runs`: every record, and one run from due to end."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from matins.api.results import Run, RunAnswer, RunFacts
from matins.engine.selectors import selector_text
from matins.errors import InvalidInput, MatinsError
from matins.model.words import joined, with_command
from matins.surfaces.display import given_sentence
from matins.web.drawings import run_chart, waterfall
from matins.web.templates import because, beside, usage
from matins.web.visit import Page, Visit

_PAGE = 50
_OUTPUT_BYTES = 65_536
_FAR_BEHIND = 1 << 20
_TABS = ("output", "raw", "stderr", "conversation", "definition", "difference")


_FILTERS = ("schedule", "agent", "select", "state", "reason", "text", "min_cost", "min_duration")
_CHIPS = ("schedule", "agent", "reason", "min_cost", "min_duration", "since", "until", "range")
_RANGES = {"1h": 1, "24h": 24, "7d": 168, "31d": 744}


def index(visit: Visit) -> Page:
    query, api = visit.query, visit.api
    filters: dict[str, Any] = {name: query[name] for name in _FILTERS if query.get(name)}
    filters |= {name: instant(query[name], visit) for name in ("since", "until") if query.get(name)}
    if query.get("range") in _RANGES and "since" not in filters:
        filters["since"] = (visit.now - timedelta(hours=_RANGES[query["range"]])).isoformat()
    wrong, found = None, list[Run]()
    try:
        found = api.runs.list(**filters, before=query.get("before"), limit=_PAGE)
    except InvalidInput as error:  # what a person is still writing, or wrote into the address
        wrong = error
    names = [filters["schedule"]] if "schedule" in filters else []
    chosen = " ".join(filter(None, [filters.get("select"), selector_text(names, agent=filters.get("agent"))])) or None
    span = {"start": (visit.now - timedelta(days=1)).isoformat(), "end": visit.now.isoformat()}
    span |= {key: filters[name] for key, name in (("start", "since"), ("end", "until")) if name in filters}
    lanes = None
    try:  # when the runs of the chosen schedules were, in the time of the filter, or in the last day
        lanes = api.lanes(select=chosen, limit=1, **span)
    except InvalidInput as error:
        wrong = wrong or error
    values = {
        "chart": lanes and run_chart(lanes, visit),
        "span": lanes,
        "rows": [(run, because(run, visit.zone_name), usage(run)) for run in found],
        "size": _PAGE,
        "wrong": wrong,
        "filters": filters,
        "since": _local(filters.get("since"), visit),
        "until": _local(filters.get("until"), visit),
        "chips": [(name, query[name]) for name in _CHIPS if query.get(name)],
    }
    return Page("runs.html", "Runs", values, ("runs",))


def instant(text: str, visit: Visit) -> str:
    """The instant of a field without a zone, which is in the viewer's; anything else as it is."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (given if given.tzinfo else given.replace(tzinfo=visit.zone)).isoformat()


def _local(text: str | None, visit: Visit) -> str:
    """The value of a field for an instant."""
    try:
        return "" if text is None else f"{datetime.fromisoformat(text).astimezone(visit.zone):%Y-%m-%dT%H:%M}"
    except ValueError:
        return ""


def show(visit: Visit) -> Page:
    api = visit.api
    facts = api.runs.facts(visit.params["run_id"])
    run = facts.run
    tab, output = _chosen_tab(visit, run)
    snapshot = api.runs.snapshot(run.id)
    values: dict[str, Any] = {
        "run": run,
        "snapshot": snapshot,
        "owner": run.agent,
        "facts": facts,
        "given": given_sentence(
            {"input": run.input, "model": run.model, "effort": run.effort, "evidence": run.evidence}
        ),
        "usage": usage(run),
        "sentence": beside(run.state, joined(facts.sentence, facts.quote)),
        "checks": api.runs.checks(run.id),
        "answers": [_answer(answer) for answer in run.answers],
        "answer_text": _text(run),
        "compared": visit.query.get("with") or facts.last_success,
        "waterfall": waterfall(facts, visit.now, visit.zone),
        "reported": _reported(run),
        "worker": _worker(facts.worker),
        "tab": tab,
        "tabs": _TABS,
        "output": output,
        "messages": None,
        "difference": None,
    }
    match values["tab"]:
        case "conversation":
            thread = api.runs.thread(run.id)
            messages = api.threads.messages(thread.thread.id, limit=500) if thread else []
            values["messages"] = [message for message in messages if message.run_id in (None, run.id)]
        case "difference":
            values["difference"] = _difference(visit, facts)
        case _:
            pass
    return Page("run.html", f"Run {run.id}", values, (f"run-{run.id}",))


def _text(run: Run) -> str | None:
    """The answer; of a run that failed, its error."""
    match run.outcome:
        case {"result": {"text": str(text)}} if text.strip():
            return text
        case {"result": str(text)}:
            return text
        case {"error": str(error)}:
            return error
        case _:
            return None


_LOOKS = {"delivered": "succeeded", "withheld": "skipped", "queued": "planned", "retrying": "deferred"}


def _answer(answer: RunAnswer) -> dict[str, Any]:
    """What became of an answer, and the call that sends it again."""
    to = answer.destination.partition(":")[0]
    return {
        "look": _LOOKS.get(answer.state, "failed"),
        "state": answer.state,
        "text": with_command(answer.sentence, answer.quote, answer.command),
        "again": json.dumps({"to": [to]}) if answer.number == 0 else None,
    }


def _worker(text: str | None) -> str | None:
    """The process that ran it, by host and number."""
    try:
        known: Any = json.loads(text or "null")
    except ValueError:
        return text
    return f"{known['host']}, process {known['pid']}" if isinstance(known, dict) and "pid" in known else text


def _reported(run: Run) -> dict[str, Any]:
    match run.outcome:
        case {"result": {"executed": _} as result}:
            return dict(result)
        case _:
            return {}


def _chosen_tab(visit: Visit, run: Run) -> tuple[str, Any]:
    """The tab, with the output that it shows. Unless one is chosen, a run that wrote to stderr only shows that."""
    asked = visit.query.get("tab")
    tab = asked if asked in _TABS else "output"
    output = _output(visit, run.id, tab)
    if asked is None and not run.live and getattr(output, "total", None) == 0:
        written = _output(visit, run.id, "stderr")
        return ("stderr", written) if getattr(written, "total", 0) else (tab, output)
    return tab, output


def _output(visit: Visit, run_id: str, tab: str) -> Any:
    """The end of the output, as people read it or as it was written; the error if it is not on this machine."""
    runs = visit.api.runs
    start, size = -_OUTPUT_BYTES, _OUTPUT_BYTES
    try:
        match tab:
            case "output":
                return runs.transcript(run_id, offset=start, limit=size)
            case "raw":
                return runs.output(run_id, offset=start, limit=size)
            case "stderr":
                return runs.output(run_id, offset=start, limit=size, stream="stderr")
            case _:
                return None
    except MatinsError as error:
        return error


def more_output(visit: Visit) -> Page:
    """What a run has written since. A reader who is far behind continues at the end."""
    run_id, offset = visit.params["run_id"], visit.query.get("offset", "")
    found = visit.api.runs.transcript(run_id, offset=int(offset) if offset.isdecimal() else 0, limit=_OUTPUT_BYTES)
    if found.total - found.next > _FAR_BEHIND:
        found = visit.api.runs.transcript(run_id, offset=-_OUTPUT_BYTES, limit=_OUTPUT_BYTES)
    return Page("_more_output.html", "Output", {"output": found})


def _difference(visit: Visit, facts: RunFacts) -> tuple[str, list[tuple[str, Any, Any]]] | None:
    """The last run before this one that succeeded, and the settings that differ from its."""
    if facts.last_success is None:
        return None
    old = visit.api.runs.snapshot(facts.last_success).settings
    new = visit.api.runs.snapshot(facts.run.id).settings
    names = [name for name in [*old, *(n for n in new if n not in old)] if old.get(name) != new.get(name)]
    return facts.last_success, [(name, old.get(name), new.get(name)) for name in names]
