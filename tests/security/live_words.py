"""Words of an agent that real processes, deliveries and files bring: each is planted where a machine has it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from planted_words import MARK
from surface_walk import Surfaces

from executors.office import Office
from matins import JobContext, Run
from matins.runtime.tokens import run_token

LIVE_WORDS = tuple(
    f"{MARK}{name}"
    for name in (
        "prompt", "stdout", "stderr", "said", "toolinput", "tooloutput", "result", "toolerror", "worktitle", "workbody",
        "worklabel", "approvedtitle", "lasterror", "filter", "match", "unmet", "deliveryid", "deliverytype",
        "deliverybody", "deliverytext", "reported", "prechecked", "hooked", "cancelled", "denied", "pausenote",
    )
)  # fmt: skip
LISTENER = "listener"
"""A function that is told of events, and fails."""
_CLAUDE = """#!/bin/sh
if [ "$1" = --version ]; then echo '2.1.325 (Claude Code)'; exit 0; fi
cat > /dev/null
cat "$0.events"
"""


def word(name: str) -> str:
    found = f"{MARK}{name}"
    assert found in LIVE_WORDS, name
    return found


class Farm:
    """A started Matins with an agent rover, whose words are planted, and an agent scout, which is in a run."""

    def __init__(self, office: Office, surfaces: Surfaces, folder: Path) -> None:
        self.office, self.surfaces, self.folder = office, surfaces, folder
        self.m = office.matins
        self._go_on = threading.Event()
        for name in ("rover", "scout"):
            self.m.agents.set(name, runner="shell", command=["sh", "-c", "true"], workdir=str(folder))
        self.m.job("block")(self._block)
        self.m.job("work")(lambda run: None)

    def _block(self, run: JobContext) -> None:
        self._go_on.wait(600)

    def close(self) -> None:
        self._go_on.set()

    def run_token_of(self, agent: str) -> str:
        """The token of a run of the agent that goes on."""
        self.m.add(f"{agent}-stays", when="every day at 09:00", agent=agent, job="block")
        self.m.run(f"{agent}-stays")
        run = self.office.wait(f"{agent}-stays", lambda run: run.state == "running")
        return run_token(self.m.store, int(run.id), run.epoch)

    def plant(self) -> None:
        self._output()
        self._transcript()
        self._work()
        self._calls()
        self._decisions()
        self._report()
        self._delivery()

    def _add(self, name: str, **settings: Any) -> None:
        self.m.add(name, **{"when": "every day at 09:00", "agent": "rover", "prompt": word("prompt"), **settings})

    def _fired(self, name: str, fine: Callable[[Run], bool] = lambda run: not run.live) -> Run:
        self.m.run(name)
        return self.office.wait(name, fine)

    def _output(self) -> None:
        script = f"echo {word('stdout')}; echo {word('stderr')} >&2; exit 3"
        self.m.agents.set("rover", runner="shell", command=["sh", "-c", script], workdir=str(self.folder))
        self._add("speaking")
        assert self._fired("speaking").state == "failed"

    def _transcript(self) -> None:
        tool = self.folder / "claude"
        tool.write_text(_CLAUDE)
        tool.chmod(0o755)
        used = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": word("toolinput")}}
        gave = {"type": "tool_result", "tool_use_id": "t1", "content": word("tooloutput")}
        events: list[dict[str, Any]] = [
            {"type": "system", "subtype": "init", "session_id": "s-1"},
            {"type": "assistant", "message": {"content": [{"type": "text", "text": word("said")}, used]}},
            {"type": "user", "message": {"content": [gave]}},
        ]
        end = {"type": "result", "session_id": "s-1", "num_turns": 1}
        ends = {
            "writing": {**end, "subtype": "success", "is_error": False, "result": word("result")},
            "stumbling": {**end, "subtype": "error_during_execution", "is_error": True, "errors": [word("toolerror")]},
        }
        self.m.agents.set("rover", runner="claude", workdir=str(self.folder), permission_mode="acceptEdits")
        for name, last in ends.items():
            lines = "".join(json.dumps(event) + "\n" for event in (*events, last))
            (self.folder / "claude.events").write_text(lines)
            self._add(name)
            assert self._fired(name).state == ("succeeded" if name == "writing" else "failed")

    def _work(self) -> None:
        self.m.agents.set("rover", runner="shell", command=["sh", "-c", "cat"], workdir=str(self.folder))
        item = "  - {{id: {0}, title: {1}, body: {2}, labels: [{3}]}}\n"
        tasks = item.format("T-1", word("worktitle"), word("workbody"), word("worklabel"))
        (self.folder / "TASKS.yaml").write_text(f"tasks:\n{tasks}")
        self.m.work_sources.set("todo", kind="tasks", path=str(self.folder / "TASKS.yaml"))
        self._add("working", work_source="todo")
        assert self._fired("working").state == "succeeded"
        tasks = item.format("T-2", word("approvedtitle"), "b", "l")
        (self.folder / "TASKS.yaml").write_text(f"tasks:\n{tasks}")
        self._add("asking", work_source="todo", approval="owner_approve")
        self._fired("asking", lambda run: run.status == "awaiting_approval")

    def _calls(self) -> None:
        """Deliveries over HTTP, with words in their headers, their bodies and the filters that judge them."""
        self.m.inbound.set("prs", kind="github", secret="env:PRS")
        self.m.inbound.set("ci", kind="bearer", secret="env:PRS", id="X-Id")
        met, unmet = {"action": word("deliverybody")}, {"action": word("unmet")}
        self._add("listening", when=None, on={"webhook": "ci", "filter": met}, job="work", prompt=None)
        self._add("choosing", when=None, on={"webhook": "prs", "filter": unmet}, job="work", prompt=None)
        self._add("filtered", when=None, on={"webhook": "ci", "filter": {"x": word("filter")}}, job="work", prompt=None)
        self._add("chatting", when=None, on={"chat": "C1", "match": word("match")}, job="work", prompt=None)
        body = json.dumps({"action": word("deliverybody"), "type": word("deliverytype")}).encode()
        sent = {"Content_Type": "application/json", "X_Id": word("deliveryid")}
        assert ": 202" in self.surfaces.ask("delivered", "/in/ci", body, **sent)[0]
        text = {"text": f"{word('match')} {word('deliverytext')}", "sender": "ada"}
        self.m.calls.fire("chat", "C1", "k-1", body={"mention": True}, **text)
        self.m.inbound.test("prs", body={"action": "other"})

    def _decisions(self) -> None:
        check = f"echo {word('prechecked')}; exit 1"
        self._add("checked", job="work", prompt=None, pre_check=check)
        self._fired("checked")
        reason = json.dumps({"cancel": True, "reason": word("hooked")})
        self._add("hooked", job="work", prompt=None, before_run=f"echo '{reason}'")
        self._fired("hooked")
        self._add("held", job="work", prompt=None, approval="owner_approve")
        held = self._fired("held", lambda run: run.status == "awaiting_approval")
        self.m.runs.cancel(held.id, reason=word("cancelled"))
        self._add("refused", job="work", prompt=None, approval="owner_approve")
        refused = self._fired("refused", lambda run: run.status == "awaiting_approval")
        (asked,) = [one for one in self.m.approvals.list() if one.run_id == refused.id]
        self.m.approvals.deny(asked.id, note=word("denied"))
        self._add("paused", job="work", prompt=None)
        self.m.pause("paused", note=word("pausenote"))

    def _report(self) -> None:
        token = self.run_token_of("rover")
        body = json.dumps({"outcome": "failed", "reason": word("reported")}).encode()
        assert ": 20" in self.surfaces.ask(token, "/v1/outcome", body, Content_Type="application/json")[0]

    def _delivery(self) -> None:
        def fails(event: dict[str, Any]) -> None:
            raise ValueError(word("lasterror"))

        self.m.subscribe(fails, types="run.succeeded", name=LISTENER)
        self._add("noticed", job="work", prompt=None)
        self._fired("noticed")
        assert self.office.until(lambda: self.m.subscriptions.deliveries(LISTENER))
