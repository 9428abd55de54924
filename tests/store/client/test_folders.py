"""Requests for whole folders are those for their paths, and their answers come in the same order."""

from __future__ import annotations

import pytest

from nodepool_ocb.model.records import Create
from nodepool_ocb.store.client import folders, frames
from nodepool_ocb.store.client.folders import Folders
from nodepool_ocb.store.client.reading import BATCH
from nodepool_ocb.store.client.session import Session

WANTED: Folders = {
    "/ocb/a": ["x", "yy", "ü"],
    "/ocb/b": {"x": None, "yy": None, "ü": None},
    "/ocb/longer": ("x", "yy", "ü"),
    "/ocb/empty": (),
    "/ocb/ü": ["only"],
    "/ocb/large": [f"{number}" for number in range(1000)],
}
PATHS = [f"{folder}/{name}" for folder, names in WANTED.items() for name in names]


@pytest.mark.parametrize("chroot", ["", "/a/chroot"])
@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 400, 5000])
def test_each_request_is_that_for_its_paths(chroot: str, most: int) -> None:
    made = [*folders.batches(WANTED, most)]
    parts = [folders.paths(batch) for batch in made]
    assert [path for part in parts for path in part] == PATHS
    assert all(1 <= len(part) <= most for part in parts)
    assert [folders.read_data(batch, chroot) for batch in made] == [frames.read_data(part, chroot) for part in parts]


def test_folders_without_a_name_need_no_request() -> None:
    assert [*folders.batches({}, 10), *folders.batches({"/a": (), "/b": ()}, 10)] == []


def test_answers_come_in_the_order_of_the_folders_and_their_names(zk_session: Session) -> None:
    size = 2 * BATCH + 1
    zk_session.commit([Create("/ocb/large"), Create("/ocb/few"), Create("/ocb/few/x", {"n": "needle"})])
    for start in range(0, size, BATCH):
        numbers = range(start, min(start + BATCH, size))
        zk_session.commit([Create(f"/ocb/large/{number}", {"n": number}) for number in numbers])
    wanted: Folders = {"/ocb/few": ("x", "gone"), "/ocb/large": [f"{number}" for number in range(size)], "/ocb/no": ()}
    listed = [f"{folder}/{name}" for folder, names in wanted.items() for name in names]
    expected = zk_session.get_many(listed)
    assert [*zk_session.stream_folders(wanted)] == expected
    assert [*zk_session.stream_bytes(wanted)] == [None if each is None else each.data for each in expected]
    assert zk_session.mentioning(wanted, [b"needle"]) == [expected[0]]
    assert expected[1] is None
