"""Providers of every driver to send to, and items to be sent."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import secrets
import select
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.images.nodepool import Provider
from nodepool_ocb.providers import Item, Kept, Refused, Sent, Stamp, Uploader
from nodepool_ocb.testing.machines import Farm

NOBODY: Final = Stamp(cluster="nobody", provider="x", image="x", build="x", upload="x", key="x")

_numbers = itertools.count(1)


def new_item(file: Path, image_format: str = "qcow2", cluster: str = "ours", timeout_seconds: float = 60.0) -> Item:
    """An upload of its own of a file that is there."""
    data, number = file.read_bytes(), next(_numbers)
    stamp = Stamp(
        cluster=cluster,
        provider="west",
        image="debian",
        build="0000000007",
        upload=f"{number:010}",
        key=secrets.token_hex(6),
    )
    return Item(
        file=file,
        format=image_format,
        stamp=stamp,
        external_name=stamp.external_name,
        sha256=hashlib.sha256(data).hexdigest(),
        md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
        size=len(data),
        meta={"hw_disk_bus": "scsi", "motto": 'costs "5 $", \\o/'},
        stop=threading.Event(),
        timeout_seconds=timeout_seconds,
    )


def stamped(item: Item, **parts: str) -> Item:
    """The same file for another upload: its stamp differs in these parts."""
    stamp = replace(item.stamp, **parts)
    return replace(item, stamp=stamp, external_name=stamp.external_name)


class Trickle:
    """An item whose file is a pipe: it is read as far as the test has written. A context manager."""

    def __init__(self, item: Item, folder: Path) -> None:
        self._data = item.file.read_bytes()
        self._written = 0
        self.item = replace(item, file=folder / "pipe")
        os.mkfifo(self.item.file)
        self._pipe = os.open(self.item.file, os.O_RDWR)  # waits for no reader, and is never at its end

    def __enter__(self) -> Trickle:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pipe)

    def write(self, size: int) -> None:
        """Write so many more bytes, or as many as are read while somebody reads."""
        while size > 0 and select.select([], [self._pipe], [], 1.0)[1]:
            written = os.write(self._pipe, self._data[self._written : self._written + min(size, 4096)])
            self._written += written
            size -= written


def image_file(path: Path, size: int = 300_000) -> Path:
    path.write_bytes(secrets.token_bytes(size))
    return path


def tar_file(path: Path, size: int = 300_000) -> Path:
    """A tar with one file, which no other test has."""
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("etc/noise")
        member.size = size
        tar.addfile(member, io.BytesIO(secrets.token_bytes(size)))
    return path


def shell_tar(path: Path) -> Path:
    """A tar with a shell and what it is linked to."""
    linked = subprocess.run(["ldd", "/bin/sh"], check=True, capture_output=True, text=True).stdout.split()
    with tarfile.open(path, "w", dereference=True) as tar:
        for name in ["/bin/sh", *(word for word in linked if word.startswith("/"))]:
            tar.add(os.path.realpath(name), arcname=name)
    return path


class Ledger:
    """An uploader that remembers what it was told to have: ``ready`` is what must be at the provider."""

    def __init__(self, uploader: Uploader) -> None:
        self.uploader = uploader
        self.ready: set[str] = set()
        self.stamps: dict[str, Stamp] = {}  # of all that it was told to send

    def upload(self, item: Item) -> Sent | Refused:
        sent = self.uploader.upload(item)
        if isinstance(sent, Sent):
            self.ready.add(sent.external_id)
            self.stamps[sent.external_id] = item.stamp
        return sent

    def verify(self, external_id: str, item: Item) -> Refused | None:
        return self.uploader.verify(external_id, item)

    def delete(self, external_id: str, stamp: Stamp | None = None) -> Refused | None:
        """Under the stamp that it was sent with, unless another is given."""
        refused = self.uploader.delete(external_id, stamp or self.stamps.get(external_id, NOBODY))
        if refused is None:
            self.ready.discard(external_id)
        return refused

    def list(self) -> Iterable[Kept]:
        return self.uploader.list()

    def close(self) -> None:
        self.uploader.close()


def sent(outcome: Sent | Refused) -> str:
    """The external id of an upload that must have succeeded."""
    assert isinstance(outcome, Sent), outcome
    return outcome.external_id


def refused(outcome: Sent | Refused | None) -> Refused:
    assert isinstance(outcome, Refused), outcome
    return outcome


def local_provider(directory: Path) -> Provider:
    return Provider(name="laboratory", driver="local", format="qcow2", options={"directory": str(directory)})


def admin_node_provider(farm: Farm, directory: Path) -> Provider:
    """Machine 0 of the farm is the admin node; this user logs in."""
    ((_, record),) = farm.records()
    options = {
        "address": record.addresses[0],
        "username": record.user,
        "key-file": farm.settings()["key_files"][0],
        "host-keys": list(record.host_keys),
        "directory": str(directory),
    }
    return Provider(name="admin1", driver="admin-node", format="raw", options=options)


def docker_provider(url: str) -> Provider:
    return Provider(name="engine", driver="docker", format="tar", options={"url": url, "repository": "ci"})


def openstack_provider() -> Provider:
    return Provider(name="cloud", options={"cloud": "test", "region-name": "RegionOne"})


UPLOAD = """
import sys, threading
from pathlib import Path
from typing import Final
from msgspec.json import decode
from nodepool_ocb import providers
from nodepool_ocb.images.nodepool import Provider
fields = decode(sys.argv[2])
stamp = providers.Stamp(**fields["stamp"])
item = providers.Item(**{**fields, "file": Path(fields["file"]), "stamp": stamp, "stop": threading.Event()})
providers.open(decode(sys.argv[1], type=Provider)).upload(item)
"""


@contextlib.contextmanager
def uploading_process(provider: Provider, item: Item) -> Iterator[subprocess.Popen[bytes]]:
    """A process that uploads it; it is dead in the end."""
    fields = {name: getattr(item, name) for name in Item.__struct_fields__ if name != "stop"}
    texts = [msgspec.json.encode(value).decode() for value in (provider, fields | {"file": str(item.file)})]
    with subprocess.Popen([sys.executable, "-c", UPLOAD, *texts]) as process:
        try:
            yield process
        finally:
            process.kill()


class Context(msgspec.Struct):
    """Some provider."""

    ledger: Ledger
    folder: Path
    format: str
    cluster: str

    def item(self, timeout_seconds: float = 60.0, size: int = 300_000) -> Item:
        """What it takes."""
        file = self.folder / "image"
        made = tar_file(file, size) if self.format == "tar" else image_file(file, size)
        return new_item(made, self.format, self.cluster, timeout_seconds)

    def list(self) -> list[Kept]:
        """What it keeps of this test's cluster."""
        return [kept for kept in self.ledger.list() if kept.stamp.cluster == self.cluster]
