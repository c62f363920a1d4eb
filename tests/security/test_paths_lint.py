"""Files are opened, listed and changed in few places, each with a reason why no agent can lead it elsewhere.

Everything else goes through `texts/beneath.py` and `texts/untrusted_folder.py`. A new place belongs there too, unless
no agent can write the folder: the home, the run folder, the package itself, the system's own files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import matins

pytestmark = pytest.mark.usefixtures("undisturbed")
SOURCE = Path(matins.__file__).parent
FREE = {"texts/beneath.py", "texts/untrusted_folder.py"}
"""The modules that do it for all others."""
MODULES = {
    "os": {"open", "listdir", "scandir", "walk", "fwalk", "chown", "lchown", "chmod", "symlink", "link", "rename",
           "renames", "replace", "unlink", "remove", "rmdir", "removedirs", "mkdir", "makedirs", "truncate", "mknod",
           "mkfifo", "readlink", "utime"},
    "shutil": {"copy", "copy2", "copyfile", "copyfileobj", "copymode", "copystat", "copytree", "move", "rmtree",
               "chown", "make_archive", "unpack_archive"},
    "glob": {"glob", "iglob"}, "io": {"open", "open_code"}, "codecs": {"open"},
    "apsw": {"Connection"}, "sqlite3": {"connect"},
}  # fmt: skip
"""`shutil.which` and `disk_usage` look at the status only."""
UNMISTAKABLE = {"read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob", "symlink_to", "hardlink_to"}
"""Methods of paths that count also where they are not called."""
METHODS = UNMISTAKABLE | {"open", "glob", "walk", "chmod", "lchmod", "rename", "unlink", "rmdir", "mkdir", "touch",
                          "readlink"}  # fmt: skip
PACKAGE, SYSTEM = "files of the package itself", "a file of the system, which only root writes"
HOME, RUNS, STORE = "in the home of Matins", "in the run folder", "in the folder of the store"
KEYBOARD, NO_FILE = "a command that the owner gives at a keyboard", "no file: a method of the same name"
INSIDE = "a script that runs inside the walls, with the rights of the run"
REASONS = {
    "service/file/reload.py": {"_steps": "where the links of the configuration lead; nothing is read"},
    "daemon/daemon.py": {"Daemon._open_store": HOME},
    "daemon/demonstration.py": {"demo_file": PACKAGE},
    "daemon/service.py": {
        "Service._own_text": KEYBOARD, "Service._undo": KEYBOARD, "Service.remove": KEYBOARD, "_write": KEYBOARD,
    },
    "engine/english/phrases.py": {"phrase_grammar": PACKAGE},
    "engine/when/zones.py": {"_read_in": SYSTEM},
    "executors/endpoint_requests.py": {"EndpointCall.post": NO_FILE},
    "executors/inside/function_call.py": {"main": "a descriptor of a process that runs inside the walls"},
    "executors/inside/__init__.py": {"script": PACKAGE},
    "executors/inside/goose_usage.py": {"_recorded": INSIDE, "_lines": INSIDE},
    "executors/inside/tool_setup.py": {
        "_write_file": INSIDE, "_write_home": INSIDE, "_link_all": INSIDE, "_read": INSIDE, "_replace": INSIDE,
    },
    "executors/isolation.py": {
        "_of_store": "names in the folder of the store, at most a thousand", "_mounts": SYSTEM, "_sysctl": SYSTEM,
        "_link": "where a link leads; nothing is read",
        "_make_user_site": "an empty folder of the same user, from which Python imports",
    },
    "executors/work_items.py": {"open_source": NO_FILE},
    "executors/worker.py": {"OrderRunner.__init__": HOME},
    "chat/telegram/bot_api.py": {"BotApi.call": NO_FILE},
    "executors/processes/run_folder.py": {
        "open_run": RUNS,
        "RunFolder.__init__": RUNS, "RunFolder.listen": RUNS, "RunFolder.make": RUNS, "RunFolder.remove": RUNS,
        "RunFolder._read_nonce": RUNS, "RunFolder._warden_sockets": RUNS,
    },
    "executors/processes/keeper.py": {"_acquire_lock": RUNS, "_prepare_process": RUNS, "_announce_ready": SYSTEM},
    "executors/processes/launch.py": {"_anonymous_file": "a new file with a random name"},
    "executors/processes/walls.py": {
        "map_to_self": SYSTEM, "own_mounts": SYSTEM, "make_folder": "in a cover that a warden has just mounted",
        "included_files": SYSTEM, "_patterns": SYSTEM, "_copy": SYSTEM,
        "_open_kept": "a cover; what is below it is opened beneath it", "_tried": RUNS,
    },
    "executors/processes/output.py": {
        "Output._write_head": RUNS, "_Ring.write": RUNS, "_opened": RUNS,
        "OutputFile.__init__": "a descriptor of its own, or a new file with a random name",
    },
    "service/output.py": {"_records": RUNS, "_own_folder": "a folder whose owner and mode are checked"},
    "executors/processes/proc.py": {"living": SYSTEM, "_of_process": SYSTEM, "_read": SYSTEM},
    "executors/processes/process_tree.py": {"ProcessTree.delete_files": RUNS},
    "executors/processes/recovery.py": {"RunFiles.delete_named": RUNS},
    "executors/processes/wardens.py": {"WardenPool._living_keeper": RUNS},
    "executors/runners/protocol.py": {"ClockTime.after": NO_FILE},
    "importers/crontab.py": {"_texts": KEYBOARD},
    "importers/github_actions.py": {"_paths": KEYBOARD},
    "importers/systemd.py": {"_paths": KEYBOARD},
    "importers/entries.py": {"_database_rows": KEYBOARD, "_bytes": KEYBOARD},
    "seeds/cortex/jobs.py": {"write_index": "by UntrustedFolder"},
    "seeds/corvid/jobs.py": {"_notes": "by UntrustedFolder"},
    "library.py": {"Matins.subscribe": NO_FILE},
    "net/outbound.py": {"HttpClient.send": NO_FILE},
    "runtime/clock.py": {"_local_zone": SYSTEM},
    "runtime/command_files.py": {"_steps": "where the links of a command lead; nothing is read"},
    "runtime/engine.py": {"Engine.open": NO_FILE, "Engine._enlist": NO_FILE},
    "runtime/maintenance.py": {"Lineage.note": RUNS, "Lineage._load": RUNS},
    "runtime/loop.py": {"Loop.start": NO_FILE},
    "seeds/herdctl/scheduler.py": {"Scheduler.start": HOME},
    "surfaces/http/sign_in.py": {"SignInRoutes.open_link": NO_FILE},
    "service/changes.py": {
        "Changes.rename.in_store": NO_FILE, "Changes.undelete": NO_FILE, "AgentNames.rename": NO_FILE,
    },
    "service/erasure.py": {"Erasure._delete_files": RUNS},
    "service/file/apply.py": {"File._change_schedule": NO_FILE},
    "service/file/starter.py": {"write_starter": HOME},
    "service/moving.py": {
        "Move._move_output": RUNS, "_is_left": RUNS, "_move_folder": RUNS,
    },
    "service/doctor.py": {"_version_in": SYSTEM},
    "store/queries.py": {"load_migrations": PACKAGE, "load_queries": PACKAGE},
    "store/sqlite/store.py": {
        "write_backup": "a new file with a random name, which replaces nothing", "_copy": "the same",
        "integrity_problems": STORE,
        "SqliteStore._connect": STORE,
    },
    "store/sqlite/moving.py": {
        "SqliteEnd._connection": STORE, "SqliteEnd.check_usable": STORE, "SqliteEnd.copy_from": STORE, "_fill": STORE,
        "_remove": STORE, "_sync": STORE,
    },
    "store/sqlite/ownership.py": {
        "set_foreign_log_aside": STORE,
        "Ownership._open": STORE, "Ownership.owner": STORE, "Ownership.has_engine": STORE, "boot_id": SYSTEM,
        "check_filesystem": SYSTEM,
    },
    "surfaces/cli/calls.py": {"_json": KEYBOARD},
    "mcp/commands.py": {"_token": KEYBOARD},
    "surfaces/cli/schedule_settings.py": {"file_text": KEYBOARD},
    "surfaces/home.py": {
        "TokenFile.read": HOME, "TokenFile.write": HOME, "Home.running": HOME, "Home.make": HOME, "Home.lock": HOME,
        "Home.unlock": HOME,
    },
    "mcp/install.py": {"_keep": KEYBOARD, "_write": KEYBOARD, "_create": KEYBOARD},
    "mcp/tool_server.py": {"read_resource": PACKAGE},
    "surfaces/transports/socket.py": {"OwnerSocketServer.__init__": HOME, "OwnerSocketServer.close": HOME},
    "web/templates.py": {"StaticFiles.__init__": PACKAGE},
    "testing.py": {"Sandbox.__init__": NO_FILE},
    "texts/atomic_file.py": {
        "read": "the configuration, and files of clients by mcp install; no pipe, at most 10 MB",
        "replace": "the same", "_write": "the same", "_sync": "the same",
    },
}  # fmt: skip
"""Why a function may do it, by module."""


class Use(NamedTuple):
    function: str
    line: int
    text: str


def uses(text: str) -> list[Use]:
    """The places that open, list or change files, in each function. Names alone decide: types are not known."""
    tree = ast.parse(text)
    aliases = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }  # fmt: skip
    return [*_uses(tree, "", aliases)]


def _uses(node: ast.AST, function: str, aliases: dict[str, str]) -> Iterator[Use]:
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{function}.{child.name}".lstrip(".")
        if _is_use(child, aliases):
            yield Use(function, getattr(child, "lineno", 0), ast.unparse(child)[:100])
        yield from _uses(child, inner, aliases)


def _is_use(node: ast.AST, aliases: dict[str, str]) -> bool:
    if isinstance(node, ast.ImportFrom):
        return any(alias.name in MODULES.get(node.module or "", ()) for alias in node.names)
    if isinstance(node, ast.Attribute):
        module = aliases.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
        of_module = node.attr in MODULES.get(module, ()) and not node.attr.istitle()  # a class may be an annotation
        return of_module or (not module and node.attr in UNMISTAKABLE)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "open"
    if not isinstance(node.func, ast.Attribute):
        return False
    module = aliases.get(node.func.value.id, "") if isinstance(node.func.value, ast.Name) else ""
    if module in MODULES:  # functions are found by their names above
        return node.func.attr.istitle() and node.func.attr in MODULES[module]
    to_path = node.func.attr == "replace" and len(node.args) == 1 and not node.keywords
    return (node.func.attr in METHODS and node.func.attr not in UNMISTAKABLE) or to_path


def found() -> dict[str, list[Use]]:
    return {
        name: uses(path.read_text("utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
        if (name := path.relative_to(SOURCE).as_posix()) not in FREE
    }


def test_b16_files_are_touched_only_where_no_agent_can_lead_them_elsewhere() -> None:
    """B16: in every package; what is new goes through UntrustedFolder, or has a reason here"""
    new = {
        f"{name}:{use.line} {use.function or 'module'}": use.text
        for name, places in found().items()
        for use in places
        if use.function not in REASONS.get(name, {})
    }
    assert new == {}


def test_b16_every_reason_is_still_needed() -> None:
    """B16: the list has no entry that matches nothing"""
    there = {(name, use.function) for name, places in found().items() for use in places}
    stale = [f"{name} {function}" for name, of in REASONS.items() for function in of if (name, function) not in there]
    assert stale == []
    assert all((SOURCE / name).is_file() for name in FREE)


@pytest.mark.parametrize(
    "text",
    [
        "import os\ndef f(p): return os.open(p, 0)",
        "import os as system\ndef f(p): return system.listdir(p)",
        "from os import scandir",
        "import os\ndef f(p): g = os.rename",
        "def f(p): return open(p)",
        "def f(p):\n  with p.open() as file: pass",
        "def f(p): return p.read_text()",
        "from pathlib import Path\ndef f(ps): return map(Path.read_bytes, ps)",
        "def f(p): p.write_text('')",
        "def f(p): return list(p.glob('*'))",
        "class A:\n  def f(self, p): return [*p.iterdir()]",
        "def f(p, q): p.replace(q)",
        "def f(p, q): p.symlink_to(q)",
        "def f(p): p.chmod(1)",
        "import shutil\ndef f(p): shutil.rmtree(p)",
        "import apsw\ndef f(p): return apsw.Connection(p)",
        "import sqlite3\ndef f(p): return sqlite3.connect(p)",
        "import glob\ndef f(p): return glob.glob(p)",
        "import io\ndef f(p): return io.open(p)",
    ],
)
def test_it_finds(text: str) -> None:
    assert uses(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "def f(s): return s.replace('a', 'b')",
        "def f(d): return d.replace(tzinfo=None)",
        "import os\ndef f(p): return os.path.realpath(p), os.stat(p), os.close(p)",
        "import shutil\ndef f(p): return shutil.which(p)",
        "def f(p): return p.is_dir(), p.stat(), p.exists()",
        "import socket\ndef f(s): s.connect('')",
    ],
)
def test_it_lets_pass(text: str) -> None:
    assert uses(text) == []
