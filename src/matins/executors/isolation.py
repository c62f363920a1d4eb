"""What the processes of an agent may see of Matins, on this machine."""

from __future__ import annotations

import os
import pwd
import shlex
import site
import socket
import stat
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from matins.errors import InvalidInput
from matins.executors.processes.launch import Account
from matins.executors.processes.walls import Layout, Probe
from matins.executors.registry import runners
from matins.executors.runners.protocol import EndpointRunner
from matins.model.agent import Agent
from matins.runtime.agent_folders import AGENTS

NOT_ISOLATED = "not isolated"
_MAX_STORE_FILES = 1_000
"""Maximum number of files in the folder of a store; with more, it is no folder of its own."""
ROOT = "Matins is root, and the agent has no user: it could change everything here."
_MAX_LINKS = 40


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
        self.check(agent)
        if self.refusal(agent) is not None:
            return None
        if self._hidden is None:
            self._hidden = tuple(hidden_folders(self._places))
        more = tuple(_real(Path(path).expanduser()) for path in agent.hidden if Path(path).expanduser().is_dir())
        hidden = tuple(_outermost([*self._hidden, *more]))
        kept = tuple(dict.fromkeys(_real(Path(path)) for path in (own, workdir) if self._is_agents(path)))
        kept = tuple(path for path in kept if any(is_below(path, cover) for cover in hidden))
        account = account_of(agent)
        _make_user_site()
        frozen = frozen_folders(account)
        # Also on the ways by which the next engine finds what is hidden and frozen: they may lead through links.
        places, mounted = self._places, [*hidden, *frozen]
        folders = [places.home, places.runs, None if places.store is None else places.store.parent]
        ways = [str(path.absolute()) for path in folders if path is not None]
        pinned = pinned_steps([*mounted, *ways, *engine_paths()], mounted, account)
        return Layout(hidden, kept, tuple(frozen), tuple(pinned))

    def check(self, agent: Agent) -> None:
        """Raise InvalidInput for an agent that would be root, or that is not isolated although it must be."""
        check_account(agent)
        refusal = self.refusal(agent)
        if refusal is not None and agent.isolation == "required":
            hint = fix_of(self.probe(), agent)
            raise InvalidInput(f"It cannot be isolated: {refusal}.", field="isolation", hint=hint)

    def out_of_reach(self) -> tuple[str, ...]:
        """The folders that isolated agents cannot write, as they are now: some are made with the first run."""
        return (*hidden_folders(self._find_places()), *frozen_folders(None))

    def refusal(self, agent: Agent) -> str | None:
        """Why runs of this agent are not isolated; None when they are."""
        if agent.isolation == "none":
            return "the owner turned it off"
        if is_root(agent):
            return "Matins is root, and the agent has no user of its own"
        probe = self.probe()
        return None if probe.works else probe.problem

    def frozen_in(self, agent: Agent) -> list[str]:
        """The folders in the agent's workdir, or around it, that its runs cannot change."""
        if agent.workdir is None or not starts_process(agent.runner) or self.refusal(agent) is not None:
            return []
        folder = _real(Path(agent.workdir).expanduser())
        try:
            frozen = frozen_folders(account_of(agent))
        except InvalidInput:
            return []  # it cannot run at all, for another reason
        return [path for path in frozen if is_at(path, folder) or is_at(folder, path)]

    def is_owners(self, path: str) -> bool:
        """Whether it is a file in the home, by no link there, and not in a folder of an agent: no isolated agent can
        change or replace it. With `..` the way there may lead through a folder that becomes a link."""
        home = self._places.home
        if home is None or ".." in Path(path).parts or not _is_written_below(path, home):
            return False
        return not is_at(_real(Path(path)), f"{_real(home)}/{AGENTS}") and Path(path).is_file()

    def _is_agents(self, folder: str) -> bool:
        """Whether it is a folder below `agents` in the home or beside the store."""
        roots = [self._places.home, None if self._places.store is None else self._places.store.parent]
        below = any(root is not None and _is_written_below(folder, root / AGENTS) for root in roots)
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
    found = entry_of(agent.user)
    if found.pw_uid == os.getuid():
        return None
    if os.getuid() != 0:
        message = f"Only root can start processes of {agent.user}."
        raise InvalidInput(message, value=agent.user, field="user", hint="Run Matins as root, or omit it.")
    return Account(found.pw_uid, found.pw_gid, tuple(os.getgrouplist(agent.user, found.pw_gid)))


def check_account(agent: Agent, ways: str | None = None) -> None:
    """Raise InvalidInput for an agent that would be root, unless the owner turned isolation off. `ways` says what to do
    about it."""
    if needs_account(agent):
        more = "" if ways else "; or set isolation: none"
        hint = f"{ways or new_account(agent)}; or run Matins as an ordinary user{more}."
        raise InvalidInput(ROOT, value=agent.user, field="user", hint=hint)


def new_account(agent: Agent) -> str:
    """The commands that give the agent an account."""
    return f"useradd -m robin && matins agents edit {shlex.quote(agent.name)} --user robin"


def isolated_again(agent: Agent) -> str:
    """The commands that isolate an agent whose owner turned it off. Root's agent needs an account then."""
    again = replace(agent, isolation="auto")
    edit = new_account(agent) if needs_account(again) else f"matins agents edit {shlex.quote(agent.name)}"
    return f"{edit} --isolation auto"


def needs_account(agent: Agent) -> bool:
    return agent.isolation != "none" and starts_process(agent.runner) and is_root(agent)


def starts_process(runner: str) -> bool:
    """Whether this runner starts a program that does what a prompt says."""
    found = runners().get(runner)
    return not isinstance(found, EndpointRunner) and not getattr(found, "only_reports", False)


def is_root(agent: Agent) -> bool:
    """Whether processes of the agent are root's."""
    if os.geteuid() != 0 or agent.user is None:
        return os.geteuid() == 0
    try:
        return pwd.getpwnam(agent.user).pw_uid == 0
    except KeyError:
        return False  # it cannot run at all


def account_variables(agent: Agent) -> dict[str, str]:
    """The variables that belong to the account."""
    if agent.user is None:
        return {}
    found = entry_of(agent.user)
    shell = "/bin/sh" if Path(found.pw_shell).name in _NO_SHELLS else found.pw_shell
    return {"HOME": found.pw_dir, "USER": agent.user, "LOGNAME": agent.user, "SHELL": shell}


_NO_SHELLS = frozenset(["", "nologin", "false"])
"""Shells of accounts that nobody logs in to. Programs that start `$SHELL` would fail."""


def entry_of(user: str) -> pwd.struct_passwd:
    """The account of that name. Raises InvalidInput if this machine has none."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        message = f'There is no user "{user}" on {socket.gethostname()}.'
        raise InvalidInput(message, value=user, field="user", hint=f"useradd -m {shlex.quote(user)}") from None


# -- folders


def hidden_folders(places: Places) -> list[str]:
    """The folders of Matins, and every other path to them."""
    paths = [_real(folder) for folder in own_folders(places)]
    mounts = _mounts()
    return _outermost([*paths, *(other for path in paths for other in _other_paths(path, mounts))])


def own_folders(places: Places) -> list[Path]:
    """The folders of Matins: its home, the runs, and those of socket and store when they hold nothing else."""
    found = [places.home, places.runs]
    if places.socket is not None and places.socket.parent.name == f"matins-{os.getuid()}":
        found.append(places.socket.parent)  # its own folder in the temporary directory
    found += _of_store(places)
    return [folder for folder in found if folder is not None and folder.is_dir()]


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
    with os.scandir(store.parent) as entries:  # an agent may have filled it, so it is not listed to its end
        names = [entry.name for entry in islice(entries, _MAX_STORE_FILES + 1)]
    if len(names) <= _MAX_STORE_FILES and all(name == AGENTS or name.startswith(store.name) for name in names):
        yield store.parent


def frozen_folders(account: Account | None) -> list[str]:
    """What Matins runs from, where the account could change it: a changed file would be the engine after a restart."""
    return _outermost([os.path.realpath(path) for path in engine_paths() if _may_change(path, account)])


def _make_user_site() -> None:
    """Python imports from this folder when it starts. A missing one cannot be frozen, and an agent could make it."""
    if site.ENABLE_USER_SITE:
        with suppress(OSError):  # where this user cannot make it, an agent of the same user cannot either
            Path(site.getusersitepackages()).mkdir(parents=True, exist_ok=True)


@cache
def engine_paths() -> tuple[str, ...]:
    """The interpreter, its environment, and the folders that Matins and its libraries are imported from."""
    found = [str(Path(__file__).parents[2]), *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))]
    found += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    found += [sys.prefix] if sys.prefix != sys.base_prefix else []  # otherwise it holds more than Python
    return tuple(dict.fromkeys([*found, *([sys.executable] if sys.executable else [])]))


def pinned_steps(ways: Sequence[str], mounted: Sequence[str], account: Account | None) -> list[str]:
    """The folders and links that these paths lead through and that the account could replace, outermost first. What is
    mounted upon cannot be renamed, and what is below that is hidden or frozen."""
    steps = dict.fromkeys(step for way in ways for step in _steps(way))
    found = [step for step in steps if not any(is_at(step, path) for path in mounted) and _may_replace(step, account)]
    return sorted(found, key=lambda step: step.count("/"))


def _steps(path: str) -> Iterator[str]:
    """Every folder and link that a path leads through. What is above a step is no link."""
    at, names, links = "", path.split("/"), 0
    while names:
        name = names.pop(0)
        if name == "..":
            at = at.rpartition("/")[0]
        if name in ("", ".", ".."):
            continue
        yield (step := f"{at}/{name}")
        target = _link(step)
        if target is None or links == _MAX_LINKS:
            at = step
        else:
            links += 1
            names, at = [*target.split("/"), *names], "" if target.startswith("/") else at


def _link(path: str) -> str | None:
    return os.readlink(path) if os.path.islink(path) else None  # noqa: PTH114, PTH115 - before every run


def _may_replace(path: str, account: Account | None) -> bool:
    """Whether the account could put something else in the place of this folder or link."""
    above = path.rpartition("/")[0] or "/"
    try:
        status, around = os.lstat(path), os.stat(above)  # noqa: PTH116 - before every run
    except OSError:
        return False  # it is not there
    uid = os.getuid() if account is None else account.uid
    kept = around.st_mode & stat.S_ISVTX and uid not in (status.st_uid, around.st_uid)
    return not kept and _may_change(above, account)


def _may_change(path: str, account: Account | None) -> bool:
    """Whether the account could write it, or give itself the right to."""
    try:
        status = os.stat(path)  # noqa: PTH116 - before every run
    except OSError:
        return False  # it is not there
    if account is None:
        return status.st_uid == os.getuid() or os.access(path, os.W_OK)
    if status.st_uid == account.uid:
        return True
    in_group = status.st_gid in (account.gid, *account.groups)
    return bool(status.st_mode & (stat.S_IWGRP if in_group else stat.S_IWOTH))


def is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _is_written_below(path: str, folder: Path) -> bool:
    """Whether a path is written as one below the folder, and is one: a link on the way may lead to another agent."""
    written, real = os.path.abspath(path), _real(folder)  # noqa: PTH100
    for form in (os.path.abspath(folder), real):  # noqa: PTH100
        if is_below(written, form):
            return _real(Path(path)) == real + written[len(form) :]
    return False


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
    here = max((mount for mount in mounts if is_at(path, mount.point)), key=lambda m: len(m.point), default=None)
    if here is None:
        return
    inner = _joined(here.root, path[len(here.point.rstrip("/")) :])
    for mount in mounts:
        if mount.device == here.device and mount.point != here.point and is_at(inner, mount.root):
            other = _joined(mount.point, inner[len(mount.root.rstrip("/")) :])
            if _same_folder(path, other):
                yield other


def is_at(path: str, root: str) -> bool:
    return path == root or is_below(path, root)


def _joined(root: str, rest: str) -> str:
    return (root.rstrip("/") + rest) or "/"


def _same_folder(path: str, other: str) -> bool:
    try:
        return Path(path).samefile(other)
    except OSError:
        return False


# -- what to do about it


def fix_of(probe: Probe, agent: Agent | None = None) -> str:
    """What makes isolation possible: for an agent that would be root, an account; otherwise by the step that the kernel
    refuses."""
    if sys.platform != "linux":
        return "Run Matins on Linux for isolation, or agents in an account of their own."
    if agent is not None and is_root(agent):
        return new_account(agent)
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
