"""Completion for shells, and the names that it offers: none where ZooKeeper does not answer in two seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.model import paths
from nodepool_ocb.telemetry import visible
from nodepool_ocb.views.view import View

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

PATIENCE_SECONDS: Final = 2.0

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


class Script(View, frozen=True):
    """The completion script of a shell."""

    shell: str
    script: str


@click.command(cls=Verb)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For bash: put `source <(nodepool-ocb completion bash)` into ~/.bashrc.
    """
    from click.shell_completion import get_completion_class

    from nodepool_ocb.cli.kit import output

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    root = ctx.find_root().command
    words = kind(root, {}, "nodepool-ocb", "_NODEPOOL_OCB_COMPLETE").source()
    output.text(Script(shell, words), words)


def _names(read: Callable[[Session], Iterable[str]]) -> Complete:
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        from nodepool_ocb.cli.kit import session

        try:
            with session.session(ctx, PATIENCE_SECONDS) as opened:
                return sorted(name for name in read(opened) if name.startswith(incomplete) and not visible.odd(name))
        except Exception:  # whatever it is: a shell in the middle of a line has no use for it
            return []

    return complete


def _noderoles(opened: Session) -> Iterable[str]:
    nodes = opened.children(paths.NODES) or []
    below = opened.children_many([paths.noderoles(fqdn) for fqdn in nodes])
    for fqdn, roles in zip(nodes, below, strict=True):
        yield from (paths.noderole_name(role, fqdn) for role in roles or ())


roles = _names(lambda opened: opened.children(paths.ROLES) or [])
nodes = _names(lambda opened: opened.children(paths.NODES) or [])
deployments = _names(lambda opened: opened.children(paths.DEPLOYMENTS) or [])
noderoles = _names(_noderoles)
rollouts = _names(lambda opened: opened.children(paths.ROLLOUTS) or [])
images = _names(lambda opened: opened.children(paths.IMAGES) or [])
