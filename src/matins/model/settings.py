"""Declarations of settings. A setting is declared once, beside its field, and every surface uses the declaration."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, get_type_hints

MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of value of a setting: plain data. Each layer has one table of functions by kind.

    Kinds without fields are plain subclasses: each dataclass costs every command a millisecond.
    """


@dataclass(frozen=True, slots=True)
class Text(Kind):
    max_length: int = MAX_NAME_LENGTH
    lines: bool = False
    """Whether the text may have several lines."""


class Template(Kind):
    """A prompt with placeholders such as `{{slot}}`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Name(Kind):
    of: str = ""
    """The noun of the records that the name refers to; empty for any name."""
    label: bool = False
    """Whether it is the name of a node."""


@dataclass(frozen=True, slots=True)
class Names(Kind):
    """A list of distinct names."""

    empty: bool = False
    """Whether the list may be empty, which is the default."""
    of: str = ""
    """The noun of the records that the names refer to; empty for any names."""
    values: tuple[str, ...] = ()
    """The allowed names; empty for any names."""
    labels: bool = False
    """Whether they are labels of nodes."""


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    values: tuple[str, ...]


class Flag(Kind):
    """True or false."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Int(Kind):
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Decimal(Kind):
    low: float
    high: float
    above: bool = False
    """Whether the lower bound itself is excluded."""
    unit: str = ""

    @property
    def allowed(self) -> str:
        """The allowed values as text, such as `a number from 0 to 10 percent`."""
        low = f"above {self.low:g} and at most" if self.above else f"from {self.low:g} to"
        return f"a number {low} {self.high:.15g} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Duration(Kind):
    none: bool = False
    """Whether "none" means no limit."""
    zero: bool = False
    """Whether `0s` is allowed."""
    auto: bool = False
    """Whether "auto" leaves it to Matins; held as 0."""


@dataclass(frozen=True, slots=True)
class Size(Kind):
    """An amount of memory or storage; held as bytes."""

    low: int
    none: bool = False
    """Whether "none" means no limit."""


class Instant(Kind):
    """A point in time; held as UTC milliseconds."""

    __slots__ = ()


class Zone(Kind):
    """An IANA time zone, or `local`."""

    __slots__ = ()


class Money(Kind):
    """An amount with its currency; held as micro-dollars."""

    __slots__ = ()


class Tokens(Kind):
    """A number of tokens."""

    __slots__ = ()


class Command(Kind):
    """A text for the shell, or a program with its arguments."""

    __slots__ = ()


class Arguments(Kind):
    """A list of texts: the arguments of a program."""

    __slots__ = ()


class Labels(Kind):
    """Names with string values."""

    __slots__ = ()


class Variables(Kind):
    """Environment variables. Values may be references; other values are hidden."""

    __slots__ = ()


class Target(Kind):
    """Where runs happen."""

    __slots__ = ()


class Windows(Kind):
    """Spans of the wall clock on days of the week."""

    __slots__ = ()


class Secret(Kind):
    """A reference to a secret: `env:NAME` or `file:/path`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Url(Kind):
    """A URL without a user name or password."""

    private: bool = False
    """Whether the path may contain a key. Principals without the "govern" right see only the origin."""


class Options(Kind):
    """A JSON object."""

    __slots__ = ()


class Json(Kind):
    """Any JSON value."""

    __slots__ = ()


class Inputs(Kind):
    """What a run may be given, by name."""

    __slots__ = ()


class Calls(Kind):
    """Calls from outside that start runs."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Records(Kind):
    """A list of records, each with settings of its own."""

    record: type[Any]
    """The dataclass that declares the settings of one."""
    one: str
    max_count: int = 100
    spellings: tuple[tuple[str, str], ...] = ()
    """Another system's names of settings, each with Matins' own. They are read, and never written."""


class Pause(Kind):
    """True, false, or a reason as text; only in the file."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Setting:
    kind: Kind
    help: str
    """One sentence, the same on every surface."""
    example: Any
    name: str = ""
    """The written name, if the field has another name: `timeout` for `timeout_ms`."""
    required: bool = False
    owner_only: bool = False
    """Only the owner sets the setting; others propose it."""
    notable: bool = False
    """Whether a proposal highlights the setting, because it affects more than the agent's own prompt and target."""
    short: str | None = None
    """The short option of the command line: `-z`."""


class Declared(NamedTuple):
    """A setting and its field."""

    name: str
    field: str
    setting: Setting
    default: Any

    @property
    def kind(self) -> Kind:
        return self.setting.kind

    @property
    def help_has_default(self) -> bool:
        """Whether the help names the default, which then depends on other settings."""
        return "default:" in self.setting.help


Table = Mapping[str, Declared]


@cache
def settings_of(*owners: type[Any]) -> Table:
    """The settings that these dataclasses declare, by written name, in their order."""
    found: dict[str, Declared] = {}
    for owner in owners:
        declared = fields(owner)
        # A module may postpone its annotations; then they are texts.
        postponed = any(isinstance(field.type, str) for field in declared)
        hints = get_type_hints(owner, include_extras=True) if postponed else {}
        for field in declared:
            annotation = hints.get(field.name, field.type)
            setting = next((part for part in getattr(annotation, "__metadata__", ()) if type(part) is Setting), None)
            if setting is not None:
                name = setting.name or field.name
                found[name] = Declared(name, field.name, setting, _default(field))
    return MappingProxyType(found)


def _default(field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return None if field.default_factory is MISSING else field.default_factory()
