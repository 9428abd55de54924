"""Driver openstack: what clouds do, and that nothing is left of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb import providers
from nodepool_ocb.errors import Invalid, Unavailable
from nodepool_ocb.images import nodepool
from nodepool_ocb.images.nodepool import Provider
from nodepool_ocb.providers import Item
from nodepool_ocb.testing.glance import Glance
from nodepool_ocb_builder.configuration import Formats
from tests.providers.sites import (
    Ledger,
    image_file,
    new_item,
    openstack_provider,
    refused,
    sent,
    stamped,
    uploading_process,
)

STORE, CREATE, ONE = "/images/[^/]+/file$", "/images$", "/images/[^/]+$"


@pytest.fixture
def item(tmp_path: Path) -> Item:
    return new_item(image_file(tmp_path / "image", 4_000_000))


def test_an_image_bears_stamp_meta_and_checksums(glance: Glance, cloud: Ledger, item: Item) -> None:
    image = glance.images[sent(cloud.upload(item))]
    assert item.stamp.labels.items() | item.meta.items() <= image.items()
    assert (image["name"], image["status"], image["size"]) == (item.external_name, "active", item.size)
    assert (image["disk_format"], image["container_format"]) == ("qcow2", "bare")
    assert image["owner_specified.openstack.sha256"] == item.sha256


@pytest.mark.parametrize(
    ("method", "path", "status", "message", "lasting"),
    [
        ("PUT", STORE, 500, "", False),
        ("PUT", STORE, 503, "", False),
        ("PUT", STORE, 409, "Quota exceeded", False),
        ("PUT", STORE, 413, "Image exceeds the storage quota", False),
        ("PUT", STORE, 413, "Image is larger than 1073741824 bytes", True),
        ("POST", CREATE, 500, "", False),
        ("POST", CREATE, 429, "", False),
        ("POST", CREATE, 403, "Policy does not allow image creation", True),
        ("POST", CREATE, 403, "Quota exceeded for images: 100 of 100", False),
        ("POST", CREATE, 400, "Invalid disk format qcow3", True),
        ("POST", "/auth/tokens", 503, "", False),
    ],
)
def test_a_refusal_by_a_cloud_is_reported_once_and_marked_as_lasting(
    glance: Glance, cloud: Ledger, item: Item, method: str, path: str, status: int, message: str, lasting: bool
) -> None:
    glance.answer(method, path, status, message)
    outcome = refused(cloud.upload(item))
    assert outcome.lasting == lasting, outcome
    assert outcome.reason.startswith("provider cloud: ")
    assert message in outcome.reason
    assert glance.images == {}
    sent(cloud.upload(item))


def test_a_connection_cut_in_mid_upload_leaves_nothing(glance: Glance, cloud: Ledger, item: Item) -> None:
    glance.cut("PUT", STORE, after=1_000_000)
    assert not refused(cloud.upload(item)).lasting
    assert glance.images == {}


@pytest.mark.parametrize(("method", "path"), [("POST", CREATE), ("PUT", STORE), ("GET", ONE)])
def test_an_image_whose_answer_was_lost_is_found_and_deleted(
    glance: Glance, cloud: Ledger, item: Item, method: str, path: str
) -> None:
    glance.lose_answer(method, path)
    assert not refused(cloud.upload(item)).lasting
    assert glance.images == {}


def test_what_could_not_be_deleted_is_told_by_the_list(glance: Glance, cloud: Ledger, item: Item) -> None:
    glance.cut("PUT", STORE, after=1_000_000)
    glance.answer("DELETE", ONE, 500, times=2)
    assert not refused(cloud.upload(item)).lasting
    (kept,) = cloud.list()
    assert kept.stamp == item.stamp
    assert cloud.delete(kept.external_id, kept.stamp) is None


def test_an_upload_stops_although_the_cloud_is_silent(glance: Glance, cloud: Ledger, tmp_path: Path) -> None:
    item = new_item(image_file(tmp_path / "image", 20_000))
    come = glance.hold("PUT", STORE)
    with ThreadPoolExecutor(1) as pool:
        upload = pool.submit(cloud.upload, item)
        assert come.wait(20.0)
        item.stop.set()
        assert "stop" in refused(upload.result(10.0)).reason
    assert glance.images == {}


def test_what_a_silent_cloud_makes_later_is_deleted_then(
    glance: Glance, cloud: Ledger, item: Item, until: Callable[..., None]
) -> None:
    come = glance.hold("POST", CREATE)
    outcome = refused(cloud.upload(replace(item, timeout_seconds=0.6)))
    assert "0.6 s" in outcome.reason
    assert come.is_set()
    glance.heal()
    until(lambda: glance.count("POST", CREATE) == 1 and not glance.images)


def test_the_list_shows_leftovers_of_a_killed_builder(glance: Glance, cloud: Ledger, item: Item) -> None:
    come = glance.hold("PUT", STORE)
    with uploading_process(openstack_provider(), item) as builder:
        assert come.wait(20.0)
        builder.kill()
    (kept,) = cloud.list()
    assert kept.stamp == item.stamp
    assert cloud.delete(kept.external_id, kept.stamp) is None


def test_data_that_was_damaged_on_its_way_is_not_verified(glance: Glance, cloud: Ledger, item: Item) -> None:
    glance.damage()
    external_id = sent(cloud.upload(item))
    assert "md5" in refused(cloud.verify(external_id, item)).reason
    assert cloud.delete(external_id) is None


@pytest.mark.parametrize("status", ["killed", "queued", "deactivated"])
def test_an_image_that_is_not_active_is_not_verified(glance: Glance, cloud: Ledger, item: Item, status: str) -> None:
    external_id = sent(cloud.upload(item))
    glance.images[external_id]["status"] = status
    assert status in refused(cloud.verify(external_id, item)).reason


def test_questions_that_fail_once_succeed_later(glance: Glance, cloud: Ledger, item: Item) -> None:
    external_id = sent(cloud.upload(item))
    glance.answer("GET", ONE, 500)
    assert not refused(cloud.verify(external_id, item)).lasting
    assert cloud.verify(external_id, item) is None
    glance.answer("GET", CREATE, 500)
    with pytest.raises(Unavailable, match="provider cloud"):
        list(cloud.list())
    glance.answer("DELETE", ONE, 409, "Image is in use")
    outcome = refused(cloud.delete(external_id))
    assert "in use" in outcome.reason
    assert not outcome.lasting


def test_the_longest_names_fit_into_the_name_of_an_image(glance: Glance, cloud: Ledger, item: Item) -> None:
    longest = stamped(item, image="i" * 200, provider="p" * 200)
    assert len(glance.images[sent(cloud.upload(longest))]["name"]) <= 255


def test_a_question_is_asked_again_of_a_cloud_that_is_away(glance: Glance, cloud: Ledger, item: Item) -> None:
    external_id = sent(cloud.upload(item))
    glance.answer("GET", ONE, 503)
    assert cloud.verify(external_id, item) is None


def test_a_protected_image_stays(glance: Glance, cloud: Ledger, item: Item) -> None:
    external_id = sent(cloud.upload(item))
    glance.images[external_id]["protected"] = True
    assert refused(cloud.delete(external_id)).lasting


def test_only_what_is_stamped_is_listed_over_all_pages(
    glance: Glance, cloud: Ledger, item: Item, tmp_path: Path
) -> None:
    small = image_file(tmp_path / "image", 1000)
    ids = {sent(cloud.upload(new_item(small))) for _ in range(8)}
    ours = {"owner": glance.images[min(ids)]["owner"], "status": "active"}
    strangers = {
        "by-hand": ours,
        "public": {"owner": "somebody", **dict.fromkeys(item.stamp.labels, "x"), "status": "active"},
    }
    glance.images |= {key: {"id": key, "name": key, **values} for key, values in strangers.items()}
    assert {kept.external_id for kept in cloud.list()} == ids
    for key in strangers:
        del glance.images[key]


def test_an_import_is_waited_for(glance: Glance, item: Item) -> None:
    provider = openstack_provider()
    uploader = providers.open(replace(provider, options={**provider.options, "use-import": True}))
    external_id = sent(uploader.upload(item))
    assert glance.images[external_id]["status"] == "active"
    assert uploader.verify(external_id, item) is None


@pytest.mark.parametrize(
    ("keys", "format"),
    [
        ({}, "qcow2"),
        ({"image_format": "raw"}, "raw"),
        ({"profile": "rackspace"}, "vhd"),
        ({"profile": "rackspace", "image_format": "raw"}, "raw"),
    ],
)
def test_a_cloud_takes_what_clouds_yaml_or_its_vendors_profile_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str], format: str
) -> None:
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(json.dumps({"clouds": {"rax": {"region_name": "DFW", **keys}}}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    assert providers.takes("openstack", {"cloud": "rax", "region-name": "DFW"}) == format
    nodepool_yaml = tmp_path / "nodepool.yaml"
    nodepool_yaml.write_text(
        "diskimages: [{name: i}]\nproviders: [{name: p, cloud: rax, region-name: DFW, diskimages: [{name: i}]}]\n"
    )
    loaded = nodepool.load(nodepool_yaml, environ={}, takes=providers.takes)
    assert (loaded.providers[0].format, loaded.diskimages[0].formats) == (format, (format,))
    with pytest.raises(Invalid, match=r"cloud xar of clouds\.yaml"):
        providers.takes("openstack", {"cloud": "xar"})


def test_a_format_that_was_known_counts_while_clouds_yaml_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clouds, asked = tmp_path / "clouds.yaml", ("openstack", {"cloud": "rax"})
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    clouds.write_text("clouds: {rax: {image_format: vhd}}")
    formats = Formats()
    assert formats(*asked) == "vhd"
    clouds.write_text("clouds: {rax: ")
    assert formats(*asked) == "vhd"
    assert Formats()(*asked) is None, "nothing is known"


def test_an_image_is_called_as_the_provider_says(glance: Glance, cloud: Ledger, item: Item) -> None:
    provider = openstack_provider()
    provider = replace(
        provider, options={**provider.options, "image-name-format": "{image_name}-{timestamp}-{build_id}"}
    )
    name = providers.external_name(provider, item.stamp, 1455137665.9)
    assert name == "debian-1455137665-0000000007"
    assert providers.external_name(openstack_provider(), item.stamp, 0.0) == item.stamp.external_name
    glance.lose_answer("POST", CREATE)
    refused(cloud.upload(replace(item, external_name=name)))
    assert glance.images == {}, "what nobody knew of is found by its name and stamp"
    assert glance.images[sent(cloud.upload(replace(item, external_name=name)))]["name"] == name


def test_operations_keep_the_rate_of_their_provider(glance: Glance, item: Item) -> None:  # noqa: ARG001
    provider = openstack_provider()
    slow = providers.open(replace(provider, options={**provider.options, "rate": 0.4}))
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: slow.delete("nothing", item.stamp) is None, range(4)))
    assert time.monotonic() - began >= 3 * 0.4


def test_a_wrong_password_and_an_unknown_cloud_last(cloud: Ledger, item: Item, tmp_path: Path) -> None:
    elsewhere = providers.open(Provider(name="cloud", options={"cloud": "tset"}))
    outcome = refused(elsewhere.upload(item))
    assert "tset" in outcome.reason
    assert outcome.lasting
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(clouds.read_text().replace('"secret"', '"guess"'))
    outcome = refused(cloud.upload(item))
    assert "authentication" in outcome.reason
    assert outcome.lasting


def test_a_cloud_where_nobody_listens_may_be_back_later(glance: Glance, item: Item, tmp_path: Path) -> None:
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(clouds.read_text().replace(glance.url, "http://127.0.0.1:9"))
    uploader = providers.open(openstack_provider())
    assert not refused(uploader.upload(item)).lasting
    assert not refused(uploader.delete("x", item.stamp)).lasting
    with pytest.raises(Unavailable):
        list(uploader.list())
