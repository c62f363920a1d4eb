"""A selector as a condition of a statement, which has `/* selected */` where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from matins.model.overview import pattern
from matins.model.run import RunState
from matins.model.selector import LABEL, Selector, Term, Value

_MARK = "/* selected */"
"""Marks the place of the condition in a statement with schedules `s` and cursors `d`."""
_MARK_OF_RUNS = "/* of selected */"
"""Marks the place of the condition in a statement with runs, or what they spent, `r`."""


class Dialect(NamedTuple):
    matches: str
    """Whether a column is like a pattern, in both letter cases alike."""
    signs: Mapping[int, str]
    """What makes a pattern of a text in which `*` is any text."""
    is_one: str
    """Whether a column is one of a list."""
    limit: str
    """The setting `max_executions` of a definition `w`."""


SQLITE = Dialect(
    "{column} GLOB :{name}",
    str.maketrans({"?": "[?]", "[": "[[]"}),
    "{column} IN (SELECT value FROM json_each(:{name}))",
    "CAST(w.definition ->> 'max_executions' AS INTEGER)",
)
POSTGRES = Dialect(
    "{column} LIKE :{name} ESCAPE '!'",
    str.maketrans({"!": "!!", "%": "!%", "_": "!_", "*": "%"}),
    "{column} = ANY(:{name})",
    "CAST(CAST(w.definition AS json) ->> 'max_executions' AS bigint)",
)
# As `runtime.catalog.schedule_record` decides: no slot is left, and no call can come.
_COMPLETED = """s.state = 'active' AND d.next_slot IS NULL
  AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.schedule_id = s.id AND r.state BETWEEN {first} AND {last})
  AND NOT EXISTS (SELECT 1 FROM revisions w WHERE w.schedule_id = s.id AND w.rev = s.rev
    AND (EXISTS (SELECT 1 FROM listeners l WHERE l.schedule_id = s.id) OR w.definition LIKE :never)
    AND coalesce({limit} > d.executions, TRUE))"""
_WHOLE = "s.agent || '/' || s.name"
_NEVER = '{"trigger":{"kind":"never"%'
_MAY_KNOW = """(CAST(:reader AS text) IS NULL OR s.agent = CAST(:reader AS text)
    OR (s.creator_role = 'agent' AND s.created_by = 'agent:' || CAST(:reader AS text)))"""
# As far as a reader may know: values of variables may be secrets.
_HAS_TEXT = f"""(lower(s.name) LIKE :{{name}} ESCAPE '!' OR lower(s.agent) LIKE :{{name}} ESCAPE '!'
  OR {_MAY_KNOW}
  AND (coalesce(lower(s.note), '') LIKE :{{name}} ESCAPE '!'
    OR EXISTS (SELECT 1 FROM revisions w WHERE w.schedule_id = s.id AND w.rev = s.rev
    AND lower(w.definition) LIKE :{{name}} ESCAPE '!'
    AND replace(w.definition, '"environment":', '') = w.definition)))"""


class Condition(NamedTuple):
    sql: str
    """It begins with AND; empty where everything is selected."""
    values: Mapping[str, Any]

    def into(self, statement: str) -> str:
        schedules = f"SELECT s.id FROM schedules s JOIN due d ON d.schedule_id = s.id WHERE TRUE{self.sql}"
        of_runs = f"AND r.schedule_id IN ({schedules})" if self.sql else ""
        return statement.replace(_MARK, self.sql).replace(_MARK_OF_RUNS, of_runs)


def condition(
    selector: Selector, dialect: Dialect, texts: Callable[[Iterable[str]], Any], reader: str | None
) -> Condition:
    """`reader`: the agent that asks, if it may look into the settings of its own schedules only. `texts` makes a list
    one value of a statement."""
    writer = _Writer(dialect, texts, {})
    sql = "".join(f" AND {'NOT ' if term.negated else ''}({writer.term(term)})" for term in selector.terms)
    values = writer.values
    if ":reader" in sql:
        values["reader"] = reader
    if ":never" in sql:
        values["never"] = _NEVER
    return Condition(sql, values)


class _Writer(NamedTuple):
    dialect: Dialect
    texts: Callable[[Iterable[str]], Any]
    values: dict[str, Any]

    def term(self, term: Term) -> str:
        return " OR ".join(self._parts(term.key, term.values))

    def _parts(self, key: str, values: tuple[Value, ...]) -> Iterator[str]:
        if key == "text":
            for value in values:
                yield _HAS_TEXT.format(name=self._name(pattern(value.text) or "%"))
        elif key == "state":
            for state in values:
                yield self._state(state)
        elif key == "name":
            yield from self._names(values)
        elif key.startswith(LABEL):
            label = self._name(key.removeprefix(LABEL))
            own = "" if values == (Value("*", exact=False),) else f" AND ({self._likes('l.value', values)})"
            has = f"s.id IN (SELECT l.schedule_id FROM schedule_labels l WHERE l.key = :{label}{own})"
            yield f"{has} AND {_MAY_KNOW}"
        elif key == "pause":
            yield f"s.pause_id IS NOT NULL AND ({self._likes('s.pause_id', values)})"
        else:
            yield self._likes("s.agent", values)

    def _names(self, values: tuple[Value, ...]) -> Iterator[str]:
        """A name alone, or after its agent: `ops/backup`. A list of names is one condition, so that it may be long."""
        if exact := [value.text for value in values if value.exact]:
            yield self._is_one("s.name", exact)
            heads = [name.partition("/")[0] for name in exact if "/" in name]
            if heads:
                yield f"{self._is_one('s.agent', heads)} AND {self._is_one(_WHOLE, exact)}"
        for value in values:
            if not value.exact:
                yield self._like("s.name", value.text)
                if "/" in value.text:
                    yield self._like(_WHOLE, value.text)

    def _state(self, value: Value) -> str:
        live = {"first": int(RunState.WAITING), "last": int(RunState.HELD)}
        completed = _COMPLETED.format(limit=self.dialect.limit, **live)
        column = f"CASE WHEN s.state <> 'active' THEN s.state WHEN {completed} THEN 'completed' ELSE 'active' END"
        if value.text in ("active", "completed"):
            return f"s.state = 'active' AND {'NOT ' if value.text == 'active' else ''}({completed})"
        return f"s.state = :{self._name(value.text)}" if value.exact else self._like(column, value.text)

    def _likes(self, column: str, values: tuple[Value, ...]) -> str:
        exact = [value.text for value in values if value.exact]
        parts = [self._is_one(column, exact)] if exact else []
        return " OR ".join([*parts, *(self._like(column, value.text) for value in values if not value.exact)])

    def _is_one(self, column: str, texts: list[str]) -> str:
        if len(texts) == 1:
            return f"{column} = :{self._name(texts[0])}"
        return self.dialect.is_one.format(column=column, name=self._name(self.texts(texts)))

    def _like(self, column: str, text: str) -> str:
        return self.dialect.matches.format(column=column, name=self._name(text.translate(self.dialect.signs)))

    def _name(self, value: Any) -> str:
        name = f"selected_{len(self.values)}"
        self.values[name] = value
        return name
