"""A command as a manual page in roff: one for each command and group, named as it is called, with dashes."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from typing import Final

import click
import msgspec

from nodepool_ocb.cli.kit import walking
from nodepool_ocb.cli.kit.examples import example
from nodepool_ocb.cli.kit.options import variable

WIDTH: Final = 10_000  # of the text that click gives, so that no line is folded
LINE: Final = 60  # letters of a line of the page's source
TITLE: Final = r"NODEPOOL\-OCB"  # of every page: longer ones run into the rest of the head


class Page(msgspec.Struct, frozen=True):
    """A manual page of section 1."""

    name: str
    text: str

    @property
    def file(self) -> str:
        """Its name where `man` looks for it."""
        return f"{self.name}.1"


def pages(command: click.Command, name: str, version: str, date: str) -> Iterator[Page]:
    """The page of a command, then those of all that is below it; ``date``: YYYY-MM-DD."""
    yield from _pages(
        click.Context(command, info_name=name, max_content_width=WIDTH, **command.context_settings), version, date
    )


def _pages(context: click.Context, version: str, date: str) -> Iterator[Page]:
    name = context.command_path.replace(" ", "-")
    yield Page(name, "\n".join(_lines(context, name, version, date)) + "\n")
    for below in _below(context):
        yield from _pages(below, version, date)


def _below(context: click.Context) -> Iterator[click.Context]:
    return (each for each in walking.below(context) if not each.command.hidden)


def _lines(context: click.Context, name: str, version: str, date: str) -> Iterator[str]:
    command = context.command
    yield f'.TH {TITLE} 1 {date} "{roff(version)}" ""'
    yield from (".SH NAME", rf"{roff(name)} \-")
    yield from _filled(command.get_short_help_str(WIDTH).rstrip("."))
    yield from (".SH SYNOPSIS", f".B {roff(context.command_path)}")
    yield from _filled(" ".join(command.collect_usage_pieces(context)))
    yield ".SH DESCRIPTION"
    yield from _prose(inspect.cleandoc(command.help or command.get_short_help_str(WIDTH)))
    options = [each for each in command.get_params(context) if isinstance(each, click.Option) and not each.hidden]
    yield ".SH OPTIONS"
    for option in options:
        written, said = option.get_help_record(context) or ("", "")
        yield from (".TP", rf"\fB{roff(written)}\fR", *_filled(said or "See above."))
    program, _, title = context.command_path.partition(" ")
    if (line := example(program, title)) is not None:
        yield from (".SH EXAMPLE", ".nf", roff(line), ".fi")
    yield from _commands(context)
    yield from _environment(context, options)
    if context.parent is not None:
        yield from (".SH SEE ALSO", rf"\fB{roff(context.parent.command_path.replace(' ', '-'))}\fR(1)")


def _prose(text: str) -> Iterator[str]:
    """Paragraphs; one that begins with a backspace keeps its lines, as click has it."""
    for number, paragraph in enumerate(text.replace("\f", "").split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield from (".nf", *(roff(line) for line in paragraph.split("\n")[1:]), ".fi")
        else:
            yield from _filled(paragraph)


def _filled(text: str) -> Iterator[str]:
    return map(roff, textwrap.wrap(" ".join(text.split()), LINE, break_long_words=False, break_on_hyphens=False))


def _commands(context: click.Context) -> Iterator[str]:
    below = list(_below(context))
    if below:
        yield ".SH COMMANDS"
    for each in below:
        name = roff(each.command_path.replace(" ", "-"))
        yield from (".TP", rf"\fB{name}\fR(1)", *_filled(each.command.get_short_help_str(WIDTH)))


def _environment(context: click.Context, options: list[click.Option]) -> Iterator[str]:
    """The variable of each option that takes one."""
    named = [(variable(context, each), each) for each in options]
    found = [(name, option) for name, option in named if name is not None]
    if found:
        yield ".SH ENVIRONMENT"
    for name, option in found:
        yield from (".TP", rf"\fB{roff(name)}\fR", rf"\fB{roff(max(option.opts, key=len))}\fR")


def roff(text: str) -> str:
    r"""Text as it is to be read: nothing in it is a request or an escape.

    >>> roff("--dry-run"), roff(".hidden"), roff("a\\b")
    ('\\-\\-dry\\-run', '\\&.hidden', 'a\\eb')
    """
    safe = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")
    )
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe
