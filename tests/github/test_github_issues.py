"""Work from GitHub issues: who holds one, and what people see of it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
from github_server import GitHub

from executors.work_sources import parse_source
from matins.engine.prompts import WorkItem
from matins.errors import Conflict, InvalidInput
from matins.executors.work_items import WorkSourceUnavailable
from matins.github.issues import GitHubIssues

NOW = 1_774_602_000_000
BROKEN = (502, {}, {"message": "Bad gateway"})


def _source(github: GitHub, **words: Any) -> GitHubIssues:
    return GitHubIssues(
        parse_source("issues", {"kind": "github", "repo": "octo-org/garden", "base_url": github.url, **words})
    )


def _claimed(github: GitHub, run_key: str = "run-1", **words: Any) -> WorkItem:
    item = _source(github, **words).claim(run_key, NOW)
    assert item is not None
    return item


def _marks(github: GitHub, number: int) -> list[str]:
    return [body.partition("\n")[0] for body in github.said(number)]


def test_a_look_at_what_a_run_holds_claims_nothing(github: GitHub) -> None:
    """H9"""
    github.add(7, "ready")
    github.add(8, "ready")
    source = _source(github)
    assert source.held("run-1", NOW) is None
    item = _claimed(github)
    said = _marks(github, 7), _marks(github, 8)
    assert source.held("run-1", NOW) == item
    assert source.held("run-2", NOW) is None
    assert (_marks(github, 7), _marks(github, 8)) == said


# -- which one


def test_the_highest_priority_then_the_oldest_is_claimed(github: GitHub) -> None:
    """H9: fetch a work item"""
    github.add(9, "ready")
    github.add(8, "ready", "P1")
    github.add(7, "ready", "p1", "p0")
    github.add(6, "ready", "p1")
    github.add(5, "ready", "p0", pull_request={})
    github.add(4, "p0")
    github.add(3, "ready", "p0", state="closed")
    github.add(2, "ready", "p0", "matins-failed")
    github.add(1, "ready")
    words = {"priorities": ["p0", "p1"]}
    got = [_claimed(github, f"run-{n}", **words) for n in range(5)]
    assert [(item.id, item.priority) for item in got] == [("7", 2), ("6", 1), ("8", 1), ("1", None), ("9", None)]
    assert _source(github, **words).claim("run-9", NOW) is None


def test_all_the_labels_are_asked_for(github: GitHub) -> None:
    """H9: what is ready, in the owner's words"""
    github.add(1, "ready")
    github.add(2, "Ready", "small")
    assert _claimed(github, labels=["ready", "small"]).id == "2"


def test_a_claim_can_be_seen(github: GitHub) -> None:
    """H9: claimed by label and comment with the run's id"""
    github.add(7, "ready", body="Oil\r\nit.\0\ud800", title=" The  door ")
    item = _claimed(github)
    url = "https://github.com/octo-org/garden/issues/7"
    assert item == WorkItem("issues", "7", "The door", "Oil\nit.", url, ("ready", "matins-claimed"), None)
    assert github.labels(7) == ["ready", "matins-claimed"]
    assert github.said(7) == ["<!-- matins claim run%2D1 -->\nClaimed by run `run-1`."]


def test_the_same_run_gets_the_same_item_again(github: GitHub) -> None:
    """H9: after a crash, and when something more urgent has come meanwhile"""
    github.add(7, "ready")
    first = _claimed(github)
    github.add(8, "ready", "p0")
    assert _claimed(github, priorities=["p0"]) == first
    assert len(github.comments) == 1
    github.requests.clear()
    assert _claimed(github, "run-2").id == "8"
    assert github.requests.count("GET /repos/octo-org/garden/issues/7/comments") == 1


@pytest.mark.parametrize("lost", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("at", range(1, 7))
def test_a_claim_that_is_cut_short_is_finished_by_the_next(github: GitHub, at: int, lost: bool) -> None:
    """H9: whatever call fails, the run gets one item, once"""
    github.add(7, "ready")
    github.faults[at], github.lost = BROKEN, lost
    with pytest.raises(WorkSourceUnavailable):
        _claimed(github)
    assert _claimed(github).id == "7"
    assert _marks(github, 7) == ["<!-- matins claim run%2D1 -->"]
    assert _source(github).claim("run-2", NOW) is None


def test_many_pages_are_read(github: GitHub) -> None:
    """H9: of issues, and of comments"""
    for number in range(1, 251):
        github.add(number, "ready", created_at=f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z")
    github.add(251, "ready", "p0")
    for number in range(130):
        github.say(251, f"comment {number}")
    assert _claimed(github, priorities=["p0"]).id == "251"
    assert _claimed(github, priorities=["p0"]).id == "251"
    assert _claimed(github, "run-2", priorities=["p0"]).id == "1"


# -- several claimers


def test_of_two_that_race_the_first_comment_wins(github: GitHub) -> None:
    """H9: both see a free issue, both claim it; the loser withdraws and has the next one"""
    github.add(1, "ready")
    github.add(2, "ready")
    both_looked = threading.Barrier(2)

    def meet(method: str, path: str) -> None:
        if (method, path) == ("POST", "/repos/octo-org/garden/issues/1/labels"):
            both_looked.wait(90)

    github.before = meet
    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda run: _claimed(github, run).id, ["run-1", "run-2"]))
    assert sorted(got) == ["1", "2"]
    assert "DELETE /repos/octo-org/garden/issues/comments/102" in github.requests
    first, second = (f"<!-- matins claim run%2D{got.index(number) + 1} -->" for number in ("1", "2"))
    assert (_marks(github, 1), _marks(github, 2)) == ([first], [second])
    assert github.labels(1) == github.labels(2) == ["ready", "matins-claimed"]


def test_an_issue_that_is_closed_meanwhile_is_left_alone(github: GitHub) -> None:
    """H9: it is no work any more; the claim is withdrawn"""
    github.add(1, "ready")

    def close(method: str, path: str) -> None:
        if method == "POST" and path.endswith("/comments"):
            github.issues[1]["state"] = "closed"

    github.before = close
    assert _source(github).claim("run-1", NOW) is None
    assert (github.labels(1), github.said(1)) == (["ready"], [])


def test_a_label_without_a_claim_holds_nothing(github: GitHub) -> None:
    """H9: released after a crash between label and comment"""
    github.add(1, "ready", "matins-claimed")
    assert _claimed(github).id == "1"


def test_what_strangers_write_does_not_count(github: GitHub) -> None:
    """H9: nobody outside can hold an issue, or end the claim of a run"""
    github.add(1, "ready")
    github.say(1, "<!-- matins claim evil -->", "NONE")
    github.say(1, "> quoted\n<!-- matins claim evil -->")
    assert _claimed(github).id == "1"
    github.say(1, "<!-- matins release run%2D1 -->", "CONTRIBUTOR")
    assert _source(github).claim("run-2", NOW) is None


def test_an_app_counts_as_a_claimer(github: GitHub) -> None:
    """H9: another Matins with the token of an app"""
    github.add(1, "ready")
    github.say(1, "<!-- matins claim other -->", "NONE", "Bot")
    github.add(2, "ready")
    assert _claimed(github).id == "2"
    assert len(github.said(1)) == 1


def test_an_account_whose_claims_do_not_count_is_told(github: GitHub) -> None:
    """H9: bad input; nothing is left behind"""
    github.add(1, "ready")
    github.association = "NONE"
    with pytest.raises(InvalidInput, match="is not a collaborator of octo-org/garden") as refused:
        _claimed(github)
    assert refused.value.field == "token"
    assert (github.labels(1), github.said(1)) == (["ready"], [])


# -- how it ends


def test_done_is_told_and_closes(github: GitHub) -> None:
    """H9: closing comment with the report"""
    github.add(7, "ready")
    _source(github).done(_claimed(github), "run-1", "Oiled it.\n", NOW)
    assert (github.issues[7]["state"], github.issues[7]["state_reason"]) == ("closed", "completed")
    assert github.labels(7) == ["ready"]
    assert github.said(7)[1:] == ["<!-- matins done run%2D1 -->\nDone by run `run-1`.\n\n```text\nOiled it.\n```"]
    github.issues[7]["state"] = "open"
    assert _claimed(github, "run-2").id == "7"


def test_failed_is_told_and_not_tried_again_by_itself(github: GitHub) -> None:
    """H9: comment and label; a person takes the label off"""
    github.add(7, "ready")
    _source(github).failed(_claimed(github), "run-1", "No oil.", NOW)
    assert github.issues[7]["state"] == "open"
    assert github.labels(7) == ["ready", "matins-failed"]
    assert github.said(7)[1].startswith("<!-- matins failed run%2D1 -->\nRemove the label `matins-failed` to")
    assert _source(github).claim("run-2", NOW) is None
    github.issues[7]["labels"] = [{"name": "ready"}]
    assert _claimed(github, "run-2").id == "7"


def test_a_claim_is_released(github: GitHub) -> None:
    """H9: a claim whose run is over without an end"""
    github.add(7, "ready")
    _claimed(github)
    _source(github).release("7", "run-1", NOW)
    assert github.labels(7) == ["ready"]
    assert _marks(github, 7)[1:] == ["<!-- matins release run%2D1 -->"]
    assert _claimed(github, "run-2").id == "7"
    assert _source(github).claim("run-1", NOW) is None


def test_only_the_holder_releases(github: GitHub) -> None:
    """H9: what a run does not hold stays as it is"""
    github.add(7, "ready")
    _claimed(github)
    _source(github).release("7", "run-2", NOW)
    assert len(github.said(7)) == 1
    assert github.labels(7) == ["ready", "matins-claimed"]
    with pytest.raises(InvalidInput, match='"id" must be the number of an issue'):
        _source(github).release("7/../8", "run-1", NOW)


def test_an_end_for_what_is_held_no_more_is_refused(github: GitHub) -> None:
    """H9: nothing is written to an issue of another run"""
    github.add(7, "ready")
    item = _claimed(github)
    _source(github).release("7", "run-1", NOW)
    with pytest.raises(Conflict, match="Work item 7 is not held by run run-1: no run holds it"):
        _source(github).done(item, "run-1", "", NOW)
    _claimed(github, "run-2")
    before = deepcopy((github.issues, github.comments))
    with pytest.raises(Conflict, match="run run-2 holds it"):
        _source(github).failed(item, "run-1", "", NOW)
    assert (github.issues, github.comments) == before


Ends: dict[str, Callable[[GitHubIssues, WorkItem], None]] = {
    "done": lambda source, item: source.done(item, "run-1", "Oiled it.", NOW),
    "failed": lambda source, item: source.failed(item, "run-1", "No oil.", NOW),
    "release": lambda source, item: source.release(item.id, "run-1", NOW),
}


@pytest.mark.parametrize("lost", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize(
    ("word", "at"),
    [(word, at) for word, calls in {"done": 4, "failed": 4, "release": 3}.items() for at in range(calls)],
)
def test_an_end_that_is_cut_short_is_finished_by_the_next(github: GitHub, word: str, at: int, lost: bool) -> None:
    """H9: whatever call fails, the same is left in the end, and told once"""
    source = _source(github)
    github.lost = lost
    ends = []
    for number, faults in ((7, {}), (8, {at + 1: BROKEN})):
        github.add(number, "ready")
        item = _claimed(github)
        assert item.id == str(number)
        github.faults = dict(faults)
        if faults:
            with pytest.raises(WorkSourceUnavailable):
                Ends[word](source, item)
        Ends[word](source, item)
        Ends[word](source, item)
        ends.append((github.labels(number), github.issues[number]["state"], github.said(number)))
        github.issues[number]["state"] = "closed"
    assert ends[0] == ends[1]
    assert len(ends[0][2]) == 2


def test_a_report_names_nobody_and_ends_no_claim(github: GitHub) -> None:
    """H9: what an agent wrote stays data"""
    github.add(7, "ready")
    report = "@octocat fixes #1\n````\n<!-- matins claim evil -->\n\x1b[2J" + "x" * 40_000
    _source(github).done(_claimed(github, "run`-1"), "run`-1", report, NOW)
    lines = github.said(7)[1].split("\n")
    assert lines[:2] == ["<!-- matins done run%60%2D1 -->", "Done by run `run'-1`."]
    assert (lines[3], lines[-1]) == ("`````text", "`````")
    assert lines[4:7] == ["@octocat fixes #1", "````", "<!-- matins claim evil -->"]
    assert "\x1b" not in github.said(7)[1]
    assert len(github.said(7)[1]) < 31_000
