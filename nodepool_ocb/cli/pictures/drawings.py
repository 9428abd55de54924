"""A drawing leaves as the text of a format, or as the picture that Graphviz makes of it: on stdout, or in a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from nodepool_ocb.cli.kit import output, terminal
from nodepool_ocb.cli.kit.options import asked
from nodepool_ocb.errors import Invalid, NotFound, TimedOut
from nodepool_ocb.telemetry.terminal_escape import line
from nodepool_ocb.views.graphs import graphviz
from nodepool_ocb.views.view import View, plain

COMMAND: Final = ("dot", "-Tsvg")
TIMEOUT_SECONDS: Final = 60.0
LESS: Final = "draw less of it, or take --format dot"

F = TypeVar("F", bound=Callable[..., Any])


def options(command: F) -> F:
    """The format and the place of a drawing: ``form`` and ``file``."""
    forms = click.Choice(["dot", "svg", "mermaid", "json"])
    command = click.option(
        "--file", type=click.Path(dir_okay=False, path_type=Path), help="Write it there, not to stdout."
    )(command)
    return click.option("--format", "form", type=forms, help="The default is dot; svg needs Graphviz.")(command)


def checked(form: str | None, file: Path | None) -> None:
    """Raises UsageError where the options contradict each other."""
    if asked("output") in (None, "table"):
        return
    if form not in (None, "json"):
        raise click.UsageError(f"--format {form} is text for people; take --format json, or leave -o away")
    if file is not None:
        raise click.UsageError("--file and -o contradict each other; take --format json, or leave -o away")


def whole(form: str | None, boxes: int, single: bool, instead: str) -> bool:
    """Whether a picture has a box for each; if not, ``instead`` is printed, which names the content of a box."""
    if single or boxes <= graphviz.MOST:
        return True
    if form == "svg":
        output.say(f"{boxes:,} {instead}")
    return False


def show(document: View, texts: Mapping[str, Callable[[], str]], form: str | None, file: Path | None) -> None:
    """``texts`` has one for each format but JSON; for ``svg`` it is Graphviz' input."""
    if form == "json" and asked("output") is None and file is None:
        terminal.document(plain(document))
    elif form == "json" and file is not None:
        _write(file, json.dumps(plain(document), indent=2))
    elif form == "json" or output.chosen() != "table":
        output.text(document, texts["dot"]())
    else:
        text = texts[form or "dot"]()
        text = svg(text) if form == "svg" else text
        _write(file, text) if file is not None else terminal.text(text.rstrip("\n"))


def svg(dot: str, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
    """The drawing of Graphviz. Raises NotFound without Graphviz, TimedOut, and Invalid with its message about the input."""
    import subprocess  # here, so that the help of a noun does not load it

    try:
        done = subprocess.run(
            COMMAND, input=dot, capture_output=True, encoding="utf-8", errors="replace", timeout=timeout_seconds
        )
    except FileNotFoundError:
        raise NotFound("there is no program dot here; apt-get install graphviz, or take --format dot") from None
    except subprocess.TimeoutExpired:
        raise TimedOut(f"dot has not drawn it within {timeout_seconds:g} seconds; {LESS}") from None
    if done.returncode:
        said = line(done.stderr.strip())[:500] or f"it ended with {done.returncode}"
        raise Invalid(f"dot cannot draw it: {said}; {LESS}")
    return done.stdout


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise Invalid(f"{file} cannot be written: {error.strerror}; give another --file") from error
    output.say(f"wrote {file}")
