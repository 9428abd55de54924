"""A table that goes to a pipe is written without rich, and has the very lines of rich."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.printing import straight
from nodepool_ocb.views.view import View


class Lamp(View, frozen=True, kw_only=True):
    name: str
    state: str
    held: str | None = None
    tags: tuple[str, ...] = ()
    broken: bool = False
    reason: str | None = None


ROWS = [
    Lamp(name="n1.example.com", state="ACTIVE"),
    Lamp(name="n2", state="ERROR", held="by ann: Größe", tags=("web", "db"), reason="no disk  left "),
    Lamp(name="ñ3", state="TODO", broken=True, reason="\x1b[2J日本語"),
]
COLUMNS = ("name", "state", "held", "tags", "broken", "reason")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[Callable[[], None]], str]:
    def run(write: Callable[[], None]) -> str:
        write()
        return capsys.readouterr().out

    return run


PARTS: Final[list[Callable[[], Sequence[Any]]]] = [
    lambda: [output.table(ROWS, COLUMNS)],
    lambda: [output.table(ROWS[:1], COLUMNS)],
    lambda: [output.table([], COLUMNS)],
    lambda: [output.fields(ROWS[1])],
    lambda: [output.fields(ROWS[2], {"größe": 3, "empty": ""}, but=("reason",))],
    lambda: [output.fields(ROWS[0]), "", output.table(ROWS, COLUMNS), "a title", output.table([], COLUMNS)],
    lambda: ["", output.fields(ROWS[0]), ""],
    lambda: [output.fields(ROWS[0]), output.table([Lamp(name="n1", state="ERROR", reason="first\nsecond")], COLUMNS)],
    lambda: [output.fields({"text": "first\nsecond"}), output.table(ROWS, COLUMNS)],
    lambda: [output.fields(ROWS[0]), output.verbatim(["copy  this", "and this"])],
    lambda: ["a title\tof two\nlines", output.table(ROWS, COLUMNS)],
    lambda: [
        output.fields({"größe\x1b[2J": "a\x9bb"}),
        "\x1b]0;a title \u2028 of one line  ",
        output.table(ROWS, COLUMNS),
    ],
    lambda: [output.fields({"empty": "", "none": None})],
    lambda: [output.fields({}), output.table(ROWS, COLUMNS)],
]


@pytest.mark.parametrize("parts", PARTS)
def test_the_lines_are_those_of_rich(
    printed: Callable[[Callable[[], None]], str], parts: Callable[[], Sequence[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = printed(lambda: output.render(*parts()))
    monkeypatch.setattr(straight, "colourless", lambda: False)
    assert plain == printed(lambda: output.render(*parts()))
    assert plain.strip()


def test_without_parts_nothing_is_printed(
    printed: Callable[[Callable[[], None]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert printed(output.render) == ""
    monkeypatch.setattr(straight, "colourless", lambda: False)
    assert printed(output.render) == ""


def test_fields_and_tables_of_one_line_each_need_no_rich() -> None:
    script = (
        "import sys; from nodepool_ocb.cli.kit import output; from nodepool_ocb.views.view import View\n"
        "class Lamp(View, frozen=True, kw_only=True): name: str\n"
        "output.render(output.fields(Lamp(name='n1')), '', output.table([Lamp(name='n2')], ['name']))\n"
        "print([each for each in sys.modules if each.partition('.')[0] == 'rich'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["name  n1", "", "NAME", "n2", "[]"]


def test_where_colour_is_asked_for_rich_writes(
    printed: Callable[[Callable[[], None]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert straight.colourless()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not straight.colourless()
    assert "\x1b[32mACTIVE" in printed(lambda: output.render(output.fields(ROWS[0])))


@pytest.mark.parametrize("cell", ["a\nb", "a\tb", "x" * 90])
def test_a_cell_of_several_lines_and_a_table_that_is_too_wide_are_left_to_rich(cell: str) -> None:
    assert straight.lines([{"name": cell}], ["name"], 2, 80) is None
    assert straight.lines([{"name": "a"}], ["name"], 2, 80) == ["NAME", "a"]
    assert straight.pairs([("name", cell)], 2, 80) is None
    assert straight.pairs([("name", "a")], 2, 80) == ["name  a"]


def test_fields_that_are_not_wanted_are_left_out(printed: Callable[[Callable[[], None]], str]) -> None:
    shown = printed(lambda: output.render(output.fields(ROWS[1], but=("held", "tags"))))
    assert [line.split()[0] for line in shown.splitlines()] == ["name", "state", "broken", "reason"]


def test_a_table_is_not_cut_on_a_terminal_that_is_too_narrow_for_its_first_column(
    printed: Callable[[Callable[[], None]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    name = f"{'n' * 60}.example.com"
    assert name in printed(lambda: output.render(output.table([Lamp(name=name, state="ACTIVE")], ("name", "state"))))
