"""`matins import`: what it shows beside the old times, what it adds, and that a second time changes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_user import User

from matins.importers import crontab

CRONTAB = """\
# m h  dom mon dow   command
MAILTO = ada@example.org
PATH="/usr/local/bin:/usr/bin:/bin"
0 9 * * 1-5   /usr/local/bin/report.sh --all > /dev/null 2>&1
*/30 * * * *  cat%first line%second \\% line
@daily        backup
@reboot       start-something
0 25 * * *    never
CRON_TZ=Asia/Tokyo
30 2 13 * 5   report.sh
"""


@pytest.fixture(autouse=True)
def berlin(user: User) -> None:
    user.app.zone = "Europe/Berlin"


def document(user: User, *words: str) -> Any:
    return json.loads(user.says("import", *words, "--json"))


def of(found: Any, kind: str = "schedule") -> dict[str, Any]:
    return {entry["name"]: entry for entry in found["entries"] if entry["kind"] == kind}


@pytest.fixture
def crontab_file(tmp_path: Path) -> str:
    path = tmp_path / "my-crontab"
    path.write_text(CRONTAB)
    return str(path)


def test_b11_a_crontab_is_previewed(user: User, crontab_file: str) -> None:
    """B11: beside the old times for the next month; nothing is changed"""
    text = user.says("import", "crontab", crontab_file)
    assert f"+ schedule report ({crontab_file}, line 4)" in text
    assert "every Monday to Friday at 09:00 (Europe/Berlin)" in text or "(Europe/Berlin)" in text
    assert "in 31 days before" in text
    assert f"left out: {crontab_file}, line 7: @reboot is left out" in text
    assert f"left out: {crontab_file}, line 8: Invalid cron expression" in text
    assert text.splitlines()[-1] == "To import from crontab: +4 ~0 =0"
    assert user.bench.list() == []
    assert "add --apply" in user.types("import", "crontab", crontab_file).stderr


def test_b11_what_a_line_becomes(user: User, crontab_file: str) -> None:
    """B11: environment lines, `%`, MAILTO, CRON_TZ"""
    found = document(user, "crontab", crontab_file)
    schedules = of(found)
    assert of(found, "agent") == {}
    assert set(schedules) == {"report", "cat", "backup", "report-2"}
    report = schedules["report"]["settings"]
    assert (report["when"], report["timezone"]) == ("0 9 * * 1-5", "Europe/Berlin")
    assert (report["overlap"], report["catch_up"], report["agent"]) == ("allow", "skip", "shell")
    assert report["command"] == "/usr/local/bin/report.sh --all > /dev/null 2>&1"
    assert report["environment"] == {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    assert schedules["cat"]["settings"]["command"] == "cat"
    assert schedules["cat"]["settings"]["stdin"] == "first line\nsecond % line\n"
    assert schedules["report-2"]["settings"]["timezone"] == "Asia/Tokyo"
    (note,) = found["notes"]
    assert note.startswith("MAILTO is left out (ada@example.org): no mail server is set.")


def test_b11_mail_of_cron_is_delivered_where_a_server_is_set(user: User, crontab_file: str) -> None:
    """B11: MAILTO is a destination, and an empty one silences; cron mails failures too"""
    user.bench.smtp.set(host="mail.example.org", sender="matins@example.org")
    Path(crontab_file).write_text(CRONTAB + "MAILTO=\n0 1 * * * quiet\n")
    found = document(user, "crontab", crontab_file)
    ((name, mail),) = of(found, "destination").items()
    assert mail["settings"] == {"kind": "email", "to": ["ada@example.org"]}
    report, quiet = (of(found)[one]["settings"] for one in ("report", "quiet"))
    assert (report["deliver"], report["deliver_on"]) == ([name], ["succeeded", "failed"])
    assert (quiet["deliver"], found["notes"]) == (["none"], [])
    user.says("import", "crontab", crontab_file, "--apply")
    assert user.bench.get("report").settings["deliver"] == [name]


CALLS = """\
0 8 * * * cd ~/src/garden && claude -p "Review {{my}} PRs" --model opus --max-turns 9 >> ~/r.log 2>&1
0 9 * * * cd ~/src/garden && claude --model=opus -p 'Cost: $5' --max-turns 9
5 9 * * * claude -p "Today is $(date)"
6 9 * * * cat x | claude -p 'sum'
7 9 * * * codex exec --full-auto 'Tidy up'
8 9 * * * claude --resume abc -p x
9 9 * * * API_KEY=a gemini -y -p 'Hello'
"""


def test_b11_simple_calls_of_agents_become_agents(user: User, tmp_path: Path) -> None:
    """B11: where the shell has nothing to fill in; each line says what it became, and why"""
    (tmp_path / "cron").write_text(CALLS)
    found = document(user, "crontab", str(tmp_path / "cron"), "--isolation", "none")
    agents, schedules = of(found, "agent"), of(found)
    garden = agents["cron-claude-garden"]["settings"]
    assert (garden["runner"], garden["model"], garden["max_turns"]) == ("claude", "opus", 9)
    assert {name: agent["settings"]["runner"] for name, agent in agents.items()} == {
        "cron-claude-garden": "claude", "cron-codex": "codex", "cron-gemini": "gemini",
    }  # fmt: skip
    assert agents["cron-codex"]["settings"]["permission_mode"] == "workspace-write"
    assert agents["cron-gemini"]["settings"]["environment"] == {"API_KEY": "a"}
    review = schedules["review-my-prs"]
    assert (review["settings"]["prompt"], review["settings"]["prompt_prefix"]) == ("Review \\{{my}} PRs", False)
    (said,) = review["notes"]
    assert said.startswith("Line 1 calls claude: it becomes an agent in ~/src/garden, with cost, limits and session.")
    assert said.endswith("Its log ~/r.log ends: see matins logs. --as-commands keeps it.")
    kept = [note for entry in schedules.values() for note in entry["notes"] if "stays" in note]
    assert kept == [
        "Line 3 calls claude with a part that the shell fills in: it stays a command, and its cost is unknown.",
        "Line 4 calls claude through a pipe: it stays a command, and its cost is unknown.",
        "Line 6 calls claude with --resume, which is not taken over: it stays a command, and its cost is unknown.",
    ]
    found = document(user, "crontab", str(tmp_path / "cron"), "--as-commands")
    assert of(found, "agent") == {}
    assert all("command" in entry["settings"] for entry in of(found).values())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's agents need an account")
def test_b11_as_root_an_agent_needs_an_account_and_a_command_does_not(user: User, tmp_path: Path) -> None:
    """B11 B22: so calls of agents stay commands, and say why"""
    (tmp_path / "cron").write_text(CALLS)
    found = document(user, "crontab", str(tmp_path / "cron"))
    assert of(found, "agent") == {}
    note = "It calls an agent, and stays a command: Matins is root, and an agent needs an account (--user ACCOUNT)."
    assert sum(note in entry["notes"] for entry in of(found).values()) == 4


def test_b11_what_looks_like_a_secret_is_named_and_not_shown(user: User, tmp_path: Path) -> None:
    """B11"""
    (tmp_path / "cron").write_text(
        "DEPLOY_TOKEN=hunter2hunter2\nX=ghp_0123456789abcdef\nPLAIN=1\n"
        '0 1 * * * curl -H "Authorization: Bearer abcdef0123456" localhost\n'
    )
    found = document(user, "crontab", str(tmp_path / "cron"))
    assert found["notes"] == [
        "DEPLOY_TOKEN, X: like a secret, and stored as it is. Name where it is: env:NAME, file:/path."
    ]
    assert of(found)["curl"]["notes"] == [
        "The command has what looks like a secret (Bearer). Put it into the environment: env:NAME, file:/path."
    ]


def test_b11_the_old_times_are_cron_s_own(user: User, tmp_path: Path) -> None:
    """B11: Debian's rules for clock changes and for both day fields; all agree, also when the clocks change"""
    lines = ["30 2 * * *", "*/20 * * * *", "0 0 1,15 * 1", "0 9 */2 * 1-5", "15 1-4 29 3 *", "@weekly"]
    (tmp_path / "cron").write_text("".join(f"{line} job\n" for line in lines))
    found = document(user, "crontab", str(tmp_path / "cron"))
    for entry in of(found).values():
        assert entry["old"] == entry["new"] > 0, entry
        assert (entry["differences"], entry["only_old"], entry["only_new"]) == (0, [], [])


def test_b11_apply_and_apply_again(user: User, crontab_file: str) -> None:
    """B11: `--apply`, idempotent; a line that changed is edited, one that a person made is left alone"""
    user.bench.add("backup", when="1h", job="work", agent="shell")
    text = user.says("import", "crontab", crontab_file, "--apply")
    assert text.splitlines()[-1] == "Imported from crontab: +3 ~0 =0, 1 name taken"
    assert user.bench.get("report").settings["grace"] == "1m"
    assert user.bench.get("backup").job == "work"
    before = {each.name: each.rev for each in user.bench.list()}
    assert (
        user.says("import", "crontab", crontab_file, "--apply")
        .splitlines()[-1]
        .startswith("Imported from crontab: +0 ~0 =3")
    )
    assert {each.name: each.rev for each in user.bench.list()} == before
    Path(crontab_file).write_text(CRONTAB.replace("0 9 * * 1-5", "0 10 * * 1-5"))
    assert "~1" in user.says("import", "crontab", crontab_file, "--apply")
    assert user.bench.get("report").settings["when"] == "0 10 * * 1-5"


def test_b11_folders_and_users(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B11: /etc/cron.d has a user in each line; a user's crontab comes from `crontab -l -u`"""
    folder = tmp_path / "cron.d"
    folder.mkdir()
    (folder / "e2scrub").write_text("30 3 * * 0 root test -e /run/systemd/system || e2scrub_all\n")
    (folder / "ignored.dpkg-old").write_text("0 0 * * * root never\n")
    (entry,) = of(document(user, "crontab", str(folder))).values()
    assert entry["settings"]["when"] == "30 3 * * 0"
    assert entry["settings"]["command"] == "test -e /run/systemd/system || e2scrub_all"
    listed = tmp_path / "crontab"
    listed.write_text("#!/bin/sh\ntest \"$*\" = '-l -u grace' && echo '0 4 * * * tidy' || exit 1\n")
    listed.chmod(0o755)
    monkeypatch.setattr(crontab.shutil, "which", lambda name: str(listed))
    assert set(of(document(user, "crontab", "grace"))) == {"tidy"}
    assert user.types("import", "crontab", "nobody", code=2).exit_code == 2


def test_b11_a_target_that_is_no_file_is_named(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """B11: it could be a user, whose crontab only the crontab program lists; `import` without a system is crontab's"""
    monkeypatch.setattr(crontab.shutil, "which", lambda name: None)
    error = 'There is no file "syrus", and no crontab program that could list the crontab of a user.'
    assert error in " ".join(user.complains("import", "syrus").split())
    assert "There is no crontab program on this machine." in user.complains("import", "crontab")


def test_b11_imported_jobs_really_run(user: User, tmp_path: Path) -> None:
    """B11: the command as cron would call it, with its variables and its standard input"""
    (tmp_path / "cron").write_text(f"HOME={tmp_path}\nWHO=ada\n0 9 * * * cat > out; echo $WHO >> out%hello%there\n")
    found = document(user, "crontab", str(tmp_path / "cron"))
    (schedule,) = of(found).values()
    settings = schedule["settings"]
    subprocess.run(
        ["/bin/sh", "-c", settings["command"]], cwd=settings["workdir"], env=settings["environment"], check=True,
        timeout=60, input=settings["stdin"], text=True,
    )  # fmt: skip
    assert (tmp_path / "out").read_text() == "hello\nthere\nada\n"


CORTEX = {
    "tasks": [
        {
            "id": "d6f1bb1e", "type": "interval", "message": "Check for new tasks and dispatch if available",
            "channel": "C07ABCDEF", "profile": "claude-haiku", "intervalMs": 30000, "nextRun": 1774598430000,
            "dispatchType": "task-dispatch", "preCheck": "true",
        },
        {"id": "aaaa0001", "type": "daily", "message": "Digest", "profile": "claude-haiku", "time": "02:30"},
        {"id": "aaaa0002", "type": "weekly", "message": "Review", "profile": "claude-sonnet", "time": "21:00",
         "dayOfWeek": 1, "isPaused": True},
        {"id": "aaaa0003", "type": "once", "message": "Remind", "profile": "claude-haiku", "runAt": 1774702800000},
    ]
}  # fmt: skip


def test_b11_cortex(user: User, tmp_path: Path) -> None:
    """B11 C2: schedules.json, in the time of its machine; a time that the clocks skip is marked"""
    path = tmp_path / "schedules.json"
    path.write_text(json.dumps(CORTEX).replace("task-dispatch", "own-job"))
    found = document(user, "cortex", str(path))
    schedules = of(found)
    assert set(of(found, "agent")) == {"claude-haiku", "claude-sonnet"}
    assert schedules["aaaa0001"]["only_new"] == ["2026-03-29T03:00+02:00"], "Cortex skips 02:30 on that day"
    assert (schedules["aaaa0002"]["paused"], schedules["aaaa0003"]["old"]) == (True, 1)
    assert [schedules[name]["differences"] for name in ("d6f1bb1e", "aaaa0002", "aaaa0003")] == [0, 0, 0]
    text = user.says("import", "cortex", str(path))
    assert "    + 2026-03-29T03:00+02:00 only after" in text
    refused = user.says("import", "cortex", str(path), "--apply")
    assert '    refused: There is no job "own-job".' in refused
    assert refused.splitlines()[-1] == "Imported from cortex: +5 ~0 =0, 1 refused", "the others are imported"
    user.bench.job("own-job")(lambda run: None)
    assert user.says("import", "cortex", str(path), "--apply").splitlines()[-1] == "Imported from cortex: +1 ~0 =5"
    assert user.bench.get("aaaa0002").state == "paused"
    assert user.bench.get("d6f1bb1e").settings["job"] == "own-job"
    assert user.says("import", "cortex", str(path), "--apply").splitlines()[-1] == "Imported from cortex: +0 ~0 =6"


def test_b11_herdctl(user: User, tmp_path: Path) -> None:
    """B11 H12: a fleet and its agents' files, also what today's versions write"""
    (tmp_path / "agents").mkdir()
    (tmp_path / "herdctl.yaml").write_text(
        "version: 1\ndefaults: {model: claude-sonnet-5-5}\nagents:\n  - path: agents/keeper.yaml\n"
    )
    (tmp_path / "agents/keeper.yaml").write_text(
        "name: keeper\nworking_directory: /tmp\ninstances: {max_concurrent: 2}\nschedules:\n"
        "  check-issues:\n    type: interval\n    interval: 5m\n    prompt: Check for ready issues.\n"
        "    work_source: {type: github, repo: octo-org/garden, labels: {ready: todo}}\n"
        "  morning-report: {type: cron, cron: 0 9 * * 1-5, prompt: Report., resume_session: false, enabled: false}\n"
        "  on-push: {type: webhook, prompt: Look.}\n  talk: {type: chat, prompt: Answer.}\n"
        "  broken: {type: interval}\n"
    )
    found = document(user, "herdctl", str(tmp_path / "herdctl.yaml"))
    agent = of(found, "agent")["keeper"]["settings"]
    assert (agent["model"], agent["workdir"], agent["max_concurrent"]) == ("claude-sonnet-5-5", "/tmp", 2)
    issues, report = of(found)["check-issues"], of(found)["morning-report"]
    assert issues["settings"]["target"] == {"kind": "channel", "channel": "herdctl:keeper"}
    assert issues["settings"]["first"] == "immediately"
    assert of(found, "work_source")["keeper-check-issues"]["settings"]["labels"] == ["todo"]
    assert (report["paused"], report["differences"], "target" in report["settings"]) == (True, 0, False)
    assert [text.partition(": ")[0].rpartition("/")[2] for text in found["left_out"]] == ["broken"]
    endpoint = of(found, "inbound")["keeper-on-push"]
    assert endpoint["settings"] == {"kind": "bearer", "secret": "env:KEEPER_ON_PUSH_SECRET"}
    user.says("import", "herdctl", str(tmp_path / "herdctl.yaml"), "--apply")
    assert user.bench.get("on-push").settings["on"] == {"webhook": "keeper-on-push"}
    assert user.bench.get("talk").settings["on"]["chat"] == "*"
    assert user.bench.calls.fire("webhook", "keeper-on-push", "1").runs[0].schedule == "on-push"
    assert user.bench.get("morning-report").state == "paused"
    assert user.bench.get("check-issues").settings["work_source"] == "keeper-check-issues"


def rows(path: Path, table: str, *values: dict[str, Any]) -> str:
    with closing(sqlite3.connect(path)) as connection:
        columns = list(values[0])
        connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        for row in values:
            marks = ", ".join("?" * len(columns))
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", [row.get(column) for column in columns])
        connection.commit()
    return str(path)


CORVID: dict[str, Any] = {
    "id": "5b1f", "name": "Weekly work", "description": "", "agent_id": "magpie", "cron_expression": "0 9 13 * 5",
    "interval_ms": None, "actions": '[{"type": "star_repo", "repos": ["a/b"]}]', "approval_policy": "auto",
    "max_executions": 10, "execution_count": 4, "notify_address": None, "status": "active",
}  # fmt: skip


def test_b11_corvid(user: User, tmp_path: Path) -> None:
    """B11 V12: its database; both day fields must match there, and either here, which is marked"""
    path = rows(
        tmp_path / "corvid.db", "agent_schedules", CORVID,
        {**CORVID, "id": "5b20", "name": "Two", "cron_expression": None, "interval_ms": 300_500,
         "actions": '[{"type": "send_message", "toAgentId": "a", "message": "m"}, '
                    '{"type": "work_task", "description": "d"}]'},
        {**CORVID, "id": "5b21", "status": "completed"},
    )  # fmt: skip
    found = document(user, "corvid", path, "-z", "UTC")
    first = of(found)["weekly-work"]
    assert (first["old"], first["differences"] > 0) == (0, True)
    assert first["settings"]["max_executions"] == 6
    assert set(of(found)) == {"weekly-work", "two"}
    assert of(found)["two"]["settings"]["when"] == "300500ms"
    assert found["left_out"] == ["agent_schedules 5b21: it is completed."]
    user.bench.agents.set("magpie", runner="demo")
    user.bench.agents.set("a", runner="demo")
    user.says("import", "corvid", path, "-z", "UTC", "--apply")
    made = user.bench.get("two")
    assert made.trigger["every_ms"] == 300_500
    assert [(step["job"], step["payload"]) for step in made.settings["steps"]] == [
        ("send_message", {"toAgentId": "a", "message": "m"}), ("work_task", {"description": "d"}),
    ]  # fmt: skip


POLPO: list[dict[str, Any]] = [
    {
        "id": "nightly", "name": "Nightly integration tests", "status": "recurring", "schedule": "0 2 * * *",
        "endDate": "2027-06-30T23:59:00Z",
        "tasks": [
            {
                "title": "Run full test suite", "assignTo": "test-agent",
                "description": "Run all integration and unit tests. Report any failures.",
            },
            {
                "title": "Generate coverage report", "assignTo": "report-agent", "dependsOn": ["Run full test suite"],
                "description": "Generate a coverage report and save to coverage-report.md.",
            },
        ],
    },
    {"id": "deploy", "status": "scheduled", "schedule": "0 14 15 3 *", "tasks": [{"title": "Deploy", "assignTo": "d"}]},
    {
        "id": "moved", "status": "paused", "schedule": "2027-03-15T14:00:00Z",
        "data": '{"tasks": [{"title": "Move", "assignTo": "d"}]}',
    },
    {"id": "idea", "status": "draft", "tasks": [{"title": "Think"}]},
    {"id": "old", "status": "completed", "schedule": "0 2 * * *", "tasks": [{"title": "Rest"}]},
    {"id": "short", "status": "recurring", "schedule": "@daily", "tasks": [{"title": "Rest"}]},
]  # fmt: skip


def test_b11_polpo(user: User, tmp_path: Path) -> None:
    """B11 P1 P6: missions with their tasks, from JSON or the database; a second time changes nothing"""
    (tmp_path / "missions.json").write_text(json.dumps({"missions": POLPO}))
    found = document(user, "polpo", str(tmp_path / "missions.json"), "-z", "UTC")
    assert set(of(found)) == {"nightly", "deploy", "moved"}
    assert of(found)["nightly"]["differences"] == 0
    assert of(found)["moved"]["paused"]
    assert of(found)["deploy"]["notes"] == ["A one-shot by cron: it runs at its next match, once."]
    assert set(of(found, "agent")) == {"test-agent", "report-agent", "d"}
    assert [text.partition(":")[0] for text in found["left_out"]] == ["mission idea", "mission old", "mission short"]
    user.says("import", "polpo", str(tmp_path / "missions.json"), "-z", "UTC", "--apply")
    status = {mission.name: mission.status for mission in user.bench.missions.list()}
    assert status == {"nightly": "recurring", "deploy": "scheduled", "moved": "paused"}
    steps = user.bench.get("nightly", agent="test-agent").settings["steps"]
    assert (steps[1]["agent"], steps[1]["after"]) == ("report-agent", ["Run full test suite"])
    assert user.bench.get("nightly", agent="test-agent").settings["ends_at"].startswith("2027-06-30T23:59")
    again = user.says("import", "polpo", str(tmp_path / "missions.json"), "-z", "UTC", "--apply")
    assert again.splitlines()[-1] == "Imported from polpo: +0 ~0 =6"
    columns = ("id", "name", "status", "schedule", "data", "end_date")
    row = dict.fromkeys(columns) | {"id": "n", "status": "recurring", "schedule": "0 2 * * *"}
    data = json.dumps({"tasks": POLPO[0]["tasks"]})
    path = rows(tmp_path / "polpo.db", "missions", row | {"data": data}, row | {"id": "m", "data": "{"})
    stored = document(user, "polpo", path, "-z", "UTC")
    assert (set(of(stored)), len(stored["left_out"])) == ({"n"}, 1)


def test_b11_syris(user: User, tmp_path: Path) -> None:
    """B11 S9: its table, as a database or as JSON"""
    row: dict[str, Any] = {
        "schedule_id": "s1", "name": "Morning", "enabled": 1, "type": "cron", "spec": "0 9 * * 1-5",
        "timezone": "Asia/Tokyo", "quiet_hours_policy_id": None, "catch_up_policy": "run_once",
        "payload": '{"text": "hello"}',
    }  # fmt: skip
    others = [
        {**row, "schedule_id": "s2", "name": "Poll", "type": "interval", "spec": "30", "enabled": 0},
        {**row, "schedule_id": "s3", "name": "Later", "type": "one_shot", "spec": "2026-04-01T09:00:00Z"},
        {**row, "schedule_id": "s4", "name": "Odd", "type": "moon"},
    ]
    database = rows(tmp_path / "syris.db", "schedules", row, *others)
    listed = tmp_path / "syris.json"
    listed.write_text(json.dumps({"schedules": [row, *others]}))
    found = document(user, "syris", database)
    assert found["entries"] == document(user, "syris", str(listed))["entries"]
    assert {name: (each["differences"], each["paused"]) for name, each in of(found).items()} == {
        "morning": (0, False),
        "poll": (0, True),
        "later": (0, False),
    }
    assert len(found["left_out"]) == 1
    user.says("import", "syris", database, "--apply")
    assert user.bench.get("morning").settings["payload"] == {"text": "hello"}
    assert user.bench.get("poll").settings["first"] == "immediately"


@pytest.mark.parametrize(
    ("source", "row", "problem"),
    [
        ("corvid", {**CORVID, "actions": "{"}, "its actions is not JSON"),
        ("corvid", {"id": "1", "name": "n", "interval_ms": 300_000}, "it has no agent_id."),
        ("polpo", {**POLPO[0], "tasks": "{"}, "its tasks is not JSON"),
        ("polpo", {**POLPO[2], "schedule": "2027-13-15"}, '"2027-13-15" is no ISO timestamp.'),
        ("syris", {"name": "n", "type": "one_shot", "spec": "soon"}, '"soon" is no ISO timestamp.'),
        ("syris", {"name": "n", "type": "interval", "spec": "30", "payload": "{"}, "its payload is not JSON"),
        ("syris", {"type": "interval", "spec": "30"}, "it has no schedule_id."),
    ],
)
def test_b11_a_row_that_cannot_be_read_is_left_out(
    user: User, tmp_path: Path, source: str, row: dict[str, Any], problem: str
) -> None:
    """B11: the others are imported"""
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([row]))
    found = document(user, source, str(path), "-z", "UTC")
    assert found["entries"] == []
    assert [problem in text for text in found["left_out"]] == [True], found["left_out"]


@pytest.mark.parametrize("source", ["cortex", "herdctl", "corvid", "syris", "crontab"])
@pytest.mark.parametrize("content", [None, b"{", b"\xff\x00 nonsense"])
def test_b11_what_cannot_be_read_is_said(user: User, tmp_path: Path, source: str, content: bytes | None) -> None:
    """B11: nothing is lost on bad input"""
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    result = user.types("import", source, str(path), "--apply", code=None)
    assert result.exit_code == 2 or (source == "crontab" and "left out" in result.stdout)
    assert user.bench.list() == []
