"""``noderole explain``: why it does not move."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import STDIN, noderoles_argument, noderoles_given, selector_option
from nodepool_ocb.operations.noderoles.explaining import NoderoleExplain


@click.command(cls=Verb, operation=NoderoleExplain)
@noderoles_argument
@selector_option
def explain(names: Sequence[str], selector: str | None) -> None:
    """Why a noderole does not run: every reason, its cause, since when, and the next step.

    Of more than one, each after the other; with -o json and yaml a list.
    """
    single = selector is None and len(names) == 1 and names[0] != STDIN
    operation = NoderoleExplain(noderoles=noderoles_given(names, selector), selector=selector)
    found = perform(operation).answer
    if single:
        output.text(*found[0])
    else:
        output.texts(found)
