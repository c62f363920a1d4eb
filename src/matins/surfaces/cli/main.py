"""The root command, and how errors are told."""

from __future__ import annotations

import click

from matins._version import __version__
from matins.errors import InvalidInput, MatinsError
from matins.surfaces.cli.audit import audit_commands
from matins.surfaces.cli.next import next_command


class ToldError(click.ClickException):
    """An error of ours: what is wrong, and what to do about it."""

    def __init__(self, error: MatinsError) -> None:
        super().__init__(error.message)
        self.hint = error.hint

    def show(self, file: object = None) -> None:
        click.echo(f"Error: {self.message}", err=True)
        if self.hint:
            click.echo(f"Hint: {self.hint}", err=True)


class ToldInputError(ToldError):
    exit_code = 2


class Root(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except MatinsError as error:
            told = ToldInputError if isinstance(error, InvalidInput) else ToldError
            raise told(error) from error


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="matins")
def cli() -> None:
    """Matins wakes AI agents on time."""


cli.add_command(audit_commands)
cli.add_command(next_command)
