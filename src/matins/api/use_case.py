"""Declarations of use cases: a signature with `...` as its body, and the facts that every surface needs.

It loads quickly, since every command uses it. Types are imported for checkers only, and read when a server needs them.

Cursors of pages. A cursor is the id of the last item, so new items do not move it.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import cached_property, wraps
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

from matins.errors import InvalidInput
from matins.model.access import Principal, Right

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
F = TypeVar("F", bound=Callable[..., Any])
_PARAMETER = re.compile(r"{(\w+)(?::path)?}")
_MISSING: Any = object()


def path_pattern(path: str) -> re.Pattern[str]:
    """The pattern of a path: `{name}` matches one segment, `{name:path}` several."""
    parts = re.split(r"{(\w+)(:path)?}", path)
    texts = [re.escape(text) for text in parts[::3]]
    groups = [
        f"(?P<{name}>{'.+' if several else '[^/]+'})" for name, several in zip(parts[1::3], parts[2::3], strict=True)
    ]
    return re.compile("".join(text + group for text, group in zip(texts, [*groups, ""], strict=True)))


class Parameter:
    """An argument of a use case, with its annotation as source text."""

    __slots__ = ("annotation", "default", "name")

    def __init__(self, name: str, annotation: str, default: Any) -> None:
        self.name = name
        self.annotation = annotation
        self.default = default

    @property
    def required(self) -> bool:
        return self.default is _MISSING


@dataclass(frozen=True, eq=False, repr=False)
class UseCase:
    """A use case, with one name on every surface."""

    name: str
    function: Callable[..., Any]
    right: Right
    route: str
    """The method and the path."""
    status: int = 200
    query: tuple[str, ...] = ()
    """Arguments in the query although there is a body."""
    page: tuple[str, str] | None = None
    """The argument that continues a long collection, and the field of the last item that is its value."""
    secret: str | None = None
    """The field of the result that is shown once, and never stored with the response."""
    revision: str | None = None
    """The argument that If-Match sets."""
    location: str | None = None
    max_bytes: int = 1 << 20
    engine: bool = False
    """Whether only the process of the engine can execute it."""
    settings: str | None = None
    """The kind of record whose settings are further arguments."""
    own: bool = False
    """Whether people may do it without the right, with what is their own, unless they come by a token."""
    fresh: bool = False
    """Whether a browser must have signed in within the last hour: it gives rights away, or cannot be undone."""
    short: bool = False
    """Whether it reads a few rows: a server answers at once, where a change of threads would cost more."""

    @cached_property
    def method(self) -> Method:
        return cast("Method", self.route.partition(" ")[0])

    @cached_property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def noun(self) -> str:
        return self.name.partition(".")[0]

    @property
    def verb(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def reads(self) -> bool:
        """Whether the use case only reads the store."""
        return self.right == "read" and not self.engine

    @property
    def help(self) -> str:
        """The first line of the description."""
        return self.description.partition("\n")[0]

    @property
    def description(self) -> str:
        lines = (self.function.__doc__ or "").strip().split("\n")
        return "\n".join(line.strip() for line in lines)

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        return tuple(_PARAMETER.findall(self.path))

    @property
    def has_body(self) -> bool:
        return self.method not in ("GET", "DELETE")

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters, without the settings."""
        function, annotations = self.function, self.function.__annotations__
        code = function.__code__
        count = code.co_argcount
        names = code.co_varnames[1 : count + code.co_kwonlyargcount]
        defaults = dict(zip(code.co_varnames[count - len(function.__defaults__ or ()) : count],
                            function.__defaults__ or (), strict=True))  # fmt: skip
        defaults |= function.__kwdefaults__ or {}
        return {name: Parameter(name, annotations[name], defaults.get(name, _MISSING)) for name in names}

    @cached_property
    def in_query(self) -> tuple[str, ...]:
        if not self.has_body:
            return tuple(name for name in self.parameters if name not in self.in_path)
        return tuple(name for name in self.parameters if name in self.query)

    @cached_property
    def positional(self) -> tuple[str, ...]:
        return self.function.__code__.co_varnames[1 : self.function.__code__.co_argcount]

    @property
    def returns(self) -> str:
        """The annotation of the result, as source text."""
        return self.function.__annotations__["return"]

    def bind(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The given arguments by name."""
        if len(values) > len(self.positional):
            wanted = ", ".join((*self.positional, "NAME=VALUE, …" if self.settings else "…"))
            raise TypeError(f"{self.name}({wanted}) takes {len(self.positional)} arguments without a name")
        given = dict(zip(self.positional, values, strict=False))
        if twice := given.keys() & named.keys():
            raise TypeError(f"{self.name}() got several values for {next(iter(twice))!r}")
        given.update(named)
        if not isinstance(given.get("when", ""), str):
            given["when"] = _when_text(given["when"])
        return given

    def __repr__(self) -> str:
        return f"<use case {self.name}>"


def _when_text(when: Any) -> Any:
    """The text that means the same as a value of Python's datetime; any other value as it is."""
    if isinstance(when, datetime):
        return when.isoformat()  # without an offset: in the schedule's time zone
    if isinstance(when, timedelta):
        return f"{when // timedelta(milliseconds=1)}ms"
    if isinstance(when, time):
        if when.tzinfo is not None or when.second or when.microsecond:
            hint = 'For example: when=time(9, 30), timezone="Europe/London".'
            raise InvalidInput("A time has hours and minutes only.", value=str(when), field="when", hint=hint)
        return f"every day at {when:%H:%M}"
    return when


USE_CASES: dict[str, UseCase] = {}
"""All use cases by name, in the order of their declaration."""


NOUNS: dict[str, type[Noun]] = {}


class Caller(Protocol):
    """Calls use cases for a principal: `Service`, or `Matins` itself."""

    def invoke(self, principal: Principal, use_case: UseCase, arguments: Mapping[str, Any]) -> Any: ...


class Transport(Protocol):
    """A transport of calls: to a service in this process, the owner of a SQLite file, or a daemon over HTTP."""

    def call(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        """The typed result."""
        ...

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        """The result as JSON data."""
        ...

    def follow(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Iterator[Any]:
        """The items of a collection, including new ones, without an end."""
        ...


class Noun:
    """A group of use cases. `Api` has an attribute of its name."""

    noun: ClassVar[str]

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __init_subclass__(cls, noun: str = "") -> None:
        if not noun:
            return
        cls.noun = noun
        NOUNS[noun] = cls
        declared = {name: attribute for base in reversed(cls.__mro__) for name, attribute in vars(base).items()}
        for name, attribute in declared.items():
            options: dict[str, Any] | None = getattr(attribute, "_use_case", None)
            if options is not None:
                full = f"{noun}.{name}"
                USE_CASES[full] = UseCase(full, attribute, **options)
                setattr(cls, name, _method(USE_CASES[full]))


class _NounAttribute:
    """A noun with the transport of its owner, made on first use."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, owner: Noun | None, kind: type[Any]) -> Any:
        if owner is None:
            return NOUNS[self._name]
        bound = NOUNS[self._name](owner._transport)  # pyright: ignore[reportPrivateUsage]
        owner.__dict__[self._name] = bound
        return bound


def noun() -> Any:
    """An attribute that holds the noun of its name."""
    return _NounAttribute()


def use_case(right: Right, route: str, **options: Any) -> Callable[[F], F]:
    """Declare a use case. Type checkers see the method as written."""

    def mark(function: F) -> F:
        function._use_case = {"right": right, "route": route, **options}  # type: ignore[attr-defined]
        return function

    return mark


def _method(declared: UseCase) -> Callable[..., Any]:
    @wraps(declared.function)
    def method(self: Noun, *values: Any, **named: Any) -> Any:
        return self._transport.call(declared, declared.bind(values, named))  # pyright: ignore[reportPrivateUsage]

    method.use_case = declared  # type: ignore[attr-defined]
    return method


_DEFAULT_LIMIT = 100


def next_cursor(use_case: UseCase, arguments: dict[str, Any], items: list[Any]) -> str | None:
    """The cursor of the next page; None if there is none: a page that is not full is the last."""
    if use_case.page is None or len(items) < arguments.get("limit", _DEFAULT_LIMIT):
        return None
    if arguments.get("newest") or (use_case.name == "events.list" and arguments.get("after") is None):
        return None  # the newest of all: no page follows yet
    return encode_cursor(use_case, getattr(items[-1], use_case.page[1]))


def encode_cursor(use_case: UseCase, last: Any) -> str:
    return urlsafe_b64encode(f"{use_case.name} {last}".encode()).decode().rstrip("=")


def decode_cursor(use_case: UseCase, cursor: str) -> dict[str, str]:
    """The cursor as the argument of the use case."""
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode()
    except ValueError:
        text = ""
    whose, _, last = text.partition(" ")
    if use_case.page is None or whose != use_case.name or not last or not last.isprintable():
        message = '"cursor" is not one of this collection.'
        raise InvalidInput(message, value=cursor[:60], field="cursor", hint="Take it from `next` of a page.")
    return {use_case.page[0]: last}


def check_payloads(arguments: Any) -> None:
    """Raise InvalidInput for a payload that would be another one after its way as JSON, in arguments of any depth."""
    if isinstance(arguments, Mapping):
        for name, value in cast("Mapping[str, Any]", arguments).items():
            if name == "payload":
                from matins.engine.validation import check_json  # most calls have no payload

                check_json(name, value)
            else:
                check_payloads(value)
    elif isinstance(arguments, (list, tuple)):
        for item in cast("Sequence[Any]", arguments):
            check_payloads(item)
