"""No image has two builds whose records say ``building``, whatever other writers do between the steps of a builder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from nodepool_ocb.config import BuilderSettings, ZooKeeperSettings
from nodepool_ocb.errors import Stale
from nodepool_ocb.images.nodepool import Diskimage, Nodepool
from nodepool_ocb.images.states import BuildEvent, new_build
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import Change, Create, Delete, Json, Record, Set
from nodepool_ocb.store import images
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.doubts import Stats
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_builder.backends import BuildTask, Command
from nodepool_ocb_builder.build import Building
from nodepool_ocb_builder.context import Context
from nodepool_ocb_builder.image_directory import ImageDirectory

IMAGE = Diskimage(name="jammy", backend="looking", formats=("raw",))


class Overtaken(Session):
    """The session of a builder; ``before`` and ``after`` run beside what it writes, and may write with another session."""

    before: Callable[[Sequence[Change]], None] | None = None
    after: Callable[[str], None] | None = None

    def commit(self, changes: Sequence[Change]) -> Stats:
        if self.before is not None:
            self.before(changes)
        return super().commit(changes)

    def create_next(self, prefix: str, data: Record | Json, ephemeral: bool = False) -> str:
        path = super().create_next(prefix, data, ephemeral)
        if self.after is not None:
            self.after(path)
        return path


class Looking:
    """A backend that notes how the records of all builds stand while one is built, and fails."""

    formats = None
    needs: tuple[str, ...] = ()

    def __init__(self, session: Session) -> None:
        self._session = session
        self.seen: list[dict[str, BuildState]] = []

    def faults(self, options: Mapping[str, Json]) -> list[str]:  # noqa: ARG002
        return []

    def command(self, task: BuildTask) -> Command:  # noqa: ARG002
        self.seen.append(states(self._session))
        raise KeyError("nothing is made")


class OneBuilder:
    """One builder without its turns, and the session of another writer."""

    def __init__(self, own: Overtaken, other: Session, folder: Path) -> None:
        self.own, self.other = own, other
        self.directory = ImageDirectory(folder / "images", folder / "logs")
        self.backend = Looking(other)
        nodepool = Nodepool(diskimages=(IMAGE,))
        context = Context(own, self.directory, BuilderSettings(), nodepool, {"looking": self.backend}, {})
        self.building = Building(context, IMAGE)
        other.ensure(paths.builds(IMAGE.name))

    def left(self) -> str:
        """The path of a build whose builder died."""
        record = new_build(
            BuildEvent.BEGIN, self.other.now(), builder="b9", builder_id="9", filename="", formats=("raw",)
        )
        return self.other.create_next(paths.builds(IMAGE.name) + "/", record)

    def write_over(self, path: str) -> None:
        """The same record with another version."""
        znode = self.other.get(path)
        assert znode is not None
        self.other.commit([Set(path, codec.decode(Build, znode), znode.version)])


def states(session: Session) -> dict[str, BuildState]:
    """By the id of each build."""
    view = images.read(session, [IMAGE.name])[IMAGE.name]
    return {build.id: build.record.state for build in view.builds}


@pytest.fixture
def alone(zk_settings: ZooKeeperSettings, zk_session: Session, tmp_path: Path) -> Iterator[OneBuilder]:
    own = Overtaken(zk_settings)
    with own:
        made = OneBuilder(own, zk_session, tmp_path)
        yield made
        made.directory.close()


def test_a_build_gets_a_number_above_those_of_imported_records(alone: OneBuilder) -> None:
    for number in range(5, 25):  # ZooKeeper counts twenty children, so its next number is among these
        old = Build(state=BuildState.READY, state_time=1.0, builder="b9", builder_id="9", filename="", formats=("raw",))
        alone.other.commit([Create(paths.build(IMAGE.name, f"{number:010}"), old)])
    alone.directory.log(f"{IMAGE.name}-0000000025").touch()
    alone.building.run()
    assert states(alone.other)["0000000026"] is BuildState.FAILED, "the files of 25 are here already"


def test_no_build_begins_beside_one_that_could_not_be_aborted(alone: OneBuilder) -> None:
    path = alone.left()
    times = iter(range(1))

    def before(changes: Sequence[Change]) -> None:
        if any(change.path == path for change in changes) and next(times, None) is not None:
            alone.write_over(path)

    alone.own.before = before
    with pytest.raises(Stale):
        alone.building.run()
    left = path.rpartition("/")[2]
    assert states(alone.other) == {left: BuildState.BUILDING}
    alone.building.run()
    assert alone.backend.seen == [{left: BuildState.ABORTED, str(alone.building.id): BuildState.BUILDING}]


def test_a_build_whose_lock_is_lost_before_it_begins_leaves_no_record(alone: OneBuilder) -> None:
    def after(path: str) -> None:
        if path.startswith(paths.builds(IMAGE.name)) and "lock" not in path:
            lock = paths.build_lock(IMAGE.name)
            alone.other.commit([Delete(f"{lock}/{each}", 0) for each in alone.other.children(lock) or ()])
            alone.write_over(path)

    alone.own.after = after
    with pytest.raises(Stale):
        alone.building.run()
    assert states(alone.other) == {}
    assert not alone.backend.seen
