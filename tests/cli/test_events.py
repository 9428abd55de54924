"""``events``: entries and states as they come, without a gap where the connection breaks."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from nodepool_ocb.engine.noderole import State
from nodepool_ocb.model.records import Json
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from tests.cli.background_command import begun
from tests.fixtures.commands import Ocb

N1 = "n1.example.com"
BASE = f"base@{N1}"


@pytest.mark.usefixtures("world")
def test_events_are_entries_and_states_without_a_gap_where_the_connection_breaks(
    ocb: Ocb, becomes: Callable[..., None], zookeeper: Server, chroot: str
) -> None:
    arguments = ("events", "-f", "--after", "-1", "-o", "json")
    with Proxy(zookeeper.port) as proxy, begun(proxy.hosts + chroot, *arguments) as (following, printed, _):
        numbers: list[int] = []

        def until(wanted: Callable[[Json], bool]) -> Json:
            while True:
                event = json.loads(printed.readline())
                numbers.extend([event["number"]] if "number" in event else [])
                if wanted(event):
                    return event

        until(lambda event: event.get("verb") == "node bind")
        becomes(BASE, State.ERROR)
        changed = until(lambda event: event.get("name") == BASE)
        assert (changed["kind"], changed["old"], changed["new"]) == ("noderole", "PROPOSED", "ERROR")
        proxy.cut()
        for rack in ("r1", "r2", "r3"):
            assert ocb("node", "set", N1, f"rack={rack}").exit_code == 0
        proxy.heal()
        until(lambda event: event.get("changes", [{}])[0].get("fields", [{}])[0].get("new") == "r3")
        assert ocb("node", "unavailable", N1).exit_code == 0
        until(lambda event: event.get("kind") == "node" and event["new"] == "dead, unavailable")
        assert numbers == list(range(len(numbers)))
        following.send_signal(signal.SIGINT)
        assert following.wait(20) == 130


@pytest.mark.usefixtures("world")
def test_events_and_history_are_of_what_is_asked_for(ocb: Ocb) -> None:
    def lines(*asked: str) -> list[str]:
        answer = ocb("events", *asked)
        assert answer.exit_code == 0, answer.output
        return list(answer.stdout.splitlines())

    assert ocb("node", "create", "n2.example.com").exit_code == 0
    everything = lines("--after", "-1")
    assert "deployment create: lab created" in everything[1]
    assert lines("--since", "1h") == everything
    assert lines("--since", "2999-01-01T00:00") == []
    assert lines("--after", "1") == everything[2:]
    assert lines("--after", "-1", N1) == everything[2:4]
    assert lines("--after", "-1", "-l", "tag:web") == everything[2:4]
    assert lines("--after", "-1", "-l", "state:ERROR") == []
    assert [ocb("events", *asked).exit_code for asked in ((), ("--since", "1h", "--after", "1"))] == [2, 2]
    whole = json.loads(ocb("history", "-o", "json").stdout)
    assert json.loads(ocb("history", "-l", "tag:web", "-o", "json").stdout) == whole[2:4]
