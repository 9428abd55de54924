"""``nodepool-ocb completion``: the script that makes a shell complete."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.operations.completion.offering import CompletionNames
from nodepool_ocb.views.view import View


class Script(View, frozen=True):
    """The completion script of a shell."""

    shell: str
    script: str


@click.command(cls=Verb, operation=CompletionNames)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: source <(nodepool-ocb completion bash)   in ~/.bashrc
    zsh:  source <(nodepool-ocb completion zsh)    in ~/.zshrc, below compinit
    fish: nodepool-ocb completion fish | source    in ~/.config/fish/config.fish
    """
    from nodepool_ocb.cli.kit import output
    from nodepool_ocb.cli.shells.scripts import SCRIPTS

    output.text(Script(shell, SCRIPTS[shell]), SCRIPTS[shell])
