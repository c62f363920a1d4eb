"""Where runs land: the right conversation, one at a time, and what becomes of a run whose place is gone. C4, C5."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

import postgres_fixtures
from matins.api.results import Run
from matins.engine.targets import kept_in
from matins.errors import InvalidInput
from matins.model.access import OWNER, Principal
from matins.model.run import AgentTurn, Outcome, Thread, Usage
from matins.runtime.attempt import Attempt, AttemptEnd
from matins.testing import InlineExecutor, ManualClock, Sandbox

url = postgres_fixtures.url
postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
START = "2026-03-27T08:00:00Z"


class Tool(InlineExecutor):
    """Stands for an agent's tool that knows some sessions; each run without one begins another."""

    def begin(self, session_of: Callable[[int], str | None]) -> None:
        self.session_of = session_of
        self.compiled: set[str] = set()
        self.asked: list[str | None] = []
        self.usage: Usage | None = None
        self.answer = "answered"
        self.failing = 0

    def submit(self, batch: list[Attempt]) -> None:
        self._done += [AttemptEnd(work, self._answer(work)) for work in batch]

    def _answer(self, work: Attempt) -> Outcome:
        session = self.session_of(work.run_id)
        self.asked.append(session)
        if session is not None and session not in self.compiled:
            return Outcome(False, error="no such session", target_gone=True)
        session = session or f"s-{work.run_id}"
        self.compiled.add(session)
        if self.failing:
            self.failing -= 1
            return Outcome(False, error="no", turn=AgentTurn("asked", "", session))
        return Outcome(True, usage=self.usage, turn=AgentTurn("asked", self.answer, session))


class Conversations(Sandbox):
    def __init__(self, url: str, clock: ManualClock | None = None, **settings: Any) -> None:
        super().__init__(url, clock=clock or ManualClock(START), **settings)
        self.tool = Tool(self.jobs, self.clock, lambda: None, self._loader, threads=1)
        self.tool.begin(lambda run_id: self.runs.thread(run_id).thread.session)  # type: ignore[union-attr]
        self.executor = self.engine.executor = self.tool
        self.agents.set("ann", runner="demo")
        self.agents.set("bob", runner="demo")

    def schedule(self, name: str, target: Any = None, agent: str = "ann", **words: Any) -> None:
        self.add(name, when="every day at 09:00", agent=agent, prompt="Go on", target=target, **words)

    def fire(self, name: str) -> Run:
        run = self.run(name)
        self.settle()
        return self.runs.get(run.id)

    def events_of(self, run: Run) -> list[str]:
        with self._store.reading() as transaction:
            told = transaction.logged(0, 10**9)
        return [event.type for event in told if event.run_id == int(run.id)]

    def place(self, run: Run) -> tuple[str, str]:
        landing = self.runs.thread(run.id)
        assert landing is not None
        return landing.thread.id, landing.how

    def _thread_of(self, run: Run) -> Thread:
        with self._store.reading() as transaction:
            found = transaction.thread_assignment(int(run.id))
        assert found is not None
        return found.thread


@pytest.fixture
def bench(url: str) -> Iterator[Conversations]:
    made = Conversations(url)
    yield made
    made.close()


@pytest.fixture
def in_memory() -> Iterator[Conversations]:
    made = Conversations("sqlite://")
    yield made
    made.close()


def test_c5_a_thread_whose_session_is_gone_goes_by_the_fallback(bench: Conversations) -> None:
    """C5: fresh begins another conversation, in the same run, and the attempt that found it gone was none"""
    bench.schedule("first")
    place = bench.place(bench.fire("first"))[0]
    bench.schedule("again", {"kind": "thread", "thread": place})
    bench.schedule("or not", {"kind": "thread", "thread": place}, fallback="skip")
    bench.tool.compiled.clear()
    run = bench.fire("again")
    assert (run.state, run.attempt) == ("succeeded", 1)
    thread, how = bench.place(run)
    assert (thread != place, how) == (True, "thread: gone, fallback fresh")
    assert bench.tool.asked[1:] == ["s-1", None]
    assert bench.events_of(run).count("run.retrying") == 1
    bench.tool.compiled.clear()
    run = bench.fire("or not")
    assert (run.state, run.reason, run.attempt) == ("skipped", "target_gone", 0)
    assert bench.events_of(run)[-2:] == ["run.retrying", "run.skipped"]
    assert [message.role for message in bench.threads.messages(place)] == ["user", "assistant"], (
        "nothing was said there since"
    )
    assert bench.get("or not").failures == 0


def test_c5_a_channel_has_a_place_also_when_its_session_is_gone(bench: Conversations) -> None:
    """C4 C5: the same thread, another session"""
    bench.schedule("chat", {"kind": "channel", "channel": "C1"}, fallback="skip")
    first = bench.place(bench.fire("chat"))
    bench.tool.compiled.clear()
    run = bench.fire("chat")
    assert (run.state, bench.place(run)) == ("succeeded", first)
    assert bench.tool.asked == [None, "s-1", None]
    assert [message.role for message in bench.threads.messages(first[0])] == ["user", "assistant"] * 2


def test_c5_a_session_that_only_the_tool_knows(bench: Conversations) -> None:
    """C4 C5: it is asked for by its id, and asked for again the next time"""
    target = {"kind": "session", "sessionId": "mine"}
    bench.schedule("mine", target, fallback="skip")
    assert bench.fire("mine").state == "skipped"
    assert bench.fire("mine").state == "skipped"
    bench.tool.compiled.add("mine")
    run = bench.fire("mine")
    assert (run.state, bench.place(run)[1]) == ("succeeded", "session: requested by its id")
    assert bench.fire("mine").state == "succeeded"
    assert bench.tool.asked == ["mine"] * 4
    assert [thread.state for thread in bench.threads.list() if thread.session == "mine"] == ["waiting"]


def test_c5_waiting_for_a_session_asks_its_tool_again(bench: Conversations) -> None:
    """C5: until it is available"""
    bench.schedule("mine", {"kind": "session", "session": "mine"}, fallback="wait", fallback_timeout="2h")
    run = bench.fire("mine")
    assert run.status == "waiting_for_target"
    bench.run_until("2026-03-27T08:30:00Z")
    asked = len(bench.tool.asked)
    assert 5 <= asked <= 20, "less often the longer it waits"
    bench.tool.compiled.add("mine")
    bench.run_until("2026-03-27T08:59:00Z")
    run = bench.runs.get(run.id)
    assert (run.state, run.attempt, bench.tool.asked) == ("succeeded", 1, ["mine"] * (asked + 1))


@pytest.mark.parametrize(("final", "word"), [("fresh", "succeeded"), ("skip", "skipped")])
def test_c5_waiting_has_a_deadline_and_a_final_fallback(in_memory: Conversations, final: str, word: str) -> None:
    """C5"""
    bench = in_memory
    target = {"kind": "session", "session": "mine"}
    bench.schedule("mine", target, fallback="wait", fallback_timeout="10m", final_fallback=final)
    run = bench.fire("mine")
    bench.run_until("2026-03-27T08:09:59Z")
    assert bench.runs.get(run.id).status == "waiting_for_target"
    bench.run_until("2026-03-27T08:10:00Z")
    run = bench.runs.get(run.id)
    assert run.state == word
    assert run.ended_at == run.planned_at + timedelta(minutes=10)


def test_c5_another_attempt_of_a_fresh_conversation_begins_anew_when_it_must(in_memory: Conversations) -> None:
    """C5: a first attempt that died before its tool kept anything"""
    bench = in_memory
    bench.schedule("s", retries=1, retry_delay="1s")
    answers = [Outcome(False, error="died", turn=AgentTurn("asked", "", "never kept"))]
    answer = bench.tool._answer
    bench.tool._answer = lambda work: answers.pop() if answers else answer(work)  # type: ignore[method-assign]
    run = bench.fire("s")
    bench.run_until("2026-03-27T08:01:00Z")
    run = bench.runs.get(run.id)
    assert (run.state, run.attempt) == ("succeeded", 2)
    assert bench.tool.asked == ["never kept", None]
    assert bench.place(run) == ("1", "fresh")


def test_c5_a_run_that_fell_back_stays_there_for_another_attempt(in_memory: Conversations) -> None:
    """C5"""
    bench = in_memory
    bench.schedule("s", {"kind": "thread", "thread": 99}, retries=1, retry_delay="1s")
    answers = [Outcome(False, error="no luck", turn=AgentTurn("asked", "", None))]
    answer = bench.tool._answer
    bench.tool._answer = lambda work: answers.pop() if answers else answer(work)  # type: ignore[method-assign]
    run = bench.fire("s")
    bench.run_until("2026-03-27T08:01:00Z")
    assert bench.runs.get(run.id).state == "succeeded"
    assert bench.place(run) == ("1", "thread: gone, fallback fresh")


def test_a_thread_of_another_agent_is_not_there(in_memory: Conversations) -> None:
    """C5 B7: nobody lands in a conversation with somebody else"""
    bench = in_memory
    bench.schedule("first")
    place = bench.place(bench.fire("first"))[0]
    bench.schedule("stranger", {"kind": "thread", "thread": place}, agent="bob", fallback="skip")
    bench.schedule("listener", {"kind": "session", "session": "s-1"}, agent="bob", fallback="skip")
    assert bench.fire("stranger").reason == "target_gone"
    bench.fire("listener")
    assert bench.threads.list()[0].agent == "bob", "its own tool was asked for the session"
    assert [thread.id for thread in bench.threads.list() if thread.agent == "ann"] == [place]


def test_c4_a_thread_of_another_system_is_not_there(in_memory: Conversations) -> None:
    """C4 C5"""
    in_memory.schedule("s", {"kind": "thread", "threadId": "thr_a1b2c3d4"}, fallback="skip")
    assert in_memory.get("s").settings["target"] == {"kind": "thread", "thread": "thr_a1b2c3d4"}
    assert in_memory.fire("s").reason == "target_gone"


# -- current-*


def test_c4_shorthands_mean_where_the_agents_run_landed(bench: Conversations) -> None:
    """C4 B7: resolved when the schedule is made, from what the server knows; an agent cannot say otherwise"""
    bench.schedule("chat", {"kind": "channel", "channel": "C1"})
    run = bench.fire("chat")
    thread, _ = bench.place(run)
    ann = bench.acting_as(Principal("agent", "ann", int(run.id)))
    made = [
        ann.add(f"later {word}", when="2026-03-28T09:00", prompt="Look", target=word, context={"channel": "C9"})
        for word in ("current-channel", "current-session", "current-thread")
    ]
    assert [schedule.settings["target"] for schedule in made] == [
        {"kind": "channel", "channel": "C1"},
        {"kind": "session", "channel": "C1", "session": f"s-{run.id}"},
        {"kind": "thread", "channel": "C1", "thread": int(thread)},
    ]


def test_b7_a_one_shot_into_its_own_thread_may_go_through_unasked(in_memory: Conversations) -> None:
    """B7: where the owner's rule says so; into another place it is asked about"""
    bench = in_memory
    bench.agent_rules.set("ann", auto_approve_one_shots=True)
    bench.schedule("chat", {"kind": "channel", "channel": "C1"})
    run = bench.fire("chat")
    ann = bench.acting_as(Principal("agent", "ann", int(run.id)))
    thread, _ = bench.place(run)
    targets = {
        "here": "current-thread",
        "elsewhere": {"kind": "thread", "thread": int(thread) + 1, "channel": "C1"},
        "in another channel": {"kind": "thread", "thread": thread, "channel": "C9"},
        "in the channel": "current-channel",
    }
    states = {
        name: ann.add(name, when="2026-03-28T09:00", prompt="Look", target=target).state
        for name, target in targets.items()
    }
    assert states == {"here": "active", **dict.fromkeys(list(targets)[1:], "pending")}


def test_c4_people_say_where_they_are(in_memory: Conversations) -> None:
    """C4: with a context, which is not kept; also in an edit"""
    bench = in_memory
    words = {"when": "1d", "agent": "ann", "prompt": "Look"}
    made = bench.add("s", **words, target="current-thread", context={"thread": 3, "channel": "C1"})  # type: ignore[arg-type]
    assert made.settings["target"] == {"kind": "thread", "channel": "C1", "thread": 3}
    edited = bench.edit("s", target="current-channel", context={"channel": "C2"})
    assert edited.settings["target"] == {"kind": "channel", "channel": "C2"}
    with bench._store.reading() as transaction:
        event = transaction.logged(0, 10**9)[-1]
    assert '"settings":["target"]' in (event.data or "")
    again = bench.edit("s", prompt="Other", context={"channel": "C3"})
    assert again.settings["target"] == {"kind": "channel", "channel": "C2"}


@pytest.mark.parametrize("who", [OWNER, Principal("agent", "ann"), Principal("operator", "olga")], ids=lambda p: p.role)
@pytest.mark.parametrize("shorthand", ["current-channel", "current-session", "current-thread"])
def test_c4_without_a_context_nothing_is_made(in_memory: Conversations, who: Principal, shorthand: str) -> None:
    """C4"""
    with pytest.raises(InvalidInput, match="of the caller, and there is none") as caught:
        in_memory.acting_as(who).add("s", when="1d", prompt="Look", target=shorthand)
    assert caught.value.field == "target"
    assert in_memory.list() == []


def test_b22_a_conversation_starts_afresh_after_so_many_runs(bench: Conversations) -> None:
    """B22: in the same thread, with another session; the assignment says so"""
    bench.schedule("daily", {"kind": "channel", "channel": "C07"}, fresh_after=2)
    places = [bench.place(bench.fire("daily")) for _ in range(5)]
    assert len({thread for thread, _ in places}) == 1
    assert bench.tool.asked == [None, "s-1", None, "s-3", None]
    assert [how for _, how in places] == [
        "channel", "channel", "channel: fresh after 2 runs", "channel", "channel: fresh after 2 runs",
    ]  # fmt: skip


def test_b22_a_named_session_goes_on_without_its_memory(bench: Conversations) -> None:
    bench.schedule("first", {"kind": "channel", "channel": "C07"})
    thread = bench.place(bench.fire("first"))[0]
    bench.schedule("daily", {"kind": "thread", "thread": thread}, fresh_after=1)
    assert bench.place(bench.fire("daily")) == (thread, "thread: fresh after 1 run")
    assert bench.tool.asked == [None, None]


def test_b22_a_conversation_starts_afresh_after_so_many_tokens(bench: Conversations) -> None:
    bench.tool.usage = Usage(money=1, tokens=600)
    bench.schedule("daily", {"kind": "channel", "channel": "C07"}, fresh_after_tokens="1k")
    for _ in range(3):
        place = bench.place(bench.fire("daily"))
    assert (bench.tool.asked, place[1]) == ([None, "s-1", None], "channel: fresh after 1,200 tokens")


def test_b22_a_retry_goes_on_with_its_own_conversation(bench: Conversations) -> None:
    bench.schedule("daily", {"kind": "channel", "channel": "C07"}, fresh_after=1, retries=1, retry_delay="1s")
    bench.fire("daily")
    bench.tool.failing = 1
    run = bench.run("daily")
    bench.settle()
    bench.clock.advance(60_000)
    bench.settle()
    assert (bench.runs.get(run.id).state, bench.runs.get(run.id).attempt) == ("succeeded", 2)
    assert bench.tool.asked == [None, None, "s-2"]


def test_b22_what_was_kept_is_carried_over(bench: Conversations) -> None:
    """B22: the last run is told to keep something; if it did not answer, the next one is; then a fresh one has it"""
    bench.schedule("daily", {"kind": "channel", "channel": "C07"}, fresh_after=2, keep="open questions")
    bench.fire("daily")
    thread = lambda run: bench._thread_of(run)  # noqa: E731
    bench.tool.failing = 1
    failed = bench.fire("daily")
    assert (failed.state, thread(failed).closing_run) == ("failed", int(failed.id))
    bench.tool.answer = "All is well.\n\n**KEEP:**\nIs the gate shut?\n"
    closing = bench.fire("daily")
    assert (thread(closing).closing_run, thread(closing).kept) == (int(closing.id), None)
    fresh = bench.fire("daily")
    assert (thread(fresh).fresh_run, thread(fresh).kept) == (int(fresh.id), "Is the gate shut?")
    assert bench.tool.asked[-1] is None


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("Fine.", None),
        ("Fine.\nKEEP:", None),
        ("KEEP: this line is a sentence", None),
        ("KEEP:\nold\nKEEP:\nnew", "new"),
        ("## KEEP:\n- one\n- two\n", "- one\n- two"),
    ],
)
def test_b22_what_an_answer_keeps(answer: str, kept: str | None) -> None:
    assert kept_in(answer) == kept


def turns(*benches: Conversations) -> None:
    for _ in range(3):
        for bench in benches:
            bench.settle()


def test_b18_a_conversation_stays_with_its_session(postgres_url: str) -> None:
    """B18: six wakes, planned by two nodes in turn, remember all of it: each tool knows only sessions of its own.
    `why` says where the conversation is while its node is away, and the fallback decides when it is gone"""
    clock = ManualClock(START)
    one = Conversations(postgres_url, clock, name="one")
    with closing(one), closing(Conversations(postgres_url, clock, name="two")) as two:
        one.schedule("s", {"kind": "channel", "channel": "C1"}, overlap="allow")
        one.schedule("t", {"kind": "channel", "channel": "C2"}, overlap="queue")
        for n in range(6):
            first, second = (one, two) if n % 2 else (two, one)
            first.run("s")
            turns(first, second)
        assert one.tool.asked == []
        assert len(two.tool.compiled) == 1
        assert two.tool.asked == [None, *[next(iter(two.tool.compiled))] * 5]
        (thread,) = [thread for thread in one.threads.list() if thread.channel == "C1"]
        assert [message.text for message in one.threads.messages(thread.id)] == ["asked", "answered"] * 6

        with two.store.transaction(clock.now_ms()) as transaction:
            transaction.stop_worker(two.engine.worker, clock.now_ms())
        away = one.run("s")
        one.settle()
        assert one.runs.get(away.id).state == "ready"
        assert "No node can run it now: it continues a conversation on two" in one.why("s").summary
        for _ in range(9):
            clock.advance(10_000)
            one.settle()
        assert one.runs.get(away.id).state == "succeeded"
        assert one.tool.asked == [None]
        assert one.place(one.runs.get(away.id))[1] == "channel (its conversation was on two, which is gone)"
        assert one.audit.verify().problems == []


def test_b18_a_shared_store_of_sessions_needs_no_node(postgres_url: str) -> None:
    """B18: `session_store: shared`; and a named session whose node is gone is skipped where the schedule says so"""
    clock = ManualClock(START)
    one = Conversations(postgres_url, clock, name="one")
    with closing(one), closing(Conversations(postgres_url, clock, name="two")) as two:
        two.tool.compiled = one.tool.compiled
        one.agents.edit("ann", session_store="shared")
        one.schedule("s", {"kind": "channel", "channel": "C1"}, overlap="allow")
        one.schedule("skips", {"kind": "channel", "channel": "C2"}, agent="bob", overlap="allow")
        for bench in (one, two, one, two):
            bench.fire("s")
        assert (len(one.tool.asked), len(two.tool.asked), len(one.tool.compiled)) == (2, 2, 1)

        first = two.fire("skips")
        target = {"kind": "thread", "thread": int(two.runs.thread(first.id).thread.id)}  # type: ignore[union-attr]
        one.edit("skips", target=target, fallback="skip")
        with two.store.transaction(clock.now_ms()) as transaction:
            transaction.stop_worker(two.engine.worker, clock.now_ms() - 70_000)
        skipped = one.fire("skips")
        assert (skipped.state, skipped.reason) == ("skipped", "target_gone")
