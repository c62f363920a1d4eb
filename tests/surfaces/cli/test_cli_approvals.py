"""`matins approvals`, `approve`, `deny`."""

from __future__ import annotations

from textwrap import dedent

import pytest
from cli_user import User

from matins.model.access import Principal
from matins.surfaces.cli.context import CliContext
from matins.testing import Sandbox


@pytest.fixture
def asked(user: User, bench: Sandbox) -> User:
    """A run waits for its owner, with a prompt that would like to look harmless."""
    user.types(
        "add", "every day at 9am", "--agent", "demo", "-n", "deploy", "Deploy it.\n\x1b[1A\u202eon dnA", "--approval",
        "owner_approve", "--max-cost", "$2",
    )  # fmt: skip
    user.types("run", "deploy")
    bench.settle()
    return user


def test_b12_what_waits(asked: User, bench: Sandbox) -> None:
    """B12, V6"""
    bench.clock.advance(120_000)
    result = asked.types("approvals")
    assert result.stdout == dedent("""\
        ID  REQUEST        BY     REQUESTED  EXPIRES
        1   Run of deploy  owner  2m ago     in 23h (Sat 08:00)
        """)
    assert result.stderr == "To answer: matins approve ID, or matins deny ID\n"
    assert [item["id"] for item in asked.json("approvals", "list")] == ["1"]
    assert asked.says("approvals", "--state", "denied") == "No denied approvals.\n"


def test_v6_approve_shows_exactly_what_would_run(asked: User, bench: Sandbox) -> None:
    """V6, B7: who asked, what would be said, what it is bound to"""
    digest = asked.json("approvals", "show", "1")["digest"]
    result = asked.types("approve", "1", "--note", "go ahead")
    assert result.stdout == "Approval 1 (Run of deploy): approved.\n"
    assert result.stderr == dedent(f"""\
        approval      1: Run of deploy
        requested by  owner (owner), now
        involved      owner (owner)
        run           1
        agent         demo
        job           scheduled-task
        when          every day at 09:00
        timezone      UTC
        max cost      $2.00
        approval      owner_approve
        unusual       max_cost, approval
        wakes         name: demo, runner: demo, workdir: agents/demo, provider: demo
        outside       what its commands and tools read, apart from the files named above
        requires      1 of the owner
        expires       in 24h (Sat 08:00), then deny
        digest        {digest}

        prompt:
          Deploy it.
          \\x1b[1A\\u202eon dnA
        """)
    answers = [arguments for use_case, arguments in asked.app.calls if use_case == "approvals.approve"]
    assert answers == [{"approval_id": "1", "note": "go ahead", "digest": digest}]
    vote = asked.json("approvals", "show", "1")["votes"][0]
    assert (vote["vote"], vote["note"], vote["digest"]) == ("approve", "go ahead", digest)


def test_v6_deny(asked: User) -> None:
    """V6"""
    assert asked.says("deny", "1", "-m", "not on a Friday") == "Approval 1 (Run of deploy): denied.\n"
    assert asked.json("runs", "show", "1")["state"] == "denied"
    assert "Run 1 is over: denied" in asked.types("approve", "1", code=1).stderr


def test_b7_an_answer_is_bound_to_what_was_shown(asked: User) -> None:
    """B7: an older digest is refused, and so is one that says too little"""
    digest = asked.json("approvals", "show", "1")["digest"]
    for wrong in ("0" * 12, digest[:4]):
        result = asked.types("approve", "1", "--digest", wrong, code=1)
        assert "Approval 1 has another digest" in result.stderr
        assert "matins approvals show 1" in result.stderr
    assert asked.json("approve", "1", "--digest", f"sha256:{digest[:12]}")["state"] == "approved"


def test_b7_an_edit_between_look_and_answer(asked: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """B7: an agent that changes while a person reads needs another approval"""

    def edited(*_: object, **__: object) -> bool:
        asked.bench.agents.edit("demo", arguments=["--all"])
        return True

    monkeypatch.setattr(CliContext, "is_interactive", True)
    monkeypatch.setattr("click.confirm", edited)
    asked.types("approve", "1")
    asked.bench.settle()
    assert asked.json("runs", "show", "1")["status"] == "awaiting_approval"


def test_whoever_types_is_asked(asked: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """B12: at a terminal; no answer is no"""
    monkeypatch.setattr(CliContext, "is_interactive", True)
    result = asked.types("approve", "1", typed="n\n", code=3)
    assert result.stderr.endswith("Approve the request? [y/N]: n\nNothing was changed.\n")
    asked.types("approve", "1", typed="", code=130)
    assert asked.json("approvals", "show", "1")["state"] == "pending"
    assert asked.types("approve", "1", typed="y\n").stdout.endswith("approved.\n")


def test_yes_is_not_asked(asked: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliContext, "is_interactive", True)
    assert "[y/N]" not in asked.types("deny", "1", "--yes").stderr


def test_b12_approve_with_edits(asked: User) -> None:
    """B12: yes to what it becomes"""
    answered = asked.json("approve", "1", "--edit", "max_cost=$1", "--edit", "prompt=Deploy it gently.")
    assert (answered["id"], answered["request"]["max_cost"]) == ("2", "$1.00")
    assert answered["request"]["prompt"] == "Deploy it gently."
    assert "max cost      $1.00\n" in asked.says("approvals", "show", "2")


def test_b7_a_proposal_of_an_agent(user: User, bench: Sandbox) -> None:
    """B7: who proposed it, and in the list what it waits for"""
    bench.agents.set("demo", runner="demo")
    agent = bench.acting_as(Principal("agent", "demo"))
    agent.add("follow-up", when="every weekday at 8:30am", prompt="Look again")
    assert "◆ needs approval" in user.says("list")
    assert "New schedule follow-up" in user.says("approvals")
    assert "requested by  demo (agent)" in user.says("approvals", "show", "1")
    user.types("approve", "1")
    assert user.json("show", "follow-up")["state"] == "active"


def test_whoever_may_not(asked: User, bench: Sandbox) -> None:
    """Exit code 4"""
    operator = User(bench, Principal("operator", "olga"))
    result = operator.types("approve", "1", code=4)
    assert "olga cannot answer approval 1: only the owner can answer it." in result.stderr


def test_there_is_none(user: User) -> None:
    assert user.says("approvals") == "No pending approvals.\n"
    assert "There is no approval 7" in user.complains("approve", "7")
