"""docs/attributes.md: what it shows is what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.fixtures.commands import Ocb

BARCLAMP = """\
barclamp: {name: web, version: 1}
roles:
  - name: base
    jig: noop
    flags: [implicit]
    attribs: [{name: zone, map: base/zone, default: UTC}]
  - name: web
    jig: noop
    requires: [base]
    attribs:
      - {name: port, map: web/port, default: 80}
      - {name: title, map: web/title, default: Hello!}
"""


@pytest.fixture
def shop(ocb: Ocb, tmp_path: Path) -> Ocb:
    """Role web, which requires base, bound to n1 and n2 in deployment shop."""
    (tmp_path / "web.yml").write_text(BARCLAMP)
    lines = [f"barclamp import {tmp_path / 'web.yml'}", "deployment create shop"]
    for fqdn in ("n1.example.com", "n2.example.com"):
        lines += [f"node create {fqdn} --deployment shop", f"node bind {fqdn} web"]
    for line in lines:
        assert ocb(*line.split()).exit_code == 0, line
    return ocb


def test_each_command_of_the_page_prints_what_the_page_shows(shop: Ocb) -> None:
    page = (ROOT / "docs/attributes.md").read_text()
    shown = re.findall(r"^\$ nodepool-ocb (.*)\n((?:(?!\$ |```).*\n)*)", page, re.MULTILINE)
    assert len(shown) == 5
    for line, expected in shown:
        answer = shop(*line.split())
        assert answer.exit_code == 0, answer.output
        if expected or " set " not in line:
            assert answer.stdout == expected, line


def test_a_noderole_without_a_run_is_not_outdated(shop: Ocb) -> None:
    answer = shop("noderole", "attributes", "web@n1.example.com", "--changed")
    assert (answer.exit_code, "is not outdated" in answer.stderr) == (0, True)
    assert shop("noderole", "attributes", "web@n1.example.com", "port", "--changed").exit_code == 2
