"""Approval cards: bound to a digest, updated wherever the decision was made, and safe from strangers. V6, B12."""

from __future__ import annotations

import json

import pytest
from chat_bench import ADA, BEN, EVE, OPS, ChatBench, buttons

from matins.model.access import Principal
from standins.slack import TEAM, Call, member

CHANNEL = "<!channel> <@U0ADA> <!here> & *bold* <https://evil.example|good>"


def request(bench: ChatBench, prompt: str = "Sweep the yard", name: str = "sweep", approvers: str = "ada ben") -> Call:
    """The card of a run that waits for approval."""
    settings = {"approval": "council_approve", "approvers": approvers.split(), "agent": "scout", "prompt": prompt}
    bench.m.add(name, when="1d", **settings)
    bench.m.run(name)
    (card,) = bench.settle()
    return card


def test_a_card_shows_exactly_what_would_run_and_approves_it(bench: ChatBench) -> None:
    """The card has the prompt, who asked and the digest; a click approves, and the card says who did. V6, B12."""
    card = request(bench)
    (asked,) = bench.m.approvals.list()
    assert card.arguments["channel"] == OPS
    assert "Run of sweep: owner asks for approval" in card.text
    assert "Sweep the yard" in card.text
    assert f"Bound to sha256:{asked.digest[:16]}…" in card.text
    assert list(buttons(card)) == ["Approve", "Deny…", "Open"]
    assert buttons(card)["Approve"]["value"] == f"{asked.id}:{asked.digest}"
    updated = bench.click(card, "Approve", BEN)[-1]
    assert updated.method == "chat.update"
    assert updated.arguments["ts"] == bench.ts_of(card)
    assert "Approved by ben at Fri 27 Mar 08:00 UTC in Slack." in updated.text
    assert buttons(updated) == {}
    bench.settle()
    assert bench.tool.prompts == ["Sweep the yard"]


def test_a_card_is_updated_wherever_the_decision_was_made(bench: ChatBench) -> None:
    card = request(bench, approvers="ben")
    (second,) = bench.say("!schedule approve 1", BEN)
    bench.m.acting_as(Principal("operator", "ben")).approvals.deny(1, note="Not today")
    updated = bench.settle()
    assert {call.arguments["ts"] for call in updated} == {bench.ts_of(card), bench.ts_of(second)}
    assert "Denied by ben at Fri 27 Mar 08:00 UTC outside Slack.\nben: Not today" in updated[0].text
    late = request(bench, name="late")
    bench.m.clock.advance(2 * 86_400_000)
    expired = [call for call in bench.settle() if call.arguments.get("ts") == bench.ts_of(late)]
    assert "Expired" in expired[-1].text


def test_what_an_agent_proposes_is_decided_on_a_card(bench: ChatBench) -> None:
    """A proposal fires nothing until its card is approved; the digest that was read can be written instead. B7, V6."""
    scout = bench.m.acting_as(Principal("agent", "scout"))
    for name in ("plan", "second"):
        scout.add(name, when="every day at 9", agent="scout", prompt="Look")
    cards = bench.settle()
    assert "New schedule plan: scout asks for approval" in cards[0].text
    assert "only the owner can answer it" in bench.click(cards[0], "Approve", BEN)[-1].text
    bench.click(cards[0], "Approve")
    assert (bench.m.get("plan").state, bench.m.get("second").state) == ("active", "pending")
    digest = bench.m.approvals.get(2).digest
    assert "has another digest" in bench.say(f"!schedule approve 2 {'0' * 8}")[0].text
    bench.say(f"!schedule approve 2 sha256:{digest[:8]}")
    assert bench.m.get("second").state == "active"


def test_a_denial_asks_for_its_reason(bench: ChatBench) -> None:
    card = request(bench)
    (form,) = bench.click(card, "Deny…")
    assert bench.m.approvals.get(1).votes == []
    assert "deny by ada" in bench.submit(form, note="Too early")[-1].text
    (form,) = bench.click(card, "Deny…", BEN)
    assert "Denied by ada, ben" in bench.submit(form, BEN)[-1].text
    assert bench.m.approvals.get(1).votes[0].note == "Too early"


def test_what_does_not_fit_is_read_before_it_is_decided(bench: ChatBench) -> None:
    """A prompt that a card cannot hold has no button to approve: all of it is shown first."""
    prompt = "\n".join(f"line {number}" for number in range(900))
    card = request(bench, prompt)
    assert list(buttons(card)) == ["Read and decide…", "Deny…", "Open"]
    assert "line 899" not in card.text
    digest = bench.m.approvals.get(1).digest
    assert "Read all of it first" in bench.say(f"!schedule approve 1 {digest}")[0].text
    assert bench.m.approvals.get(1).state == "pending"
    (form,) = bench.click(card, "Read and decide…")
    assert form.method == "views.open"
    assert all(f"line {number}\n" in f"{form.text}\n" for number in (0, 450, 899))
    bench.submit(form)
    bench.settle()
    assert bench.tool.prompts == [prompt]
    (far,) = [request(bench, "x" * 295_000, "far")]
    (refused,) = bench.click(far, "Read and decide…")
    assert "too long for Slack" in refused.text


def test_a_request_that_changed_replaces_its_card(bench: ChatBench) -> None:
    """A click on an older question does not count: the card becomes the newer one."""
    card = request(bench, approvers="ada ben eva")
    bench.m.acting_as(Principal("operator", "eva")).approvals.approve(1, edits={"prompt": "Sweep twice"})
    said = bench.click(card, "Approve", BEN)
    assert "is void" in said[-1].text
    (old,) = [call for call in said if call.method == "chat.update"]
    assert "Void" in old.text
    (newer, *_) = bench.settle()
    assert "Sweep twice" in newer.text
    bench.click(newer, "Approve", BEN)
    bench.settle()
    assert bench.tool.prompts == ["Sweep twice"]


def test_an_edited_digest_decides_nothing(bench: ChatBench) -> None:
    """A button whose digest is another one does not count, and the card shows the request as it is."""
    card = request(bench)
    (asked,) = bench.m.approvals.list()
    said = bench.click(card, "Approve", BEN, {"actions": [_edited(card, "0" * 64)]})
    assert f"Bound to sha256:{asked.digest[:16]}…" in said[0].text
    assert "has changed since you read it" in said[-1].text
    assert bench.m.approvals.get(1).votes == []
    assert bench.click(card, "Approve", BEN, {"actions": [{**_edited(card, "0"), "value": "no number"}]})[0].method
    assert bench.m.approvals.get(1).state == "pending"


def _edited(card: Call, digest: str) -> dict[str, object]:
    button = buttons(card)["Approve"]
    return {**button, "value": f"{button['value'].partition(':')[0]}:{digest}"}


@pytest.mark.parametrize("user", [EVE, "U0GUEST", "U0ROBOT", "U0OTHER", "U0GONE", "U0MISSING"])
def test_only_known_members_of_the_workspace_approve(bench: ChatBench, user: str) -> None:
    """Strangers, guests, bots, members of other workspaces and people who left decide nothing, and are told why."""
    bench.slack.users |= {
        "U0GUEST": member(is_restricted=True), "U0ROBOT": member(is_bot=True),
        "U0OTHER": member(team_id="T0EVIL"), "U0GONE": member(deleted=True),
    }  # fmt: skip
    if user not in (EVE, "U0MISSING"):
        bench.m.people.set("mallory", role="owner", slack=user)
    card = request(bench)
    (refused,) = bench.click(card, "Approve", user)
    assert (refused.method, refused.arguments["user"]) == ("chat.postEphemeral", user)
    bench.say("!schedule list", user)
    bench.slash("run sweep", user)
    assert bench.m.approvals.get(1).state == "pending"
    assert len(bench.m.runs.list()) == 1
    assert not any("sweep" in call.text for call in bench.slack.calls[bench.slack.calls.index(card) + 1 :])


def test_a_viewer_looks_and_decides_nothing(bench: ChatBench) -> None:
    bench.m.people.set("vic", role="viewer", slack=EVE)
    card = request(bench)
    assert "cannot approve" in bench.click(card, "Approve", EVE)[-1].text
    assert "sweep" in bench.say("!schedule list", EVE)[0].text
    assert "cannot pause" in bench.say("!schedule pause sweep", EVE)[0].text
    assert bench.m.approvals.get(1).state == "pending"


@pytest.mark.parametrize(
    "more",
    [
        {"team": {"id": "T0EVIL"}},
        {"user": {"id": ADA, "team_id": "T0EVIL"}},
        {"container": {"channel_id": OPS, "message_ts": "1.1", "type": "message"}},
        {"container": {"channel_id": "C0OTHER", "message_ts": "CARD", "type": "message"}},
    ],
)
def test_a_card_of_another_place_or_workspace_decides_nothing(
    bench: ChatBench, more: dict[str, dict[str, str]]
) -> None:
    card = request(bench)
    held = json.loads(json.dumps(more).replace("CARD", bench.ts_of(card)))
    said = bench.click(card, "Approve", ADA, held)
    assert bench.m.approvals.get(1).state == "pending"
    assert said == [] or "not a card that Matins posted here" in said[0].text


def test_a_repeated_envelope_and_a_second_click_do_nothing(bench: ChatBench) -> None:
    card = request(bench)
    payload = {
        "type": "block_actions", "team": {"id": TEAM}, "user": {"id": ADA, "team_id": TEAM}, "trigger_id": "tr-1",
        "actions": [buttons(card)["Approve"]],
        "container": {"channel_id": OPS, "message_ts": bench.ts_of(card), "type": "message"},
    }  # fmt: skip
    assert bench.accept(payload) != []
    assert bench.accept(payload) == []
    assert "Approval 1 is approved" in bench.accept({**payload, "trigger_id": "tr-2"})[-1].text
    assert [vote.voter for vote in bench.m.approvals.get(1).votes] == ["ada"]


def test_no_text_of_others_becomes_markup(bench: ChatBench) -> None:
    """`<!channel>` in a prompt, a name, a note or an answer calls nobody: it is text that Slack does not read."""
    name = "<!channel> sweep"
    card = request(bench, CHANNEL, name)
    bench.tool.reply = CHANNEL
    bench.m.add("told", when="1d", agent="scout", prompt="x", target={"kind": "channel", "channel": "C07ABCDEF"})
    bench.m.run("told")
    bench.settle()
    bench.tool.reply = f"FAIL {CHANNEL}"
    bench.m.run("told")
    bench.settle()
    bench.say(f"!schedule pause {name} because {CHANNEL}".replace("<", "&lt;").replace(">", "&gt;"))
    bench.say("!schedule list")
    bench.say(f"!schedule show {name}".replace("<", "&lt;").replace(">", "&gt;"))
    bench.say("!schedule add every day at 9: &lt;!channel&gt; look")
    bench.say("!schedule remove &lt;!channel&gt; none")
    (form,) = bench.click(card, "Deny…")
    bench.submit(form, note=CHANNEL)
    assert len(bench.slack.calls) > 10
    for call in bench.slack.calls:
        assert call.arguments.get("link_names", False) is False
        for text in _interpreted(call.arguments):
            assert "<" not in text, call


def _interpreted(value: object, *, rich: bool = False) -> list[str]:
    """The texts in which Slack reads markup: not those of rich text elements, and not plain ones."""
    if isinstance(value, dict):
        rich = rich or value.get("type") in ("rich_text", "plain_text")
        own = [value["text"]] if isinstance(value.get("text"), str) and not rich else []
        return own + [text for item in value.values() for text in _interpreted(item, rich=rich)]
    return [text for item in value for text in _interpreted(item, rich=rich)] if isinstance(value, list) else []
