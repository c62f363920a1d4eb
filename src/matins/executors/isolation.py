"""What the processes of an agent may see of Matins, on this machine."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from matins.errors import InvalidInput
from matins.executors.processes.launch import Account
from matins.executors.processes.walls import Layout, Probe
from matins.model.agent import Agent
from matins.runtime.agent_folders import AGENTS

NOT_ISOLATED = "not isolated"


class Places(NamedTuple):
    """Where Matins keeps its files on this machine."""

    runs: Path
    """Journals and output of runs."""
    home: Path | None = None
    """None for a program that embeds Matins."""
    store: Path | None = None
    """The file of the store; None for a server."""
    socket: Path | None = None
    """The owner's socket."""
    config: Path | None = None
    """matins.yaml"""


class Isolation:
    """Decides the layout of each run. The folders to hide are found once: every run has the same."""

    def __init__(self, places: Callable[[], Places], probe: Callable[[], Probe]) -> None:
        self._find_places = places
        self.probe = probe
        """Whether this machine can isolate agents."""
        self._hidden: tuple[str, ...] | None = None

    @cached_property
    def _places(self) -> Places:
        return self._find_places()

    def open_files(self) -> list[Path]:
        """Files of Matins that isolated agents see, because they are among other files."""
        return open_files(self._places)

    def layout(self, agent: Agent, workdir: str, own: str) -> Layout | None:
        """The layout of a run; None when it is not isolated. `own` is the agent's own folder, always in view."""
        refusal = self.refusal(agent)
        if refusal is not None:
            if agent.isolation == "required":
                hint = fix_of(self.probe())
                raise InvalidInput(f"It cannot be isolated: {refusal}.", field="isolation", hint=hint)
            return None
        if self._hidden is None:
            self._hidden = tuple(hidden_folders(self._places))
        more = tuple(_real(Path(path).expanduser()) for path in agent.hidden if Path(path).expanduser().is_dir())
        hidden = tuple(_outermost([*self._hidden, *more]))
        kept = tuple(dict.fromkeys(_real(Path(path)) for path in (own, workdir) if self._is_agents(path)))
        kept = tuple(path for path in kept if any(is_below(path, cover) for cover in hidden))
        return Layout(hidden, kept, tuple(frozen_folders(workdir)))

    def out_of_reach(self) -> tuple[str, ...]:
        """The folders that isolated agents cannot write, as they are now: some are made with the first run."""
        return (*hidden_folders(self._find_places()), *frozen_folders("/"))

    def refusal(self, agent: Agent) -> str | None:
        """Why runs of this agent are not isolated; None when they are."""
        if agent.isolation == "none":
            return "the owner turned it off"
        if os.getuid() == 0 and agent.user is None:
            return "Matins is root, and the agent has no user of its own"
        probe = self.probe()
        return None if probe.works else probe.problem

    def _is_agents(self, folder: str) -> bool:
        """Whether it is a folder below `agents` in the home or beside the store."""
        roots = [self._places.home, None if self._places.store is None else self._places.store.parent]
        below = any(root is not None and is_below(_real(Path(folder)), _real(root / AGENTS)) for root in roots)
        return below and Path(folder).is_dir()

    def check_workdir(self, agent: Agent, workdir: str, *, isolated: bool) -> None:
        """Raise InvalidInput for a folder in which the agent could change what governs it."""
        home, folder = self._places.home, _real(Path(workdir))
        if home is None or self._is_agents(workdir):
            return
        inside = folder == _real(home) or is_below(folder, _real(home))
        if inside or (not isolated and is_below(_real(home), folder)):
            where = "is in" if inside else "holds"
            message = f"The workdir {workdir} {where} the home of Matins."
            hint = f"Omit it for the agent's own directory, {AGENTS}/{agent.name}, or name another."
            raise InvalidInput(message, value=workdir, field="workdir", hint=hint)


def account_of(agent: Agent) -> Account | None:
    """The account that the agent runs as; None for Matins' own."""
    if agent.user is None:
        return None
    try:
        found = pwd.getpwnam(agent.user)
    except KeyError:
        message = f'There is no user "{agent.user}".'
        raise InvalidInput(message, value=agent.user, field="user", hint=f"useradd -m {agent.user}") from None
    if found.pw_uid == os.getuid():
        return None
    if os.getuid() != 0:
        message = f"Only root can start processes of {agent.user}."
        raise InvalidInput(message, value=agent.user, field="user", hint="Run Matins as root, or omit it.")
    return Account(found.pw_uid, found.pw_gid, tuple(os.getgrouplist(agent.user, found.pw_gid)))


def account_variables(agent: Agent) -> dict[str, str]:
    """The variables that belong to the account."""
    if agent.user is None:
        return {}
    found = pwd.getpwnam(agent.user)
    return {"HOME": found.pw_dir, "USER": agent.user, "LOGNAME": agent.user, "SHELL": found.pw_shell}


# -- folders


def hidden_folders(places: Places) -> list[str]:
    """The folders of Matins, and every other path to them."""
    found = [places.home, places.runs, *_of_socket(places), *_of_store(places)]
    paths = [_real(folder) for folder in found if folder is not None and folder.is_dir()]
    mounts = _mounts()
    return _outermost([*paths, *(other for path in paths for other in _other_paths(path, mounts))])


def open_files(places: Places) -> list[Path]:
    """Files of Matins that agents see although they are isolated, because they are among other files."""
    hidden = hidden_folders(places)
    files = [places.store, places.config, places.socket]
    return [
        file
        for file in files
        if file is not None and file.exists() and not any(is_below(_real(file), cover) for cover in hidden)
    ]


def _of_store(places: Places) -> Iterator[Path]:
    """The folder of the store, when it holds nothing else."""
    store = places.store
    if store is None or not store.parent.is_dir():
        return
    names = {entry.name for entry in store.parent.iterdir()} - {AGENTS}
    if all(name.startswith(store.name) for name in names):
        yield store.parent


def _of_socket(places: Places) -> Iterator[Path]:
    """The socket's own folder in the temporary directory, if it is there."""
    if places.socket is not None and places.socket.parent.name == f"matins-{os.getuid()}":
        yield places.socket.parent


def frozen_folders(workdir: str) -> Iterator[str]:
    """The environment that Matins runs from: whoever changes it is the engine after the next start."""
    prefix = _real(Path(sys.prefix))
    folder = _real(Path(workdir))
    if sys.prefix != sys.base_prefix and prefix != folder and not is_below(prefix, folder):
        yield prefix


def is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _outermost(paths: list[str]) -> list[str]:
    """The paths without those that are below another."""
    distinct = list(dict.fromkeys(paths))
    return [path for path in distinct if not any(is_below(path, other) for other in distinct)]


class _Mount(NamedTuple):
    device: str
    root: str
    point: str


def _mounts() -> list[_Mount]:
    try:
        text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    rows = [line.split() for line in text.splitlines()]
    return [_Mount(row[2], _unescaped(row[3]), _unescaped(row[4])) for row in rows if len(row) > 5]


def _unescaped(text: str) -> str:
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        text = text.replace(f"\\{code}", character)
    return text


def _other_paths(path: str, mounts: list[_Mount]) -> Iterator[str]:
    """Other paths to the same folder: mounts of its device that show it too."""
    here = max((mount for mount in mounts if _is_at(path, mount.point)), key=lambda m: len(m.point), default=None)
    if here is None:
        return
    inner = _joined(here.root, path[len(here.point.rstrip("/")) :])
    for mount in mounts:
        if mount.device == here.device and mount.point != here.point and _is_at(inner, mount.root):
            other = _joined(mount.point, inner[len(mount.root.rstrip("/")) :])
            if _same_folder(path, other):
                yield other


def _is_at(path: str, root: str) -> bool:
    return path == root or is_below(path, root)


def _joined(root: str, rest: str) -> str:
    return (root.rstrip("/") + rest) or "/"


def _same_folder(path: str, other: str) -> bool:
    try:
        return Path(path).samefile(other)
    except OSError:
        return False


# -- what to do about it


def fix_of(probe: Probe) -> str:
    """What makes isolation possible, by the step that the kernel refuses."""
    if sys.platform != "linux":
        return "Run Matins on Linux for isolation, or agents in an account of their own."
    if os.getuid() == 0:
        return "Give the agent an account of its own: matins agents edit NAME --user ACCOUNT."
    if _sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    if _sysctl("user/max_user_namespaces") == "0":
        return "sudo sysctl user.max_user_namespaces=10000"
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        return "sudo sysctl kernel.unprivileged_userns_clone=1"
    if probe.step == "unshare":
        return "In a container: allow unshare and mount (seccomp), or run agents in a container of their own."
    if probe.step in ("setgroups", "uid_map", "gid_map"):  # AppArmor's setting may be out of sight
        return "On Ubuntu: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0. Otherwise see docs/security.md."
    return "See docs/security.md, or set isolation: none."


def _sysctl(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text(encoding="ascii").strip()
    except OSError:
        return None
