"""Settings as options, from their declarations.

The service checks the values.

The settings of a schedule as options; separate from `options`, since their declarations take long to load.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from matins.errors import InvalidInput
from matins.model import settings as kinds
from matins.model.schedule import ScheduleDefinition, TriggerSettings
from matins.model.settings import Declared, Table, settings_of
from matins.surfaces.cli.context import FUTURE, ZONED, Instant
from matins.surfaces.cli.framework import complete_keys, nearest
from matins.surfaces.text_values import METAVAR, from_text

F = TypeVar("F", bound=Callable[..., Any])
PREFIX, WHEN = "setting_", "when"
_UNITS_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def setting_options(
    table: Table, *, unset: bool = False, assignments: bool = True, skip: Collection[str] = (), own_zone: bool = False
) -> Callable[[F], F]:
    """An option for each setting, `--set` and, for edits, `--unset`. See `given_settings` for their values.
    `own_zone`: the time zone is the caller's by default."""

    def decorate(function: F) -> F:
        if unset:
            text = "Reset a setting to its default."
            function = click.option("--unset", multiple=True, metavar="NAME", help=text)(function)
        if assignments:
            text = "Set any setting; repeatable."
            function = click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help=text)(function)
        for declared in reversed([declared for name, declared in table.items() if name not in skip]):
            function = _option(table, declared, own_zone=own_zone)(function)
        return function

    return decorate


def _option(table: Table, declared: Declared, *, own_zone: bool) -> Callable[[F], F]:
    short, kind = declared.setting.short, declared.kind
    names = [f"--{declared.name.replace('_', '-')}", *([short] if short else []), PREFIX + declared.name]
    is_own = own_zone and isinstance(kind, kinds.Zone)
    options: dict[str, Any] = {"help": f"{declared.setting.help} Default: yours." if is_own else option_help(declared)}
    if isinstance(kind, kinds.Flag):
        return click.option(*names, is_flag=True, default=None, **options)
    if isinstance(kind, kinds.Choice):
        return click.option(*names, type=click.Choice(kind.values), **options)
    if isinstance(kind, kinds.Instant):
        options["type"] = _instant_type(table)
    if isinstance(kind, kinds.Name) and kind.of:
        options["shell_complete"] = complete_keys(kind.of)
    return click.option(*names, metavar=METAVAR[type(kind)], **options)


def option_help(declared: Declared) -> str:
    """The help of the setting, with its default if there is one to show."""
    text, default = declared.setting.help, default_text(declared)
    return text if default is None or declared.help_has_default else f"{text} Default: {default}."


def default_text(declared: Declared) -> str | None:
    """The default as people write it; None if there is none to show."""
    default = declared.default
    if declared.setting.required or default is None or default == "" or isinstance(default, bool):
        return None
    if isinstance(declared.kind, kinds.Duration):
        return next((f"{default // size}{unit}" for size, unit in _UNITS_MS if default % size == 0), f"{default}ms")
    if isinstance(declared.kind, kinds.Size):
        from matins.engine.settings import format_size  # loaded only for sizes: help must be quick

        return format_size(default)
    if isinstance(declared.kind, (kinds.Names, kinds.Arguments)):
        return ",".join(default) or None
    if isinstance(default, (int, float)) and not isinstance(declared.kind, kinds.Money):
        return f"{default:g}" if isinstance(default, float) else str(default)
    return default if isinstance(default, str) else None


def given_settings(table: Table, options: Mapping[str, Any], owner: str = "A schedule") -> dict[str, Any]:
    """The settings from options and `--set` by name; None for those of `--unset`."""
    known = [*table, *([WHEN] if PREFIX + WHEN in options else [])]
    texts = {name: options[PREFIX + name] for name in known if options.get(PREFIX + name) is not None}
    texts |= dict(split_assignment(text, "--set retries=2") for text in options.get("assignments", ()))
    reset = [name.replace("-", "_") for name in options.get("unset", ())]
    for name in (*texts, *reset):
        if name not in known:
            hint = nearest(name, known).strip() or "List the settings: --help"
            raise InvalidInput(f'{owner} has no setting "{name}".', value=name, field=name, hint=hint)
    return {name: read_setting(table, name, text) for name, text in texts.items()} | dict.fromkeys(reset)


def read_setting(table: Table, name: str, text: Any) -> Any:
    """The value of a setting, from text."""
    if name == WHEN:
        return text
    declared = table.get(name)
    if declared is not None and isinstance(declared.kind, kinds.Instant) and isinstance(text, str):
        return _instant_type(table).convert(text, None, None)
    return from_text(declared, text)


def split_assignment(text: str, example: str) -> tuple[str, str]:
    """The name and the value of `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(f'"{text}" is not NAME=VALUE.', value=text, hint=f"For example: {example}")
    return name.strip().replace("-", "_"), value


def check_any(settings: Mapping[str, Any]) -> None:
    """Raise if an edit changes nothing."""
    if not settings:
        hint = "Use the option of a setting, --set NAME=VALUE or --unset NAME."
        raise InvalidInput("There is nothing to change.", field="set", hint=hint)


def _instant_type(table: Table) -> Instant:
    return ZONED if any(isinstance(declared.kind, kinds.Zone) for declared in table.values()) else FUTURE


SCHEDULE = settings_of(ScheduleDefinition, TriggerSettings)
when_option = click.option(
    "--when",
    PREFIX + WHEN,
    metavar="TEXT",
    help="When the schedule fires: English, cron, a duration or an instant.",
)
