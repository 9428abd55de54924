"""A machine at the end of a long way: the round trips of a first step, and of each further one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.jigs import Succeeded
from nodepool_ocb.jigs.ssh.link import Link
from nodepool_ocb.testing.delays import DelayingProxy
from tests.jigs.workshop import Annealer

LOGIN = 4
FIRST = LOGIN + 3  # a channel, the command that starts the runner, the order


@pytest.mark.parametrize("seconds", [pytest.param(0.05, marks=pytest.mark.long), 0.5])
def test_a_short_step_needs_one_round_trip_and_no_second_runner(
    machine: Any, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    opened: list[str] = []
    channel = Link.channel

    def counted(link: Link, command: str, timeout_seconds: float) -> Any:
        opened.append(command)
        return channel(link, command, timeout_seconds)

    monkeypatch.setattr(Link, "channel", counted)
    host, port = machine.farm.address(0)
    annealer = Annealer(machine.settings(connect_timeout_seconds=30.0))
    annealer.run(machine.order("true", log=None))  # it has the runner
    annealer.jig.close()
    opened.clear()
    with DelayingProxy(host, port, seconds / 2) as way:
        node = replace(machine.node, addresses=(f"{host}:{way.port}",))
        steps = []
        for epoch in range(2, 7):  # a busy machine may need longer than a short step should
            order = machine.order("true", record=node, epoch=epoch, generation=epoch, log=None)
            assert isinstance(annealer.run(order), Succeeded)
            steps.append((way.flights(), len(opened)))
            opened.clear()
        first, *further = steps
        assert first[1] == 1
        assert (1, 0) in further, "without the time of a round trip each step opens a second channel"
        assert annealer.jig._pool._links[machine.fqdn].round_trip_seconds >= seconds
        assert first[0] == FIRST
        annealer.jig.close()
