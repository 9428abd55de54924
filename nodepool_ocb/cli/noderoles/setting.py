"""``nodepool-ocb noderole set`` and ``unset``: the attributes of a noderole that its user gives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import click

from nodepool_ocb.cli.kit import completion, reporting, sealing
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import noderoles_given, selector_option
from nodepool_ocb.operations.noderoles.setting import NoderoleSet, NoderoleUnset


@click.command("set", cls=Verb, operation=NoderoleSet)
@click.argument(
    "words",
    nargs=-1,
    metavar="[ROLE@FQDN...|-] PATH/TO=JSON...",
    shell_complete=completion.before(completion.noderoles, completion.assignments),
)
@selector_option
@dry_run_option
def set_(words: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Set attributes of noderoles, as their user: by the attribute's name, or at a path a/b/c.

    A value that a schema of the role refuses is not written; nor is anything while both a noderole and its deployment are
    committed. PATH=- asks for a text without echo, or reads it from stdin, and PATH=@FILE from a file: a secret then stands in
    no shell's history and no list of processes. An attribute that the role declares as secret is encrypted before it is written.
    PATH=secret:vault:PATH#KEY (or secret:file:/PATH, secret:env:NAME) refers to one that annealers look up when they need it.
    """
    assignments = sealing.read([word for word in words if "=" in word])
    if not assignments:
        raise click.UsageError("give PATH/TO=JSON after the names")
    names = noderoles_given([word for word in words if "=" not in word], selector)
    operation = NoderoleSet(noderoles=names, selector=selector, assignments=tuple(assignments))
    reporting.performed(perform(operation, dry_run=dry_run))


@click.command(cls=Verb, operation=NoderoleUnset)
@click.argument(
    "words",
    nargs=-1,
    metavar="[ROLE@FQDN...|-] PATH/TO...",
    shell_complete=completion.before(completion.noderoles, completion.settings),
)
@selector_option
@dry_run_option
def unset(words: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Remove attributes that `noderole set` gave, by name or path; prints the values that then count."""
    names = () if selector is not None else tuple(takewhile(_may_be_name, words))
    keys = words[len(names) :]
    if not keys:
        raise click.UsageError("give PATH/TO after the names")
    given = noderoles_given(names, selector)
    operation = NoderoleUnset(noderoles=given, selector=selector, keys=tuple(keys))
    reporting.performed(perform(operation, dry_run=dry_run))


def _may_be_name(word: str) -> bool:
    return "@" in word or word == "-"
