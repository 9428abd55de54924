"""Pieces of the access log of an admin node, read over a real sshd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.config import SshSettings
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.jigs.ssh import bootlogs
from nodepool_ocb.jigs.ssh.bootlogs import LogPiece, LogPlace
from nodepool_ocb.jigs.ssh.pool import Pool
from nodepool_ocb.model.records import Node
from nodepool_ocb.testing.machines import Farm


def line(path: str, agent: str = "iPXE/1.21.1", status: int = 200) -> str:
    return f'10.1.0.20 - - [27/Nov/2026:15:00:02 +0000] "GET {path} HTTP/1.1" {status} 512 "-" "{agent}"\n'


class AdminNode:
    def __init__(self, farm: Farm, folder: Path) -> None:
        ((self.fqdn, self.node),) = farm.records()
        self.pool, self.log = Pool(SshSettings(**farm.settings())), folder / "access.log"

    def read(self, place: LogPlace | None = None, node: Node | None = None) -> LogPiece:
        return bootlogs.read(self.pool, self.fqdn, node or self.node, place or LogPlace(str(self.log)))


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminNode]:
    folder = tmp_path_factory.mktemp("admin")
    with Farm(1, folder / "farm") as farm:
        made = AdminNode(farm, folder)
        yield made
        made.pool.close()


def lines(piece: LogPiece) -> list[str]:
    return [each.split()[2] for each in piece.lines if each]


def test_a_log_is_read_from_the_byte_that_was_reached(admin: AdminNode) -> None:
    admin.log.write_text(line("/boot/a.ipxe") + line("/images/debian/1/disk.raw") + line("/images/e/1/vmlinuz"))
    piece = admin.read()
    assert piece.lines[1] == "10.1.0.20 27/Nov/2026:15:00:02 /boot/a.ipxe 200"
    assert lines(piece) == ["/boot/a.ipxe", "/images/e/1/vmlinuz"], "pieces of an image are no evidence"
    with admin.log.open("a") as log:
        log.write(line("/images/e/1/root.squashfs") + line("/agent/52-54-00-00-00-01/tls", status=404))
    after = admin.read(piece.next)
    assert lines(after) == ["/images/e/1/root.squashfs", "/agent/52-54-00-00-00-01/tls"]
    assert (lines(admin.read(after.next)), after.more) == ([], False)


def test_a_log_that_was_rotated_is_read_from_its_begin(admin: AdminNode) -> None:
    admin.log.write_text(line("/boot/a.ipxe") * 3)
    piece = admin.read()
    admin.log.rename(admin.log.with_suffix(".1"))
    admin.log.write_text(line("/boot/b.ipxe") * 9)
    assert set(lines(admin.read(piece.next))) == {"/boot/b.ipxe"}
    admin.log.write_text(line("/boot/c.ipxe"))
    shorter = LogPlace(str(admin.log), admin.log.stat().st_ino, 10**6)
    assert lines(admin.read(shorter)) == ["/boot/c.ipxe"]


def test_a_long_log_is_read_in_bounded_pieces(admin: AdminNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootlogs, "FIRST_BYTES", 10_000)
    monkeypatch.setattr(bootlogs, "MOST_BYTES", 5_000)
    admin.log.write_text(line("/boot/old.ipxe") * 1000 + line("/boot/new.ipxe") * 60)
    piece = admin.read()
    assert piece.more
    seen = 0
    while piece.more:
        piece = admin.read(piece.next)
        seen += len(lines(piece))
    assert seen < 100
    monkeypatch.setattr(bootlogs, "MOST_LINES", 7)
    assert len(lines(admin.read())) <= 7
    admin.log.write_text(line("/boot/" + "x" * 50_000))
    assert len(admin.read().lines[1]) < 200


def test_a_log_that_is_not_there_is_a_reason_and_so_is_a_host_that_is_away(admin: AdminNode) -> None:
    with pytest.raises(Unavailable, match=r"none\.log on .* cannot be read"):
        admin.read(LogPlace("/tmp/none.log"))
    with pytest.raises(Unavailable, match="does not answer"):
        admin.read(node=Node(addresses=("127.0.0.1:1",), user="root", host_keys=admin.node.host_keys))
