"""Installs the tools, pinned, into a folder that outlives the run: npm fetches about 1.7 GB, once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from real.tools import INSPECTOR, NODE, OIDC_PROVIDER, TOOLS, Tool

_MIN_NODE = 22
_STAMP = "installed.json"


def cache() -> Path:
    """`MATINS_REAL_CACHE`, or a folder in the user's cache. Root's is closed to the account that drives the tools."""
    chosen = os.environ.get("MATINS_REAL_CACHE")
    if chosen:
        return Path(chosen)
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path("/var/cache") if os.geteuid() == 0 else usual) / "matins-real"


def installed(tools: Iterable[Tool]) -> Path:
    """The folder with the programs of these tools. What is missing is fetched."""
    prefix = cache() / "tools"
    _fetch(prefix, [f"{tool.package}@{tool.version}" for tool in TOOLS.values() if tool in tuple(tools)])
    programs = prefix / "bin"
    programs.mkdir(exist_ok=True)
    for tool in TOOLS.values():
        _link(prefix / "node_modules" / tool.program, programs / tool.name)
    if _node():
        _link(prefix / "node_modules" / ".bin" / "node", programs / "node")
    return programs


def inspector() -> Path:
    """The folder with `mcp-inspector`, apart from the tools, and with the node that it needs."""
    prefix = cache() / "inspector"
    _fetch(prefix, [INSPECTOR])
    return prefix / "node_modules" / ".bin"


def oidc_provider() -> Path:
    """The folder in which `oidc-provider` is installed."""
    prefix = cache() / "oidc"
    _fetch(prefix, [OIDC_PROVIDER])
    return prefix


def _fetch(prefix: Path, packages: list[str]) -> None:
    """Install what is missing, and node where the machine's is too old."""
    stamp = prefix / _STAMP
    have: list[str] = json.loads(stamp.read_text()) if stamp.exists() else []
    missing = [package for package in (*packages, *_node()) if package not in have]
    if missing:
        _install(prefix, missing)
        stamp.write_text(json.dumps(sorted({*have, *missing})))


def _install(prefix: Path, packages: list[str]) -> None:
    if shutil.which("npm") is None:
        raise SystemExit(
            "npm is not on PATH: it installs the tools. Debian and Ubuntu have it as `apt-get install npm`."
        )
    prefix.mkdir(parents=True, exist_ok=True)
    manifest = prefix / "package.json"
    if not manifest.exists():
        manifest.write_text('{"private": true}\n')
    quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--save-exact")
    subprocess.run(["npm", "install", *quiet, *packages], cwd=prefix, check=True)


def _node() -> tuple[str, ...]:
    found = shutil.which("node")
    if found is None:
        return (NODE,)
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    return () if int(version.strip().lstrip("v").partition(".")[0] or 0) >= _MIN_NODE else (NODE,)


def _link(program: Path, name: Path) -> None:
    name.unlink(missing_ok=True)
    if program.exists():
        name.symlink_to(program)


def version_of(programs: Path, tool: Tool) -> str:
    """The version that the program tells, which need not be that of its package."""
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(cache())}
    told = subprocess.run(
        [programs / tool.name, "--version"], capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    words = (told.stdout + told.stderr).split()
    return next((word for word in words if word[:1].isdigit()), "unknown")
