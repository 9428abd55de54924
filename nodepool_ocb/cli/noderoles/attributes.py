"""``noderole attributes``: the attributes that its jig would see, by layer, and their differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.sealing import reveal_option
from nodepool_ocb.operations.noderoles.effective import (
    NoderoleAttributes,
    NoderoleAttributesChanged,
    NoderoleAttributesDiff,
    NoderoleAttributesRuns,
)
from nodepool_ocb.views.attributes import effective as shown

RUNS: Final = "The inputs that differ between two runs that succeeded."
OPERATIONS: Final = (NoderoleAttributes, NoderoleAttributesChanged, NoderoleAttributesDiff, NoderoleAttributesRuns)


@click.command(cls=Verb, operation=OPERATIONS)
@click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)
@click.argument("places", nargs=-1, metavar="[PATH]...", shell_complete=completion.places)
@click.option("--explain", is_flag=True, help="Each value with the values that it hides.")
@click.option(
    "--diff", "other", metavar="ROLE@FQDN", shell_complete=completion.noderoles, help="Only values that differ."
)
@click.option("--changed", is_flag=True, help="Only inputs that changed since its newest run.")
@click.option("--runs", "two", nargs=2, metavar="RUN RUN", shell_complete=completion.runs, help=RUNS)
@reveal_option
def attributes(
    name: str,
    places: Sequence[str],
    explain: bool,
    other: str | None,
    changed: bool,
    two: tuple[str, str] | None,
    reveal: bool,
) -> None:
    """The attributes that the jig of a noderole would see now, each with the layer that says it.

    PATH: an attribute's name, or a path a/b/c; the default is all.
    """
    if (changed or two) and (other is not None or explain or places or reveal or (changed and two)):
        raise click.UsageError(f"--{'changed' if changed else 'runs'} stands alone")
    if reveal and other is not None:
        raise click.UsageError("--reveal shows one noderole; leave --diff away")
    if changed:
        differences = perform(NoderoleAttributesChanged(noderole=name)).answer
        output.things(differences, ("what", "before", "now", "layer"), key="what")
    elif two is not None:
        _compare(perform(NoderoleAttributesRuns(noderole=name, runs=two)).answer)
    elif other is not None:
        _compare(perform(NoderoleAttributesDiff(noderole=name, other=other, places=tuple(places))).answer)
    else:
        document = perform(NoderoleAttributes(noderole=name, places=tuple(places), reveal=reveal)).answer
        if explain:
            output.text(document, "\n".join(shown.explained(document)))
        else:
            output.thing(document, name, output.table(shown.short(document), ("place", "value", "layer")))


def _compare(document: shown.UnlikeDocument) -> None:
    output.text(document, "\n".join(shown.compared(document)))
