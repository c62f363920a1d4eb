"""Real processes that are killed while they send, and real servers that cut off after they took a message."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from outbox_recorder import HOUR, let_pass

import postgres_fixtures
from matins import Matins
from matins.model.words import joined
from matins.testing import ManualClock, Sandbox
from standins.inbox import Inbox
from standins.mails import Mails, open_mails

START = "2026-03-27T08:00:00Z"
PATIENCE_S = 60
postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url
KINDS = {"webhook": "webhook-id", "ntfy": None}
"""Kinds of destinations, and the header by which a receiver tells a copy."""


@pytest.fixture
def mails() -> Iterator[tuple[Mails, int]]:
    with open_mails() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/m.db"


_PROGRAM = textwrap.dedent("""
    import signal, sys
    from matins import Matins

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    m = Matins(sys.argv[1])
    m.job("report")(lambda run: "all is well")
    m.start()
    signal.sigwait([signal.SIGTERM])
    m.close()
""")


def started(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _PROGRAM, url], env={**os.environ, "PYTHONPATH": "src"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_in_the_middle_of_a_request(kind: str, url: str, inbox: Inbox) -> None:
    """B21: the server has the request, the process is killed before the response; the next one goes on."""
    with closing(Matins(url)) as bench:
        bench.job("report")(lambda run: "all is well")
        bench.destinations.set("there", kind=kind, url=inbox.url, to=["topic"])
        bench.notify.set(to=["none"])
        bench.add("morning", when="0 0 1 1 *", job="report", deliver=["there"], overlap="allow")
        run = bench.run("morning")
    inbox.released.clear()
    first = started(url)
    assert inbox.arrived.acquire(timeout=PATIENCE_S)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    inbox.released.set()
    second = started(url)
    try:
        assert inbox.arrived.acquire(timeout=PATIENCE_S * 2), "the outbox of a killed process keeps its lease a minute"
    finally:
        second.terminate()
        second.wait()
    with closing(Matins(url)) as bench:
        (answer,) = bench.runs.get(run.id).answers
    assert answer.state == "delivered"
    assert len(inbox.received) == 2
    header = KINDS[kind]
    if header is not None:
        assert len({one.headers[header] for one in inbox.received}) == 1
    else:
        assert ["Sent again" in one.text for one in inbox.received] == [False, True]


def test_a_kill_before_the_mail_server_confirms(tmp_path: Path, mails: tuple[Mails, int]) -> None:
    """B21: of a command's answer; the next process sends it under the same Message-ID."""
    (taken, port), url = mails, f"sqlite:///{tmp_path}/m.db"
    with closing(Matins(url)) as bench:
        bench.smtp.set(host="127.0.0.1", port=port, sender="matins@example.com", tls="none")
        bench.destinations.set("mail", kind="email", to=["ada@example.com"])
        bench.add("now", when="0 0 1 1 *", command="echo It is now.", deliver=["mail"])
        run = bench.run("now")
    taken.released.clear()
    first = started(url)
    assert taken.arrived.acquire(timeout=PATIENCE_S)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    taken.released.set()
    second = started(url)
    try:
        assert taken.arrived.acquire(timeout=PATIENCE_S)
    finally:
        second.terminate()
        second.wait()
    with closing(Matins(url)) as bench:
        (answer,) = bench.runs.get(run.id).answers
    assert answer.state == "delivered"
    assert [message["Message-ID"] for _, message in taken.taken] == [answer.receipt] * 2
    assert all("It is now." in message.get_body(("plain",)).get_content() for _, message in taken.taken)


def test_a_mail_server_that_takes_a_message_and_cuts_off(mails: tuple[Mails, int]) -> None:
    """B21: the same Message-ID, by which a mailbox tells the copy."""
    taken, port = mails
    bench = Sandbox(clock=ManualClock(START))
    bench.job("report")(lambda run: "all is well")
    bench.smtp.set(host="127.0.0.1", port=port, sender="matins@example.com", tls="none")
    bench.destinations.set("mail", kind="email", to=["ada@example.com"])
    bench.add("morning", when="0 9 * * *", job="report", deliver=["mail"])
    taken.cut_off = True
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, 1)
    assert bench.runs.get(bench.runs.list()[0].id).answers[0].state == "retrying"
    taken.cut_off = False
    let_pass(bench, HOUR)
    assert bench.runs.get(bench.runs.list()[0].id).answers[0].state == "delivered"
    ids = Counter(message["Message-ID"] for _, message in taken.taken)
    assert list(ids.values()) == [2]
    bench.close()


def test_a_recipient_that_was_refused_is_told(mails: tuple[Mails, int]) -> None:
    """B21: the others got it."""
    taken, port = mails
    taken.unknown.add("bob@example.com")
    bench = Sandbox(clock=ManualClock(START))
    bench.job("report")(lambda run: "all is well")
    bench.smtp.set(host="127.0.0.1", port=port, sender="matins@example.com", tls="none")
    bench.destinations.set("mail", kind="email", to=["ada@example.com", "bob@example.com"])
    bench.add("morning", when="0 9 * * *", job="report", deliver=["mail"])
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, 1)
    (answer,) = bench.runs.get(bench.runs.list()[0].id).answers
    assert answer.state == "delivered"
    assert joined(answer.sentence, answer.quote).endswith(
        ": the mail server refused it for bob@example.com (550 bob@example.com is unknown)."
    )
    bench.close()


def test_the_answer_of_a_run_is_a_file(tmp_path: Path) -> None:
    """B21"""
    bench = Sandbox(clock=ManualClock(START))
    bench.job("report")(lambda run: "**all** is well")
    bench.destinations.set("notes", kind="file", to=[str(tmp_path / "reports")])
    bench.add("morning", when="0 9 * * *", job="report", deliver=["notes"])
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, 1)
    (path,) = (tmp_path / "reports").iterdir()
    assert "**all** is well" in path.read_text()
    (answer,) = bench.runs.get(bench.runs.list()[0].id).answers
    assert (answer.state, answer.receipt) == ("delivered", str(path))
    bench.close()


@pytest.mark.parametrize("theirs", [False, True])
def test_b16_files_that_an_outcome_names_are_sent_only_as_they_were_copied(tmp_path: Path, theirs: bool) -> None:
    """B16: outcomes of jobs and of workers elsewhere may hold any path; a list of their own is no list of files"""
    private, notes = tmp_path / "private", tmp_path / "reports"
    private.write_text("private")
    named = {"name": "a", "path": str(private), "size": 7, "digest": "0" * 64, "media_type": "text/plain"}
    bench = Sandbox(clock=ManualClock(START))
    bench.job("report")(lambda run: {"text": "well", "files": ["a.csv"] if theirs else [named], "left_out": "x"})
    bench.destinations.set("notes", kind="file", to=[str(notes)])
    bench.add("morning", when="0 9 * * *", job="report", deliver=["notes"])
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, 1)
    (answer,) = bench.runs.get(bench.runs.list()[0].id).answers
    assert answer.state == ("delivered" if theirs else "discarded"), answer
    assert not [path for path in notes.rglob("*") if path.is_file() and "private" in path.read_text()]
    bench.close()
