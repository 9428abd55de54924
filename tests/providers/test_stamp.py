"""The stamp of an external object: read whole or not at all, and a name that no two have."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.providers import Stamp

STAMP = Stamp(cluster="c", provider="west", image="jammy", build="0000000001", upload="0000000000", key="5f0c")


def test_a_written_stamp_is_read_back() -> None:
    assert Stamp.of({**STAMP.labels, "os_distro": "ubuntu"}) == STAMP


@pytest.mark.parametrize("field", Stamp.__struct_fields__)
@pytest.mark.parametrize("value", [None, "", 7])
def test_a_stamp_that_lacks_a_part_is_none(field: str, value: object) -> None:
    assert Stamp.of({**STAMP.labels, f"nodepool_ocb_{field}": value}) is None


def test_it_belongs_to_one_provider_of_one_cluster() -> None:
    assert STAMP.belongs_to("c", "west")
    assert not STAMP.belongs_to("c", "east")
    assert not STAMP.belongs_to("d", "west")


@pytest.mark.parametrize("length", [1, 100, 200])
def test_names_are_short_plain_and_as_different_as_the_keys(length: int) -> None:
    one = replace(STAMP, image="i" * length, provider="p/ü" + "p" * length)
    two = replace(one, key="5f0d")
    assert one.external_name != two.external_name
    assert len(one.external_name) <= 200
    assert one.external_name.isascii()
    assert "/" not in one.external_name
