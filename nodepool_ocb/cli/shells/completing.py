"""The answers to a shell. After an error there are none, and the shell learns no reason.

A word may hold the characters at which shells divide words (``@``, ``:``, ``=``): the line is divided here, as a shell does it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    _resolve_context,
    _resolve_incomplete,
    add_completion_class,
    split_arg_string,
)

from nodepool_ocb.cli.shells.scripts import SCRIPTS

VARIABLE: Final = "_NODEPOOL_OCB_COMPLETE"
LINE: Final = "_NODEPOOL_OCB_LINE"
BREAKS: Final = "_NODEPOOL_OCB_BREAKS"

MOST: Final = 2000  # answers
GOES_ON: Final = ("=", "/", "@", ":", ",", ".")  # a word with such an end is not whole
SPECIAL: Final = ("@", "$")  # of readline, in bash
CLOSE: Final = "\0"  # of a line; no word can hold it


class Line(msgspec.Struct, frozen=True):
    """A line up to the cursor: the words before the one that is completed, and this one without its quotes."""

    words: list[str]
    incomplete: str
    quoted: bool = False

    @property
    def option(self) -> str:
        """The part of a word before its value: ``--deployment=``, or nothing."""
        name, equals, _ = self.incomplete.partition("=")
        return name + equals if equals and name.startswith("--") else ""


def line(text: str, program: str) -> Line:
    """The arguments of the program in a line.

    >>> line("A=1 /usr/bin/nodepool-ocb noderole show ntp@n", "nodepool-ocb")
    Line(words=['noderole', 'show'], incomplete='ntp@n', quoted=False)
    >>> line("nodepool-ocb noderole show ", "nodepool-ocb")
    Line(words=['noderole', 'show'], incomplete='', quoted=False)
    >>> line("nodepool-ocb noderole show 'ntp@n", "nodepool-ocb")
    Line(words=['noderole', 'show'], incomplete='ntp@n', quoted=True)
    """
    *words, last = split_arg_string(text + CLOSE)
    at = next((number for number, word in enumerate(words) if os.path.basename(word) == program), -1)
    incomplete = last.rstrip(CLOSE)
    return Line(words[at + 1 :], incomplete, text.removesuffix(incomplete).endswith(("'", '"')))


class Completing(ShellComplete):
    """The same for every shell."""

    def source(self) -> str:
        """The script of the shell."""
        return SCRIPTS[self.name]

    def complete(self) -> str:
        """The answers, one a line."""
        try:
            return "\n".join(self._answers(line(os.environ.get(LINE, ""), self.prog_name)))
        except Exception:  # any error: a shell in the midst of a line has no use for it
            return ""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """An option that waits for its value does not hide the words before it."""
        waiting = bool(args) and args[-1].startswith("-")
        ctx = _resolve_context(self.cli, self.ctx_args, self.prog_name, args[:-1] if waiting else args)
        parameter, start = _resolve_incomplete(ctx, args, incomplete)
        return parameter.shell_complete(ctx, start)

    def _answers(self, asked: Line) -> Iterator[str]:
        items: Iterable[CompletionItem[str]] = self.get_completions(asked.words, asked.incomplete)
        for item, _ in zip(items, range(MOST), strict=False):
            whole = item.value if item.value.startswith(asked.incomplete) else asked.option + item.value
            yield self._answer(item, whole[self.kept(asked) :])

    def _answer(self, item: CompletionItem[str], value: str) -> str:
        kind = "part" if item.type == "plain" and value.endswith(GOES_ON) else item.type
        help_ = " ".join((item.help or "").split())
        return "\t".join((kind, value, help_) if help_ else (kind, value))

    def kept(self, asked: Line) -> int:  # noqa: ARG002
        """How many letters of the word stay as they are: the shell replaces those behind them."""
        return 0


class Bash(Completing):
    """bash."""

    name = "bash"

    def kept(self, asked: Line) -> int:
        """Up to the last letter at which bash divides words; in quotes there is none.

        A word that begins with one of readline's "special prefixes" is replaced with it.
        """
        if asked.quoted:
            return 0
        last = max((asked.incomplete.rfind(each) for each in os.environ.get(BREAKS, "")), default=-1)
        return last if asked.incomplete[last : last + 1] in SPECIAL else last + 1

    def _answer(self, item: CompletionItem[str], value: str) -> str:
        return super()._answer(CompletionItem(item.value, item.type), value)


class Zsh(Completing):
    """zsh."""

    name = "zsh"


class Fish(Completing):
    """fish."""

    name = "fish"


def use() -> None:
    """These answer, and not those of click."""
    for kind in (Bash, Zsh, Fish):
        add_completion_class(kind)
