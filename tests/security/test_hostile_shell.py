"""User values never become commands. Rows B7, C6, P7."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hostile import injections, lines
from security_cast import ADA, SCOUT, Watched, at
from security_rows import everything

from matins.errors import InvalidInput, NotAllowed

ECHO = 'printf "%s|%s" "$MATINS_SCHEDULE" "$MATINS_AGENT"; echo $MATINS_SCHEDULE >/dev/null; cat >/dev/null'
"""A careful command, and a careless one."""


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Must not be there in the end."""
    return tmp_path / "canary"


def said(bench: Watched, run_id: str) -> dict[str, str]:
    """What each of the commands printed."""
    return {check.gate: check.output for check in bench.runs.checks(run_id)}


def test_hostile_names_reach_commands_as_they_are(bench: Watched, canary: Path) -> None:
    """B7: by environment and standard input, letter by letter; none of them is run."""
    bench.hooks.set("before:schedule:trigger", command=["/bin/cat"])
    bench.hooks.set("after:run", command=ECHO)
    texts = injections(canary)
    for text in texts:
        commands = {"pre_check": ECHO, "before_run": ECHO, "after_run": ECHO}
        bench.add(text, agent=text, when="5 * * * *", job="work", payload={text: [text]}, **commands)
    bench.run_until(at("08:06"))
    assert not canary.exists()
    assert sorted(bench.ran) == sorted((text, {text: [text]}) for text in texts)
    for text in texts:
        printed = said(bench, bench.last(text).id)
        assert printed["pre_check"] == printed["hook"] == f"{text}|{text}"
        told = orjson.loads(printed["file_hook"])
        assert (told["schedule"], told["agent"], told["payload"]) == (text, text, {text: [text]})


def test_hostile_payloads_reach_commands_as_they_are(memory: Watched, canary: Path) -> None:
    """B7: payloads may hold anything that JSON can say, NUL and newlines too."""
    texts = [text for text in injections(canary) + lines(canary) if not re.search("[\ud800-\udfff]", text)]
    for number, text in enumerate(texts):
        memory.add(f"s{number}", when="5 * * * *", job="work", payload={text: text}, before_run=["/bin/cat"])
    memory.run_until(at("08:06"))
    assert not canary.exists()
    for number, text in enumerate(texts):
        assert orjson.loads(said(memory, memory.last(f"s{number}").id)["hook"])["payload"] == {text: text}
    assert len(memory.ran) == len(texts)


def test_hostile_notes_and_reasons(memory: Watched, canary: Path) -> None:
    """B7: of pauses, answers, cancellations and throttles."""
    memory.hooks.set("before:schedule:trigger", command=ECHO)
    memory.add("s", when="5 * * * *", job="work", approval="owner_approve", before_run=ECHO, overlap="allow")
    for number, text in enumerate(injections(canary)):
        memory.pause("s", note=text)
        assert memory.get("s").note == text
        memory.resume("s")
        run = memory.run("s", key=text)
        memory.settle()
        memory.approvals.deny(memory.asked().id, note=text)
        assert memory.approval(number + 1).votes[0].note == text
        other = memory.run("s")
        assert memory.acting_as(ADA).runs.cancel(other.id, reason=text).evidence["note"] == text
        assert memory.runs.get(run.id).request_key == text
    memory.settle()
    assert not canary.exists()
    assert memory.ran == []


def test_what_a_hook_says_is_not_run_either(bench: Watched, canary: Path, tmp_path: Path) -> None:
    """P7: its reason is kept as text."""
    for number, text in enumerate(injections(canary)):
        answer = tmp_path / f"answer{number}.json"
        answer.write_bytes(orjson.dumps({"cancel": True, "reason": text}))
        bench.add(f"s{number}", when="5 * * * *", job="work", before_run=["/bin/cat", str(answer)])
    bench.run_until(at("08:06"))
    assert not canary.exists()
    assert bench.ran == []
    for number, text in enumerate(injections(canary)):
        evidence = bench.last(f"s{number}").evidence
        assert evidence is not None
        assert evidence["message"] == text


def test_a_list_is_a_program_and_its_arguments(bench: Watched, canary: Path) -> None:
    """B7: argv, and no shell between."""
    for number, text in enumerate(injections(canary)):
        bench.add(f"s{number}", when="5 * * * *", job="work", before_run=["/usr/bin/printf", "%s", text])
    bench.run_until(at("08:06"))
    assert not canary.exists()
    for number, text in enumerate(injections(canary)):
        assert said(bench, bench.last(f"s{number}").id)["hook"] == text


@pytest.mark.parametrize("field", ["name", "agent", "job", "provider", "quiet_hours", "approvers"])
def test_no_name_holds_a_newline_a_nul_or_half_a_character(memory: Watched, canary: Path, field: str) -> None:
    """B7: neither in a new schedule nor in an edit."""
    memory.add("s", when="5 * * * *", job="work")
    before = everything(memory)
    for text in lines(canary):
        value: Any = [text] if field == "approvers" else text
        with pytest.raises(InvalidInput):
            memory.acting_as(SCOUT).add_many([{"name": "t", "when": "5 * * * *", "job": "work", field: value}])
        with pytest.raises(InvalidInput):
            memory.acting_as(ADA).add(**{"name": "t", "when": "5 * * * *", "job": "work", field: value})
        if field not in ("name", "agent"):
            with pytest.raises(InvalidInput):
                memory.edit("s", **{field: value})
    assert everything(memory) == before


@pytest.mark.parametrize("word", ["pre_check", "before_run", "after_run"])
def test_commands_come_from_the_owner(bench: Watched, canary: Path, word: str) -> None:
    """B7 C13 V10: those of others are proposed, and not tried before the owner has seen them; an operator edits none"""
    bench.add("s", when="5 * * * *", job="work")
    command = f"touch {canary}"
    with pytest.raises(NotAllowed):
        bench.acting_as(ADA).edit("s", **{word: command})
    for principal in (ADA, SCOUT):
        with pytest.raises(NotAllowed):
            bench.acting_as(principal).hooks.set("before:schedule:trigger", command=command)
    for name, principal in (("planted", SCOUT), ("asked", ADA)):
        bench.acting_as(principal).add(name, when="5 * * * *", job="work", **{word: command})
    bench.run_until(at("10:00"))
    assert not canary.exists()
    for name in ("planted", "asked"):
        bench.approvals.deny(bench.asked(name).id)
    bench.run_until(at("12:00"))
    assert not canary.exists()
    assert "pre_check" not in bench.get("s").settings


@pytest.mark.parametrize("word", ["pre_check", "before_run", "after_run"])
def test_looking_at_a_command_does_not_run_it(bench: Watched, canary: Path, word: str) -> None:
    """B7: its syntax is read when it is proposed; nothing in it is expanded."""
    agent = bench.acting_as(SCOUT)
    for number, text in enumerate(
        (f"touch {canary}", f"true $(touch {canary})", f"x=`touch {canary}`", f": > {canary}")
    ):
        agent.add(f"s{number}", when="5 * * * *", job="work", **{word: text})
        agent.edit(f"s{number}", **{word: text + " "})
    assert not canary.exists()


def test_commands_do_not_inherit_secrets(bench: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """B7: of our own environment a few names only."""
    monkeypatch.setenv("MATINS_TEST_SECRET", "hunter2")
    bench.add("s", when="5 * * * *", job="work", pre_check="env")
    bench.run_until(at("08:06"))
    printed = said(bench, bench.last().id)["pre_check"]
    assert "MATINS_SCHEDULE=s" in printed
    assert "hunter2" not in printed
