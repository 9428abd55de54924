"""The connection string: what is one, what is none, and where that is said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient
from kazoo.hosts import collect_hosts
from msgspec.structs import replace

from nodepool_ocb import config
from nodepool_ocb.cli.main import cli
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import ensemble
from nodepool_ocb.store.client import access
from nodepool_ocb.testing import forkserver

GOOD = [
    "127.0.0.1:2181",
    "localhost",
    "zk_1.example.com:1,zk-2:65535/ocb/a",
    "[::1]:2281/",
    "10",
    "a,b//x/",
    "a//",
    "[fe80::1%eth0]:1/x",
]

ODD = {
    "127.0.0.1:99999": "port 99999 is no number from 1 to 65535",
    "127.0.0.1:0": "port 0 is no number from 1 to 65535",
    "127.0.0.1:abc": "port abc is no number",
    "127.0.0.1:-1": "port -1 is no number",
    "127.0.0.1:": "port after the colon is no number",
    "a:1:2": "port 1:2 is no number",
    ":29877": ":29877 names no host",
    "[::1": "[::1 is no server",
    "[x]:1": "x is no IPv6 address",
    "::1": "stands in brackets: [::1]:2181",
    "h/a/../b": "the chroot is a path without . and ..",
    "a:1,": "a server is empty",
    "/ocb": "a server is empty",
    "a?b": "a?b is no name of a host",
    "no such": "a space is in it",
    "a, b": "a space is in it",
    "a:1\n": "a space is in it",
    "": "is empty",
}


@pytest.mark.parametrize("hosts", GOOD)
def test_what_is_a_connection_string_is_one_to_kazoo_too(hosts: str) -> None:
    parsed = ensemble.parse(hosts)
    assert list(parsed.servers) == collect_hosts(hosts)[0] == collect_hosts(str(parsed))[0]
    assert ensemble.parse(str(parsed)) == parsed


@pytest.mark.parametrize(("hosts", "sentence"), ODD.items())
def test_what_is_none_is_said_with_the_form_that_is_wanted(hosts: str, sentence: str) -> None:
    with pytest.raises(Invalid) as said:
        ensemble.parse(hosts)
    assert sentence in str(said.value)
    assert str(said.value).endswith("; write host:port,host:port/chroot")


def test_a_password_in_it_is_not_said() -> None:
    with pytest.raises(Invalid, match=r"zookeeper\.password") as said:
        ensemble.parse("ocb:918273645@127.0.0.1:2181")
    assert "918273645" not in str(said.value)


@pytest.mark.parametrize("hosts", ODD)
def test_an_odd_one_in_the_configuration_is_said_with_file_line_and_key(tmp_path: Path, hosts: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"ssh: {{}}\nzookeeper:\n  hosts: {json.dumps(hosts)}\n")
    with pytest.raises(Invalid) as said:
        config.load(file)
    assert str(said.value).startswith(f"{file}:3: zookeeper.hosts: ")


@pytest.mark.parametrize("hosts", ODD)
def test_an_odd_one_on_a_command_line_is_a_fault_of_usage(hosts: str) -> None:
    answer = CliRunner().invoke(cli, ["config", "check", "--offline", "--zookeeper", hosts])
    assert answer.exit_code == 2, answer.output
    assert "'--zookeeper'" in answer.stderr


@pytest.mark.parametrize("kind", ["annealer", "builder"])
@pytest.mark.parametrize("hosts", ["127.0.0.1:99999", "", "no such"])
def test_a_daemon_says_an_odd_one_of_its_command_line(kind: str, hosts: str, tmp_path: Path) -> None:
    said = refusal(tmp_path / "said", f"nodepool_ocb_{kind}.main", "--zookeeper", hosts)
    assert "'--zookeeper'" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("check", [(), ("--check",)])
@pytest.mark.parametrize("listen", ["9470", "127.0.0.1:65536", "127.0.0.1:²"])
def test_a_daemon_says_an_odd_address_of_its_pages_before_it_starts(
    listen: str, check: tuple[str, ...], tmp_path: Path
) -> None:
    said = refusal(tmp_path / "said", "nodepool_ocb_annealer.main", "--listen", listen, *check)
    assert "'--listen'" in said
    assert "Traceback" not in said


def refusal(log: Path, module: str, *words: str) -> str:
    """The words of a daemon that refuses its command line."""
    code = forkserver.shared().start(["-m", module, *words], os.environ, log).wait(60.0)
    assert code == 2, log.read_text()
    return log.read_text()


@pytest.mark.parametrize("chroot", ["", "/", "//", "//x/"])
def test_a_chroot_is_the_same_to_us_and_to_kazoo(chroot: str) -> None:
    """To kazoo two slashes are a chroot, of which no path is one to ZooKeeper."""
    settings = config.ZooKeeperSettings(hosts=f"127.0.0.1:2181{chroot}")
    client = KazooClient(**access.options(settings))
    assert client.chroot == ensemble.parse(settings.hosts).chroot


@pytest.mark.parametrize(
    ("hosts", "other"),
    [
        ("127.0.0.1:2181,192.0.2.1:2181", "192.0.2.1"),
        ("localhost.example.com", "localhost.example.com"),
        ("localhost,[::1]:2281,127.0.0.9/ocb", None),
    ],
)
def test_plain_text_to_any_server_on_another_machine_is_refused(hosts: str, other: str | None) -> None:
    settings = config.ZooKeeperSettings(hosts=hosts)
    if other is not None:
        with pytest.raises(Invalid, match=rf"zookeeper\.hosts: {other} is remote"):
            access.refuse_plain_text(settings)
    else:
        access.refuse_plain_text(settings)
    for guarded in (replace(settings, tls=config.TlsSettings()), replace(settings, allow_plaintext=True)):
        access.refuse_plain_text(guarded)
