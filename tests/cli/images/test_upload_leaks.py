"""What providers have and no record names, on the command line: shown, and deleted by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState
from nodepool_ocb.model.records import Json, Set
from nodepool_ocb.providers.stamp import Stamp
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from tests.cli.images.played_builder import Builder
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]


class Directory:
    """A provider ``shelf``, a directory, in the nodepool.yaml of this host."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.config = folder / "shelf", folder / "nodepool-ocb.yaml"
        self.folder.mkdir()
        self.config.write_text(json.dumps({"builder": {"nodepool": str(folder / "nodepool.yaml")}}))
        provider = {
            "name": "shelf",
            "driver": "local",
            "directory": str(self.folder),
            "diskimages": [{"name": "jammy"}],
        }
        document = {"diskimages": [{"name": "jammy"}], "providers": [provider]}
        (folder / "nodepool.yaml").write_text(json.dumps(document))

    def put(self, cluster: str, build: str, key: str, provider: str = "shelf") -> str:
        """An object with a stamp; gives its external id."""
        stamp = Stamp(cluster=cluster, provider=provider, image="jammy", build=build, upload="0000000000", key=key)
        name = f"{stamp.external_name}.raw"
        (self.folder / name).write_text("image")
        side = {"external_name": stamp.external_name, "stamp": stamp.labels, "meta": {}, "sha256": "", "size": 5}
        (self.folder / f"{name}.json").write_text(json.dumps(side))
        return name

    def has(self, external_id: str) -> bool:
        return (self.folder / external_id).exists()


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directory:
    shelf = Directory(tmp_path)
    monkeypatch.setenv("NODEPOOL_OCB_CONFIG", str(shelf.config))
    return shelf


def test_leaks_are_shown_with_their_age_and_deleted_by_hand_in_the_cluster_that_is_named(
    shelf: Directory, zk_session: Session, ask: Ask, ocb: Ocb
) -> None:
    ours = clusters.current(zk_session).id
    builder = Builder(zk_session)
    build = builder.made(BuildState.READY)
    leak, foreign = shelf.put(ours, "0000000097", "k1"), shelf.put("another", "0000000098", "k2")
    named = shelf.put(ours, build, "k3")
    builder.uploads(build, "shelf", external_id=named, cluster=ours, key="k3")
    shelf.put(ours, "0000000099", "k4", provider="elsewhere")  # for another name of the same shelf to tell
    rows = {row["external_id"]: row for row in ask("upload", "leaks")}
    assert set(rows) == {leak, foreign}
    assert (rows[leak]["whose"], rows[foreign]["whose"]) == ("ours", "another cluster's")
    assert rows[leak]["since"] > 1.7e9
    asked = ocb("upload", "leaks", "shelf", "--delete", leak)
    assert (asked.exit_code, f"delete {leak} at shelf" in asked.stderr) == (2, True)
    refused = ocb("upload", "leaks", "shelf", "--delete", foreign, "--yes")
    assert (refused.exit_code, "name it with --cluster" in refused.stderr) == (4, True)
    assert ocb("upload", "leaks", "shelf", "--delete", named, "--yes").exit_code == 3, "a record names it"
    dry = ocb("upload", "leaks", "shelf", "--delete", leak, "--dry-run")
    assert (dry.exit_code, leak in dry.stdout) == (10, True)
    assert ocb("upload", "leaks", "shelf", "--delete", leak, "--yes").exit_code == 0, "it is still there"
    assert ocb("upload", "leaks", "shelf", "--delete", foreign, "--cluster", "another", "--yes").exit_code == 0
    assert [shelf.has(each) for each in (leak, foreign, named)] == [False, False, True]


def test_what_may_still_be_sent_is_not_deleted_by_hand(shelf: Directory, zk_session: Session, ocb: Ocb) -> None:
    ours = clusters.current(zk_session).id
    builder = Builder(zk_session)
    build = builder.made(BuildState.READY)
    builder.uploads(build, "shelf", cluster=ours, key="newer")
    older = shelf.put(ours, build, "older")
    (upload,) = builder.build_view(build).uploads
    assert upload.id == "0000000000"
    refused = ocb("upload", "leaks", "shelf", "--delete", older, "--yes")
    assert (refused.exit_code, "may still be going on" in refused.stderr) == (4, True)
    znode = zk_session.get(paths.build("jammy", build))
    assert znode is not None
    zk_session.commit([Set(znode.path, {"schema": 9}, znode.version)])
    assert ocb("upload", "leaks", "shelf", "--delete", older, "--yes").exit_code == 3, (
        "a record that is not read may name it"
    )
    assert shelf.has(older)
