"""The programs of docs/embedding.md run: gunicorn, FastAPI, Django, transactions and tasks. Row B19."""

from __future__ import annotations

import ast
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import postgres_fixtures
from matins import Matins

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
PATIENCE = 90
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All programs of the page, in their files."""
    for name, text in PROGRAMS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    begun: list[subprocess.Popen[str]] = []

    def start(*command: str, **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        begun.append(
            subprocess.Popen(
                [sys.executable, *command], cwd=folder, text=True, start_new_session=True, **{**pipes, **options}
            )
        )
        return begun[-1]

    yield start
    for one in begun:
        with suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait(PATIENCE)
        if one.stdout is not None:
            one.stdout.close()


def test_the_garbage_collector_is_tuned_as_that_of_the_daemon(folder: Path) -> None:
    """B19: the page and the daemon have the same values"""
    say = "import gc, sys; print(gc.get_threshold(), sys.getswitchinterval(), gc.get_freeze_count() > 1_000)"
    asked = [
        run(folder, "-c", f"from {module} import favour_fires; favour_fires(); {say}")
        for module in ("punctual", "matins.daemon.daemon")
    ]
    assert asked[0] == asked[1] == "(50000, 20, 50) 0.0005 True\n"


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(port: int, method: str = "GET", path: str = "/") -> Any:
    """The answer as JSON. A worker that is killed may take a request with it: the next one is answered."""
    for _ in range(5):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            try:
                connection.request(method, path)
                response = connection.getresponse()
            except (ConnectionError, http.client.HTTPException):
                continue
            if response.status == 200:
                return json.loads(response.read())
    raise AssertionError("no answer")


def test_every_block_is_a_program_of_this_page() -> None:
    """B19: none is left untried"""
    assert PAGE.count("```python\n#") == len(PROGRAMS) == 12
    for text in PROGRAMS.values():
        ast.parse(text)


def test_b19_gunicorn_workers_take_over(folder: Path, start: Start) -> None:
    """B19: one worker is the engine. When it is killed, another is"""
    web = folder / "web.py"  # the job says who runs it
    web.write_text(PROGRAMS["web.py"].replace('return "tidied"', "return __import__('os').getpid()"), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = start(
            *("-m", "gunicorn", "--bind", f"fd://{listening.fileno()}", "--timeout", "90"),
            pass_fds=[listening.fileno()],
            env={**os.environ, "HOME": str(folder)},
        )
        first = ask(port)
        assert first["state"] == "succeeded"
        assert first["result"] == ask(port)["result"] != server.pid
        os.kill(first["result"], signal.SIGKILL)
        after = ask(port)
        assert after["state"] == "succeeded"
        assert after["result"] not in (first["result"], server.pid)
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait(PATIENCE) == 0


def test_b19_fastapi_runs_jobs_on_its_loop(start: Start) -> None:
    """B19: with its lock, under uvicorn"""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = start("-m", "uvicorn", "app:app", "--fd", str(listening.fileno()), pass_fds=[listening.fileno()])
        assert ask(port, "POST", "/refresh") == {"state": "succeeded", "result": "refreshed"}
        assert ask(port, "GET", "/schedules") == ["refresh"]
        os.kill(server.pid, signal.SIGTERM)
        assert server.stdout is not None
        assert "Application shutdown complete" in server.stdout.read()


def test_b19_a_transaction_with_its_schedule(folder: Path, postgres_url: str) -> None:
    """B19: the rollback takes the reminder back"""
    assert run(folder, "orders.py", postgres_url) == "no order, no reminder\n['remind 1']\n"


MODELS = """
from django.db import models

class Order(models.Model):
    customer = models.TextField(null=False)
    reminded = models.BooleanField(default=False)
"""
SETTINGS = """
import os
from psycopg.conninfo import conninfo_to_dict

MATINS_URL = os.environ["MATINS_URL"]
_url = conninfo_to_dict(os.environ["DJANGO_URL"])
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": _url["dbname"], "USER": _url.get("user"),
    "HOST": _url["host"], "PORT": _url.get("port"), "OPTIONS": {"options": _url.get("options", "")}}}
INSTALLED_APPS = ["shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
SECRET_KEY = "of a test"
"""
MANAGE = """
import os, sys
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
execute_from_command_line(sys.argv)
"""
ORDERS = """
import django
django.setup()
from django.core.management import call_command
from django.db import transaction
call_command("migrate", run_syncdb=True, verbosity=0)
from shop.jobs import m, place_order
place_order("ada")
try:
    with transaction.atomic():
        place_order("bob")
        raise LookupError
except LookupError:
    pass
place_order("cid")
print([schedule.name for schedule in m.list()])
m.close()
"""


def test_b19_django_orders_and_their_reminders(folder: Path, start: Start, postgres_url: str) -> None:
    """B19: in transactions of Django, on its own connection; a management command is the engine"""
    texts = {"settings.py": SETTINGS, "manage.py": MANAGE, "orders_of_django.py": ORDERS, "shop/models.py": MODELS}
    for name, text in {**texts, "shop/__init__.py": ""}.items():
        (folder / name).write_text(text, encoding="utf-8")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        (schema,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
        connection.execute(f"CREATE SCHEMA {schema}_shop")
        try:
            of_shop = postgres_url.replace(f"search_path%3D{schema}", f"search_path%3D{schema}_shop")
            given = {"MATINS_URL": postgres_url, "DJANGO_URL": of_shop, "DJANGO_SETTINGS_MODULE": "settings"}
            assert run(folder, "orders_of_django.py", **given) == "['remind 1', 'remind 3']\n"
            engine = start("manage.py", "schedules", env={**os.environ, **given})
            with closing(Matins(postgres_url)) as m:
                assert m.audit.verify().problems == []
                assert m.runs.wait(m.run("remind 3").id, timeout=PATIENCE).state == "succeeded"
            rows = connection.execute(f"SELECT customer, reminded FROM {schema}_shop.shop_order ORDER BY id").fetchall()
            assert rows == [("ada", False), ("cid", True)]
            os.kill(engine.pid, signal.SIGTERM)
            assert engine.wait(PATIENCE) == 0
        finally:
            connection.execute("SET client_min_messages = warning")
            connection.execute(f"DROP SCHEMA {schema}_shop CASCADE")


def test_b19_tasks_with_delay(folder: Path, start: Start) -> None:
    """B19: another process does them"""
    worker = start("-u", "tasks.py")
    assert run(folder, "view.py") == "{'sent': 'ada@example.org'}\nsent once\n"
    assert worker.stdout is not None
    said = worker.stdout.readline() + worker.stdout.readline()  # of two threads: a line may end after the other's text
    assert all(text in said for text in ("ada@example.org: Welcome", "ada@example.org: Invoice 17")), said
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0
