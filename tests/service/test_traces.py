"""Spans of runs at a collector: one for each run, step and attempt, and agents that know theirs. Row B12.

The collector is a socket that reads OTLP as its protocol buffers say.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from matins import Matins

PATIENCE = 60
ERROR, OK = Status.STATUS_CODE_ERROR, Status.STATUS_CODE_OK
_SECRET = "whsec_" + "c2VjcmV0IG9mIGEgdGVzdCBvZiB0aGUgdHJhY2Vz"


class Collector:
    """Takes spans, and answers agents of the runner http: one server for both."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.refusals = 0
        self.changed = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = outer.take(self.path, dict(self.headers), body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        with self.changed:
            if path == "/agent":
                self.headers.append({name.lower(): value for name, value in headers.items()})
                tokens = {"in": 1200, "out": 340, "cached": 800}
                return 200, json.dumps({"text": "Done.", "tokens": tokens, "cost_usd": 0.25, "session": "s-1"}).encode()
            assert path == "/v1/traces", path
            if self.refusals:
                self.refusals -= 1
                return 400, b""
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                self.resources.append(values(resource.resource.attributes))
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
            self.changed.notify_all()
            return 200, b""

    def wait(self, count: int) -> list[Span]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.spans) >= count, PATIENCE), self.spans
            return list(self.spans)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


@pytest.fixture
def m(collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Matins]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("WEBHOOK_SECRET", _SECRET)
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db", home=tmp_path)) as made:
        yield made


def test_b25_a_run_its_attempts_and_what_the_model_used(m: Matins, collector: Collector) -> None:
    """B12: names of OpenTelemetry's conventions, and the agent gets the span of its attempt as its parent"""
    m.allowed_hosts.set(hosts=["127.0.0.1"])
    m.agents.set(
        "scout", runner="http", url=f"{collector.url}/agent", model="claude-opus-5", provider="anthropic",
        environment={"WEBHOOK_SECRET": "env:WEBHOOK_SECRET"},
    )  # fmt: skip
    m.add("brief", when="never", agent="scout", prompt="Say nothing of this to a collector.")
    with m:
        run = m.runs.wait(m.run("brief").id, timeout=PATIENCE)
        assert run.state == "succeeded", run.outcome
        whole, attempt = collector.wait(2)
    assert (whole.name, attempt.name) == ("run brief", "invoke_agent scout")
    assert whole.parent_span_id == b""
    assert attempt.parent_span_id == whole.span_id
    assert attempt.trace_id == whole.trace_id
    assert (whole.status.code, attempt.status.code) == (OK, OK)
    assert values(whole.attributes) == {
        "matins.run.id": run.id, "matins.schedule": "brief", "matins.state": "succeeded", "matins.agent": "scout",
        "matins.tokens": 2340, "matins.cost": "$0.25",
    }  # fmt: skip
    assert values(attempt.attributes) == {
        "matins.run.id": run.id, "matins.attempt": 1, "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "scout", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-opus-5",
        "gen_ai.conversation.id": "s-1", "gen_ai.usage.input_tokens": 2000, "gen_ai.usage.output_tokens": 340,
        "gen_ai.usage.cache_read.input_tokens": 800, "gen_ai.usage.cost": 0.25,
    }  # fmt: skip
    (resource,) = collector.resources
    assert resource["service.name"] == "matins"
    assert resource["deployment.environment.name"] == "test"
    assert collector.headers[0]["traceparent"] == f"00-{whole.trace_id.hex()}-{attempt.span_id.hex()}-01"
    assert whole.start_time_unix_nano <= attempt.start_time_unix_nano <= attempt.end_time_unix_nano
    assert "collector" not in str(collector.spans), "what people wrote stays here"


def test_b25_steps_and_their_agents(m: Matins, collector: Collector) -> None:
    """B12: one trace for the whole run; a process has TRACEPARENT in its environment"""
    command = [sys.executable, "-c", "import os; print(os.environ['TRACEPARENT'])"]
    m.agents.set("writer", runner="shell", command=command)
    first = {"title": "Collect", "prompt": "a", "agent": "writer"}
    m.add("report", when="never", steps=[first, {**first, "title": "Write", "after": ["Collect"]}])
    with m:
        run = m.runs.wait(m.run("report").id, timeout=PATIENCE)
        assert run.state == "succeeded", run.outcome
        spans = {span.span_id: span for span in collector.wait(5)}
    assert {span.trace_id for span in spans.values()} == {next(iter(spans.values())).trace_id}
    ways = {way(span, spans) for span in spans.values()}
    assert ways == {
        ("run report",), ("run report", "step Collect"), ("run report", "step Write"),
        ("run report", "step Collect", "invoke_agent writer"), ("run report", "step Write", "invoke_agent writer"),
    }  # fmt: skip
    detail = m.runs.get(run.id)
    told = {step.outcome["result"]["text"].strip() for step in detail.steps}
    agents = [span for span in spans.values() if span.name == "invoke_agent writer"]
    assert told == {f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01" for span in agents}
    assert {values(span.attributes).get("matins.step") for span in spans.values()} == {None, 1, 2}


def way(span: Span, spans: dict[bytes, Span]) -> tuple[str, ...]:
    above = spans.get(span.parent_span_id)
    return (*(way(above, spans) if above is not None else ()), span.name)


def test_b25_attempts_that_failed_and_a_collector_that_was_away(m: Matins, collector: Collector) -> None:
    """B12: an attempt that failed is an error, the run that succeeded is none; what was refused is sent again"""
    begun: list[int] = []

    @m.job("flaky")
    def flaky(run: Any) -> str:
        begun.append(1)
        if len(begun) == 1:
            raise ValueError("not yet")
        return "done"

    m.add("often", when="never", job="flaky", retries=1, retry_delay="1s")
    collector.refusals = 1
    with m:
        assert m.runs.wait(m.run("often").id, timeout=PATIENCE).state == "succeeded"
        whole, first, second = collector.wait(3)
    assert [span.name for span in (whole, first, second)] == ["run often", "attempt 1", "attempt 2"]
    assert [span.status.code for span in (whole, first, second)] == [OK, ERROR, OK]
    assert values(first.attributes)["error.type"] == "retried"
    assert "gen_ai.operation.name" not in values(first.attributes)
    assert collector.refusals == 0


@pytest.mark.parametrize(
    "given", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}]
)
def test_b25_without_a_collector_nothing_is_loaded(given: dict[str, str], tmp_path: Path) -> None:
    """B12: and agents have no TRACEPARENT"""
    program = """
import sys
from matins import Matins
m = Matins("sqlite://")
code = "import os; print(os.environ.get('TRACEPARENT'))"
m.agents.set("a", runner="shell", command=[sys.executable, "-c", code], isolation="none")
m.add("x", when="never", agent="a", prompt="x")
with m:
    run = m.runs.wait(m.run("x").id, timeout=60)
print(run.outcome["result"]["text"], [name for name in sys.modules if name.startswith("opentelemetry")])
m.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PATH": "/usr/bin:/bin", **given}, capture_output=True,
        text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["None", "[]"]


def test_b25_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """B12: and goes on"""
    program = """
import logging, sys
logging.basicConfig(format="%(message)s")
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("opentelemetry.exporter"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from matins import Matins
with Matins("sqlite://"):
    print("on")
"""
    environment = {"PATH": "/usr/bin:/bin", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert done.stdout == "on\n"
    assert done.stderr.count('pip install "matins[otel]"') == 1
