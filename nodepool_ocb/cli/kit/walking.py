"""The commands of the command line, from a group down."""

from __future__ import annotations

from collections.abc import Iterator

import click


def below(context: click.Context) -> Iterator[click.Context]:
    """A context for each command of a group, in the order of its help; none if the context is not of a group."""
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None:
                yield click.Context(command, info_name=name, parent=context)


def verbs(context: click.Context, noun: str = "") -> Iterator[tuple[str, click.Command]]:
    """Each command below that is not a group, by its noun and verb."""
    for each in below(context):
        title = f"{noun} {each.info_name}".strip()
        if isinstance(each.command, click.Group):
            yield from verbs(each, title)
        else:
            yield title, each.command
