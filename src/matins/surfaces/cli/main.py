"""The root command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from matins._version import __version__
from matins.surfaces.cli.context import EXIT_CODES, CliContext, exit_code, replace_unknown_characters
from matins.surfaces.cli.framework import LazyGroup

_HELP = f"""Matins wakes AI agents on time.

Commands call the running daemon (matins up), or else open the store themselves. Results go to stdout, notes and errors
to stderr; --json prints the API's documents. Nouns work too: matins runs list, matins agents show NAME.

{EXIT_CODES}
"""


class Root(LazyGroup):
    """Prints errors as text, and exits with their code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        def work() -> Any:
            return super(Root, self).main(args, prog_name or "matins", complete_var, standalone_mode=False, **extra)

        if not standalone_mode:
            return work()
        replace_unknown_characters()
        given = list(sys.argv[1:] if args is None else args)
        sys.exit(exit_code(work, as_json="--json" in given[: given.index("--") if "--" in given else None]))


@click.command(
    "matins",
    cls=Root,
    help=_HELP,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="matins", help="Print the version.")
@click.pass_context
def cli(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        from matins.surfaces.cli.daemon import welcome  # commands do not need it

        welcome(ctx.ensure_object(CliContext))
