"""A table that goes to a pipe is written without rich, and has the very lines of rich."""

from __future__ import annotations

from collections.abc import Callable

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


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []])
def test_the_lines_are_those_of_rich(printed: Callable[[Callable[[], None]], str], rows: list[Lamp]) -> None:
    plain = printed(lambda: output._render_rows(rows, COLUMNS))
    assert plain == printed(lambda: output.render(output.table(rows, COLUMNS)))
    assert plain.startswith("NAME")


def test_where_colour_is_asked_for_rich_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert straight.colourless()
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not straight.colourless()


@pytest.mark.parametrize("cell", ["a\nb", "a\tb", "x" * 90])
def test_a_cell_of_several_lines_and_a_table_that_is_too_wide_are_left_to_rich(cell: str) -> None:
    assert straight.lines([{"name": cell}], ["name"], 2, 80) is None
    assert straight.lines([{"name": "a"}], ["name"], 2, 80) == ["NAME", "a"]
