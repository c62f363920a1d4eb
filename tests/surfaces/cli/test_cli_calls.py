"""`matins inbound`, `calls`, and schedules that listen."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
from cli_user import User

from matins.testing import Sandbox

BODY = {"action": "opened", "pull_request": {"title": "Fix the door"}}


@pytest.fixture
def body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GH_SECRET", "s3cret")
    (tmp_path / "body.json").write_text(json.dumps(BODY), encoding="utf-8")
    return str(tmp_path / "body.json")


@pytest.fixture
def endpoint(user: User) -> None:
    user.says("inbound", "set", "prs", "--kind", "github", "--secret", "env:GH_SECRET", "--events", "pull_request")


@pytest.mark.usefixtures("endpoint")
def test_inbound_endpoints(user: User) -> None:
    """B13: like every record"""
    assert user.says("inbound") == dedent("""\
        NAME  KIND    PATH     EVENTS
        prs   github  /in/prs  pull_request
        """)
    shown = user.says("inbound", "show", "prs")
    assert "env:GH_SECRET" in shown
    assert "/in/prs" in shown
    assert user.says("inbound-listen", "set", "127.0.0.1:7412")
    assert user.json("inbound-listen")["address"] == "127.0.0.1:7412"
    refused = user.types("inbound-listen", "set", "7412", code=2).stderr
    assert "HOST:PORT" in refused


@pytest.mark.usefixtures("endpoint")
def test_adding_a_schedule_that_listens(user: User, bench: Sandbox) -> None:
    """WHEN is left out; a single argument is the prompt"""
    bench.agents.set("scout", runner="demo")
    said = user.says("add", "--on", "webhook prs", "--agent", "scout", "--name", "review", "Review {{call.body}}")
    assert said == "Added review: on webhook prs (UTC)\n"
    assert user.says("add", "--on", '{"webhook": "prs", "debounce": "30s"}', "--job", "work", "--name", "count")
    assert user.says("add", "every day at 9am", "--on", "review succeeds", "--job", "work", "--name", "both")
    assert bench.get("both").trigger_text == "every day at 09:00, and after review succeeds"
    assert user.says("add", "after review ends", "--job", "work", "--name", "later").startswith(
        "Added later: after review ends (UTC)"
    )
    assert "on webhook prs" in user.says("list")
    assert "webhook prs" in user.says("show", "review")
    assert "WHEN is missing" in user.types("add", "--job", "work", code=2).stderr
    assert user.says("edit", "both", "--unset", "on")
    assert bench.get("both").trigger_text == "every day at 09:00"
    assert user.says("edit", "count", "--on", "review fails")
    assert bench.get("count").settings["on"] == {"schedule": "review", "outcome": "failure"}


@pytest.mark.usefixtures("endpoint")
def test_testing_an_endpoint(user: User, bench: Sandbox, body: str) -> None:
    """Signed as the sender would; a dry run fires nothing"""
    bench.agents.set("scout", runner="demo")
    bench.add("review", on={"webhook": "prs"}, agent="scout", prompt="Review {{call.body.pull_request.title}}.")
    bench.add("closed", on={"webhook": "prs", "filter": {"action": "closed"}}, job="work")
    said = user.says("inbound", "test", "prs", "--event", "pull_request", "--body", body, "--dry-run")
    assert said.startswith("✓ The signature of prs is verified. Key: test-")
    assert "✓ review is concerned\n" in said
    assert "Fix the door" in said
    assert "– closed is not concerned. The filter does not match: \"action\" is 'opened'." in said
    assert said.endswith("Dry run: nothing was fired.\n")
    assert bench.calls.list() == []
    fired = user.says("inbound", "test", "prs", "--event", "pull_request", "--body", body)
    assert fired.endswith("accepted: run 1 of review ready\n")
    assert "ignored" in user.says("inbound", "test", "prs", "--event", "push", "--body", body)
    Path(body).write_text("no json", encoding="utf-8")
    assert "is not JSON" in user.types("inbound", "test", "prs", "--body", body, code=2).stderr
    assert "There is no inbound endpoint" in user.types("inbound", "test", "nope", code=None).stderr


def test_a_secret_that_is_not_there_is_named(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GH_SECRET", raising=False)
    user.says("inbound", "set", "prs", "--kind", "github", "--secret", "env:GH_SECRET")
    told = user.types("inbound", "test", "prs", code=2).stderr
    assert "cannot be used" in told
    assert "env:GH_SECRET" in told or "secret" in told


@pytest.mark.usefixtures("endpoint")
def test_calls_are_listed_shown_and_repeated(user: User, bench: Sandbox) -> None:
    assert user.says("calls").startswith("No calls.")
    bench.add("review", on={"webhook": "prs"}, job="work")
    bench.calls.fire("webhook", "prs", "d1", type="pull_request", body=BODY)
    bench.calls.fire("webhook", "prs", "d2", type="push", body=BODY)
    bench.settle()
    assert user.says("calls") == dedent("""\
        CALL  FROM         TYPE          AT           OUTCOME
        2     webhook prs  push          now (08:00)  ignored: The type push is not amo…
        1     webhook prs  pull_request  now (08:00)  run 1 of review succeeded
        """)
    assert [item["id"] for item in user.json("inbound", "calls", "prs", "--source", "webhook")] == ["2", "1"]
    shown = user.says("calls", "show", "1")
    assert "run 1 of review succeeded" in shown
    assert '"title": "Fix the door"' in shown
    assert user.says("inbound", "replay", "1") == "Call 3 repeats call 1: run 2 of review ready\n"
    assert "Called by webhook prs at " in user.says("why", "review")
