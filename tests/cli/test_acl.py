"""``nodepool-ocb acl``, and what people's user does with the rights of people."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from nodepool_ocb import config
from nodepool_ocb.cli.main import NOUNS, cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Create
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import acls, clusters
from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client.access import Acls, words
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.testing.zookeeper.guarded import Guarded
from tests.cli.pools.played_launcher import PlayedLauncher
from tests.fixtures.commands import BARCLAMP

As = Callable[..., Result]
STRATEGY = "groups: [{name: all, critical: true, depends_on: [], selectors: []}]\n"

#: Everything that people do, in an order that works; FOLDER stands for where the documents are.
JOURNEY = """
init; acl init; acl check; config check; barclamp check FOLDER/chain.yml; barclamp import FOLDER/chain.yml
role list; role show top; deployment create lab; node create n1.example.com --deployment lab --tag web
node create n2.example.com --deployment lab; node set n1.example.com rack=r1; node bind n1.example.com top
node bind n2.example.com top; noderole set middle@n1.example.com middle/size=3
noderole unset middle@n1.example.com middle/size; deployment set lab middle middle/size=2
deployment unset lab middle middle/size; deployment commit lab --no-noderoles; node commit n1.example.com; node list
node show n1.example.com; noderole commit top@n2.example.com; noderole list; noderole show top@n1.example.com
noderole explain top@n1.example.com; noderole attributes top@n1.example.com; noderole drift
deployment checks lab --off; noderole causes; token create ann --role viewer; token list; token show TOKEN; token revoke TOKEN
bootenv create fw kind=local; bootenv list; bootenv show fw; bootenv set fw description=x; bootenv delete fw
token create bob --role viewer
network create admin subnet=10.1.0.0/24 ranges.host=10.1.0.20-10.1.0.29 ranges.dhcp=10.1.0.100-10.1.0.199; network list
network set admin vlan=7; network show admin; network allocate admin n1.example.com; network addresses admin
network release admin n1.example.com; node set n1.example.com admin=true; network serve admin n1.example.com
network unserve admin n1.example.com; node set n1.example.com admin=false; network delete admin --yes
registration create 52:54:00:00:00:91; registration list; registration show 52:54:00:00:00:91
adoption set web name=w-{n}.example.com; adoption list; adoption show web; adoption check; adoption delete web
node adopt 52:54:00:00:00:91 j1.example.com; node machine j1.example.com
node inventory j1.example.com FOLDER/facts.json; node going-down j1.example.com; node hint 52:54:00:00:00:92 j2.example.com
registration create 52:54:00:00:00:93; registration refuse 52:54:00:00:00:93 --reason laptop
registration delete 52:54:00:00:00:93; registration delete 52:54:00:00:00:91; node delete j1.example.com j2.example.com --yes
node create p{}.example.com --count 5; power set -l name:p* driver=manual; power list; power discover
power on p1.example.com; power off p2.example.com
power cycle p3.example.com; power check p4.example.com; power show p4.example.com; power unset p5.example.com
noderole retry --failed; noderole propose top@n2.example.com
noderole redeploy base@n1.example.com; deployment show lab; deployment list; deployment propose lab
deployment commit lab; node unavailable n1.example.com; node available n1.example.com
node dead n1.example.com; node alive n1.example.com; node hold n1.example.com --reason cables --for 1h
node release n1.example.com; deployment pause lab --reason upgrade; deployment resume lab
pause --reason upgrade; resume; daemon pause annealer@h --reason upgrade; daemon resume annealer@h
node create n4.example.com --deployment lab
node rename n4.example.com n5.example.com; node delete n5.example.com --yes
noderole unbind top@n2.example.com --yes; role delete other --yes
deployment create shop; node create n3.example.com --deployment lab; node move n3.example.com shop; node bind n3.example.com top
deployment commit shop --no-noderoles; rollout check FOLDER/strategy.yaml
rollout plan FOLDER/strategy.yaml --deployment shop; rollout start FOLDER/strategy.yaml --deployment shop; rollout list
rollout show shop; rollout cancel shop
deployment create site; node create n6.example.com --deployment site --tag a; deployment commit site --no-noderoles
tasks check FOLDER/6.1/tasks.yaml; tasks sync --dir FOLDER; tasks upload --deployment site --base 6.1; tasks list
tasks show first --deployment site; tasks plan --deployment site; tasks graph --deployment site
tasks download --release 6.1 --dir FOLDER/down; tasks run --deployment site; tasks runs site; tasks history site
tasks stop site
request create --label small; request list; request show 0; lease list; lease show 0; pool list; pool show west/main
lease take 0 --for 1h; lease return 0; lease hold 0 --comment look; lease release 0; lease delete 0 --yes
request create --label small; request delete 1 --yes
image build jammy; image pause jammy; image unpause jammy; image list; image show jammy; image export; upload list
daemon list; lock list; secret list; graph; status; events --since 1h; export; apply -f FOLDER/site.yaml
node delete n2.example.com --yes; node delete n1.example.com --yes; deployment delete lab --yes; pool erase west --yes
acl check
"""
JOURNEY_LINES = [line.strip() for line in JOURNEY.replace("\n", ";").split(";") if line.strip()]
#: What waits, or asks for something that is not there without a daemon.
WITHOUT_US = {
    "noderole cancel", "noderole check", "noderole log", "noderole refresh", "noderole wait", "deployment wait", "rollout accept",
    "rollout promote", "rollout resume", "rollout retry", "rollout select", "rollout wait", "barclamp delete", "image delete",
    "image erase", "upload leaks", "secret keygen", "secret rotate", "power rotate",
    "image import", "image log", "node import", "registration poll",
    "installation identity", "installation report", "installation show", "node reinstall",
    "node decommission", "node recommission", "node rescue",
    "lease leaks", "lease run", "upload delete", "record list", "record show", "record delete", "tasks wait",
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[Guarded]:
    with Guarded() as made:
        yield made


@pytest.fixture
def people(world: Guarded, chroot: str) -> Iterator[Session]:
    """A session of people's, where there is a cluster."""
    with Session(world.settings_of(ClientKind.PEOPLE, chroot)) as session:
        clusters.bootstrap(session)
        yield session


@pytest.fixture
def as_(world: Guarded, chroot: str, tmp_path: Path) -> As:
    """Run the command line as the user of a kind: ``as_(ClientKind.PEOPLE, "acl check")``; ``more`` is of the configuration."""

    def run(who: ClientKind | ZooKeeperSettings, line: str) -> Result:
        settings = world.settings_of(who, chroot) if isinstance(who, ClientKind) else who
        file = tmp_path / "nodepool-ocb.yaml"
        images = tmp_path / "nodepool.yaml"
        images.write_text("diskimages: [{name: jammy, formats: [raw]}]\n")
        zookeeper = {key: value for key, value in msgspec.to_builtins(settings).items() if value is not None}
        file.write_text(json.dumps({"zookeeper": zookeeper, "builder": {"nodepool": str(images)}}))
        words = [word.replace("FOLDER", str(tmp_path)) for word in line.split()]
        return CliRunner().invoke(cli, ["--config", str(file), *words], prog_name="nodepool-ocb")

    return run


def test_people_do_all_of_the_journey_and_every_znode_has_the_rights_of_its_place(
    as_: As, world: Guarded, chroot: str, tmp_path: Path
) -> None:
    (tmp_path / "chain.yml").write_text(BARCLAMP)
    (tmp_path / "strategy.yaml").write_text(STRATEGY)
    (tmp_path / "facts.json").write_text('{"memory": 1}')
    (tmp_path / "site.yaml").write_text(
        "site: 1\ndeployments: {desk: {}}\nnodes: {n7.example.com: {deployment: desk}}\n"
    )
    (tmp_path / "6.1").mkdir()
    (tmp_path / "6.1/tasks.yaml").write_text("- {id: first, type: shell, role: [a], parameters: {cmd: x}}\n")
    for line in JOURNEY_LINES:
        if line == "image build jammy":  # a builder knows the image by now
            with Session(world.settings_of(ClientKind.BUILDER, chroot)) as builder:
                builder.ensure(paths.builds("jammy"))
        if line == "request show 0":  # a launcher fulfils it by now
            with Session(world.settings_of(ClientKind.LAUNCHER, chroot)) as session:
                launcher = PlayedLauncher(session)
                launcher.fulfils(*launcher.requests(), launcher.makes())
        if "TOKEN" in line:
            with Session(world.settings_of(ClientKind.PEOPLE, chroot)) as session:
                line = line.replace("TOKEN", *session.children(paths.TOKENS) or ())
        answer = as_(ClientKind.PEOPLE, line)
        assert answer.exit_code == 0, (line, answer.output)
        if line == "graph":  # when most is there
            checked = as_(ClientKind.PEOPLE, "acl check")
            assert checked.exit_code == 0, checked.output


def test_the_journey_has_every_verb() -> None:
    root = click.Context(cli)
    nouns = {noun: cli.get_command(root, noun) for noun in NOUNS}
    verbs = {
        f"{noun} {verb}" for noun, of in nouns.items() if isinstance(of, click.Group) for verb in of.list_commands(root)
    }
    tried = {" ".join(line.split()[:2]) for line in JOURNEY_LINES}
    assert verbs - tried - WITHOUT_US == set()


@pytest.mark.usefixtures("people")
def test_the_tree_of_one_user_becomes_that_of_many(as_: As, world: Guarded, chroot: str) -> None:
    with Session(world.settings("ocb", chroot + "/old")) as before:
        clusters.bootstrap(before)
    settings = world.settings_of(ClientKind.PEOPLE, chroot + "/old")
    checked = as_(settings, "acl check -o json")
    assert checked.exit_code == 1
    found = {row["path"]: row for row in json.loads(checked.stdout)}
    assert found["/ocb/roles"] == {
        "path": "/ocb/roles",
        "found": ["sasl:ocb:cdrwa"],
        "expected": ["sasl:ocb:cdrwa", "sasl:ocb-annealer:r", "sasl:ocb-api:cdrw", "sasl:ocb-launcher:r"],
    }
    assert {"/", "/nodepool", "/nodepool/image", "/ocb/cluster", "/ocb/deployments/system/roles"} <= set(found)
    dry = as_(settings, "acl init --dry-run -o json")
    assert (dry.exit_code, json.loads(dry.stdout)) == (10, json.loads(checked.stdout))
    assert json.loads(as_(settings, "acl check -o json").stdout) == json.loads(checked.stdout)
    made = as_(settings, "acl init -o json")
    assert made.exit_code == 0, made.output
    assert {row["path"] for row in json.loads(made.stdout)} == set(found)
    assert f"{len(found)} znodes" in made.stderr
    assert as_(settings, "acl check").exit_code == 0
    again = as_(settings, "acl init")
    assert (again.exit_code, again.stderr.strip()) == (0, "nothing to do")


def test_what_was_open_is_closed_for_others_and_can_be_opened_again(as_: As, world: Guarded, chroot: str) -> None:
    settings = world.settings_of(ClientKind.PEOPLE, chroot)
    opened = replace(settings, users=None, acl="open")
    with Session(opened) as session:
        clusters.bootstrap(session)
    assert as_(settings, "acl init").exit_code == 0
    assert as_(opened, "acl check").exit_code == 1
    assert as_(opened, "acl init").exit_code == 0
    assert as_(opened, "acl check").exit_code == 0


def test_acl_init_makes_what_daemons_need_and_may_not_make(as_: As, people: Session) -> None:
    missing = paths.daemons("builder")
    for path in (missing, missing.rpartition("/")[0]):
        people.commit(removal(people, path))
    dry = as_(ClientKind.PEOPLE, "acl init --dry-run")
    assert (dry.exit_code, f"{missing} would be made" in dry.stderr) == (10, True)
    assert people.get(missing) is None
    assert as_(ClientKind.PEOPLE, "acl init").exit_code == 0
    assert people.get(missing) is not None
    assert as_(ClientKind.PEOPLE, "acl init --dry-run").exit_code == 0
    assert as_(ClientKind.PEOPLE, "acl check").exit_code == 0


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("kind", [kind for kind in ClientKind if kind is not ClientKind.PEOPLE])
def test_only_people_set_rights(as_: As, kind: ClientKind) -> None:
    for line in ("acl init", "acl init --dry-run"):
        answer = as_(kind, line)
        assert (answer.exit_code, answer.stdout) == (8, ""), answer.output
        assert "may not change the rights of /ocb; set it to ocb, the user of people (zookeeper.users)" in answer.stderr
    assert as_(ClientKind.PEOPLE, "acl check").exit_code == 0


@pytest.mark.parametrize("kind", [ClientKind.ANNEALER, ClientKind.BUILDER])
def test_a_cluster_that_a_daemons_user_could_not_make_is_made_by_people(as_: As, kind: ClientKind) -> None:
    refused = as_(kind, "init")
    assert refused.exit_code == 8, refused.output
    assert "does not let this user create" in refused.stderr
    assert as_(ClientKind.PEOPLE, "init").exit_code == 0
    assert as_(ClientKind.PEOPLE, "acl check").exit_code == 0


def test_the_root_of_a_zookeeper_is_not_ours(world: Guarded) -> None:
    with Session(world.settings_of(ClientKind.PEOPLE)) as session:
        assert "/" not in {
            each.path for each in acls.Walk(session, Acls(world.settings_of(ClientKind.PEOPLE))).differing()
        }


@pytest.mark.usefixtures("people")
def test_an_unreadable_acl_is_reported_with_its_path(as_: As) -> None:
    answer = as_(ClientKind.BUILDER, "acl check")
    assert answer.exit_code == 8
    assert "does not let this user read the rights of /ocb;" in answer.stderr


@pytest.mark.usefixtures("people")
def test_a_znode_of_somebody_else_is_named_and_the_others_are_set(as_: As, world: Guarded, chroot: str) -> None:
    """An annealer may make znodes, and whoever has its password may make them its own."""
    with Session(world.settings_of(ClientKind.PEOPLE, chroot)) as session:
        session.ensure("/ocb/nodes/n1", "/ocb/nodes/n2")
    with Session(world.settings(world.settings_of(ClientKind.ANNEALER).username or "", chroot)) as taken:
        taken.commit([Create("/ocb/nodes/n1/mine"), Create("/ocb/nodes/n1/mine/below")])
    with Session(world.settings("ocb", chroot)) as old:
        old.ensure("/ocb/nodes/n2/old")
    answer = as_(ClientKind.PEOPLE, "acl init -o name")
    assert answer.exit_code == 8
    assert "does not let this user read the rights of /ocb/nodes/n1/mine;" in answer.stderr
    assert answer.stdout.split() == ["/ocb/nodes/n2/old"]


def test_what_nodepool_has_beside_us_is_left_alone(as_: As, people: Session, world: Guarded, chroot: str) -> None:
    with Session(replace(world.settings("ocb", chroot), acl="open")) as nodepool:
        nodepool.ensure("/nodepool/images/jammy/builds", "/nodepool/components/builder", "/nodepool/nodes")
    assert as_(ClientKind.PEOPLE, "acl check").exit_code == 0
    assert as_(ClientKind.PEOPLE, "acl init").stdout.strip() == as_(ClientKind.PEOPLE, "acl check").stdout.strip()
    (reply,) = people.ask_many([("", frames.read_acl(f"{chroot}/nodepool/images/jammy"))], "read")
    assert isinstance(reply, frames.Reply)
    assert words(frames.unpack_acl(reply)[0]) == ["world:anyone:cdrwa"]


def test_a_walk_that_is_stopped_anywhere_is_finished_by_the_next(world: Guarded, chroot: str) -> None:
    ours = world.settings_of(ClientKind.PEOPLE, chroot)
    with Session(world.settings("ocb", chroot)) as old:
        clusters.bootstrap(old)
        made = [[Create(f"/ocb/nodes/n{number}")] for number in range(1000)]
        for changes in limits.parts(made):
            old.commit(changes)
    with Session(ours) as people:
        every = {each.path for each in acls.Walk(people, Acls(ours)).differing()}
        assert len(every) > 1000
        done: set[str] = set()
        for _ in range(3):
            done |= {each.path for each in itertools.islice(acls.Walk(people, Acls(ours)).mended(), 300)}
        done |= {each.path for each in acls.Walk(people, Acls(ours)).mended()}
        assert done <= every
        assert not list(acls.Walk(people, Acls(ours)).differing())


# -- the configuration --


@pytest.mark.parametrize(
    ("zookeeper", "said"),
    [
        ({"users": {"annealer": "a"}}, "zookeeper.users: .*people"),
        ({"users": {"people": "ocb"}, "acl": "open"}, r"zookeeper\.acl: .*beside users"),
        ({"users": {"people": "ocb", "builders": "b"}}, "unknown key `builders`"),
        ({"users": {"people": "o" * 33}}, r"zookeeper\.users\.people"),
        ({"users": {"people": "two words"}}, r"zookeeper\.users\.people"),
    ],
)
def test_users_that_make_no_sense_are_refused(tmp_path: Path, zookeeper: object, said: str) -> None:
    file = tmp_path / "nodepool-ocb.yaml"
    file.write_text(json.dumps({"zookeeper": zookeeper}))
    with pytest.raises(Invalid, match=said):
        config.load(file)


@pytest.mark.parametrize("who", ["stranger", None])
def test_config_check_says_that_we_are_none_of_the_users(as_: As, world: Guarded, who: str | None) -> None:
    settings = replace(world.settings_of(ClientKind.PEOPLE), username=who, password=who)
    answer = as_(settings, "config check --offline")
    assert answer.exit_code == 1
    assert f"zookeeper.username: {who or 'no user'} is none of zookeeper.users" in answer.stderr


def test_rights_that_nobody_can_name_are_refused(people: Session) -> None:
    with pytest.raises(Invalid, match=r"zookeeper\.acl: creator needs a user"):
        acls.Walk(people, Acls(ZooKeeperSettings(acl="creator")))


def test_a_refusal_counts_what_else_was_not_seen(people: Session, world: Guarded, chroot: str) -> None:
    people.ensure("/ocb/nodes/n1")
    with Session(world.settings("ocb-annealer", chroot)) as taken:
        taken.commit([Create("/ocb/nodes/n1/one"), Create("/ocb/nodes/n1/two")])
    walk = acls.Walk(people, Acls(world.settings_of(ClientKind.PEOPLE)))
    assert not list(walk.differing())
    assert set(walk.denied) == {"/ocb/nodes/n1/one", "/ocb/nodes/n1/two"}
