"""The input of a run in the processes that it starts: agents, pre-checks and hooks."""

from __future__ import annotations

import json
from pathlib import Path

import office as offices
from office import Office

office = offices.office
HOSTILE = "x; rm -rf ~ $(touch /tmp/owned) `id` \u202e\n\"quoted\" 'twice'"


def test_b22_every_process_of_a_run_has_its_input(office: Office, tmp_path: Path) -> None:
    """B22: as INPUT_K and as JSON: the pre-check, the hook before it, the agent, the hook after it"""
    m = office.matins
    writes = f'printf "%s|%s|%s|%s" "$INPUT_DAYS" "$INPUT_WHO" "$INPUT_ALL" "$MATINS_INPUT" > {tmp_path}/'
    m.agents.set("sh", runner="shell", command=["sh", "-c", f"{writes}agent; cat"], isolation="none")
    m.add(
        "s", when="0 9 * * *", agent="sh", prompt="Of {{input.days}} days: {{input.who}} {{input.all[].n}}",
        payload={"days": 7, "who": "all", "all": []}, prompt_prefix=False,
        pre_check=f"{writes}check", before_run=f"{writes}before", after_run=f"{writes}after",
    )  # fmt: skip
    given = {"days": 30, "who": HOSTILE, "all": [{"n": 1}]}
    started = m.run("s", input=given)
    run = office.wait("s", lambda run: run.id == started.id and not run.live)
    assert run.state == "succeeded", run
    assert run.outcome["result"]["text"].rstrip() == f"Of 30 days: {HOSTILE} [1]"
    office.until(lambda: [path for path in [tmp_path / "after"] if path.exists() and path.read_text()])
    for name in ("check", "before", "agent", "after"):
        days, who, some, whole = (tmp_path / name).read_text().split("|")
        assert (days, who, some) == ("30", HOSTILE, '[{"n":1}]'), name
        assert json.loads(whole) == given, name


def test_b22_a_process_of_a_run_without_input_has_none(office: Office, tmp_path: Path) -> None:
    """B22: nor has one whose payload is larger than a variable can be"""
    m = office.matins
    command = ["sh", "-c", "cat > /dev/null; env | grep -c INPUT || true"]
    m.agents.set("sh", runner="shell", command=command, isolation="none")
    for name, payload in (("none", None), ("large", {"x": "y" * 200_000})):
        m.add(name, when="0 9 * * *", agent="sh", prompt="Go", payload=payload)
        assert office.fire(name).outcome["result"]["text"].strip() == "0"
