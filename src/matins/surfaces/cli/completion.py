"""`matins completion`: shell completion of commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from matins.surfaces.cli.context import CliContext
from matins.surfaces.cli.framework import pass_context, root_command


@root_command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
@pass_context
def completion(context: CliContext, ctx: click.Context, shell: str) -> None:
    """\b
    bash: eval "$(matins completion bash)" in ~/.bashrc
    zsh:  eval "$(matins completion zsh)" in ~/.zshrc
    fish: matins completion fish > ~/.config/fish/completions/matins.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "matins", "_MATINS_COMPLETE")
    text = script.source_template % script.source_vars()
    context.show({"shell": shell, "script": text}, lambda: text)
