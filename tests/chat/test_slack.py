"""Slack: commands, drafts, threads, triggers and notes, beside a stand-in of its Web API. C14, H5, C7."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from chat_bench import BEN, EVE, HOME, OPS, ChatBench, buttons, mention

from matins.errors import Conflict, MatinsError, NotAllowed
from matins.model.access import Principal


def test_schedules_are_listed_shown_paused_resumed_run_and_removed(bench: ChatBench) -> None:
    """`!schedule list` tells status, next run and type; pause, resume and remove do what they say. C14."""
    assert "no schedules" in bench.say("!schedule list")[0].text
    bench.m.add("nightly", when="every day at 02:30", agent="scout", prompt="Look")
    (listed,) = bench.say("!schedule list")
    assert "✓ scout/nightly · every day at 02:30 · next Sat 28 Mar 02:30 · never ran" in listed.text
    assert listed.arguments["thread_ts"] == "1600000000.000002"
    (paused,) = bench.say("!schedule pause nightly until tomorrow at 9am because of the fair")
    assert "until Sat 28 Mar 09:00" in paused.text
    assert (bench.m.get("nightly").state, bench.m.get("nightly").note) == ("paused", "of the fair")
    assert bench.m.get("nightly").paused_by == "ada"
    assert "paused" in bench.slash("list")[0].text
    assert "Resumed scout/nightly. Next run: Sat 28 Mar 02:30." in bench.say(mention("resume nightly"))[0].text
    assert "Look" in bench.say("!schedule show nightly")[0].text
    assert "has not been due yet" in bench.say("!schedule why nightly")[0].text
    assert "Run 1 of nightly" in bench.say("!schedule run nightly")[0].text
    assert 'Did you mean "nightly"?' in bench.say("!schedule remove nightl")[0].text
    assert "Removed scout/nightly" in bench.say("!schedule remove nightly")[0].text
    assert bench.m.list() == []
    assert "approve N" in bench.say("!schedule help")[0].text
    assert 'Did you mean "list"?' in bench.say("!schedule lst")[0].text


def test_a_list_is_at_most_twenty_lines_and_counts_the_rest(bench: ChatBench) -> None:
    for number in range(23):
        bench.m.add(f"s{number:02}", when="1d", agent="scout", prompt="Look")
    text = bench.say("!schedule list")[0].text
    assert "s19" in text
    assert "s20" not in text
    assert "… and 3 more: https://matins.example.com/schedules" in text


def test_add_asks_for_what_is_missing_and_survives_a_restart(on_file: ChatBench) -> None:
    """`!schedule add weekly …` asks one question after the other, and makes nothing before the preview. C14."""
    bench = on_file
    bench.m.agents.set("other", runner="demo")
    (asked,) = bench.say("!schedule add weekly Tidy the garden", channel="C0OTHER")
    thread = asked.arguments["thread_ts"]
    say = {"thread": thread, "channel": "C0OTHER"}
    assert "Which day? 0-6 or a name" in asked.text
    assert "Which day?" in bench.say("Frydayish", **say)[0].text
    assert "At what time? HH:MM" in bench.say("5", **say)[0].text
    bench.reopen()
    assert "Which agent?" in bench.say("07:15", **say)[0].text
    assert bench.say("What do they mean?", BEN, **say) == []
    (preview,) = bench.say("scout", **say)
    assert "every Friday at 07:15 (UTC)" in preview.text
    assert "Fri 03 Apr 07:15, Fri 10 Apr 07:15, Fri 17 Apr 07:15" in preview.text
    assert "Tidy the garden" in preview.text
    assert bench.m.list() == []
    (asked,) = bench.click(preview, "Change")
    assert "What should change?" in asked.text
    (second,) = bench.say("when every friday at 8am", **say)
    assert "The draft has changed since" in bench.click(preview, "Create")[0].text
    assert "You have no draft here" in bench.click(second, "Create", BEN)[0].text
    assert "Created scout/" in bench.click(second, "Create")[0].text
    (made,) = bench.m.list()
    assert (made.trigger_text, made.prompt, made.created_by) == ("every Friday at 08:00", "Tidy the garden", "ada")
    assert made.settings["target"] == {"kind": "channel", "channel": "C0OTHER"}
    assert "You have no draft here" in bench.click(second, "Create")[0].text
    assert len(bench.m.list()) == 1


def test_a_draft_ends_by_cancel_and_after_a_quarter_of_an_hour(bench: ChatBench) -> None:
    (asked,) = bench.say("!schedule add daily Look")
    thread = asked.arguments["thread_ts"]
    assert "Cancelled" in bench.say("cancel", thread=thread)[0].text
    assert bench.say("07:15", thread=thread) == []
    (asked,) = bench.say("!schedule add once Look")
    bench.m.clock.advance(901_000)
    assert bench.say("30m", thread=asked.arguments["thread_ts"]) == []


def test_b7_an_answer_above_the_bound_is_refused_and_costs_nothing(bench: ChatBench) -> None:
    """B7: it says how long it may be and asks again; the draft is as it was, and its time is not extended"""
    (asked,) = bench.say("!schedule add every day at 9am")
    say = {"thread": asked.arguments["thread_ts"]}
    assert "What should the agent do?" in asked.text
    bench.m.clock.advance(600_000)
    (refused,) = bench.say("x" * 4_001, **say)
    assert "A message has at most 4,000 characters, not 4,001.\nShorten it." in refused.text
    assert "What should the agent do?" in refused.text
    assert bench.m.list() == []
    (preview,) = bench.say("x" * 4_000, **say)
    assert "Create this schedule?" in preview.text
    (asked,) = bench.say("!schedule add every day at 9am")
    say = {"thread": asked.arguments["thread_ts"]}
    bench.m.clock.advance(600_000)
    bench.say("x" * 4_001, **say)
    bench.m.clock.advance(301_000)
    assert bench.say("Look", **say) == []


def test_a_slash_command_opens_a_form_with_what_is_missing(bench: ChatBench) -> None:
    (form,) = bench.slash("add Water the plants")
    assert form.method == "views.open"
    before = len(bench.slack.calls)
    assert bench.submit(form, when="every blue moon", message="Water the plants") == []
    assert "when" in (bench.acknowledgement or {})["errors"]
    assert bench.submit(form, when="every day at 7", message="x" * 4_001) == []
    too_long = "A message has at most 4,000 characters, not 4,001. Shorten it."
    assert (bench.acknowledgement or {})["errors"] == {"message": too_long}
    assert len(bench.slack.calls) == before
    (preview,) = bench.submit(form, when="every day at 7", message="Water the plants", agent="scout", name="plants")
    assert preview.method == "chat.postEphemeral"
    assert "every day at 07:00" in preview.text
    (made,) = bench.click(preview, "Create")
    assert "Created scout/plants" in made.text
    (preview,) = bench.slash("add every friday at 9: Sweep")
    bench.click(preview, "Create")
    assert [schedule.prompt for schedule in bench.m.list()] == ["Water the plants", "Sweep"]


def test_answers_come_back_and_replies_speak_to_the_agent(bench: ChatBench) -> None:
    """The answer is posted where the schedule was made; a reply there is a run in the same thread."""
    bench.click(bench.say("!schedule add every day at 09:00: Look {{slot}}")[0], "Create")
    bench.m.clock.advance_to("2026-03-27T09:00:00Z")
    (answer,) = bench.settle()
    assert answer.arguments["channel"] == HOME
    assert [line for line in answer.text.splitlines() if line][1:] == ["✓ look-slot", "All is well.", "run 1 · 0 s"]
    assert "thread_ts" not in answer.arguments
    thread = bench.ts_of(answer)
    bench.tool.reply = "Three weeds.\n\n" * 5_000
    assert bench.say("How many weeds are {{there}}?", BEN, thread=thread) == []
    said = bench.settle()
    assert bench.tool.prompts[-1] == "How many weeds are { {there}}?"
    assert said[0].method == "chat.postMessage"
    assert said[0].arguments["thread_ts"] == thread
    posts = [call for call in said if call.method == "chat.postMessage"]
    assert (len(posts), {call.arguments["thread_ts"] for call in posts}) == (5, {thread})
    assert said[-1].method == "files.completeUploadExternal"
    assert said[-1].arguments["thread_ts"] == thread
    (run, first) = bench.m.runs.list()
    assert (run.request_key, run.evidence["by"]["name"]) == (f"slack:{HOME}:1600000000.000003", "ben")
    spoken = bench.m.threads.messages(bench.m.runs.thread(first.id).thread.id)
    assert [message.role for message in spoken] == ["user", "assistant"] * 2
    bench.tool.reply = "FAIL no water"
    bench.say("And now?", thread=thread)
    (failed,) = [call for call in bench.settle() if call.method == "chat.postMessage"]
    assert "no water" in failed.text
    assert failed.arguments["thread_ts"] == thread
    assert bench.settle() == []


def test_a_channel_that_is_named_twice_gets_one_post(bench: ChatBench) -> None:
    """B21: the thread of the run, and a destination that leads to the same channel"""
    given = {"kind": "slack", "token": "env:T_BOT", "url": bench.slack.url}
    bench.m.destinations.set("here", to=[HOME], **given)
    bench.m.destinations.set("there", to=["C0OTHER"], **given)
    target = {"kind": "channel", "channel": HOME}
    bench.m.add("look", when="1d", agent="scout", prompt="Look", target=target, deliver=["here", "there"])
    bench.m.run("look")
    told = [call.arguments["channel"] for call in bench.settle() if "✓ look" in call.text]
    assert sorted(told) == [HOME, "C0OTHER"]


def test_an_answer_that_was_not_confirmed_is_repeated_once_and_says_so(bench: ChatBench) -> None:
    """B21: `unconfirmed` after the second loss; a thread of another workspace gets nothing"""
    bench.m.add("look", when="1d", agent="scout", prompt="Look", target={"kind": "channel", "channel": HOME})

    def lost(given: dict[str, Any]) -> Any:
        raise ConnectionError

    bench.slack.answers["chat.postMessage"] = lost
    bench.m.run("look")
    assert len(bench.settle()) == 1
    bench.m.clock.advance(600_000)
    (again,) = bench.settle()
    assert "Sent again: Slack did not confirm the first copy." in again.text
    bench.m.clock.advance(3_600_000)
    assert bench.settle() == []
    assert [answer.state for answer in bench.m.runs.get(1).answers] == ["unconfirmed"]


def test_a_thread_of_another_workspace_gets_no_answer(bench: ChatBench) -> None:
    thread = bench.records.thread_for("slack:T0OTHER/C07ABCDEF/1500.1", HOME, "scout")
    target = {"kind": "thread", "thread": thread, "channel": HOME}
    bench.m.add("look", when="1d", agent="scout", prompt="Look", target=target)
    bench.m.run("look")
    assert bench.settle() == []
    (answer,) = bench.m.runs.get(1).answers
    assert (answer.state, answer.error) == ("discarded", "the thread is in another workspace of Slack")


def test_what_is_made_in_a_thread_answers_in_that_thread(bench: ChatBench) -> None:
    (preview,) = bench.say("!schedule add in 1h: Look again", thread="1500000000.000009")
    bench.click(preview, "Create")
    (made,) = bench.m.list()
    assert made.settings["target"]["kind"] == "thread"
    bench.m.clock.advance(3_600_000)
    (answer,) = bench.settle()
    assert answer.arguments["thread_ts"] == "1500000000.000009"


def test_people_speak_in_threads_and_agents_do_not(bench: ChatBench) -> None:
    bench.m.add("look", when="1d", agent="scout", prompt="Look", target={"kind": "channel", "channel": HOME})
    bench.m.run("look")
    bench.settle()
    (thread,) = bench.m.threads.list()
    with pytest.raises(NotAllowed, match="cannot call threads"):
        bench.m.acting_as(Principal("agent", "scout")).threads.reply(thread.id, "Go on")
    first = bench.m.threads.reply(thread.id, "Go on", key="k")
    assert bench.m.threads.reply(thread.id, "Go on", key="k").id == first.id
    bench.settle()
    bench.m.delete("look")
    with pytest.raises(Conflict, match="was deleted"):
        bench.m.threads.reply(thread.id, "Still there?")


def test_messages_start_schedules_that_listen(bench: ChatBench) -> None:
    """A chat trigger fires for people who are known, with the message as data; its answer is a reply. H5."""
    on: Any = [{"chat": HOME, "match": "!deploy", "from": ["ada"]}, {"chat": "C0OTHER", "match": "mention"}]
    bench.m.add("deploy", on=on, agent="scout", prompt="Deploy {{call.text}}")
    bench.say("!deploy <https://x.example|x> &amp; y")
    (answer,) = bench.settle()
    assert answer.arguments["thread_ts"] == "1600000000.000001"
    (call,) = bench.m.calls.list()
    assert (bench.m.calls.get(call.id).text, call.sender) == ("!deploy https://x.example & y", "ada")
    bench.say("!deploy", BEN)
    bench.m.people.set("vic", role="viewer", slack=EVE)
    bench.say(mention("ship it"), EVE, channel="C0OTHER")
    bench.say("Good morning")
    assert len(bench.m.runs.list()) == 1
    bench.say(mention("ship it"), BEN, channel="C0OTHER")
    assert len(bench.m.runs.list()) == 2
    bench.settle()
    assert bench.say("Was it hard?", thread="1600000000.000001") == []
    assert len(bench.m.runs.list()) == 3


def test_admin_notes_have_the_seeds_words(bench: ChatBench, tmp_path: Path) -> None:
    """A reload is told as `… hot-reloaded: +N -M ~P task(s)`, and a target that is gone in one line. C7."""
    file = tmp_path / "schedules.yaml"
    file.write_text("schedules:\n  a: {when: 1d, agent: scout, prompt: Look}\n")
    bench.m.watch_file(file).check()
    (note,) = bench.settle()
    assert note.arguments["channel"] == OPS
    assert note.arguments["text"] == ":arrows_counterclockwise: schedules.yaml hot-reloaded: +1 -0 ~0 task(s)"
    target = {"kind": "thread", "thread": 99, "channel": HOME}
    bench.m.add("lost", when="1d", agent="scout", prompt="Look", target=target, fallback="skip")
    bench.m.run("lost")
    (note,) = bench.settle()
    assert note.arguments["channel"] == HOME
    assert note.arguments["text"] == '"lost" was skipped: its target thread 99 no longer exists.'
    assert bench.settle() == []


def test_slack_that_is_away_delays_nothing_and_is_told_later(bench: ChatBench) -> None:
    bench.m.add("look", when="1d", agent="scout", prompt="Look", target={"kind": "channel", "channel": HOME})
    bench.slack.answers["chat.postMessage"] = lambda given: (500, {"ok": False, "error": "fatal_error"})
    run = bench.m.run("look")
    bench.settle()
    assert bench.m.runs.get(run.id).state == "succeeded"
    del bench.slack.answers["chat.postMessage"]
    bench.m.clock.advance(120_000)
    (answer,) = bench.settle()
    assert "All is well." in answer.text


def test_buttons_of_a_preview_are_bound_to_it(bench: ChatBench) -> None:
    (preview,) = bench.say("!schedule add every day at 9: Look")
    assert list(buttons(preview)) == ["Create", "Change", "Cancel"]
    assert "Nothing was made" in bench.click(preview, "Cancel")[0].text
    assert "You have no draft" in bench.click(preview, "Create")[0].text
    assert bench.m.list() == []


def test_the_examples_of_the_page_can_be_used(bench: ChatBench, tmp_path: Path) -> None:
    """The settings of docs/chat.md are applied as they are, and its manifest asks for what the adapter needs."""
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
    telegram, manifest, settings, discord, trigger = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "matins.yaml"
    file.write_text(settings + trigger)
    bench.m.watch_file(file)
    with pytest.raises(MatinsError, match="scout"):  # records that were made by hand stay theirs
        bench.m.file.apply()
    for kind, name in (("chat", "slack"), ("people", "ada"), ("people", "ben"), ("agents", "scout")):
        getattr(bench.m, kind).delete(name)
    assert bench.m.file.apply().state == "applied"
    for service, text in (("telegram", telegram), ("discord", discord)):
        file.write_text(text)
        assert bench.m.file.apply().state == "applied"
        assert bench.m.chat.get(service).token == f"env:{service.upper()}_TOKEN"
    file.write_text(settings + trigger)
    assert bench.m.file.apply().state == "applied"
    assert bench.m.get("deploy").trigger_text == "on a chat message in C07ABCDEF"
    for needed in ("message.channels", "app_mention", "chat:write", "users:read", "files:write", "/matins"):
        assert needed in manifest
