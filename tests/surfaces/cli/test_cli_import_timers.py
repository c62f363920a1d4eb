"""`matins import systemd` and `github-actions`: timers and workflows as they are, with the old times beside the new."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_user import User

COMPARED = shutil.which("systemd-analyze") is not None
UNITS = {
    "logrotate.timer": """[Unit]
Description=Daily rotation of log files
[Timer]
OnCalendar=daily
AccuracySec=1h
Persistent=true
RandomizedDelaySec=1h 30min
[Install]
WantedBy=timers.target
""",
    "logrotate.service": "[Service]\nType=oneshot\nExecStart=/usr/sbin/logrotate /etc/logrotate.conf\nNice=19\n",
    "report.timer": "[Timer]\nOnCalendar=Mon..Fri *-*-* 09:00\nOnCalendar=\nOnCalendar=Mon..Fri 08:30 Asia/Tokyo\n"
    "OnCalendar=*-*~01 \\\n 18:00\n",
    "report.service": "[Service]\nWorkingDirectory=/srv/report\nEnvironment=LANG=C 'WHO=ada l'\n"
    "ExecStart=/srv/report/run.sh --all 'two words'\n",
    "poll.timer": "[Timer]\nOnBootSec=5min\nOnUnitActiveSec=15min\nUnit=fetch@home.service\n",
    "odd.timer": "[Timer]\nOnCalendar=every day\n",
    "dump@.timer": "[Timer]\nOnCalendar=weekly\n",
    "boot.timer": "# only at boot\n[Timer]\nOnBootSec=1min\n",
}
NIGHTLY = """\
name: Nightly build
on:
  push: {branches: [main]}
  workflow_dispatch:
  schedule:
    - cron: '30 5 * * 1,3'
    - cron: "0 9 1,15 * 1"
      timezone: Europe/Berlin
    - cron: '0 25 * * *'
jobs: {}
"""


@pytest.fixture(autouse=True)
def berlin(user: User) -> None:
    user.app.zone = "Europe/Berlin"


def found_in(user: User, *words: str) -> tuple[dict[str, Any], Any]:
    document = json.loads(user.says("import", *words, "--json"))
    return {entry["name"]: entry for entry in document["entries"]}, document


def test_b11_timers_of_systemd(user: User, tmp_path: Path) -> None:
    """B11: plain services become commands, all others are started by systemctl; times as systemd-analyze says them"""
    folder = tmp_path / "user"
    folder.mkdir()
    for name, text in UNITS.items():
        (folder / name).write_text(text)
    found, document = found_in(user, "systemd", str(folder))
    assert set(found) == {"logrotate", "report", "report-2", "poll"}
    rotate, report = found["logrotate"]["settings"], found["report"]["settings"]
    assert (rotate["when"], rotate["catch_up"], rotate["jitter"]) == ("OnCalendar=daily", "run_once", 6.25)
    assert rotate["command"] == ["systemctl", "--user", "start", "--wait", "logrotate.service"]
    assert found["logrotate"]["notes"][0].startswith("logrotate.service has Nice: it is started by systemctl")
    assert report["command"] == ["/srv/report/run.sh", "--all", "two words"]
    assert (report["workdir"], report["environment"]) == ("/srv/report", {"LANG": "C", "WHO": "ada l"})
    assert (report["timezone"], found["report-2"]["settings"]["timezone"]) == ("Asia/Tokyo", "Europe/Berlin")
    poll = found["poll"]["settings"]
    assert (poll["when"], poll["anchor"], poll["command"][-1]) == ("900000ms", "start", "fetch@home.service")
    for name, entry in found.items():
        assert entry.get("differences", 0 if not COMPARED and name != "poll" else None) == 0, entry
        assert entry.get("old", entry.get("new")) == entry.get("new")
    reasons = [text.removeprefix(f"{folder}/") for text in document["left_out"]]
    assert reasons[0] == "boot.timer: OnBootSec is left out: Matins has no times after the boot."
    assert reasons[1] == "boot.timer: it has no times that can be imported."
    assert reasons[2] == "dump@.timer: it is a template, which only its instances start."
    assert reasons[3].startswith("odd.timer: its times cannot be read: Invalid calendar event OnCalendar=every day")
    assert user.says("import", "systemd", str(folder), "--apply").splitlines()[-1] == "Imported from systemd: +4 ~0 =0"
    assert user.says("import", "systemd", str(folder)).splitlines()[-1] == "To import from systemd: +0 ~0 =4"
    assert user.bench.get("report").trigger_text == "every weekday at 08:30"


@pytest.mark.parametrize(
    ("unit", "problem"),
    [
        ("[Timer]\nOnCalendar=daily\nRandomizedDelaySec=soon\n", "its RandomizedDelaySec 'soon' is not a time span"),
        ("[Timer]\nOnUnitActiveSec=5 parsecs\n", "its OnUnitActiveSec '5 parsecs' is not a time span"),
        ("[Timer]\nOnCalendar\n", "this line is not NAME=VALUE: OnCalendar"),
        ("", "it has no times that can be imported"),
    ],
)
def test_b11_a_timer_that_cannot_be_read_is_left_out(user: User, tmp_path: Path, unit: str, problem: str) -> None:
    """B11"""
    (tmp_path / "x.timer").write_text(unit)
    _, document = found_in(user, "systemd", str(tmp_path / "x.timer"))
    assert problem in document["left_out"][-1]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "There are no timers in" in user.complains("import", "systemd", str(empty))


def test_b11_workflows_of_github(user: User, tmp_path: Path) -> None:
    """B11: they stay there and are started by gh; one that cannot be started says which line it lacks"""
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:octo-org/garden.git\n')
    (folder / "nightly.yml").write_text(NIGHTLY)
    (folder / "stale.yaml").write_text("name: Stale\non:\n  schedule:\n    - cron: '0 0 * * *'\n")
    (folder / "push.yml").write_text("on: [push]\n")
    (folder / "broken.yml").write_text("on: [push\n")
    (folder / "odd.yml").write_text("on:\n  workflow_dispatch:\n  schedule: daily\n")
    found, document = found_in(user, "github-actions", str(tmp_path))
    first, second = found["nightly-build"], found["nightly-build-2"]
    assert first["settings"]["command"] == ["gh", "workflow", "run", "nightly.yml", "--repo", "octo-org/garden"]
    assert (first["settings"]["timezone"], second["settings"]["timezone"]) == ("UTC", "Europe/Berlin")
    assert [(entry["old"], entry["differences"]) for entry in found.values()] == [
        (first["new"], 0), (second["new"], 0),
    ]  # fmt: skip
    reasons = sorted(text.removeprefix(f"{folder}/") for text in document["left_out"])
    assert reasons[0].startswith("broken.yml: line 2, column 1: this is not YAML")
    assert reasons[1].startswith('nightly.yml: Invalid cron expression "0 25 * * *"')
    assert reasons[2:] == [
        "odd.yml: its schedule is not a list of cron lines.",
        "stale.yaml: it cannot be started from outside. Add to its `on`: workflow_dispatch:",
    ]
    assert document["notes"][0].startswith("The workflows stay on GitHub, and gh starts them")
    path = str(folder / "nightly.yml")
    assert user.says("import", "github-actions", path, "--apply").splitlines()[-1].endswith("+2 ~0 =0")
    assert user.says("import", "github-actions", path).splitlines()[-1].endswith("+0 ~0 =2")
    assert "There are no workflows in" in user.complains("import", "github-actions", str(tmp_path / ".git"))


def test_b16_one_file_that_cannot_be_read_leaves_the_others(user: User, tmp_path: Path) -> None:
    """B16: agents write such files, too: what breaks the reading of one is told, and gh takes no name for an option"""
    units, flows = tmp_path / "units", tmp_path / "flows"
    for folder in (units, flows):
        folder.mkdir()
    timer = "[Timer]\nOnCalendar=daily\n"
    for name, text in {
        "good.timer": timer, "quote.timer": timer, "quote.service": "[Service]\nExecStart=/bin/echo 'a\n",
        "far.timer": f"{timer}RandomizedDelaySec={'9' * 400}d\n", "out.timer": f"{timer}Unit=../../etc/passwd\n",
    }.items():  # fmt: skip
        (units / name).write_text(text)
    found, document = found_in(user, "systemd", str(units))
    assert list(found) == ["good"]
    assert len(document["left_out"]) == 3
    for name, text in {"good.yml": NIGHTLY, "--repo=evil.yml": NIGHTLY, "key.yml": f"? [a]\n: b\n{NIGHTLY}"}.items():
        (flows / name).write_text(text)
    found, document = found_in(user, "github-actions", str(flows))
    assert {entry["settings"]["command"][3] for entry in found.values()} == {"good.yml"}
    told = " ".join(document["left_out"])
    assert "gh would take its name for an option" in told
    assert "a list or a mapping stands in place of a name" in told
