"""`noderole explain` of many: by name, from a list on stdin, or by a selector."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.model.records import Json
from tests.fixtures.commands import Ocb

N1 = "n1.example.com"
BASE, MIDDLE, TOP = (f"{role}@{N1}" for role in ("base", "middle", "top"))


def _ageless(text: str) -> str:
    """Without the seconds that passed between two commands."""
    return re.sub(r"since \d+s", "since", text)


@pytest.mark.usefixtures("world")
def test_each_is_explained_in_the_order_that_was_asked_for(ocb: Ocb, ask: Callable[..., Json]) -> None:
    alone = [ocb("noderole", "explain", name).stdout for name in (TOP, BASE)]
    both = _ageless(ocb("noderole", "explain", TOP, BASE).stdout)
    assert both == _ageless("\n".join(alone))
    assert [each["noderole"] for each in ask("noderole", "explain", TOP, BASE)] == [TOP, BASE]
    assert {each["noderole"] for each in ask("noderole", "explain", "-l", N1)} >= {BASE, MIDDLE, TOP}
    listed = CliRunner().invoke(cli, ["noderole", "explain", "-"], prog_name="nodepool-ocb", input=f"{TOP}\n{BASE}\n")
    assert _ageless(listed.stdout) == both
    assert ask("noderole", "explain", TOP)["noderole"] == TOP, "of one it is no list"
    assert ask("noderole", "explain", "-l", TOP)[0]["noderole"] == TOP


@pytest.mark.usefixtures("world")
def test_what_is_not_there_and_nothing_at_all_are_told(ocb: Ocb) -> None:
    assert ocb("noderole", "explain", TOP, f"base@none.{N1}").exit_code == 3
    assert ocb("noderole", "explain").exit_code == 2
    assert ocb("noderole", "explain", "-l", "state:SKIPPED").stdout.strip() == ""
