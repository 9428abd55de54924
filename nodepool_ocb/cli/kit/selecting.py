"""The nodes or noderoles that a verb is for: names, a list of names on stdin (``-``), or the matches of a selector (``-l``).

``operations.selection`` resolves selectors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import click

from nodepool_ocb.cli.kit import completion
from nodepool_ocb.operations import selection

F = TypeVar("F", bound=Callable[..., Any])
STDIN: Final = "-"
NODES: Final = "names of nodes"
NODEROLES: Final = "ROLE@FQDN"
BOM: Final = "\ufeff"  # with which some editors begin a file
MOST_LETTERS: Final = 16 * 1024 * 1024  # of a list on stdin

nodes_argument = click.argument("fqdns", nargs=-1, metavar="[FQDN...|-]", shell_complete=completion.nodes)
noderoles_argument = click.argument("names", nargs=-1, metavar="[ROLE@FQDN...|-]", shell_complete=completion.noderoles)


def _selector_option(objects: str, example: str) -> Callable[[F], F]:
    return click.option(
        "-l",
        "--selector",
        metavar="EXPR",
        shell_complete=completion.selectors,
        help=f"The {objects} that match a selector, such as '{example}'; see docs/selectors.md.",
    )


selector_option = _selector_option("noderoles", "tag:web role:ntp state:ERROR")
node_selector_option = _selector_option("nodes", "tag:web rack:r6")
history_selector_option = _selector_option("nodes and noderoles", "tag:web role:ntp")


def names_given(given: Sequence[str], selector: str | None, what: str) -> tuple[str, ...]:
    """The names of a command line, with the list on stdin in place of ``-``; none with a selector.

    Raises UsageError unless there is one of the two, called ``what``; Invalid for a wrong selector.
    """
    if given and selector is not None:
        raise click.UsageError(f"give {what}, or -l EXPR, not both")
    if not given and selector is None:
        raise click.UsageError(f"give {what}, or - for a list of them on stdin, or -l EXPR")
    if selector is not None:
        selection.check(selector)
        return ()
    return tuple(dict.fromkeys(_with_stdin(given)))


def nodes_given(given: Sequence[str], selector: str | None) -> tuple[str, ...]:
    """``names_given`` of nodes."""
    return names_given(given, selector, NODES)


def noderoles_given(given: Sequence[str], selector: str | None) -> tuple[str, ...]:
    """``names_given`` of noderoles."""
    return names_given(given, selector, NODEROLES)


def divided(words: Sequence[str], selector: str | None, what: str) -> tuple[Sequence[str], str]:
    """Names, and the one word that stands after them; raises UsageError where that is missing, or not alone after ``-l``."""
    if not words or (selector is None and len(words) == 1):
        raise click.UsageError(f"give {'-l EXPR and ' if selector is not None else 'names, and after them '}{what}")
    if selector is not None and len(words) > 1:
        raise click.UsageError(f"with -l only {what} is given, and no names")
    return words[:-1], words[-1]


def listed(lines: Iterable[str]) -> Iterator[str]:
    """The names of a list, one a line; raises UsageError for a line that has more.

    >>> list(listed(["n1", "", "  # the second rack", "n2  # and its twin"]))
    ['n1', 'n2']
    """
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if len(words) > 1:
            raise click.UsageError(
                f"line {number} of the list on stdin has more than one name: {line.strip()!r}; write one name a line"
            )
        yield from words


def _with_stdin(given: Iterable[str]) -> Iterator[str]:
    for name in given:
        if name != STDIN:
            yield name
            continue
        try:
            text = sys.stdin.read(MOST_LETTERS + 1)
        except UnicodeDecodeError:
            raise click.UsageError("the list on stdin is not UTF-8; save it as UTF-8") from None
        if len(text) > MOST_LETTERS:
            raise click.UsageError("the list on stdin is longer than 16 MiB; divide it")
        yield from listed(text.removeprefix(BOM).splitlines())
