"""Each kind of client with a user of its own may do what the table says, by a real server, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from uuid import uuid4

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import UserSettings, ZooKeeperSettings
from nodepool_ocb.errors import Denied, Invalid, Stale
from nodepool_ocb.model import paths, rights
from nodepool_ocb.model.records import Cluster, Create, Delete, Gate, LogKey, Raise, Set
from nodepool_ocb.model.rights import TABLE, ClientKind, PathRights
from nodepool_ocb.store import acls, clusters, logkeys
from nodepool_ocb.store.client import access, frames
from nodepool_ocb.store.client.access import Acls
from nodepool_ocb.store.client.frames import AclGrant
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.guarded import USERS, Guarded

LETTERS = "cdrwa"
#: A path in each place that is not the table's own: who has no right to write roles has none to write one either.
BELOW = {
    "/ocb/roles/ntp": "/ocb/roles", "/ocb/nodes/n1/claim": "/ocb/nodes/*", "/ocb/nodes/n1/fence": "/ocb/nodes/*",
    "/ocb/nodes/n1/noderoles/ntp/runs/1": "/ocb/nodes/*/noderoles/*", "/ocb/rollouts/lab/1/lock": "/ocb/rollouts/*/*",
    "/ocb/deployments/lab/roles/ntp": "/ocb/deployments/*/roles", "/ocb/daemons": "/ocb", "/ocb/else": "/ocb",
    "/nodepool/image/jammy/builds/lock": "/nodepool/image", "/nodepool/daemons": "/nodepool", "/else": "/", "": "/",
    "/nodepool/daemons/builder/1": "/nodepool/daemons/builder", "/nodepool/requests/1": "/nodepool/requests/*",
    "/nodepool/nodes/1/lock/2": "/nodepool/nodes/*/lock", "/nodepool/launchers": "/nodepool",
    "/nodepool/requests-lock/1/2": "/nodepool/requests-lock", "/nodepool/components/pool": "/nodepool/components/*",
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[Guarded]:
    with Guarded() as made:
        with Session(made.settings_of(ClientKind.PEOPLE, "/c")) as people:
            clusters.bootstrap(people)
            for row in TABLE:
                place = _place(row)
                people.ensure(place, *(f"{place}/of-{kind}" for kind in ClientKind))
        yield made


def _place(row: PathRights) -> str:
    """A znode of the row's place."""
    return "" if row.path == "/" else row.path.replace("*", "any")


def test_znodes_of_two_rows_get_the_access_of_each_from_one_client() -> None:
    made = Acls(ZooKeeperSettings(users=USERS))
    places = ["/ocb/roles/ntp", paths.CLOCK, "/ocb/nodes/n1/claim"]
    packed = [made.packed(path) for path in places]
    assert packed == [frames.access(made.of(path)) for path in places]
    assert len(set(packed)) > 1


def _change_rights(session: Session, path: str) -> None:
    """Write the ACL that is there already; raises Denied."""
    (found,) = session.ask_many([(path, frames.read_acl(session.chroot + path))], "read the rights of")
    version = 0 if isinstance(found, Denied) else frames.unpack_acl(_reply(found))[1]
    packed = Acls(ZooKeeperSettings(users=USERS)).packed(path)
    (done,) = session.ask_many([(path, frames.write_acl(session.chroot + path, packed, version))], "change")
    _reply(done)


def _reply(found: frames.Reply | Exception) -> frames.Reply:
    if isinstance(found, Exception):
        raise found
    return found


DOES: dict[str, Callable[[Session, str, ClientKind], object]] = {
    "c": lambda session, path, kind: session.commit([Create(f"{path}/by-{kind}")]),
    "d": lambda session, path, kind: session.commit([Delete(f"{path}/of-{kind}", 0)]),
    "r": lambda session, path, _: session.get(path),
    "w": lambda session, path, _: session.commit([Raise(path, Gate())]),
    "a": lambda session, path, _: _change_rights(session, path),
}


@pytest.mark.parametrize("kind", ClientKind)
def test_a_kind_may_do_what_the_table_says_and_no_more(world: Guarded, kind: ClientKind) -> None:
    may: dict[str, str] = {}
    with Session(world.settings_of(kind, "/c")) as session:
        for row in TABLE:
            may[row.path] = ""
            for letter in LETTERS:
                try:
                    DOES[letter](session, _place(row), kind)
                except Denied:
                    continue
                may[row.path] += letter
    assert may == {row.path: row.of(kind) for row in TABLE}


@pytest.mark.parametrize("kind", ClientKind)
def test_a_kind_replaces_a_znode_where_the_rights_of_its_parent_let_it_and_nowhere_else(
    world: Guarded, kind: ClientKind
) -> None:
    may = {}
    places = [f"{_place(row)}/leaf-of-{kind}" for row in TABLE] + [paths.user(f"user-of-{kind}", "any")]
    with Session(world.settings_of(ClientKind.PEOPLE, "/c")) as people:
        people.ensure(*places)
    with Session(world.settings_of(kind, "/c")) as session:
        for place in places:
            try:
                session.commit([Delete(place, 0), Create(place)])
                may[place] = True
            except Denied:
                try:
                    session.commit([Raise(place, Gate())])
                    may[place] = True
                except Denied:
                    may[place] = False
    assert may == {place: rights.replaces(kind, place) for place in places}


@pytest.mark.parametrize(("path", "place"), BELOW.items())
def test_the_row_with_the_longest_path_counts(path: str, place: str) -> None:
    assert rights.row(path).path == place


def test_a_builder_writes_nothing_below_ocb() -> None:
    """Builders run other people's elements as root."""
    of_builders = {row.path: row.builder for row in TABLE if row.builder and row.path.startswith("/ocb")}
    assert of_builders == {"/ocb/cluster": "r"}
    assert not rights.row("/").builder.strip("r")


def test_a_requester_sees_its_cluster_and_the_pool_and_writes_requests_and_the_locks_and_records_of_nodes() -> None:
    may = {row.path: row.requester for row in TABLE if row.requester}
    writes = {path: letters for path, letters in may.items() if letters != "r"}
    assert writes == {
        "/nodepool/clock": "rw",
        "/nodepool/nodes/*": "rw",
        "/nodepool/nodes/*/lock": "cdr",
        "/nodepool/requests": "cdr",
        "/nodepool/requests/*": "rw",
    }
    assert [path for path in may if path.startswith("/ocb")] == ["/ocb/cluster"]
    assert "/nodepool/image" not in may


def test_a_launcher_writes_no_role_no_task_list_and_no_rollout() -> None:
    for path in (
        "/ocb/roles/r",
        "/ocb/tasks/releases/r/p",
        "/ocb/rollouts/lab/1",
        "/ocb/tasks/runs/lab",
        "/nodepool/image/i",
    ):
        assert not {*"cdw"} & {*rights.row(path).launcher}, path
        assert not rights.replaces(ClientKind.LAUNCHER, path), path


def test_only_people_change_rights() -> None:
    assert {kind for row in TABLE for kind in ClientKind if "a" in row.of(kind)} == {ClientKind.PEOPLE}


def test_kinds_that_are_one_user_have_the_rights_of_all() -> None:
    same = UserSettings(people="ocb", annealer="daemons", builder="daemons")
    made = Acls(ZooKeeperSettings(users=same))
    assert access.words(made.of("/nodepool/image/jammy")) == ["sasl:daemons:cdrw", "sasl:ocb:cdrwa"]
    assert access.words(made.of("/ocb/daemons/annealer")) == ["sasl:daemons:cdrw", "sasl:ocb:cdrwa"]


def test_a_client_without_rights_at_a_path_is_absent_from_its_acl() -> None:
    found = Acls(ZooKeeperSettings(users=USERS)).of("/ocb/roles/ntp")
    assert {grant.identity for grant in found} == {getattr(USERS, kind) for kind in ClientKind} - {
        USERS.builder, USERS.requester
    }  # fmt: skip


def test_without_users_every_znode_has_the_same_rights() -> None:
    ours = ZooKeeperSettings(username="ocb", password="secret")
    for path in ("/", "/ocb/roles/ntp", "/nodepool/image/jammy"):
        assert Acls(ours).of(path) == (AclGrant(31, "sasl", "ocb"),)
        assert Acls(ZooKeeperSettings()).of(path) == (AclGrant(31, "world", "anyone"),)


def test_a_builder_asks_the_time_below_nodepool_and_the_others_below_ocb(world: Guarded) -> None:
    with Session(world.settings_of(ClientKind.PEOPLE, "/c")) as people:
        for kind, written in ((ClientKind.BUILDER, paths.POOL_CLOCK), (ClientKind.ANNEALER, paths.CLOCK)):
            before = {path: people.get(path) for path in (paths.CLOCK, paths.POOL_CLOCK)}
            with Session(world.settings_of(kind, "/c")) as session:
                now = session.now()
            after = {path: people.get(path) for path in before}
            assert [path for path in before if before[path] != after[path]] == [written]
            znode = after[written]
            assert znode is not None
            assert abs(now - znode.mtime) < 60.0


def test_the_clock_is_created_with_the_rights_of_its_path(world: Guarded) -> None:
    settings = world.settings_of(ClientKind.PEOPLE, "/new")
    with Session(settings) as people:
        people.ensure(paths.ROOT)
        people.now()
        (found,) = people.ask_many([(paths.CLOCK, frames.read_acl("/new" + paths.CLOCK))], "read the rights of")
    assert sorted(frames.unpack_acl(_reply(found))[0]) == sorted(Acls(settings).of(paths.CLOCK))


@pytest.mark.parametrize("kind", [ClientKind.ANNEALER, ClientKind.BUILDER])
def test_a_daemon_that_would_come_as_another_kind_is_refused(kind: ClientKind) -> None:
    settings = ZooKeeperSettings(users=USERS, username=getattr(USERS, kind))
    access.refuse_another_kind(settings, kind)
    access.refuse_another_kind(ZooKeeperSettings(username="anybody"), kind)
    for wrong in (replace(settings, username="ocb"), replace(settings, username=None)):
        with pytest.raises(Invalid, match=rf"zookeeper\.username: .* is not the user of this {kind}"):
            access.refuse_another_kind(wrong, kind)
    lacking = replace(settings, users=UserSettings(people="ocb"))
    with pytest.raises(Invalid, match=rf"zookeeper\.users: there is no {kind}, .*add `{kind}: NAME`"):
        access.refuse_another_kind(lacking, kind)


class Overtaken(Session):
    """Somebody else gives every znode its rights between our first look and what we write."""

    def overtaken_by(self, other: acls.Walk) -> None:
        self.other: acls.Walk | None = other

    def ask_many(self, asked: Iterable[tuple[str, frames.Raw]], right: str) -> Iterator[frames.Reply | Denied | Stale]:
        if right.startswith("change") and self.other is not None:
            other, self.other = self.other, None
            self.theirs = [each.path for each in other.mended()]
        return super().ask_many(asked, right)


def test_of_two_who_set_rights_at_once_one_looks_again_and_says_nothing_of_what_the_other_did(world: Guarded) -> None:
    settings = world.settings_of(ClientKind.PEOPLE, "/twice")
    with Session(world.settings("ocb", "/twice")) as old:
        clusters.bootstrap(old)
    with Overtaken(settings) as people, Session(settings) as other:
        people.overtaken_by(acls.Walk(other, Acls(settings)))
        walk = acls.Walk(people, Acls(settings))
        assert not list(walk.mended())
        assert {"/", "/ocb", "/nodepool", "/ocb/cluster"} <= set(people.theirs)
        assert not walk.denied
        assert not list(walk.differing())


def give(session: Session, path: str, *grants: AclGrant) -> None:
    """Set the ACL of a znode, whatever it is now."""
    (done,) = session.ask_many(
        [(path, frames.write_acl(session.chroot + path, frames.access(grants), -1))], "change the rights of"
    )
    _reply(done)


@pytest.fixture
def walked(world: Guarded) -> Iterator[tuple[Session, acls.Walk]]:
    """A session of people below a chroot of its own, where every ACL is as it should be, and a walk there."""
    settings = world.settings_of(ClientKind.PEOPLE, f"/walked-{uuid4().hex}")
    with Session(settings) as people:
        clusters.bootstrap(people)
        people.ensure("/ocb/nodes/n1/noderoles", "/ocb/nodes/n2")
        assert not list(acls.Walk(people, Acls(settings)).differing())
        yield people, acls.Walk(people, Acls(settings))


def test_an_acl_whose_grants_stand_in_another_order_is_the_same(walked: tuple[Session, acls.Walk]) -> None:
    people, walk = walked
    give(people, "/ocb/nodes/n1", *reversed(Acls(ZooKeeperSettings(users=USERS)).of("/ocb/nodes/n1")))
    assert not list(walk.differing())


def test_a_znode_whose_rights_may_be_seen_and_not_changed_is_denied(walked: tuple[Session, acls.Walk]) -> None:
    people, walk = walked
    give(people, "/ocb/nodes/n1", AclGrant(access.bits("r"), "world", "anyone"))
    assert not list(walk.mended())
    assert list(walk.denied) == ["/ocb/nodes/n1"]
    assert "change the rights of /ocb/nodes/n1" in str(walk.denied["/ocb/nodes/n1"])


def test_what_lies_below_a_znode_that_may_not_be_read_is_not_passed_over_in_silence(
    walked: tuple[Session, acls.Walk],
) -> None:
    people, walk = walked
    give(people, "/ocb/nodes/n1", AclGrant(access.bits("a"), "sasl", USERS.people))
    assert [each.path for each in walk.differing()] == ["/ocb/nodes/n1"]
    assert list(walk.denied) == ["/ocb/nodes/n1"]


class Spoiled(Session):
    """Somebody else gives a znode wrong rights between our first look and what we write."""

    spoiled = False

    def ask_many(self, asked: Iterable[tuple[str, frames.Raw]], right: str) -> Iterator[frames.Reply | Denied | Stale]:
        asked = list(asked)
        if right.startswith("change") and not self.spoiled and any(path == "/ocb/nodes/n1" for path, _ in asked):
            self.spoiled = True
            give(self, "/ocb/nodes/n1", AclGrant(31, "sasl", USERS.people))
        return super().ask_many(asked, right)


def test_wrong_rights_that_come_while_others_are_mended_are_mended_too(
    walked: tuple[Session, acls.Walk], world: Guarded
) -> None:
    people, walk = walked
    settings = world.settings_of(ClientKind.PEOPLE, people.chroot)
    give(people, "/ocb/nodes/n1", AclGrant(31, "world", "anyone"))
    with Spoiled(settings) as session:
        assert [each.path for each in acls.Walk(session, Acls(settings)).mended()] == ["/ocb/nodes/n1"]
        assert session.spoiled
    assert not list(walk.differing())


@pytest.mark.parametrize("kind", [kind for kind in ClientKind if kind not in (ClientKind.PEOPLE, ClientKind.API)])
def test_a_stolen_credential_of_a_daemon_or_requester_reads_no_token(world: Guarded, kind: ClientKind) -> None:
    token = paths.token("0" * 12)
    with Session(world.settings_of(ClientKind.PEOPLE, "/c")) as people:
        people.ensure(token)
    with Session(world.settings_of(kind, "/c")) as stolen:
        for attempt in (
            lambda: stolen.get(token),
            lambda: stolen.children(paths.TOKENS),
            lambda: stolen.commit([Create(paths.token("1" * 12))]),
        ):
            with pytest.raises(Denied):
                attempt()


@pytest.mark.parametrize("kind", [kind for kind in ClientKind if kind not in (ClientKind.PEOPLE, ClientKind.API)])
def test_a_stolen_credential_of_a_daemon_or_requester_reads_no_outcome_of_a_call(
    world: Guarded, kind: ClientKind
) -> None:
    with Session(world.settings_of(kind, "/c")) as stolen:
        for attempt in (lambda: stolen.children(paths.CALLS), lambda: stolen.commit([Create(paths.call("1" * 32))])):
            with pytest.raises(Denied):
                attempt()


@pytest.mark.parametrize("kind", list(ClientKind))
def test_only_servers_of_the_api_and_people_read_the_key_for_logs_and_only_people_change_it(
    world: Guarded, kind: ClientKind
) -> None:
    with Session(world.settings_of(ClientKind.PEOPLE, "/keys")) as people:
        clusters.bootstrap(people)  # other tests write any data to each place of /c
    with Session(world.settings_of(kind, "/keys")) as session:
        if kind in (ClientKind.PEOPLE, ClientKind.API):
            assert logkeys.read(session)
        else:
            with pytest.raises(Denied):
                logkeys.read(session)
        if kind is not ClientKind.PEOPLE:
            for change in (Set(paths.LOG_KEY, LogKey(), -1), Delete(paths.LOG_KEY, 0), Create(f"{paths.KEYS}/other")):
                with pytest.raises(Denied):
                    session.commit([change])
            with pytest.raises(Denied):
                session.commit([Set(paths.CLUSTER, Cluster(id="other"), 0)])
        assert clusters.current(session).readers, "each daemon knows the public halves"
