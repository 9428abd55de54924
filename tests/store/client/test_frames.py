"""Requests and answers as bytes: many paths at once."""

from __future__ import annotations

import struct
from typing import Final

import pytest

from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client.frames import Reply, UnreadablePath

GET: Final = 4
CHILDREN: Final = 8
NO_NODE: Final = -101
NO_AUTH: Final = -102
STAT: Final = bytes(68)


def text(value: str) -> bytes:
    return struct.pack("!i", len(value)) + value.encode()


def listed(*names: str) -> bytes:
    return struct.pack("!iBii", CHILDREN, False, 0, len(names)) + b"".join(map(text, names))


def read(data: bytes) -> bytes:
    return struct.pack("!iBii", GET, False, 0, len(data)) + data + STAT


def refused(code: int) -> bytes:
    return struct.pack("!iBii", -1, False, code, code)


def reply(*members: bytes) -> Reply:
    return Reply(b"before" + b"".join(members) + struct.pack("!iBi", -1, True, -1), len(b"before"), 1)


def test_folders_with_the_names_of_the_folder_before_have_lists_of_their_own() -> None:
    members = (
        listed("ntp", "dns"), listed("ntp", "dns"), refused(NO_NODE), listed("ntp", "dns"), listed("dns", "ntp"),
        listed("dns", "nts"), listed("ntp", "dns"), listed(), listed(), listed("dns", "nts", "ntp"),
    )  # fmt: skip
    found = frames.unpack_children(reply(*members), [str(number) for number in range(len(members))])
    assert found == [
        ["ntp", "dns"], ["ntp", "dns"], None, ["ntp", "dns"], ["dns", "ntp"],
        ["dns", "nts"], ["ntp", "dns"], [], [], ["dns", "nts", "ntp"],
    ]  # fmt: skip
    lists = [names for names in found if names is not None]
    assert len({*map(id, lists)}) == len(lists)


def test_records_that_mention_a_name_are_found_and_a_refused_path_is_named() -> None:
    paths = ["/a", "/b", "/c"]
    found = frames.unpack_mentioning(
        reply(read(b"one"), refused(NO_NODE), read(b"three")), lambda: paths, [b"thr", b"two"]
    )
    assert [(znode.path, znode.data) for znode in found] == [("/c", b"three")]
    assert frames.unpack_mentioning(reply(read(b"one"), refused(NO_NODE), read(b"")), lambda: paths, [b"two"]) == []
    for needle in (b"one", b"two"):
        with pytest.raises(UnreadablePath) as refusal:
            frames.unpack_mentioning(reply(read(b"one"), refused(NO_AUTH), read(b"three")), lambda: paths, [needle])
        assert (refusal.value.code, refusal.value.path) == (NO_AUTH, "/b")


def test_a_record_with_an_escape_may_mention_any_name() -> None:
    answer = reply(read(rb"a\b\n"), read(rb'"\n\u0074p"'), read(b"one"))
    found = frames.unpack_mentioning(answer, lambda: ["/a", "/b", "/c"], [b"ntp"])
    assert [znode.path for znode in found] == ["/b"]


def test_an_escape_behind_very_many_backslashes_is_found() -> None:
    lines = 2_000 * rb"\n"
    found = frames.unpack_mentioning(reply(read(lines), read(lines + rb"\u0074")), lambda: ["/a", "/b"], [b"ntp"])
    assert [znode.path for znode in found] == ["/b"]


def test_an_answer_without_a_needle_is_not_taken_apart_though_the_next_one_is_in_its_buffer() -> None:
    buffer, offset, zxid = reply(read(b"one"))
    together = Reply(buffer + struct.pack("!i", 400) + buffer[offset:], offset, zxid)

    def paths() -> list[str]:
        pytest.fail("it is taken apart")

    assert frames.unpack_mentioning(together, paths, [b"two"]) == []


@pytest.mark.parametrize("chroot", ["", "/lab"])
def test_a_request_for_many_paths_has_each_of_them(chroot: str) -> None:
    paths = ["/a", "/", "/ocb/nodes/ü", "/b", "/" + 2_000 * "c"]
    stored = ["/lab/a", "/lab", "/lab/ocb/nodes/ü", "/lab/b", "/lab/" + 2_000 * "c"] if chroot else paths
    end = struct.pack("!iBi", -1, True, -1)
    for request, opcode in ((frames.read_data, GET), (frames.read_children, CHILDREN)):
        header = struct.pack("!iBi", opcode, False, -1)
        members = (header + struct.pack("!i", len(each.encode())) + each.encode() + b"\0" for each in stored)
        assert request(paths, chroot).body == b"".join(members) + end
