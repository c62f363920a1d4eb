"""Commands as we make them: with `--json` and the way to a store on each, loaded when they are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from matins.errors import MatinsError
from matins.surfaces.cli.desk import Desk

F = TypeVar("F", bound=Callable[..., Any])
_PLACES = {
    "store": ("URL", "sqlite:///FILE or postgresql://…"),
    "url": ("URL", "A daemon elsewhere."),
    "token": ("TOKEN", "Who you are there."),
    "home": ("DIR", "Where the daemon of this user lives."),
}
pass_desk = click.make_pass_decorator(Desk)


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    desk = ctx.find_object(Desk)
    if desk is None or not value:
        return
    if parameter.name == "as_json":
        desk.as_json = True
    else:
        desk.place[str(parameter.name)] = value


def _shared(*, root: bool) -> list[click.Option]:
    """What may stand before the command or behind it."""
    options = [
        click.Option([f"--{name}"], metavar=metavar, help=text, hidden=not root, expose_value=False,
                     callback=_remember, envvar=f"MATINS_{name.upper()}" if root else None)
        for name, (metavar, text) in _PLACES.items()
    ]  # fmt: skip
    text = "For programs: the API's documents."
    return [*options, click.Option(["--json", "as_json"], is_flag=True, help=text, expose_value=False,
                                   callback=_remember)]  # fmt: skip


class Command(click.Command):
    """Says `--json` too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        own = {name for parameter in self.params for name in (parameter.name, *parameter.opts)}
        self.params += [option for option in _shared(root=False) if not own.intersection((option.name, *option.opts))]


class Noun(click.Group):
    """`matins agents` and its verbs; what is no verb is for the first of them: `matins runs nightly`."""

    command_class = Command
    usual = "list"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing and (not args or args[0] not in (*self.commands, "--help", "-h")):
            args = [self.usual, *args]
        return super().parse_args(ctx, args)

    def takes(self, **commands: click.Command) -> None:
        """Verbs that have a short form of their own."""
        for name, command in commands.items():
            self.add_command(command, name.replace("_", "-"))


class Lazy(click.Group):
    """A group whose commands stand in modules: each is loaded when it is called."""

    def __init__(
        self,
        *arguments: Any,
        sections: Mapping[str, Mapping[str, str]],
        aliases: Mapping[str, str],
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.params += _shared(root=True)
        self._sections = sections
        self._places = {name: place for section in sections.values() for name, place in section.items()}
        self._aliases = aliases

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = Desk(ctx.obj)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._places.get(self._aliases.get(cmd_name, cmd_name))
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        return getattr(import_module(f"matins.surfaces.cli.{module}"), attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f'There is no command "{name}".{self._nearest(name)}', ctx)
        return super().resolve_command(ctx, args)

    def _nearest(self, name: str) -> str:
        from difflib import get_close_matches

        close = get_close_matches(name, [*self._places, *self._aliases], n=1)
        return f' Did you mean "{close[0]}"?' if close else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in self._sections.items():
            rows = [(name, self._short_help(ctx, name)) for name in section]
            with formatter.section(title):
                formatter.write_dl(rows)

    def _short_help(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(limit=70)


def complete_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of schedules, for the shell; none where nobody answers."""
    desk = ctx.ensure_object(Desk)
    try:
        found: list[dict[str, Any]] = desk.ask("overview", limit=1000)
    except (MatinsError, OSError):
        return []
    return [CompletionItem(item["name"]) for item in found if item["name"].startswith(incomplete)]


def name_argument(function: F) -> F:
    return click.argument("name", shell_complete=complete_names)(function)


def agent_option(function: F) -> F:
    return click.option("--agent", "-a", metavar="AGENT", help="Whose it is, where the name is not enough.")(function)


def removed(what: str, name: str, gone: bool) -> tuple[dict[str, bool], Callable[[], str]]:
    """Document and text of something that is not there any more, or never was."""
    text = f"Removed the {what} {name}." if gone else f"There was no {what} {name}: nothing done."
    return {"removed": gone}, lambda: text
