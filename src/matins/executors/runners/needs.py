"""What a tool needs to work without a person: its program, a key or a login, and a permission to do something."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ALWAYS = ("GH_TOKEN", "GITHUB_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
"""Variables that any tool may need to reach GitHub and its provider."""


class Permission(NamedTuple):
    """A permission mode of the tool in which an unattended run is of use, and its risk."""

    mode: str
    risk: str
    never_as_root: tuple[str, ...] = ()
    """Modes that the tool refuses as root."""
    asks: bool = False
    """Whether the tool, without a mode, asks a person, who is not there."""


class Needs(NamedTuple):
    install: str
    """The command that installs the tool."""
    keys: tuple[str, ...]
    """Variables; one of them is enough. None if the tool's own settings choose."""
    login: str
    """The command by which a person logs in instead."""
    logins: tuple[str, ...]
    """Files that a login leaves. A name in capitals is a variable with the directory, which has precedence."""
    permission: Permission | None = None
    variables: tuple[str, ...] = ()
    """Further variables that the tool reads."""

    def wanted(self) -> tuple[str, ...]:
        """All variables that a run of the tool should have, where the daemon has them."""
        return (*self.keys, *self.variables, *ALWAYS)

    def credential(self, environment: Mapping[str, str], home: Mapping[str, str]) -> str | None:
        """The key among the variables of an agent, or the file of a login; None when there is neither. `home` has the
        variables from which the tool finds its files."""
        key = next((name for name in self.keys if environment.get(name)), None)
        return key or next((str(path) for path in self._login_files({**home, **environment}) if path.is_file()), None)

    def _login_files(self, environment: Mapping[str, str]) -> list[Path]:
        found: list[Path] = []
        for text in self.logins:
            variable, _, rest = text.partition("/")
            if not variable.isupper():
                found.append(Path(environment.get("HOME", "/"), text))
            elif environment.get(variable):
                found.insert(0, Path(environment[variable], rest))
        return found
