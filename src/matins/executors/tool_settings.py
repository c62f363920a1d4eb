"""The settings of a tool for its runs: nothing is written into the workdir, and nothing by the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping

from matins.executors.inside import script
from matins.executors.processes.launch import Account
from matins.executors.runners.protocol import ToolSettings

_SCRIPT = script("tool_setup")
_IF_VISIBLE = """
[ -x "$1" ] && exec "$@"
shift 5
unset MATINS_TOOL_SETTINGS
echo "$1 starts without the tools of Matins: this account cannot run its Python." >&2
exec "$@"
"""


def setup_command(account: Account | None) -> tuple[str, ...]:
    """The words before the tool's command: they write its settings with the rights of the run, then become the tool."""
    return _SCRIPT if account is None else ("/bin/sh", "-c", _IF_VISIBLE, "matins", *_SCRIPT)


def setup_variables(path: str, settings: ToolSettings, given: Mapping[str, str]) -> dict[str, str]:
    """What those words must know, but for the tool: the settings, and where they are written, without an extension."""
    locale = {name: text for name, text in given.items() if name == "LC_CTYPE"}
    document = {**settings._asdict(), "path": path, "locale": locale}
    return {"MATINS_TOOL_SETTINGS": json.dumps(document)}
