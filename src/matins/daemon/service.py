"""The daemon as a service of this machine, which starts it again: systemd for a user or the machine, or launchd."""

from __future__ import annotations

import os
import plistlib
import pwd
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from matins.daemon import systemd
from matins.errors import Conflict, InvalidInput, MatinsError, unwritable
from matins.surfaces.home import Home, absolute_url, redacted_url

_MARK = "Written by `matins service install`, which writes it again: do not edit it."
_LABEL = "matins"
_PROPERTY_LIST = Path("~/Library/LaunchAgents/matins.plist")
_SYSTEM_HOME = Path("/var/lib/matins")
_SYSTEMD_RUNS = Path("/run/systemd/system")
_TIMEOUT_S = 90
_Command = tuple[str, ...]


class Service(NamedTuple):
    path: Path
    text: str
    home: Path
    account: str | None
    """The account of a daemon that belongs to the machine; None for one of the current user."""
    private: Path
    """The file, which only its owner can read, for the URL of a store with a password."""
    secret_url: str | None

    def install(self) -> dict[str, Any]:
        """Write the file and start the service. When it does not start, the machine is as it was before."""
        self._check_manager()
        before = self._own_text()
        if before is None and (running := Home(self.home).running()):
            hint = f"Stop it first: Ctrl-C in its terminal, or kill {running.pid}"
            raise Conflict(f"A daemon of {self.home} runs already: process {running.pid}.", hint=hint)
        commands = [*self._made_account()]
        if self.secret_url:
            _write(self.private, f"MATINS_STORE={shlex.quote(self.secret_url)}\n", 0o600)
        _write(self.path, self.text)
        try:
            commands += [_run(command) for command in self._start(loaded=before is not None)]
        except MatinsError as failed:
            message = " ".join([failed.message, *self._undo(before)])
            raise MatinsError(message, hint=failed.hint or self._log()) from failed
        linger, note = self._linger()
        return {**self._done(commands + linger), "note": note}

    def remove(self) -> dict[str, Any]:
        """Stop the service and remove its file. The home, with the store, stays."""
        self._check_manager()
        text = self._own_text()
        if text is None:
            hint = "As root it is the service of the machine that is removed; as a user, that user's own."
            raise InvalidInput(f"There is no service at {self.path}.", hint=hint)
        commands = [_run(command) for command in self._stop()]
        for path in (self.path, *((self.private,) if self._names_private(text) else ())):
            with unwritable(path):
                path.unlink(missing_ok=True)
        commands += [_run(command) for command in self._reload()]
        return self._done(commands)

    def _done(self, commands: list[str]) -> dict[str, Any]:
        return {"path": str(self.path), "home": str(self.home), "log": self._log(), "commands": commands}

    def _log(self) -> str:
        """The command that shows what the daemon says."""
        if sys.platform == "darwin":
            return f"tail -f {shlex.quote(str(self.home / 'daemon.log'))}"
        return f"journalctl {'' if self.account else '--user '}-u matins -n 20"

    def _check_manager(self) -> None:
        if sys.platform != "darwin" and not _SYSTEMD_RUNS.exists():
            hint = "Keep `matins up` running by what starts programs here; `matins service install --print` has a unit."
            raise InvalidInput("systemd does not run on this machine.", hint=hint)

    def _own_text(self) -> str | None:
        """The file that is there now. Raises Conflict when Matins did not write it."""
        try:
            found = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        if _MARK not in found:
            path = shlex.quote(str(self.path))
            hint = f"Look at it, and move it away: mv {path} {path}.old"
            raise Conflict(f"{self.path} was not written by Matins.", hint=hint)
        return found

    def _names_private(self, text: str) -> bool:
        return f"EnvironmentFile={self.private}\n" in text

    def _made_account(self) -> list[str]:
        """Make the account of a daemon that belongs to the machine. Raises InvalidInput if it cannot start Matins."""
        if self.account is None:
            return []
        commands: list[str] = []
        try:
            pwd.getpwnam(self.account)
        except KeyError:
            shell = "/usr/sbin/nologin"
            made = ("useradd", "--system", "--user-group", "--home-dir", str(self.home), "--shell", shell, self.account)
            commands = [_run(made)]
        _check_reach(self.account)
        return commands

    def _start(self, *, loaded: bool) -> list[_Command]:
        if sys.platform == "darwin":
            domain = f"gui/{os.getuid()}"
            ended = [("launchctl", "bootout", f"{domain}/{_LABEL}")] if loaded else []
            return [*ended, ("launchctl", "bootstrap", domain, str(self.path))]
        unit = self.path.name
        return [*self._reload(), self._systemctl("enable", unit), self._systemctl("restart", unit)]

    def _stop(self) -> list[_Command]:
        if sys.platform == "darwin":
            return [("launchctl", "bootout", f"gui/{os.getuid()}/{_LABEL}")]
        return [self._systemctl("disable", "--now", self.path.name)]

    def _reload(self) -> list[_Command]:
        return [] if sys.platform == "darwin" else [self._systemctl("daemon-reload")]

    def _systemctl(self, *words: str) -> _Command:
        return ("systemctl", *(() if self.account else ("--user",)), *words)

    def _undo(self, before: str | None) -> list[str]:
        """Put back what was there before a start that failed. The sentences say what did not work."""
        try:
            if before is None:
                self.remove()
            else:
                _write(self.path, before)
                if self.secret_url and not self._names_private(before):
                    self.private.unlink(missing_ok=True)
                for command in self._start(loaded=False):
                    _run(command)
        except MatinsError as failed:
            return [f"It could not be undone: {failed.message}"]
        return []

    def _linger(self) -> tuple[list[str], str | None]:
        """Let the services of this user go on after they log out. The note says why they will not."""
        if self.account or sys.platform == "darwin":
            return [], None
        user = pwd.getpwuid(os.getuid()).pw_name
        try:
            if _output(("loginctl", "show-user", user, "--property=Linger", "--value")) == "yes":
                return [], None
            return [_run(("loginctl", "enable-linger"))], None
        except MatinsError as failed:
            return [], f"The daemon stops when you log out: {failed.message} As root: loginctl enable-linger {user}"


def service(
    store: str | None = None,
    file: str | Path | None = None,
    home: str | Path | None = None,
    *,
    system: bool | None = None,
) -> Service:
    """The service of this user; for root, that of the machine, with an account of its own."""
    mac = sys.platform == "darwin"
    system = os.geteuid() == 0 if system is None else system
    if system and mac:
        raise InvalidInput("On macOS the daemon is a service of a user.", hint="Run it as the user of the agents.")
    folder = Home(home).path if home or not system else _SYSTEM_HOME
    # -P: otherwise matins.py in the working directory would be the daemon.
    argv = [sys.executable, "-P", "-m", "matins", "--home", str(folder), "up"]
    private = (Path("/etc/matins") if system else folder) / "environment"
    url = absolute_url(store) if store else None
    secret_url = url if url and redacted_url(url) != url else None
    if secret_url and mac:
        hint = "Omit the password in the URL, and put it into ~/.pgpass, which only you can read."
        raise InvalidInput("Every user can read a property list, and the URL has a password.", hint=hint)
    argv += ["--store", url] if url and not secret_url else []
    argv += ["--file", str(Path(file).absolute())] if file else []
    for given in (*argv, str(private), secret_url or "", os.environ.get("PATH", "")):
        if not given.isprintable():  # a line break would begin another setting of the unit
            shown, hint = ascii(given), "Use a path without line breaks and control characters."
            raise InvalidInput(f"A service cannot have {shown}.", value=shown, field="service", hint=hint)
    if mac:
        path, text = _PROPERTY_LIST.expanduser(), _property_list(argv, folder)
    else:
        path = systemd.unit_folder(system=system) / "matins.service"
        text = systemd.systemd_unit(argv, folder, _MARK, private if secret_url else None, system=system)
    return Service(path, text, folder, systemd.ACCOUNT if system else None, private, secret_url)


def _property_list(argv: list[str], folder: Path) -> str:
    """What launchd reads, for the user whose agents the daemon wakes."""
    settings = {
        "Label": _LABEL,
        "ProgramArguments": list(argv),
        "EnvironmentVariables": {"PATH": os.environ.get("PATH", os.defpath)},
        "RunAtLoad": True,
        # A daemon that ends by itself stays ended; one that crashes starts again.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 2,
        # Agents have their own supervisors, and continue when the daemon dies: the next one takes them over.
        "AbandonProcessGroup": True,
        "ExitTimeOut": 60,
        # Without it, timers of the daemon would be delayed to save power.
        "ProcessType": "Interactive",
        "StandardOutPath": str(folder / "daemon.log"),
        "StandardErrorPath": str(folder / "daemon.log"),
    }
    head, root, rest = plistlib.dumps(settings, sort_keys=False).decode().partition("<plist")
    return f"{head}<!-- {_MARK} -->\n{root}{rest}"


def _check_reach(account: str) -> None:
    """Raise InvalidInput if the account cannot start Matins, as where it is installed in a closed folder of root."""
    command = (sys.executable, "-P", "-m", "matins", "--version")
    try:
        tried = subprocess.run(
            command, user=account, group=account, extra_groups=[], cwd="/", capture_output=True, text=True, timeout=60
        )
        problem = tried.stderr.strip().rpartition("\n")[2] if tried.returncode else ""
    except PermissionError as error:
        problem = f"{error.strerror}: {error.filename or sys.executable}"
    if problem:
        hint = (
            "Install Matins where every account can read it, as in /opt; or install the service as an ordinary user, "
            "whose agents it wakes."
        )
        raise InvalidInput(f'The account "{account}" cannot start Matins: {problem}', hint=hint)


def _run(command: _Command) -> str:
    """The command as it was run."""
    _output(command)
    return shlex.join(command)


def _output(command: _Command) -> str:
    environment = dict(os.environ)
    own = f"/run/user/{os.getuid()}"
    if "XDG_RUNTIME_DIR" not in environment and Path(own).is_dir():  # after su and sudo
        environment["XDG_RUNTIME_DIR"] = own
    typed = shlex.join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MatinsError(f"{typed} did not work: {error}.", hint=_hint(command)) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise MatinsError(f"{typed} did not work: {said}", hint=_hint(command))
    return done.stdout.strip()


def _hint(command: _Command) -> str | None:
    """What helps where systemd does not know this user."""
    if "--user" in command and not Path(f"/run/user/{os.getuid()}").is_dir():
        user = pwd.getpwuid(os.getuid()).pw_name
        return f"Log in as {user} (by ssh, or as root by machinectl shell {user}@), not by su."
    return None


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    with unwritable(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755 if mode == 0o644 else 0o700)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            file.write(text)
