"""A command whose transaction is refused while its answer is lost decides again: exit code 0 says that it is written."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.model import paths
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server
from tests.fixtures.commands import Ocb
from tests.fixtures.lossy_proxy import lost_answer

N1, MINE = "n1.example.com", "mine.example.com"


@pytest.mark.parametrize(
    ("line", "path", "there"),
    [
        (f"node create {MINE}", paths.node(MINE), True),
        (f"noderole unbind top@{N1} --yes", paths.noderole("top", N1), False),
    ],
)
def test_a_command_that_was_refused_is_not_told_as_done(
    line: str, path: str, there: bool, zookeeper: Server, chroot: str, world: Session, ocb: Ocb
) -> None:
    def create_other() -> None:
        assert ocb("node", "create", "other.example.com").exit_code == 0

    with lost_answer(zookeeper, meanwhile=create_other) as (proxy, met):
        answer = CliRunner().invoke(cli, ["--zookeeper", proxy.hosts + chroot, *line.split()], prog_name="nodepool-ocb")
    assert (answer.exit_code, len(met)) == (0, 2)  # refused, and decided again
    assert (world.get(path) is not None) is there
    assert line.split()[2] in ocb("history", "--limit", "1").output
