"""The tables of words in docs/file.md, and the schema that is shipped. Run it to renew both."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matins.config
from matins.config.examples import EXAMPLES, TOP
from matins.config.json_schema import SHIPPED, written
from matins.config.presets import PRESETS
from matins.config.words import DEFAULTS, NUMBERED, SECTIONS, SIMPLE, Word

PAGE = Path(__file__).parents[2] / "docs" / "file.md"
SCHEMA = Path(matins.config.__file__).with_name(SHIPPED)
_TABLE = re.compile(r"<!-- words: (\w+) -->\n.*?<!-- end -->\n", re.DOTALL)


def rendered(page: str) -> str:
    return _TABLE.sub(lambda match: f"<!-- words: {match[1]} -->\n{_table(match[1])}<!-- end -->\n", page)


def _table(name: str) -> str:
    if name == "file":
        return _top()
    if name == "presets":
        return _presets()
    section = SECTIONS[name]
    return _rows((word, said, EXAMPLES[section.kind][word]) for word, said in section.table.items())


def _top() -> str:
    simple = [(name, word, TOP[name]) for name, word in [*SIMPLE.items(), *NUMBERED.items()]]
    named = [(name, Word(section.says), None) for name, section in SECTIONS.items()]
    defaults = (DEFAULTS, Word("What schedules say where they do not say otherwise."), {"timezone": "Europe/Berlin"})
    return _rows([*simple, defaults, *named])


def _rows(rows) -> str:
    lines = ["| word | what it says | example |", "| --- | --- | --- |"]
    for name, word, example in rows:
        choices = f" One of: {', '.join(word.choices)}." if word.shape == "choice" else ""
        shown = "see below" if example is None else f"`{name}: {_yaml(example)}`"
        lines.append(f"| `{name}` | {word.says}{choices} | {shown} |")
    return "\n".join(lines) + "\n"


def _yaml(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value) if not isinstance(value, dict) else "{" + ", ".join(
        f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"  # fmt: skip


def _presets() -> str:
    lines = ["| preset | schedules | intervals | one-shots | the file |", "| --- | --- | --- | --- | --- |"]
    for name, preset in PRESETS.items():
        whole = dict(preset.limits) | ({"floor": preset.floor} if preset.floor else {})
        whole |= {"cron fields": preset.fields} if preset.fields else {}
        cells = [", ".join(f"`{w}: {_yaml(v)}`" for w, v in words.items())
                 for words in (preset.words, preset.interval, preset.once, whole)]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(written(), encoding="utf-8")
