"""What every driver promises, of each that comes with the project."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from tests.providers.sites import Context, Trickle, refused, sent, stamped


def test_what_is_sent_is_verified_listed_with_its_stamp_and_deleted(site: Context) -> None:
    item = site.item()
    external_id = sent(site.ledger.upload(item))
    assert site.ledger.verify(external_id, item) is None
    (kept,) = site.list()
    assert (kept.external_id, kept.stamp) == (external_id, item.stamp)
    for part in (item.stamp.build, item.stamp.upload, item.stamp.provider, item.stamp.key):
        assert part in kept.external_name
    assert site.ledger.delete(external_id) is None
    assert site.list() == []


def test_what_is_gone_is_deleted_once_more_without_complaint(site: Context) -> None:
    external_id = sent(site.ledger.upload(site.item()))
    assert site.ledger.delete(external_id) is None
    assert site.ledger.delete(external_id) is None


def test_several_are_sent_at_once(site: Context) -> None:
    items = [site.item()]
    items += [stamped(items[0], upload=f"100000000{n}") for n in range(3)]
    with ThreadPoolExecutor(4) as pool:
        ids = [sent(outcome) for outcome in pool.map(site.ledger.upload, items)]
    assert {kept.stamp: kept.external_id for kept in site.list()} == {
        item.stamp: external_id for item, external_id in zip(items, ids, strict=True)
    }
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(site.ledger.delete, ids)] == [None] * 4
    assert site.list() == []


def test_a_file_that_is_not_what_was_built_is_sent_to_nobody(site: Context) -> None:
    item = replace(site.item(), sha256="0" * 64)
    outcome = refused(site.ledger.upload(item))
    assert outcome.lasting
    assert "sha256" in outcome.reason
    assert site.list() == []


def test_a_file_that_lost_its_end_is_sent_to_nobody(site: Context) -> None:
    item = site.item()
    item.file.write_bytes(item.file.read_bytes()[:-512])
    assert refused(site.ledger.upload(item)).lasting
    assert site.list() == []


def test_a_file_that_is_missing_is_named(site: Context) -> None:
    item = site.item()
    item.file.unlink()
    outcome = refused(site.ledger.upload(item))
    assert str(item.file) in outcome.reason
    assert outcome.lasting


def test_an_upload_that_is_told_to_stop_leaves_nothing(site: Context) -> None:
    item = site.item(size=20_000_000)
    with Trickle(item, site.folder) as trickle, ThreadPoolExecutor(1) as pool:
        upload = pool.submit(site.ledger.upload, trickle.item)
        trickle.write(5_000_000)
        item.stop.set()
        trickle.write(3_000_000)
        outcome = refused(upload.result(20.0))
    assert "stop" in outcome.reason
    assert not outcome.lasting
    assert site.list() == []


def test_an_upload_that_takes_too_long_leaves_nothing(site: Context) -> None:
    item = site.item(size=20_000_000, timeout_seconds=0.5)
    with Trickle(item, site.folder) as trickle, ThreadPoolExecutor(1) as pool:
        upload = pool.submit(site.ledger.upload, trickle.item)
        trickle.write(5_000_000)
        threading.Event().wait(0.5)
        trickle.write(3_000_000)
        outcome = refused(upload.result(20.0))
    assert "0.5 s" in outcome.reason
    assert site.list() == []


def test_unsent_uploads_are_not_verified(site: Context) -> None:
    item = site.item()
    external_id = sent(site.ledger.upload(item))
    assert site.ledger.delete(external_id) is None
    assert refused(site.ledger.verify(external_id, item)).reason


def test_what_was_made_of_another_file_is_not_verified(site: Context) -> None:
    item = site.item()
    external_id = sent(site.ledger.upload(item))
    other = secrets.token_hex(32)
    assert refused(site.ledger.verify(external_id, replace(item, sha256=other, md5=other[:32]))).reason


PARTS = ("cluster", "provider", "image", "build", "upload", "key")


def test_what_differs_in_one_part_of_the_stamp_is_neither_deleted_nor_verified(site: Context) -> None:
    item = site.item()
    external_id = sent(site.ledger.upload(item))
    for part in PARTS:
        other = stamped(item, **{part: "other"})
        assert refused(site.ledger.uploader.delete(external_id, other.stamp)).lasting, part
        assert refused(site.ledger.verify(external_id, other)).lasting, part
        assert site.ledger.verify(external_id, item) is None, part


def test_what_is_undone_is_this_attempts_own(site: Context) -> None:
    """The other is refused as its file is spoiled; what it began is taken away, and nothing else."""
    item = site.item()
    external_id = sent(site.ledger.upload(item))
    for part in PARTS:
        if part == "cluster":
            continue
        other = replace(stamped(item, **{part: "other"}), sha256="0" * 64)
        assert "sha256" in refused(site.ledger.upload(other)).reason, part
        assert site.ledger.verify(external_id, item) is None, part
        assert [kept.stamp for kept in site.list()] == [item.stamp], part
