"""What tools take: times as people say them, ids in either form, and nothing that would be ignored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from http_server import HttpServer
from mcp.client import Client
from mcp_client import over_http, use

from matins.mcp.tool_server import listed
from matins.model.access import Principal

OWNER = Principal("owner", "owner")


@pytest.fixture(scope="module")
def run_id(server: HttpServer) -> str:
    server.matins.add("daily", when="every day at 9am", agent="scout", prompt="Say hello", timezone="Asia/Tokyo")
    run = server.matins.run("daily")
    server.matins.runs.wait(run.id, timeout=60)
    return run.id


def ask(server: HttpServer, tool: str, /, *who: str, **given: Any) -> Any:
    """The answer of a tool to the owner, or to a role and a name."""
    found: list[Any] = []

    async def work(client: Client) -> None:
        found.append(await use(client, tool, **given))

    over_http(f"{server.url}/mcp", server.new_token(*(who or ("owner", "owner"))), work)
    return found[0]


@pytest.mark.parametrize("toolset", ["", "polpo", "cortex"])
def test_every_argument_has_a_description(toolset: str) -> None:
    """C13 P1: a model reads nothing else about it"""
    for tool in listed(OWNER, toolset):
        assert all(one.get("description") for one in tool.properties.values()), tool.name
        assert set(tool.required) <= set(tool.properties)


def test_c13_an_operators_pre_check_is_a_proposal(server: HttpServer) -> None:
    """C13: by Cortex's tool and by ours, over HTTP: it waits for the owner, and the answer says so; the owner's does
    not"""
    given = {"type": "daily", "message": "Look", "time": "09:00", "profile": "scout", "preCheck": "true"}
    answer = ask(server, "cortex_schedule_add", "operator", "ada", **given)
    assert "It waits for a person:" in answer.found["summary"]
    assert answer.found["approval"]["state"] == "pending"
    assert "nextRun" not in answer.found
    (asked,) = server.matins.approvals.list()
    assert (asked.schedule, asked.request["pre_check"]) == (answer.found["id"], "true")
    server.matins.approvals.approve(asked.id)
    assert server.matins.get(answer.found["id"]).state == "active"
    plain = {"when": "every day at 9am", "prompt": "Look", "agent": "scout", "settings": {"pre_check": "true"}}
    ours = ask(server, "create_schedule", "operator", "ada", name="ours", **plain)
    assert ours.found["schedule"]["state"] == "pending"
    made = ask(server, "cortex_schedule_add", **given)
    assert "approval" not in made.found
    for name in (answer.found["id"], "ours", made.found["id"]):
        server.matins.delete(name)


@pytest.fixture
def in_berlin(server: HttpServer) -> Iterator[tuple[str, str]]:
    """A person whose zone is neither the schedule's nor the machine's."""
    server.matins.people.set("ida", role="operator", timezone="Europe/Berlin")
    yield ("operator", "ida")
    server.matins.people.delete("ida")


@pytest.mark.parametrize(
    "since",
    ["yesterday", "today", "2h ago", "2h", "90 minutes ago", "2 weeks ago", "2020-01-01T00:00", "2020-01-01T00:00:00Z"],
)
def test_times_of_the_past_are_understood(
    server: HttpServer, run_id: str, in_berlin: tuple[str, str], since: str
) -> None:
    """B2: as people say them, in the person's zone; the answer says which instant it is, with its offset"""
    answer = ask(server, "list_runs", *in_berlin, schedule="daily", since=since)
    assert [run["run"] for run in answer.found["runs"]] == [run_id]
    summer = datetime.now(ZoneInfo("Europe/Berlin")).dst() and not since.startswith("2020")
    offset = "+00:00" if since.endswith("Z") else "+02:00" if summer else "+01:00"
    assert answer.found["summary"].endswith(f"{offset}.")


def test_times_are_in_the_zone_of_the_person_and_the_answer_says_so(
    server: HttpServer, run_id: str, in_berlin: tuple[str, str]
) -> None:
    """B2: also where the schedule has another zone"""
    paused = ask(server, "update_schedule", *in_berlin, name="daily", paused=True, until="2099-01-01T09:00")
    assert "(Asia/Tokyo), paused until 2099-01-01T09:00:00+01:00." in paused.found["summary"]
    until = server.matins.get("daily").paused_until
    assert until is not None
    assert until.isoformat() == "2099-01-01T08:00:00+00:00"
    why = ask(server, "why", *in_berlin, name="daily", at="2020-01-01T09:00")
    assert why.found["asked_for"] == "2020-01-01T09:00:00+01:00"
    given = {"when": "2099-01-01T09:00", "prompt": "Look", "agent": "scout", "name": "once"}
    for words in (given | {"dry_run": True}, given):
        assert "(Europe/Berlin)" in ask(server, "create_schedule", *in_berlin, **words).found["summary"]
    following = server.matins.get("once").next_run_at
    assert following is not None
    assert following.isoformat() == "2099-01-01T08:00:00+00:00"
    server.matins.delete("once")
    server.matins.resume("daily")


def test_the_end_of_a_pause_is_counted_from_now_on(server: HttpServer, run_id: str) -> None:
    for until in ("2h", "in 2h"):
        assert not ask(server, "update_schedule", name="daily", paused=True, until=until).failed
        ends = server.matins.get("daily").paused_until
        assert ends is not None
        assert timedelta(minutes=110) < ends - datetime.now(UTC) < timedelta(minutes=121)
    past = ask(server, "update_schedule", name="daily", paused=True, until="2h ago")
    assert '"until" is in the past' in past.text
    server.matins.resume("daily")


@pytest.mark.parametrize("text", ["the other day", "2 months ago", "999999 weeks ago", "in 2h ago", "3 mondays ago"])
@pytest.mark.parametrize("tool", ["list_runs", "why"])
def test_what_is_no_time_is_a_clear_error(server: HttpServer, run_id: str, tool: str, text: str) -> None:
    """B2: never an internal one, and never another time: months are no minutes"""
    named = {"since": text} if tool == "list_runs" else {"name": "daily", "at": text}
    answer = ask(server, tool, **named)
    assert answer.failed
    assert f"is not an instant: {text!r}" in answer.text
    assert "[internal]" not in answer.text


def test_nothing_newer_than_now(server: HttpServer, run_id: str) -> None:
    """The control: `since` leaves out what was before."""
    assert ask(server, "list_runs", schedule="daily", since="2099-01-01T00:00").found["runs"] == []


def test_ids_are_numbers_or_text(server: HttpServer, run_id: str) -> None:
    for one in (run_id, int(run_id)):
        assert ask(server, "get_run", run=one, output="none").found["run"]["run"] == run_id
    answer = ask(server, "get_run", run="daily")
    assert '"run" must be a number' in answer.text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"replace": True}, '"replace" is no setting of a schedule.'),
        ({"create_agent": True}, '"create_agent" is no setting of a schedule.'),
        ({"dry_run": True}, '"dry_run" is no setting of a schedule.'),
        ({"prompt": "Another"}, '"prompt" is given twice'),
        ({"queue_limit": 3}, '"queue_limit" has no effect: it needs overlap: queue.'),
    ],
    ids=str,
)
def test_what_would_be_ignored_is_refused(server: HttpServer, settings: dict[str, Any], said: str) -> None:
    given = {"when": "every day at 8am", "prompt": "Look", "agent": "scout", "name": "ignored"}
    answer = ask(server, "create_schedule", settings=settings, **given)
    assert answer.failed
    assert said in answer.text
    assert not [one for one in server.matins.list() if one.name == "ignored"]


def test_settings_that_count_are_taken(server: HttpServer) -> None:
    """The control"""
    given = {"when": "every day at 8am", "prompt": "Look", "agent": "scout", "name": "taken"}
    made = ask(server, "create_schedule", settings={"overlap": "queue", "queue_limit": 3}, **given)
    assert made.found["created"], made.text
    assert server.matins.get("taken").settings["queue_limit"] == 3
    assert server.matins.get("taken").timezone in made.found["summary"]
    changed = ask(server, "update_schedule", name="taken", agent="scout", timezone="Asia/Tokyo")
    assert [one["setting"] for one in changed.found["changes"]] == ["when"], changed.text
    assert server.matins.get("taken").timezone == "Asia/Tokyo"


def test_of_two_of_a_name_the_agent_decides_which_is_changed(server: HttpServer) -> None:
    server.matins.agents.set("rover", runner="demo")
    for agent in ("scout", "rover"):
        server.matins.add("twin", when="every day at 9am", agent=agent, prompt="Old")
    assert "Several schedules" in ask(server, "update_schedule", name="twin", prompt="New").text
    ask(server, "update_schedule", name="twin", agent="rover", prompt="New", paused=True)
    found = {agent: server.matins.get(f"{agent}/twin") for agent in ("scout", "rover")}
    assert {agent: (one.prompt, one.state) for agent, one in found.items()} == {
        "scout": ("Old", "active"),
        "rover": ("New", "paused"),
    }
    for agent in found:
        server.matins.delete(f"{agent}/twin")
    server.matins.agents.delete("rover")


def test_it_never_suggests_what_was_asked_for(server: HttpServer, run_id: str) -> None:
    """The name is right, and the agent is another."""
    answer = ask(server, "get_schedule", name="rover/daily")
    assert 'There is no schedule "rover/daily". Did you mean "scout/daily"?' in answer.text


@pytest.mark.parametrize(
    ("tool", "given", "hint", "others"),
    [
        ("get_run", {"run": 999_999}, "list_runs", "list_schedules"),
        ("get_schedule", {"name": "nope"}, "list_schedules", "list_runs"),
    ],
)
def test_hints_belong_to_their_errors(
    server: HttpServer, tool: str, given: dict[str, Any], hint: str, others: str
) -> None:
    answer = ask(server, tool, **given)
    assert answer.failed
    assert f". Call {hint}." in answer.text
    assert others not in answer.text


def test_an_operator_is_told_before_the_form_who_can_answer(server: HttpServer) -> None:
    """V6 B12: a person who cannot answer does not get a form"""
    server.matins.add("asks", when="0 0 1 1 *", agent="scout", prompt="Look", approval="owner_approve")
    run = server.matins.run("asks")
    server.matins.runs.wait(run.id, timeout=60)
    (asked,) = [one for one in server.matins.approvals.list() if one.run_id == run.id]
    given = {"approval": int(asked.id), "decision": "approve", "digest": asked.digest}
    refused = ask(server, "answer_approval", "operator", "olga", **given)
    assert refused.failed
    assert f"Only the owner can answer approval {asked.id}." in refused.text
    owner = ask(server, "answer_approval", **given)
    assert "Only the owner" not in owner.text
