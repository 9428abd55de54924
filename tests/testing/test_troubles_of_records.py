"""A record that a storm spoils is mended in the end, whatever other writers do with it meanwhile."""

from __future__ import annotations

import msgspec
import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Delete, Role, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.troubles import Unreadable

PATH = paths.role("base")
GOOD = Role(barclamp="b", jig="noop")


class Spoiling(Unreadable):
    """Another writer does its part while the record is spoiled; ``unreadable`` counts how often it was."""

    does = ""
    unreadable = 0

    def pause(self, least: float, most: float) -> None:  # noqa: ARG002
        if self.spoiled is None:
            return
        with Session(self._settings) as session:
            znode = session.get(PATH)
            assert znode is not None
            self.unreadable += "99" in znode.data.decode() or b"no record" in znode.data
            match self.does:
                case "writes it again":
                    session.commit([Set(PATH, msgspec.json.decode(znode.data), znode.version)])
                case "deletes it":
                    session.commit([Delete(PATH, znode.version)])
                case "mends it":
                    session.commit([Set(PATH, GOOD, znode.version)])


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("does", ["nothing", "writes it again", "deletes it", "mends it"])
def test_a_spoiled_record_is_mended(zk_session: Session, zk_settings: ZooKeeperSettings, does: str, seed: int) -> None:
    zk_session.commit([Create(PATH, GOOD)])
    spoiling = Spoiling(zk_settings, seed, lambda _: [PATH])
    spoiling.does = does
    spoiling.round()
    assert spoiling.unreadable == 1
    znode = zk_session.get(PATH)
    assert (znode is None) == (does == "deletes it")
    assert znode is None or codec.decode(Role, znode) == GOOD
    assert znode is None or znode.version == {"nothing": 2, "writes it again": 3, "mends it": 2}[does]
