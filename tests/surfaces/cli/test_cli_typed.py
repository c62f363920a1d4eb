"""What people type: options of other programs, lengths of time, numbers that a table must not cut."""

from __future__ import annotations

import re

import pytest
from cli_user import User

from matins.testing import Sandbox


@pytest.fixture(autouse=True)
def nightly(bench: Sandbox) -> None:
    bench.add("nightly", when="0 2 * * *", job="work")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("add 5m --tz UTC --job work", "--timezone"),
        ("edit nightly --tz UTC", "--timezone"),
        ("next 5m --tz UTC", "--timezone"),
        ("agents set a --runner demo --cwd /srv", "--workdir"),
        ("add --every 5m --job work", '"every 5 minutes"'),
        ("run nightly --timeout 3s", "matins edit nightly --timeout"),
        ("run nightly --wait --timeout soon", "5m"),
        ("pause nightly --for 2h", "--until"),
        ("doctor --fix", "matins doctor prints the command"),
        ("add 5m --agnet demo --job work", 'No such option --agnet. Did you mean "--agent"?\n'),
    ],
)
def test_b10_options_lead_on(user: User, words: str, advice: str) -> None:
    """B10: what to type instead"""
    assert advice in user.types(*words.split(), code=2).stderr


def test_b10_an_option_that_is_not_alike_is_not_suggested(user: User) -> None:
    """B10: click would suggest --set and --url"""
    assert user.types("add", "5m", "--best", "--job", "work", code=2).stderr.endswith("No such option --best.\n")


def test_b10_a_run_that_is_over_is_named(user: User) -> None:
    """B10: the hint is the command that shows this run"""
    run = user.bench.run("nightly")
    user.bench.settle()
    said = user.types("cancel", str(run.id), code=1).stderr
    assert f"Run {run.id} is over: succeeded." in said
    assert f"matins runs show {run.id}" in said


@pytest.mark.parametrize("length", ["3s", "1m", "0.5", "1h30m"])
def test_a_wait_has_a_length(user: User, length: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = user.bench
    monkeypatch.setattr("matins.surfaces.cli.context.CliContext.wait", lambda context, seconds: bench.settle())
    assert user.types("run", "nightly", "--wait", "--timeout", length, code=None).exit_code in (0, 1)


@pytest.mark.parametrize(("length", "shown"), [("2h", "in 2h"), ("1m", "in 1m"), ("3d", "in 3d"), ("1h30m", "in 1h")])
def test_until_is_counted_from_one_now(user: User, length: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command takes its time: what was typed is what is said"""
    from matins.surfaces.cli import times

    read = times.now

    def slowly() -> object:
        user.bench.clock.advance(1_000)
        return read()

    monkeypatch.setattr(times, "now", slowly)
    assert f"({shown})" in user.says("pause", "nightly", "--until", length)


@pytest.mark.parametrize(
    "when",
    [
        "on the 1st, 8th, 15th and 22nd of every month at 06:45",
        "at 9:05, 11:25, 13:35 and 17:55 every weekday",
        "every 3 weeks on monday, wednesday and friday at 07:30",
    ],
)
def test_b12_no_number_is_cut_out_of_when(user: User, when: str) -> None:
    """B12: a time that lacks a number is another time"""
    user.bench.add("a-name-that-is-as-long-as-names-may-be", when=when, job="work", agent="")
    trigger = user.bench.get("a-name-that-is-as-long-as-names-may-be").trigger_text
    text = user.says("list")
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text.split("WHEN")[0]
    for number in re.findall(r"[0-9:]+", trigger):
        assert number in text, text
