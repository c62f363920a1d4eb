"""The tables in docs/file.md, from the declarations. Run it to renew them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matins.config.presets import PRESETS
from matins.config.reader import DEFAULTS, DEFAULTS_HELP, SCHEDULE, SCHEDULES, SCHEDULES_HELP, TOP, sections, singles
from matins.engine.settings import format_setting
from matins.model.settings import Choice, Declared
from matins.records.kind import RecordKind

PAGE = Path(__file__).parents[2] / "docs" / "file.md"
_MARK = re.compile(r"<!-- settings: (\w+) -->\n.*?<!-- end -->\n", re.DOTALL)
_HEAD = "| setting | what it is | example |\n| --- | --- | --- |\n"
Row = tuple[str, str, object]


def rendered() -> str:
    """The page with every table written again; `others` are the sections that have no place of their own."""
    page = PAGE.read_text(encoding="utf-8")
    own = set(_MARK.findall(page))
    blocks = {name: kind for name, kind in singles().items() if not kind.alone}
    parts = {name: _section(kind) for name, kind in {**sections(), **blocks}.items()}
    parts |= {"file": _file(), SCHEDULES: _table(map(_row, SCHEDULE.values())), "presets": _presets()}
    others = [name for name in (*sections(), *blocks) if name not in own]
    parts["others"] = "\n".join(f"## {_title(name)}\n\n{parts[name]}" for name in others)
    return _MARK.sub(lambda match: f"<!-- settings: {match[1]} -->\n{parts[match[1]]}<!-- end -->\n", page)


def _title(noun: str) -> str:
    return noun.replace("_", " ").capitalize().replace("Http", "HTTP")


def _section(kind: RecordKind[Any]) -> str:
    alone = f" A bare value is its `{kind.alone}`." if kind.alone else ""
    return f"{kind.file_help}{alone}\n\n{_table(map(_row, kind.table.values()))}"


def _file() -> str:
    """The keys of the file itself."""
    rows = [_row(declared) for declared in TOP.values()]
    rows += [(name, kind.file_help, _alone(kind)) for name, kind in singles().items()]
    rows += [(DEFAULTS, DEFAULTS_HELP, {"timezone": "Europe/Berlin"}), (SCHEDULES, SCHEDULES_HELP, None)]
    rows += [(name, kind.file_help, None) for name, kind in sections().items()]
    return _table(rows)


def _alone(kind: RecordKind[Any]) -> object:
    return kind.table[kind.alone].setting.example if kind.alone else None


def _row(declared: Declared) -> Row:
    kind, usual = declared.kind, None
    if declared.default not in (None, "", (), {}):
        usual = format_setting(declared, declared.default)
    parts = [declared.setting.help]
    parts += [f"One of: {', '.join(kind.values)}."] if isinstance(kind, Choice) else []
    if declared.setting.required:
        parts.append("Required.")
    elif usual is not None and not declared.help_has_default:
        parts.append(f"Default: {_yaml(usual)}.")
    return declared.name, " ".join(parts), declared.setting.example


def _table(rows: Iterable[Row]) -> str:
    return _HEAD + "".join(f"| `{name}` | {text} | {_example(name, example)} |\n" for name, text, example in rows)


def _example(name: str, example: object) -> str:
    return "see below" if example is None else f"`{name}: {_yaml(example)}`"


def _yaml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)


def _presets() -> str:
    lines = ["| preset | schedules | intervals | one-shots | the file |", "| --- | --- | --- | --- | --- |"]
    for name, preset in PRESETS.items():
        whole = dict(preset.limits) | ({"min_interval": preset.min_interval} if preset.min_interval else {})
        whole |= {"cron fields": preset.fields} if preset.fields else {}
        whole |= {f"{setting} of agents": value for setting, value in preset.agent.items()}
        cells = [
            ", ".join(f"`{setting}: {_yaml(value)}`" for setting, value in settings.items())
            for settings in (preset.settings, preset.interval, preset.once, whole)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")
