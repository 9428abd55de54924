"""``status`` counts nodes that are made alike by one of them, and answers as if it had read the noderoles of all."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pytest
from kazoo.exceptions import NoAuthError
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Unread
from nodepool_ocb.model import paths
from nodepool_ocb.model.boot import Publication, Publisher
from nodepool_ocb.model.drift import CheckResult, Checks, Drift, PendingCheck
from nodepool_ocb.model.joining import Inventory
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.power import MachinePower, PowerAction, PowerRequest
from nodepool_ocb.model.records import (
    Attrib,
    Change,
    Claim,
    Create,
    Daemon,
    Deployment,
    DeploymentRole,
    DeploymentState,
    Fence,
    Node,
    NodeRole,
    Role,
    State,
)
from nodepool_ocb.operations.cluster.status import StatusOverview
from nodepool_ocb.operations.operation import Situation
from nodepool_ocb.store import clusters, rollouts
from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.census import census
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.views.status import Overview
from tests.operations.performing import InterruptedPerformer
from tests.views.small_rollouts import rollout_of

DEPLOYMENTS: Final = ("lab", "prod")
ROLES: Final[Mapping[str, Role]] = {
    "base": Role(barclamp="b", jig="script", script="echo 1\n", template={"zone": "UTC"}),
    "server": Role(barclamp="b", jig="script", script="echo 2\n", check="true\n"),
    "client": Role(barclamp="b", jig="script", script="echo 3\n", wants_attribs=("motd_text",)),
    "motd": Role(barclamp="b", jig="script", script="echo 4\n", attribs=(Attrib(name="motd_text", map="motd/text"),)),
    "wipe": Role(barclamp="b", jig="script", script="echo 5\n", flags=("destructive",)),
}
ABOVE: Final = {"server": ("base",), "client": ("base", "server"), "wipe": ("motd",)}
NEVER: Final = 12_345  # the number of no inputs
CHECKED: Final = CheckResult(drift=Drift.DRIFTED, at=5.0, run="0000000001-aaaaaa", epoch=1)

Noderoles = dict[str, NodeRole]
#: Changes the noderoles of a node, and gives the other records of it.
Difference = Callable[[str, Noderoles], Iterator[Change]]


def given(deployment: str) -> Mapping[str, int]:
    """For each role the number of the inputs of a noderole on a plain node."""
    world = World()
    for name, role in ROLES.items():
        world.put(Stored(role, 0), name)
    world.put(Stored(DeploymentRole(user={"zone": "CET"}), 0), "prod", "base")
    world.put_node("n", Node(deployment=deployment), 0)
    for name in ROLES:
        world.put_noderole("n", name, bound("n", name, deployment))
    found = {}
    for vertex in world.vertices():
        found[vertex.role] = inputs.judged(inputs.sources(world, vertex, ROLES[vertex.role]), {}).number
    return found


def bound(fqdn: str, role: str, deployment: str, **fields: Any) -> NodeRole:
    parents = tuple(f"{above}@{fqdn}" for above in ABOVE.get(role, ()))
    once = {"once": "done"} if role == "wipe" else {}
    return NodeRole.of(state=State.ACTIVE, since=4.0, deployment=deployment, parents=parents, **once | fields)


def node(
    fqdn: str, deployment: str, difference: Difference | None = None, old: tuple[str, ...] = ()
) -> Iterator[Change]:
    """A node with all roles, which have run: those ``old`` with other inputs than now."""
    numbers = given(deployment)
    noderoles = {
        role: bound(fqdn, role, deployment, given=NEVER if role in old else numbers[role], run=f"{fqdn}-run")
        for role in ROLES
    }
    beside = list(difference(fqdn, noderoles)) if difference is not None else []
    own = [each for each in beside if isinstance(each, Create) and each.path == paths.node(fqdn)]
    yield from own or [Create(paths.node(fqdn), Node(deployment=deployment, since=2.0, alive=True))]
    yield Create(paths.fence(fqdn), Fence())
    yield Create(paths.noderoles(fqdn))
    for role, record in noderoles.items():
        yield Create(paths.noderole(role, fqdn), record)
    yield from (each for each in beside if each not in own)


def amended(role: str, **changes: Any) -> Difference:
    def change(_: str, noderoles: Noderoles) -> Iterator[Change]:
        noderoles[role] = noderoles[role].amended(**changes)
        yield from ()

    return change


def record(path: Callable[[str], str], made: Any, ephemeral: bool = False) -> Difference:
    def create(fqdn: str, _: Noderoles) -> Iterator[Change]:
        yield Create(path(fqdn), made, ephemeral=ephemeral)

    return create


def reached(_: str, noderoles: Noderoles) -> Iterator[Change]:
    noderoles["server"] = noderoles["server"].amended(parents=("base@reached.example.com",))
    yield from ()


def with_default(_: str, noderoles: Noderoles) -> Iterator[Change]:
    """A default that JSON has: some versions wrote it."""
    wipe = noderoles["wipe"]
    noderoles["wipe"] = replace(wipe, rare=replace(wipe.rare, not_before=float("0")))
    yield from ()


def one_less(_: str, noderoles: Noderoles) -> Iterator[Change]:
    del noderoles["client"]
    yield from ()


def another_role(_: str, noderoles: Noderoles) -> Iterator[Change]:
    noderoles["spare"] = noderoles.pop("client")
    yield from ()


def claimed(fqdn: str, _: Noderoles) -> Iterator[Change]:
    claim = Claim(annealer="a1", noderole=f"base@{fqdn}", run="x", epoch=1, since=3.0)
    yield Create(paths.claim(fqdn), claim, ephemeral=True)


def publishing(fqdn: str, _: Noderoles) -> Iterator[Change]:
    name = f"base@{fqdn}"
    yield Create(paths.publisher(name), Publisher(address="http://10.1.0.2:8480"))
    yield Create(paths.publication(name, fqdn), Publication(digest="d"))


def hinted(fqdn: str, _: Noderoles) -> Iterator[Change]:
    yield Create(paths.node(fqdn), Node(deployment="lab", since=2.0, alive=True, hints={"motd": {"text": "x"}}))


REQUEST: Final = PowerRequest(id="0" * 16, action=PowerAction.CYCLE, by="ann", since=1.0, until=900.0)

#: By such a difference, a node stands for itself alone, also beside another one with the same difference.
DIFFERENCES: Final[Mapping[str, Difference]] = {
    "error": amended("server", state=State.ERROR),
    "reason": amended("server", state=State.TODO, reason="no disk"),
    "refresh": amended("server", refresh=True),
    "checking": amended("server", refresh=True, check=PendingCheck()),
    "hooks": amended("server", hooks=("on_active",)),
    "serving": amended("server", serves=("dns",)),
    "cluster": amended("server", parents=("dns@*lab",)),
    "elsewhere": reached,
    "missing": amended("server", parents=("gone@missing",)),
    "claimed": claimed,
    "publishing": publishing,
    "hinted": hinted,
    "machine": record(paths.inventory, Inventory()),
    "user": record(lambda fqdn: paths.user("base", fqdn), {"zone": "CET"}),
    "system": record(lambda fqdn: paths.system("base", fqdn), {"zone": "CET"}),
    "wall": record(lambda fqdn: paths.wall("base", fqdn), {"a": 1}),
}
#: By such a difference, a node is counted with those of the same difference.
FORMS: Final[Mapping[str, Difference]] = {
    "state": amended("server", state=State.BLOCKED),
    "deployment": amended("server", deployment="prod"),
    "old": amended("server", given=NEVER),
    "drifted": amended("server", checked=CHECKED),
    "unmended": amended("server", checked=replace(CHECKED, unmended=True)),
    "undone": amended("wipe", once=None),
    "task": amended("server", task_run="0000000001"),
    "parent": amended("server", parents=()),
    "less": one_less,
    "spare": another_role,
}
#: Differences that nothing depends on.
EQUAL: Final[Mapping[str, Difference]] = {
    "ranked": amended("server", rank=3),
    "again": amended("server", generation=7, attempt=2, since=9.0, by="bob", epoch=5),
    "default": with_default,
    "powered": record(paths.power, MachinePower(driver="manual", request=REQUEST)),
}


def frame() -> Iterator[Change]:
    for name in DEPLOYMENTS:
        state = DeploymentState.PROPOSED if name == "lab" else DeploymentState.COMMITTED
        pause = Maintenance(by="ann", since=1.0, reason="move") if name == "prod" else None
        checks = Checks(schedule="0 3 * * *", since=1.0) if name == "lab" else None
        record = Deployment(parent="system", state=state, since=1.0, pause=pause, checks=checks)
        yield Create(paths.deployment(name), record)
        yield Create(paths.deployment_roles(name))
    yield Create(paths.deployment_role("prod", "base"), DeploymentRole(user={"zone": "CET"}))
    for name, role in ROLES.items():
        yield Create(paths.role(name), role)
    yield Create(paths.daemon("annealer", "a1"), Daemon(host="h", pid=1, version="1", started=1.0, jigs=("script",)))


def written(session: Session, changes: Iterator[Change]) -> None:
    clusters.bootstrap(session)
    session.ensure(paths.daemons("annealer"))
    session.commit(list(frame()))
    left = list(changes)
    while left:
        session.commit(left[:400])
        del left[:400]
    rollouts.begin(session, "lab", rollout_of())


class Still(InterruptedPerformer):
    """A performer for which it is always the same time."""

    def _situation(self, opened: Session, changes: Sequence[Change]) -> Situation:
        return replace(super()._situation(opened, changes), now=1e9, local_now=1e9)


def seen(settings: ZooKeeperSettings) -> tuple[Overview, list[str]]:
    performer = Still(settings, lambda: None)
    (found,) = performer.perform(StatusOverview()).answers
    return found, performer.heard.notes


def answers(settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """From a census, and from all records."""
    counted = seen(settings)
    with monkeypatch.context() as patch:
        patch.setattr("nodepool_ocb.store.world.census.census", load_world)
        return counted, seen(settings)


def node_of(name: str, difference: Difference | None = None, deployment: str = "lab", *old: str) -> Iterator[Change]:
    return node(f"{name}.example.com", deployment, difference, old)


def test_one_node_stands_for_those_alike_and_for_no_other(
    zk_session: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = {**DIFFERENCES, **FORMS}
    changes = [change for name in twice for two in "ab" for change in node_of(f"{name}{two}", twice[name])]
    changes += [change for name, difference in EQUAL.items() for change in node_of(name, difference)]
    changes += [change for number in range(3) for change in node_of(f"plain{number}")]
    changes += [change for number in range(3) for change in node_of(f"other{number}", None, "prod", "server", "wipe")]
    changes += node_of("reached")
    written(zk_session, iter(changes))
    world = census(zk_session)
    apart = {f"{name}{two}.example.com" for name in DIFFERENCES for two in "ab"} | {"reached.example.com"}
    assert {view.name for view in world.nodes.values() if view.stands_for == 1} == apart
    of_two = {name.partition(".")[0][:-1] for name, view in world.nodes.items() if view.stands_for == 2}
    assert of_two == FORMS.keys()
    assert sorted(view.stands_for for view in world.nodes.values() if view.stands_for > 2) == [3, len(EQUAL) + 3]
    monkeypatch.setattr("nodepool_ocb.operations.cluster.status.INSPECTED", 1)
    counted, whole = answers(zk_settings, monkeypatch)
    assert counted == whole
    assert counted[0].unlooked == sum(
        view.stands_for * len(view.noderoles) for view in world.nodes.values() if view.stands_for
    )
    assert [(row.deployment, row.noderoles, row.destructive) for row in counted[0].outdated][-1] == ("prod", 6, 3)


DEPLOYED: Final = ("lab", "lab", "prod")


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 24))])
def test_status_answers_from_a_census_as_from_all_records(
    zk_session: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    some = random.Random(seed)
    known = [*DIFFERENCES.values(), *FORMS.values(), *EQUAL.values()]
    changes: list[Change] = list(node_of("reached"))
    for number in range(12):
        chosen = some.sample(known, some.choice([0, 0, 0, 1, 2]))
        old = some.choice([(), (), ("server",), ("base", "wipe")])
        changes += node_of(f"n{number}", together(chosen), some.choice(DEPLOYED), *old)
    written(zk_session, iter(changes))
    counted, whole = answers(zk_settings, monkeypatch)
    assert counted == whole


def together(chosen: list[Difference]) -> Difference:
    def differ(fqdn: str, noderoles: Noderoles) -> Iterator[Change]:
        found: dict[str, Change] = {}
        for each in chosen:
            if "server" in noderoles and "wipe" in noderoles:
                for change in each(fqdn, noderoles):
                    assert isinstance(change, Create)
                    found.setdefault(change.path, change)
        yield from found.values()

    return differ


@pytest.mark.parametrize(("role", "data"), [("server", b"garbage"), ("server", b'{"schema":2}'), ("Not A Role", b"")])
def test_no_node_is_left_out_where_its_noderole_cannot_be_read(
    zk_session: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch, role: str, data: bytes
) -> None:
    written(zk_session, (change for number in range(4) for change in node_of(f"n{number}")))
    path = paths.noderole(role, "n2.example.com")
    client: Any = zk_session._client
    (client.set if client.exists(path) else client.create)(path, data)
    assert "n2.example.com" not in census(zk_session).left_out
    counted, whole = answers(zk_settings, monkeypatch)
    assert counted == whole
    assert [each.path for each in counted[0].quarantined] == [path]


def test_a_noderole_with_an_impossible_name_is_reported_on_each_node(
    zk_session: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(zk_session, (change for number in range(4) for change in node_of(f"n{number}")))
    odd = [paths.noderole("Not A Role", f"n{number}.example.com") for number in (1, 2)]
    zk_session.commit([Create(path, NodeRole(state=State.ACTIVE, since=1.0)) for path in odd])
    monkeypatch.setattr("nodepool_ocb.operations.cluster.status.INSPECTED", 1)  # of more, no other read finds them
    counted, whole = answers(zk_settings, monkeypatch)
    assert counted == whole
    assert [each.path for each in counted[0].quarantined] == odd


def test_a_question_about_a_node_that_is_left_out_is_refused(zk_session: Session) -> None:
    written(zk_session, (change for number in range(2) for change in node_of(f"n{number}")))
    world = census(zk_session)
    (fqdn,) = world.left_out
    for ask in (
        lambda: world.vertex(f"base@{fqdn}"),
        lambda: list(world.vertices()),
        lambda: world.nodes[fqdn].busy,
    ):
        with pytest.raises(Unread):
            ask()
    assert len(list(world.counted())) == len(ROLES)


def test_the_folders_with_a_child_of_a_name_are_found(zk_session: Session) -> None:
    for path in ("/a/wall", "/b/walls", "/c/user/wall", "/d"):
        zk_session.ensure(path)
    assert zk_session.naming(["/a", "/b", "/c", "/d", "/gone"], ["wall", "user"]) == ["/a", "/c"]
    assert zk_session.naming(["/d", "/gone"], ["wall"]) == []


def test_a_folder_that_may_not_be_listed_is_no_folder_without_such_a_child() -> None:
    refused = NoAuthError.code
    answer = struct.pack("!iBii", -1, False, refused, refused) + struct.pack("!iBi", -1, True, -1)
    with pytest.raises(frames.UnreadablePath, match="/a"):
        frames.unpack_naming(frames.Reply(answer, 0, 0), ["/a"], frozenset({"wall"}), [frames.text("wall")])
