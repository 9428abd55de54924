"""A builder of Nodepool 11 and one of ours at the same time: one tree and one cloud, and an images-dir for each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.store import clusters
from nodepool_ocb.testing.glance import Glance
from nodepool_ocb.testing.zookeeper.guarded import Guarded
from tests.interop.test_nodepool_images import QUIET_SECONDS, SharedTree

pytestmark = pytest.mark.long

NODEPOOLS_ID = 32  # characters of an id of a build


class BothBuilders(SharedTree):
    """Ours has the directory ``images``, Nodepool's builder has ``theirs``. ``seen`` has the id of each build that ever was."""

    def __init__(self, guarded: Guarded, glance: Glance, nodepool11_bin: Path, folder: Path) -> None:
        super().__init__(guarded, glance, nodepool11_bin, folder)
        shared = yaml.safe_load(self.file.read_text())
        own = folder / "nodepool-ocb-images.yaml"
        own.write_text(yaml.safe_dump(shared))
        self.ours.configure(builder={"nodepool": str(own)})
        self.file.write_text(yaml.safe_dump({**shared, "images-dir": str(folder / "theirs")}))
        (folder / "theirs").mkdir()
        self.seen: set[str] = set()

    def look(self) -> list[str]:
        """The ids of the builds that are ready, with a ready upload each."""
        self.seen |= {build.id for build in self.builds()}
        return self.ready()

    def requested(self, count: int, theirs: bool) -> str:
        """Ask for a build, and wait until it is sent; the id. ``count``: of all builds since the beginning, with it."""
        before = set(self.look())
        self.theirs("image-build", "jammy")
        self.until(lambda: set(self.look()) - before, "the request is served")
        (made,) = set(self.look()) - before
        assert (len(made) == NODEPOOLS_ID) is theirs
        assert len(self.seen) == count
        return made

    def settled(self, *expected: str) -> bool:
        """Whether these builds are left, in this order, and the cloud has the objects of their uploads, and no other."""
        left = [build.id for build in self.builds()]
        return left == list(expected) == self.look() and set(self.glance.images) == self.external_ids()


@pytest.fixture
def both(nodepool11: Path, tmp_path: Path) -> Iterator[BothBuilders]:
    with Guarded(demands_user=False) as guarded, Glance() as glance:
        made = BothBuilders(guarded, glance, nodepool11, tmp_path)
        try:
            made.session.start()
            yield made
        finally:
            made.close()


def test_builders_of_both_products_work_at_the_same_time(both: BothBuilders) -> None:
    both.begin_theirs()
    both.until(both.look, "Nodepool's builder builds and uploads")
    (first,) = both.look()
    clusters.bootstrap(both.session)  # nodepool-ocb init
    both.ours.environment |= both.environment
    both.ours.start()
    time.sleep(QUIET_SECONDS)
    assert both.settled(first), "neither builds again"
    assert both.seen == {first}

    second = both.requested(2, theirs=False)  # ours looks at once, and Nodepool's builder every ten seconds
    both.until(lambda: both.settled(first, second), "both builds stay")
    both.ours.configure(builder={"build_workers": 0})
    both.ours.reload()
    third = both.requested(3, theirs=True)
    both.until(lambda: both.settled(second, third), "the oldest build goes, with its object")
    both.ours.configure(builder={"build_workers": 1})
    both.ours.reload()
    fourth = both.requested(4, theirs=False)
    both.until(lambda: both.settled(third, fourth), "our older build goes, with its object")

    both.theirs("dib-image-delete", f"jammy-{third}")
    both.until(lambda: both.settled(fourth), "Nodepool's build goes")
    time.sleep(QUIET_SECONDS)
    assert both.settled(fourth)
    assert both.seen == {first, second, third, fourth}, "nothing was built twice"
    assert [path.name for path in (both.folder / "theirs").glob("jammy-*")] == []
    assert {path.name.partition(".")[0] for path in both.images.glob("jammy-*")} == {f"jammy-{fourth}"}
    assert all(build.record.state is BuildState.READY for build in both.builds())
    assert [upload.record.state for build in both.builds() for upload in build.uploads] == [UploadState.READY]
    both.both_agree()
