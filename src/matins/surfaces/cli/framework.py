"""Base classes of commands: shared options such as `--json`, and commands that are loaded when they are called."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from matins.errors import InvalidInput, MatinsError
from matins.surfaces.cli import command_index
from matins.surfaces.cli.context import CliContext, Document, use_cases

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
F = TypeVar("F", bound=Callable[..., Any])
_LOCATION = {
    "store": ("URL", "Store to open."),
    "url": ("URL", "URL of a daemon."),
    "token": ("TOKEN", "API token."),
    "home": ("DIR", "Directory of this user's daemon."),
}
_SHORTEST_SLIP, _SHORTEST_CAREFUL = 3, 5
_ALMOST = 0.85
pass_context = click.make_pass_decorator(CliContext)


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    context = ctx.find_object(CliContext)
    if context is None or not value:
        return
    if parameter.name == "as_json":
        context.as_json = True
    else:
        context.location[str(parameter.name)] = value


def _shared_options(*, root: bool) -> list[click.Option]:
    """The options that may be before or after the command."""
    options = [
        click.Option([f"--{name}"], metavar=metavar, help=text, hidden=not root, expose_value=False,
                     callback=_remember, envvar=f"MATINS_{name.upper()}" if root else None)
        for name, (metavar, text) in _LOCATION.items()
    ]  # fmt: skip
    json = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.", expose_value=False, callback=_remember)
    return [*options, json]


class HelpFormatter(click.HelpFormatter):
    """Wraps help for a terminal. In a pipe each option is one line, so that `--help | grep` finds it whole."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows, width = list(rows), self.width
        if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
            self.width, col_max = sys.maxsize, max(len(name) for name, _ in rows) + col_spacing
        super().write_dl(rows, col_max, col_spacing)
        self.width = width


class Context(click.Context):
    formatter_class = HelpFormatter


class Command(click.Command):
    """A command with the shared options, unless it has an option of that name."""

    context_class = Context

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        own = {name for parameter in self.params for name in (parameter.name, *parameter.opts)}
        self.params += [
            option for option in _shared_options(root=False) if not own.intersection((option.name, *option.opts))
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            known = {name for parameter in self.params for name in parameter.opts}
            meant = command_index.OPTION_ALIASES.get(error.option_name)
            advice = command_index.OPTION_ADVICE.get(f"{self.name} {error.option_name}")
            if advice is None and meant in known:
                advice = f"Did you mean {meant}?"
            text = nearest(error.option_name, sorted(known), _ALMOST) if advice is None else f" {advice}"
            raise click.UsageError(f"No such option {error.option_name}.{text}", ctx) from None


def root_command(name: str, kind: type[Command] = Command) -> Callable[[Callable[..., Any]], Command]:
    """A command of the index. The index has its help; a docstring adds to it."""

    def decorate(function: Callable[..., Any]) -> Command:
        more = cleandoc(function.__doc__ or "")
        text = f"{command_index.help_of(name)}\n\n{more}" if more else command_index.help_of(name)
        return click.command(name, cls=kind, help=text)(function)

    return decorate


class PlainOption(click.Option):
    """An option whose help does not show the range that click adds."""

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class NounGroup(click.Group):
    """A noun and its verbs, such as `matins agents`. Without a verb, the default one runs: `matins runs nightly`."""

    command_class = Command
    context_class = Context

    def __init__(self, name: str, help: str, default: str = "list") -> None:  # noqa: A002 - as click calls it
        super().__init__(name, help=help)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        meant = command_index.VERB_ALIASES.get(args[0], "") if args and args[0] not in self.commands else ""
        if meant in self.commands:
            args = [meant, *args[1:]]
        if not ctx.resilient_parsing and (not args or args[0] not in (*self.commands, "--help", "-h")):
            given = [argument for argument in args[:2] if not argument.startswith("-")]
            takes = sum(isinstance(parameter, click.Argument) for parameter in self.commands[self._default].params)
            if args and given[:1] == args[:1] and len(given) > takes:  # the first is a misspelt verb
                hint = nearest_command(args[0], self.commands)
                raise click.UsageError(f'There is no command "{ctx.info_name} {args[0]}".{hint}', ctx)
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, with those of the default verb: they may follow the noun itself."""
        super().format_options(ctx, formatter)
        options = [option for option in self.commands[self._default].params if isinstance(option, click.Option)]
        records = [option.get_help_record(ctx) for option in options if option.name != "as_json"]
        lines = [record for record in records if record is not None]
        if lines:
            with formatter.section(f"Options of {self._default} (the default)"):
                formatter.write_dl(lines)

    def takes(self, **commands: click.Command) -> None:
        """Add root commands as verbs."""
        for name, command in commands.items():
            self.add_command(command, name.replace("_", "-"))


class LazyGroup(click.Group):
    """The commands of the index, each loaded when it is called."""

    context_class = Context

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params += _shared_options(root=True)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = CliContext(ctx.obj)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in command_index.sections().values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_index.load_command(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name == "help" and not ctx.resilient_parsing:
            args = [*args[1:], "--help"]
            name = args[0]
            if name == "--help":
                click.echo(ctx.get_help())
                ctx.exit()
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            advice = command_index.ADVICE.get(name)
            hint = f" {advice}" if advice else nearest_command(name, [*self.list_commands(ctx), *command_index.ALIASES])
            raise click.UsageError(f'There is no command "{name}".{hint}', ctx)
        if name == "start" and args[1:2] and not args[1].startswith("-"):
            raise click.UsageError(f"`matins start` starts the daemon. To start a run: matins run {args[1]}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in command_index.sections().items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in section.items()])


def nearest_command(name: str, known: Iterable[str]) -> str:
    """The command that was meant, if that is a slip of the hand: another word does another thing."""
    harmless = [one for one in known if command_index.ALIASES.get(one, one) not in command_index.CAREFUL]
    careful = [one for one in known if one not in harmless and min(len(name), len(one)) >= _SHORTEST_CAREFUL]
    slips = [one for one in (*harmless, *careful) if _one_slip(name, one)]
    return nearest(name, slips) or nearest(name, harmless, _ALMOST)


def _one_slip(typed: str, meant: str) -> bool:
    """Whether a letter is missing, added or wrong, or two changed places. In a short word that is another word."""
    if min(len(typed), len(meant)) < _SHORTEST_SLIP:
        return False
    if len(typed) != len(meant):
        longer, shorter = sorted((typed, meant), key=len, reverse=True)
        return any(longer[:n] + longer[n + 1 :] == shorter for n in range(len(longer)))
    wrong = [n for n, (a, b) in enumerate(zip(typed, meant, strict=True)) if a != b]
    return len(wrong) == 1 or (len(wrong) == 2 and sorted(typed) == sorted(meant) and wrong[1] - wrong[0] == 1)


def nearest(name: str, known: Iterable[str], likeness: float = 0.65) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1, cutoff=likeness)
    return f' Did you mean "{close[0]}"?' if close else ""


def complete_keys(noun: str) -> Completer:
    """Keys of records, or names of schedules, for shell completion; none if the call fails."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        listing = use_cases()[f"{noun}.list"]
        key = use_cases()[f"{noun}.get"].in_path[0]
        try:
            context = ctx.ensure_object(CliContext)
            found: list[dict[str, Any]] = context.send(listing.name, {"limit": 1000} if listing.page else {})
        except (MatinsError, OSError):
            return []
        return [CompletionItem(item[key]) for item in found if item[key].startswith(incomplete)]

    return complete


def name_argument(function: F) -> F:
    return click.argument("name", shell_complete=complete_keys("schedules"))(function)


def agent_option(text: str = "Agent of the schedule, if the name is ambiguous.") -> Callable[[F], F]:
    return click.option("--agent", "-a", metavar="AGENT", shell_complete=complete_keys("agents"), help=text)


def names_argument(function: F) -> F:
    return click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_keys("schedules"))(function)


SCHEDULE_STATES = ("active", "paused", "pending", "completed", "expired", "rejected", "broken")


def label_option(function: F) -> F:
    text = "Label of the schedules; repeatable."
    return click.option("--label", "labels", multiple=True, metavar="K=V", help=text)(function)


def selector_options(function: F) -> F:
    """`--agent`, `--label` and `--state`, which `chosen_text` joins with the names."""
    for option in (
        click.option("--state", "-s", type=click.Choice(SCHEDULE_STATES), help="State of the schedules."),
        label_option,
        agent_option("Agent of the schedules."),
    ):
        function = option(function)
    return function


def chosen_text(**chosen: Any) -> str | None:
    """The selector of names and options; None where none is given."""
    if not any(chosen.values()):
        return None
    from matins.engine.selectors import selector_text  # loaded only where something is chosen

    return selector_text(**chosen)


def without_none(**arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def number_argument(
    name: str, metavar: str, what: str, where: str, *, parts: bool = False, many: bool = False
) -> Callable[[F], F]:
    """An argument for the number of a run, an approval or a thread. Its error names the command that lists them. A
    number with `parts` may be that of a step: 12/2."""

    def checked(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        return tuple(map(one, value)) if many else one(value)

    def one(value: str) -> str:
        number = value.replace("/", "", 1) if parts else value
        if not (number.isascii() and number.isdigit()) or value.startswith("/") or value.endswith("/"):
            message = f'"{value}" is not the number of {what}.'
            raise InvalidInput(message, value=value, field=name, hint=f"List them: {where}")
        return value

    return click.argument(name, metavar=metavar, callback=checked, nargs=-1 if many else 1)


def deletion(what: str, name: str, *, deleted: bool) -> tuple[Mapping[str, bool], Callable[[], str]]:
    """Document and text of a deletion. The name is empty if there is only one record."""
    quoted = f' "{name}"' if name else ""
    done, absent = f"Deleted the {what} {name}".rstrip(), f"There is no {what}{quoted}: nothing to delete"
    text = f"{done}." if deleted else f"{absent}."
    return {"deleted": deleted}, lambda: text


_MAX_LIMIT = 1_000


class Page(NamedTuple):
    items: list[Document]
    more: bool

    @classmethod
    def of(cls, limit: int, fetch: Callable[[int], list[Document]]) -> Page:
        """The page. One more item is fetched, to know whether there are more."""
        found = fetch(min(limit + 1, _MAX_LIMIT))
        return cls(found[:limit], len(found) > limit or (limit == _MAX_LIMIT and len(found) == _MAX_LIMIT))

    @property
    def last_id(self) -> str:
        return str(self.items[-1]["id"]) if self.items else ""

    def note_more(self, context: CliContext, command: str, cursor: str) -> None:
        if self.more:
            context.note(f"There are more: {command} {cursor}")


def page_options(cursor: str, default: int = 50) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        text = "ID of the last item on the previous page."
        return click.option(cursor, metavar="ID", help=text)(limit_option(default)(function))

    return decorate


def limit_option(default: int) -> Callable[[F], F]:
    text = f"Maximum number of items, up to {_MAX_LIMIT}. Default: {default}."
    return click.option(
        "--limit", "-l", cls=PlainOption, type=click.IntRange(1, _MAX_LIMIT), default=default, metavar="N", help=text
    )
