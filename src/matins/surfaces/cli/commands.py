"""Commands as we make them: with `--json` and the way to a store on each, loaded when they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from matins.errors import InvalidInput, MatinsError
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
            self._refuse_a_slip(ctx, args)
            args = [self.usual, *args]
        return super().parse_args(ctx, args)

    def _refuse_a_slip(self, ctx: click.Context, args: list[str]) -> None:
        """More words than the first verb takes: one of them should have been a verb."""
        words = [word for word in args[:2] if not word.startswith("-")]
        takes = sum(isinstance(parameter, click.Argument) for parameter in self.commands[self.usual].params)
        if args and words[:1] == args[:1] and len(words) > takes:
            raise click.UsageError(
                f'There is no command "{ctx.info_name} {args[0]}".{nearest(args[0], self.commands)}', ctx
            )

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
            known = [*self._places, *self._aliases]
            raise click.UsageError(f'There is no command "{name}".{nearest(name, known)}', ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in self._sections.items():
            rows = [(name, self._short_help(ctx, name)) for name in section]
            with formatter.section(title):
                formatter.write_dl(rows)

    def _short_help(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(limit=70)


def nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f' Did you mean "{close[0]}"?' if close else ""


def complete_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of schedules, for the shell."""
    return _names(ctx, incomplete, "overview", limit=1000)


def complete_agents(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _names(ctx, incomplete, "agents")


def _names(ctx: click.Context, incomplete: str, use_case: str, **arguments: Any) -> list[CompletionItem]:
    """None where nobody answers."""
    try:
        found: list[dict[str, Any]] = ctx.ensure_object(Desk).ask(use_case, **arguments)
    except (MatinsError, OSError):
        return []
    return [CompletionItem(item["name"]) for item in found if item["name"].startswith(incomplete)]


def name_argument(function: F) -> F:
    return click.argument("name", shell_complete=complete_names)(function)


def agent_option(function: F) -> F:
    text = "Whose it is, where the name is not enough."
    return click.option("--agent", "-a", metavar="AGENT", shell_complete=complete_agents, help=text)(function)


def number_argument(name: str, metavar: str, what: str, where: str) -> Callable[[F], F]:
    """The number of a run or an approval; whoever says something else is told where the numbers are."""

    def checked(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
        if not (value.isascii() and value.isdigit()):
            message = f'"{value}" is not the number of {what}'
            raise InvalidInput(message, value=value, field=name, hint=f"see them: {where}")
        return value

    return click.argument(name, metavar=metavar, callback=checked)


def removed(what: str, name: str, gone: bool) -> tuple[dict[str, bool], Callable[[], str]]:
    """Document and text of something that is not there any more, or never was."""
    text = f"Removed the {what} {name}." if gone else f"There was no {what} {name}: nothing done."
    return {"removed": gone}, lambda: text
