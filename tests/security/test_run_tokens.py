"""The word of a run: a token that says which attempt speaks, and that is dead with it."""

from __future__ import annotations

import json
import re
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from security_cast import Watched

from house import House
from matins.errors import NotAllowed
from matins.model.access import Principal
from matins.net.peer import peer_uid
from matins.runtime.agent_folders import own_folder
from matins.runtime.attempt import Attempt
from matins.runtime.tokens import run_token
from matins.service.tokens import TokenVerifier
from matins.surfaces.client import Client

Start = Callable[..., House]
MATINS = f"{sys.executable} -P -m matins"


def test_b16_a_token_speaks_for_its_attempt_while_that_runs(bench: Watched) -> None:
    """B16 B7: on every store; before the start, after the end and for another epoch it opens nothing"""
    seen: list[tuple[str, Principal | None, Principal | None]] = []
    verifier = TokenVerifier(bench.store, bench.clock)

    def look(attempt: Attempt) -> None:
        token = run_token(bench.store, attempt.run_id, attempt.epoch)
        later = run_token(bench.store, attempt.run_id, attempt.epoch + 1)
        seen.append((token, verifier.principal_of(token), verifier.principal_of(later)))

    bench.executor.before = look
    bench.add("s", agent="scout", job="work", when="5 * * * *")
    run = bench.run("s")
    token = run_token(bench.store, int(run.id), 1)
    assert verifier.principal_of(token) is None
    bench.settle()
    assert seen == [(token, Principal("agent", "scout", int(run.id)), None)]
    assert verifier.principal_of(token) is None


@pytest.mark.parametrize("change", ["run", "epoch", "code", "longer", "short", "zero", "huge", "plain"])
def test_b16_a_forged_token_opens_nothing(memory: Watched, change: str) -> None:
    """B16"""
    found: list[Principal | None] = []

    def forge(attempt: Attempt) -> None:
        token = run_token(memory.store, attempt.run_id, attempt.epoch)
        prefix, run, epoch, code = token.split("_")
        forged = {
            "run": "_".join([prefix, "99", epoch, code]),
            "epoch": "_".join([prefix, run, "2", code]),
            "code": token[:-1] + ("a" if token[-1] != "a" else "b"),
            "longer": token + "a",
            "short": token[:-1],
            "zero": "_".join([prefix, "0" + run, epoch, code]),
            "huge": "_".join([prefix, "9" * 40, epoch, code]),
            "plain": "mtr_",
        }[change]
        found.append(TokenVerifier(memory.store, memory.clock).principal_of(forged))

    memory.executor.before = forge
    memory.add("s", agent="scout", job="work", when="5 * * * *")
    memory.run("s")
    memory.settle()
    assert found == [None]


def test_b16_two_stores_have_two_keys(open_bench: Callable[..., Watched]) -> None:
    """B16"""
    assert run_token(open_bench().store, 1, 1) != run_token(open_bench().store, 1, 1)


@pytest.mark.parametrize("name", ["..", ".", "a/../../b", "/etc", "ä" * 200, "../token"])
def test_b16_an_agent_s_own_folder_is_below_agents_whatever_its_name(name: str, tmp_path: Path) -> None:
    """B16"""
    folder = (tmp_path / own_folder(name)).resolve()
    assert folder.parent == tmp_path / "agents"
    folder.mkdir(parents=True)


def test_b16_the_user_of_a_socket_s_peer_is_known_or_nobody_s() -> None:
    """B16: what is no unix socket has no such user, and is refused"""
    here, there = socket.socketpair()
    with here, there:
        assert peer_uid(here) == Path("/proc/self").stat().st_uid
    with socket.socket() as tcp:
        assert peer_uid(tcp) in (None, 0xFFFFFFFF, -1)


# -- in real processes


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    one = House(tmp_path_factory.mktemp("tokens") / "home").up()
    yield one
    one.kill()


def test_b16_a_run_speaks_with_its_own_token_and_nothing_falls_back_to_the_owner(house: House) -> None:
    """B16 B7: the command inside a run is that agent, from that run; the owner's token is not used, nor the store"""
    house.shell(
        "who",
        f"{MATINS} call system.whoami --json; {MATINS} tokens list; echo $?;"
        f"{MATINS} --home {house.home} list; echo $?; {MATINS} --store sqlite:///{house.home}/matins.db list; echo $?;"
        f"unset MATINS_TOKEN; {MATINS} list; echo $?; exit 0",
    )
    run, output = house.fire("who")
    first, *rest = output.splitlines()
    assert json.loads(first)["role"] == "agent"
    assert json.loads(first)["name"] == "who"
    assert [line for line in rest if line.isdigit()] == ["4", "4", "4", "4"], output
    assert run.state == "succeeded"


def test_b7_what_a_run_adds_over_http_is_stamped_with_its_run_parent_and_depth(house: House) -> None:
    """B7: a schedule of a schedule of a schedule is refused by its depth"""
    add = f"{MATINS} add 'every day at 9am' 'Look again.' --name"
    house.shell("parent", f"{add} child && true")
    run, _ = house.fire("parent")
    assert run.state == "succeeded", run.outcome
    child = house.ask("schedules.get", name="child")
    assert (child["created_by"], child["creator_role"], child["depth"]) == ("parent", "agent", 1)
    (asked,) = [one for one in house.ask("approvals.list") if one["schedule"] == "child"]
    assert (asked["request"]["run"], asked["request"]["depth"]) == (run.id, 1)
    house.ask("approvals.approve", approval_id=asked["id"])
    house.ask(
        "agents.edit", name="parent", command=["sh", "-c", f"{add} grandchild; test $? = 4 && echo $MATINS_SCHEDULE"]
    )
    run, output = house.fire("child")
    assert (run.state, output.splitlines()[-1:]) == ("succeeded", ["child"]), output
    assert "There is no schedule" in house.matins("show", "grandchild", code=2)


def test_c13_an_agent_asks_where_it_is_and_reports_its_outcome(house: House) -> None:
    """C13 B16: by the command in its run; a reported failure is one, though the tool succeeds; the last counts"""
    house.shell("says", f"{MATINS} context --json; {MATINS} report done; {MATINS} report failed --reason 'no tests'")
    run, output = house.fire("says")
    here = json.loads(output.splitlines()[0])
    assert (here["run_id"], here["schedule"], here["runner"], here["attempt"]) == (run.id, "says", "shell", 1)
    assert (run.state, run.outcome["error"]) == ("failed", "the agent reported a failure: no tests")
    assert (run.outcome["result"]["declared"], run.outcome["result"]["reason"]) == ("failed", "no tests")
    told = [event["data"] for event in house.ask("events.list", types=["run.reported"], limit=10)]
    assert [(data["outcome"], data["by"]) for data in told] == [("done", "says"), ("failed", "says")]
    house.shell("quiet", f"{MATINS} report nothing --reason 'no mail'; exit 1")
    run, _ = house.fire("quiet")
    assert (run.state, run.outcome["result"]["declared"]) == ("failed", "nothing"), "no report makes it a success"


def test_b16_the_token_is_redacted_and_dead_with_its_attempt(house: House) -> None:
    """B16"""
    house.shell("tell", "echo $MATINS_TOKEN > told; echo token $MATINS_TOKEN in $MATINS_IN_RUN of $MATINS_RUN_ID; pwd")
    run, output = house.fire("tell")
    folder = house.home / "agents" / "tell"
    assert output.splitlines() == [f"token [redacted] in 1 of {run.id}", str(folder)]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    token = (folder / "told").read_text().strip()
    assert re.fullmatch(rf"mtr_{run.id}_1_[a-z2-7]{{32}}", token)
    with Client(house.url, token) as client, pytest.raises(NotAllowed):
        client.system.whoami()
