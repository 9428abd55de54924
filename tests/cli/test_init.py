"""``nodepool-ocb init``, and what every other command says where nobody has called it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from nodepool_ocb.cli.main import NOUNS, cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Cluster, Delete
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server

#: Arguments that get every verb as far as ZooKeeper; the rest need none.
VERBS = [
    "status", "pause --reason x", "resume",
    "deployment list", "deployment show x", "deployment create x", "deployment commit x", "node list",
    "node create n1.example.com", "node show n1.example.com", "noderole list", "noderole retry --failed", "role list",
    "rollout list", "image list", "image show x", "image build x", "upload list",
    "request list", "request show x", "request create --label x", "request delete x --yes",
    "lease list", "lease take x", "lease return x", "pool list", "pool show x/y", "pool erase x --yes",
    "daemon list", "lock list", "graph",
    "config check", "acl init", "acl check", "record show /ocb/roles/x", "restored", "history", "events -f", "secret list",
    "token list", "token create ann", "token revoke 0123456789ab", "network list", "network create x subnet=10.1.0.0/24",
    "bootenv list", "bootenv show install", "bootenv create fw kind=local", "bootenv set install image=x", "bootenv delete fw",
    "installation show x", "installation report x written", "node reinstall x --yes",
    "node decommission x --yes", "node recommission x", "node rescue x",
    "power list", "power on n1.example.com", "registration list", "registration create 52:54:00:00:00:91", "adoption list",
    "adoption set web name=w.example.com", "node adopt 52:54:00:00:00:91 n1.example.com",
    "node hint 52:54:00:00:00:91 n1.example.com", "node machine n1.example.com", "node going-down n1.example.com",
    "tasks list", "tasks plan --deployment x", "tasks run --deployment x", "tasks history x",
    f"barclamp import {Path(__file__).parents[2] / 'etc/barclamps'}", "export", f"apply -f {Path(__file__).parent / 'site.yaml'}",
]  # fmt: skip


@pytest.fixture
def at(zookeeper: Server, chroot: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Run the command line below a chroot that is not there."""
    monkeypatch.setenv("NODEPOOL_OCB_ZOOKEEPER", f"{zookeeper.hosts}{chroot}/new")
    monkeypatch.setenv("HOME", str(tmp_path))
    return lambda *arguments: CliRunner().invoke(cli, arguments, prog_name="nodepool-ocb")


def test_init_makes_the_chroot_and_a_cluster_once(at: Callable[..., Result], zookeeper: Server, chroot: str) -> None:
    first, again = at("init", "-o", "name"), at("init", "-o", "name")
    assert (first.exit_code, again.exit_code) == (0, 0), (first.output, again.output)
    assert first.stdout == again.stdout
    assert "already exists" in again.stderr
    with Session(ZooKeeperSettings(hosts=f"{zookeeper.hosts}{chroot}/new")) as session:
        world = load_world(session)
    assert world.cluster is not None
    assert world.cluster.record.id == first.stdout.strip()
    assert set(world.deployments) == {"system"}
    assert at("deployment", "create", "lab").exit_code == 0


def test_a_dry_run_of_init_makes_nothing_and_says_what_would_be_made(
    at: Callable[..., Result], zk_session: Session
) -> None:
    dry = at("init", "--dry-run", "-o", "json")
    assert dry.exit_code == 10, dry.output
    assert [row["kind"] for row in json.loads(dry.stdout)["changes"]] == ["cluster", "key for logs", "deployment"]
    assert zk_session.get("/new") is None
    assert at("init").exit_code == 0
    again = at("init", "--dry-run")
    assert again.exit_code == 0
    assert "already exists" in again.stderr
    with Session(ZooKeeperSettings(hosts=f"{zk_session.hosts}/new")) as session:
        znode = session.get(paths.CLUSTER)
        assert znode is not None
        session.commit([Delete(paths.CLUSTER, znode.version)])
    torn = at("init", "--dry-run")
    assert torn.exit_code == 4
    assert "a part of a cluster was lost" in torn.stderr


def test_a_repeated_init_does_not_pretend_to_have_set_another_admin_domain(at: Callable[..., Result]) -> None:
    assert at("init", "--admin-domain", "example.com").exit_code == 0
    assert at("init", "--admin-domain", "example.com").exit_code == 0
    other = at("init", "--admin-domain", "example.org")
    assert other.exit_code == 4
    assert "example.com" in other.stderr
    assert at("node", "create", "n1.example.org").exit_code == 1


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_refuses_a_place_without_a_cluster(
    at: Callable[..., Result], verb: str, zookeeper: Server, chroot: str
) -> None:
    answer = at(*verb.split())
    assert answer.exit_code == 9, answer.output
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    for part in (zookeeper.hosts, f"chroot {chroot}/new", "zookeeper.hosts", "nodepool-ocb init"):
        assert part in answer.stderr
    with Session(ZooKeeperSettings(hosts=zookeeper.hosts)) as session:
        assert session.get(chroot) is None  # and nothing was made


def test_every_noun_is_tried_without_a_cluster() -> None:
    tried = {verb.split()[0] for verb in VERBS}
    with click.Context(cli) as ctx:
        assert set(cli.list_commands(ctx)) == set(NOUNS)
    assert set(NOUNS) - tried == {"init", "completion", "man", "login", "logout"}  # these need no ZooKeeper


def test_many_who_init_at_once_make_one_cluster(zookeeper: Server, chroot: str) -> None:
    settings = ZooKeeperSettings(hosts=zookeeper.hosts + chroot)
    made: list[bool] = []
    start = threading.Barrier(8)

    def init() -> None:
        with Session(settings) as session:
            start.wait()
            made.append(clusters.bootstrap(session))

    threads = [threading.Thread(target=init) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert sorted(made) == [False] * 7 + [True]


def test_a_tree_whose_id_was_lost_gets_no_new_one(zk_session: Session) -> None:
    znode = zk_session.get(paths.CLUSTER)
    assert znode is not None
    assert codec.decode(Cluster, znode).id
    zk_session.commit([Delete(paths.CLUSTER, znode.version)])
    with pytest.raises(Conflict, match="restore it"):
        clusters.bootstrap(zk_session)
    assert zk_session.get(paths.CLUSTER) is None
