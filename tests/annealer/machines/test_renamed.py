"""A machine whose node gets another name: what was done on it stays done, and it obeys the node under the new one."""

from __future__ import annotations

from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.model.records import State
from tests.journeys.fleet import Fleet

NEW = "renamed.farm.example.com"


def test_a_machine_obeys_its_node_under_another_name_and_does_nothing_twice(fleet: Fleet) -> None:
    for role in ("first", "second", "third"):  # the machine knows an epoch of each
        fleet.add_role(role, fleet.work(0.0))
        fleet.bind(role, fleet.nodes[0])
    fleet.annealer().begin()
    fleet.until_all_active()
    command = ["--zookeeper", fleet.hosts, "node", "rename", fleet.nodes[0], NEW]
    renamed = CliRunner().invoke(cli, command, prog_name="nodepool-ocb")
    assert renamed.exit_code == 0, renamed.output
    new = f"first@{NEW}"
    assert (fleet.state(new), len(fleet.runs(new))) == (State.ACTIVE, 1)
    fleet.happens(new, Event.REFRESH)
    fleet.until(lambda: len(fleet.runs(new)) == 2, "it runs again")
    assert [run.outcome for run in fleet.runs(new).values()] == ["succeeded", "succeeded"]
