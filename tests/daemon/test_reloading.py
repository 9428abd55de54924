"""What of a configuration that was read again counts at once, and what needs a restart."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import AnnealerSettings, LogSettings, Settings, SshSettings, TlsSettings, ZooKeeperSettings
from nodepool_ocb.daemon.reloading import kept

FIXED = ("zookeeper", "ssh.state_dir")
RUNNING = Settings(zookeeper=ZooKeeperSettings(hosts="a:1", tls=TlsSettings(ca="/ca.pem")))


def test_what_may_change_is_taken_over_and_nothing_waits() -> None:
    read = replace(
        RUNNING,
        log=LogSettings(level="debug"),
        annealer=AnnealerSettings(slots=3, log_dir=None),
        ssh=SshSettings(key_files=("/a", "/b"), pool=1),
    )
    assert kept(RUNNING, read, FIXED) == (read, ())


@pytest.mark.parametrize(
    ("read", "key"),
    [
        (replace(RUNNING, zookeeper=replace(RUNNING.zookeeper, hosts="b:1")), "zookeeper.hosts"),
        (replace(RUNNING, zookeeper=replace(RUNNING.zookeeper, tls=None)), "zookeeper.tls"),
        (replace(RUNNING, zookeeper=replace(RUNNING.zookeeper, tls=TlsSettings(ca="/b.pem"))), "zookeeper.tls.ca"),
        (replace(RUNNING, ssh=SshSettings(state_dir="/elsewhere")), "ssh.state_dir"),
    ],
)
def test_what_is_fixed_stays_as_it_is_and_is_named(read: Settings, key: str) -> None:
    assert kept(RUNNING, read, FIXED) == (RUNNING, (key,))


def test_what_is_fixed_is_named_again_until_the_restart_and_no_more_when_it_is_put_back() -> None:
    read = replace(RUNNING, ssh=SshSettings(state_dir="/elsewhere", pool=2))
    counting, _ = kept(RUNNING, read, FIXED)
    assert counting.ssh == SshSettings(pool=2)
    assert kept(counting, read, FIXED) == (counting, ("ssh.state_dir",))
    assert kept(counting, RUNNING, FIXED)[1] == ()
