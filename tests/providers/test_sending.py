"""A file on its way: compared as it is read, and not waited for longer than allowed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.providers import Item, Refused, Sent
from nodepool_ocb.providers.transfer import GivenUp, Stream, attended
from tests.providers.sites import image_file, new_item, refused


@pytest.fixture
def item(tmp_path: Path) -> Item:
    return new_item(image_file(tmp_path / "image"))


def test_a_stream_gives_the_file_and_its_length(item: Item) -> None:
    with Stream(item) as stream:
        assert len(stream) == item.size
        assert b"".join(iter(lambda: stream.read(4096), b"")) == item.file.read_bytes()
        assert stream.fault is None


def test_a_file_is_not_sent_a_second_time(item: Item) -> None:
    with Stream(item) as stream:
        while stream.read():
            pass
        with pytest.raises(GivenUp, match="second time"):
            stream.read()


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"x" + data[1:]])
def test_the_last_block_of_a_changed_file_is_kept_back(item: Item, change: Callable[[bytes], bytes]) -> None:
    item.file.write_bytes(change(item.file.read_bytes()))
    given: list[bytes] = []
    with Stream(item) as stream:
        with pytest.raises(GivenUp, match="build the image again"):
            given.extend(iter(lambda: stream.read(4096), b""))
        assert stream.fault is not None
        assert stream.fault.lasting
    assert sum(map(len, given)) < item.size


def test_an_empty_file_is_no_image(item: Item) -> None:
    item.file.write_bytes(b"")
    with pytest.raises(GivenUp, match="is empty"), Stream(replace(item, size=0)):
        pass


def test_what_ends_after_it_was_given_up_is_undone_then(item: Item, until: Callable[..., None]) -> None:
    silent, made, undone = threading.Event(), [], []

    def send() -> Sent | Refused:
        silent.wait(20.0)
        made.append("image")
        return Sent("image")

    outcome = refused(attended(replace(item, timeout_seconds=0.1), send, lambda: undone.append(list(made))))
    assert "0.1 s" in outcome.reason
    assert undone == [[]]
    silent.set()
    until(lambda: undone == [[], ["image"]])


def test_what_is_to_stop_before_it_begins_does_not_begin(item: Item) -> None:
    item.stop.set()
    begun: list[str] = []
    refused(attended(item, lambda: begun.append("send") or Sent("image"), lambda: begun.append("undo")))
    assert begun == []


def test_what_nobody_expected_reaches_the_caller(item: Item) -> None:
    with pytest.raises(ZeroDivisionError):
        attended(item, lambda: Sent(str(1 // 0)), lambda: None)
