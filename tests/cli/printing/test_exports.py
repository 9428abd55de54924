"""An export is printed node by node, and is one document all the same."""

from __future__ import annotations

import msgspec
import pytest

from nodepool_ocb.cli.site import export
from nodepool_ocb.documents import plainyaml
from nodepool_ocb.model.records import Json
from nodepool_ocb.telemetry.terminal_escape import odd


@pytest.mark.parametrize("text", ["a\u202eb", "ä", "a\x1b[2J", "a\n\n"])
@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_an_export_says_the_same_and_acts_on_no_terminal(
    capsys: pytest.CaptureFixture[str], nodes: int, text: str
) -> None:
    made = {f"n{number}": {"labels": {"a": text}} for number in range(nodes)}
    site: Json = {"site": 1, "deployments": {"lab": {"a": text}}, "nodes": made}
    export._print(msgspec.Raw(msgspec.json.encode(site)))
    printed = capsys.readouterr().out
    assert [parsed.value for parsed in plainyaml.parse_all(printed)] == [site]
    assert not odd(printed)
