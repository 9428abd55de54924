"""Driver admin-node: the files that an admin node then serves, and the admin node that fails."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb import providers
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.ports import free_port
from tests.providers.sites import Ledger, admin_node_provider, image_file, new_item, refused, sent, stamped

PARTS = ("vmlinuz", "initrd", "root.squashfs")


def pxe_file(path: Path, spoiled: str | None = None) -> Path:
    """A build of format pxe; ``spoiled`` names a member that differs from its sum, or is absent from the sums."""
    contents = {name: os.urandom(3000) for name in PARTS}
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items()]
    if spoiled is not None:
        contents[spoiled] += b"!"
    with tarfile.open(path, "w") as tar:
        for name, content in {"SHA256SUMS": "".join(lines).encode(), **contents}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_a_boot_from_the_network_is_served_as_its_three_files(docroot: Ledger, tmp_path: Path) -> None:
    item = new_item(pxe_file(tmp_path / "image"), "pxe")
    external_id = sent(docroot.upload(item))
    assert docroot.verify(external_id, item) is None
    build = tmp_path / "served/images/debian/0000000007"
    with tarfile.open(item.file) as tar:
        for name in ("SHA256SUMS", *PARTS):
            member = tar.extractfile(name)
            assert member is not None
            assert (build / name).read_bytes() == member.read()
    assert {path.name for path in build.iterdir()} == {"SHA256SUMS", *PARTS, "stamp.json", ".build"}
    assert (build.parent / "newest").read_text() == "0000000007\n"
    digest = hashlib.sha256((build / "root.squashfs").read_bytes()).hexdigest()
    assert (build.parent / "newest.cfg").read_text() == f"set build=0000000007\nset root_sha256={digest}\n"
    assert (build.parent / "newest.ipxe").read_text() == f"#!ipxe\nset build 0000000007\nset root_sha256 {digest}\n"


def test_a_boot_that_differs_from_its_own_sums_is_not_served(docroot: Ledger, tmp_path: Path) -> None:
    item = new_item(pxe_file(tmp_path / "image", spoiled="initrd"), "pxe")
    assert "SHA256SUMS" in refused(docroot.upload(item)).reason
    assert not (tmp_path / "served/images/debian").exists()


def test_a_tar_that_is_no_boot_from_the_network_is_not_served(docroot: Ledger, tmp_path: Path) -> None:
    item = new_item(image_file(tmp_path / "image"), "pxe")
    assert "root.squashfs" in refused(docroot.upload(item)).reason
    assert not (tmp_path / "served/images/debian").exists()


def test_the_newest_build_is_named_whichever_comes_last(docroot: Ledger, tmp_path: Path) -> None:
    item = new_item(image_file(tmp_path / "image"), "raw")
    newest = tmp_path / "served/images/debian/newest"
    later = sent(docroot.upload(stamped(item, build="0000000009")))
    sent(docroot.upload(stamped(item, build="0000000008")))
    assert newest.read_text() == "0000000009\n"
    assert docroot.delete(later) is None
    assert newest.read_text() == "0000000008\n"


def test_another_upload_of_a_build_takes_the_place_of_a_deleted_one(docroot: Ledger, tmp_path: Path) -> None:
    item = new_item(image_file(tmp_path / "image"), "tar")
    first, second = sent(docroot.upload(item)), sent(docroot.upload(stamped(item, upload="0000000099")))
    build = tmp_path / "served/images/debian/0000000007"
    assert os.path.basename(os.readlink(build)) == second
    assert docroot.delete(second) is None
    assert os.path.basename(os.readlink(build)) == first
    assert (build / "disk.tar").read_bytes() == item.file.read_bytes()


def test_bytes_that_changed_on_the_admin_node_are_found(docroot: Ledger, tmp_path: Path) -> None:
    item = new_item(image_file(tmp_path / "image"), "raw")
    external_id = sent(docroot.upload(item))
    (tmp_path / "served/images/debian/0000000007/disk.raw").write_bytes(b"other")
    assert "differs" in refused(docroot.verify(external_id, item)).reason


def test_other_formats_are_refused_for_good(docroot: Ledger, tmp_path: Path) -> None:
    outcome = refused(docroot.upload(new_item(image_file(tmp_path / "image"), "qcow2")))
    assert outcome.lasting
    assert "pxe, raw, tar" in outcome.reason


@pytest.mark.parametrize("part", ["image", "build"])
def test_a_name_that_leads_elsewhere_is_refused(docroot: Ledger, tmp_path: Path, part: str) -> None:
    item = stamped(new_item(image_file(tmp_path / "image"), "raw"), **{part: "../../etc"})
    assert "cannot be the name of a file" in refused(docroot.upload(item)).reason
    assert not (tmp_path / "etc").exists()


def test_a_dead_admin_node_is_a_failure_that_may_be_repeated(admin_node: Farm, tmp_path: Path) -> None:
    provider = admin_node_provider(admin_node, tmp_path / "served")
    options = {**provider.options, "address": f"127.0.0.1:{free_port()}"}
    dead = providers.open(replace(provider, options=options))
    outcome = refused(dead.upload(new_item(image_file(tmp_path / "image"), "raw")))
    assert not outcome.lasting
    assert outcome.reason.startswith("provider admin1: connect: ")
    with pytest.raises(Unavailable, match="admin1"):
        list(dead.list())


def test_a_foreign_machine_at_the_address_gets_no_image(admin_node: Farm, tmp_path: Path) -> None:
    provider = admin_node_provider(admin_node, tmp_path / "served")
    foreign = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"]
    uploader = providers.open(replace(provider, options={**provider.options, "host-keys": foreign}))
    outcome = refused(uploader.upload(new_item(image_file(tmp_path / "image"), "raw")))
    assert "which is not the pinned key" in outcome.reason
    assert not (tmp_path / "served").exists()


def test_a_builder_without_its_key_accuses_itself(admin_node: Farm, tmp_path: Path) -> None:
    provider = admin_node_provider(admin_node, tmp_path / "served")
    uploader = providers.open(replace(provider, options={**provider.options, "key-file": str(tmp_path / "none")}))
    outcome = refused(uploader.upload(new_item(image_file(tmp_path / "image"), "raw")))
    assert outcome.reason.startswith("provider admin1: this builder cannot log in: ")


def test_faults_of_the_options_are_sentences() -> None:
    provider = providers.provider.Provider(
        name="admin1", driver="admin-node", options={"address": "a", "directory": "x"}
    )
    assert providers.faults(provider) == [
        'directory: must be an absolute path, and is text "x"',
        "key `host-keys` is missing; add it",
    ]
