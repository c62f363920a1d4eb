"""docs/watching.md: what /metrics sends, the dashboard, and a real Prometheus that scrapes it. Row B12."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_server import YEARLY, HttpServer

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "watching.md").read_text(encoding="utf-8")
DASHBOARD = json.loads((DOCS / "grafana.json").read_text(encoding="utf-8"))
NAME = re.compile(r"\bmatins_[a-z_]+\b")
PATIENCE = 60
_ROW = re.compile(r"^\| `(matins_\w+)` \| (\w+) \| ([^|]*)\|", re.MULTILINE)


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """With a schedule of every state, runs that succeed and fail, and a provider at its limit: no metric is empty."""
    made = HttpServer("sqlite://")
    m = made.matins

    @m.job("fail")
    def fail(run: Any) -> None:
        raise ValueError("as it must")

    m.add("works", when=YEARLY, job="work")
    m.add("fails", when=YEARLY, job="fail")
    m.throttles.set("anthropic", resets_at="2999-01-01T00:00:00Z")
    yield made
    made.close()


def expressions() -> list[str]:
    """Of the dashboard, as Grafana sends them, and of the alerts of the page."""
    targets = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    made = [one.replace("$__rate_interval", "1m").replace("$job", ".+") for one in targets]
    alerts = PAGE[PAGE.index("| alert |") :]
    return [*made, *re.findall(r"^\| [^|`]+ \| `([^`]+)`", alerts[: alerts.index("\n\n")], re.MULTILINE)]


def sent(server: HttpServer) -> dict[str, tuple[str, set[str]]]:
    """The type and the labels of each metric."""
    text = server.ask("GET", "/metrics", token=server.new_token("viewer", "prometheus")).body.decode()
    found: dict[str, tuple[str, set[str]]] = {
        name: (kind, set()) for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    }
    for name, labels in re.findall(r"^(\w+)\{([^\n]*)\} ", text, re.MULTILINE):
        found[name][1].update(re.findall(r'(\w+)="', labels))
    return found


def test_b12_the_page_tells_each_metric_with_its_type_and_labels(server: HttpServer) -> None:
    """B12: all that are sent, and none besides"""
    server.client.runs.wait(server.client.run("works").id, timeout=PATIENCE)
    sent(server)  # the first request is counted by the next one
    server.client.runs.wait(server.client.run("works").id, timeout=PATIENCE)
    told = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in _ROW.findall(PAGE)}
    assert told == sent(server)


def test_b12_the_dashboard_shows_only_metrics_that_are_sent(server: HttpServer) -> None:
    """B12: and each of them"""
    used = {name for expression in expressions() for name in NAME.findall(expression)}
    used |= set(NAME.findall(json.dumps(DASHBOARD["templating"])))
    assert used == set(sent(server))
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_b12_the_command_makes_a_token_that_reads_metrics_and_changes_nothing(server: HttpServer) -> None:
    """B12: of a viewer"""
    (line,) = re.findall(r"^\$ matins (.*)$", PAGE, re.MULTILINE)
    group, command, name, option, role = shlex.split(line)
    assert (group, command, option) == ("tokens", "create", "--role")
    token = server.new_token(role, name)
    assert server.ask("GET", "/metrics", token=token).status == 200
    assert server.ask("POST", "/v1/schedules/works/run", {}, token=token).status == 403
    assert server.ask("GET", "/metrics", token=None).status == 401


@pytest.mark.skipif(not os.environ.get("MATINS_TEST_REAL"), reason="`make test-real` installs Prometheus")
def test_b12_prometheus_scrapes_it_and_evaluates_each_expression(server: HttpServer, tmp_path: Path) -> None:
    """B12: with the configuration of the page; no expression is refused, and none of the dashboard is empty"""
    programs = [shutil.which(name) for name in ("prometheus", "promtool")]
    assert all(programs), "Debian's package prometheus has them"
    prometheus, promtool = (str(program) for program in programs)
    token = server.new_token("viewer", "prometheus")
    text = server.ask("GET", "/metrics", token=token).body
    subprocess.run([promtool, "check", "metrics"], input=text, check=True, timeout=PATIENCE)
    (tmp_path / "matins.token").write_text(token)
    (config,) = re.findall(r"```yaml\n# prometheus\.yml\n(.*?)```", PAGE, re.DOTALL)
    changed = {"/etc/prometheus": str(tmp_path), "127.0.0.1:7411": server.host, "15s": "1s"}
    for old, new in changed.items():
        assert config.count(old) == 1
        config = config.replace(old, new)
    (tmp_path / "prometheus.yml").write_text(config)
    subprocess.run([promtool, "check", "config", str(tmp_path / "prometheus.yml")], check=True, timeout=PATIENCE)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    line = [prometheus, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]  # fmt: skip
    process = subprocess.Popen(line, cwd=tmp_path)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, 'up{job="matins"} == 1', process)
        for name in ("works", "fails"):  # counters that rise between two scrapes
            server.client.runs.wait(server.client.run(name).id, timeout=PATIENCE)
        for expression in expressions():
            if " > " in expression or " < " in expression:
                ask(url, expression)  # an alert that is silent is empty
            else:
                wait_for(url, expression, process)
        assert ask(url, 'max(matins_events_total{type="run.failed"})')[0]["value"][1] == "1"
        with pytest.raises(urllib.error.HTTPError):
            ask(url, "max(matins_runs")
    finally:
        process.terminate()
        process.wait(PATIENCE)


def ask(url: str, expression: str) -> list[Any]:
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=PATIENCE) as response:
        found = json.load(response)
    assert found["status"] == "success", found
    return found["data"]["result"]


def wait_for(url: str, expression: str, process: subprocess.Popen[bytes]) -> list[Any]:
    """What the expression gives, as soon as it gives something."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        assert process.poll() is None, "Prometheus ended"
        if is_ready(url) and (result := ask(url, expression)):
            return result
        time.sleep(0.2)
    raise AssertionError(f"nothing for {expression}")


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=PATIENCE) as response:
            return response.status == 200
    except OSError:
        return False
