"""The log of a build on the command line: where it comes from, and how it is followed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.http import following as patience
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import Create, Daemon, Json
from nodepool_ocb.operations.buildlogs import addresses
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server, free_port
from tests.cli.background_command import Later, begun
from tests.cli.images.page_server import PageServer
from tests.cli.images.played_builder import HOST, Builder
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
Until = Callable[..., None]
READY, FAILED = BuildState.READY, BuildState.FAILED
FOLLOW = ("image", "log", "jammy", "-f")


def test_log_comes_from_the_builder_that_has_it(builder: Builder, ocb: Ocb, pages: PageServer, ask: Ask) -> None:
    old, new = builder.made(FAILED, tail="old\n"), builder.made(READY)
    pages.write(f"jammy-{new}", "line\n" * 100_000)
    pages.write(f"jammy-{old}", "the whole\n")
    (pages.folder / "ended").touch()
    builder.registers(pages.address, certificate=pages.certificate)
    answer = ocb("image", "log", "jammy")
    assert answer.exit_code == 0
    assert answer.stdout == "line\n" * 100_000
    assert f"from https://{pages.address}" in answer.stderr
    assert ocb("image", "log", "jammy", old).stdout == "the whole\n"
    document = ask("image", "log", "jammy")
    assert (document["whole"], document["output"]) == (True, "line\n" * 100_000)


def test_log_follows_without_gap_though_the_builder_is_killed_and_started_anew(
    builder: Builder, pages: PageServer, zk_settings: ZooKeeperSettings
) -> None:
    id = builder.begins()
    builder.registers(pages.address, certificate=pages.certificate)
    pages.write(f"jammy-{id}", "one\n")
    with begun(zk_settings.hosts, *FOLLOW) as (following, printed, said):
        assert printed.readline() == "one\n"
        pages.kill()
        pages.write(f"jammy-{id}", "two\n" * 100_000)  # whoever builds goes on while nobody serves
        assert "trying again, from byte 4 on" in said.readline()
        pages.start()  # on the same port, with another certificate
        builder.registers(pages.address, certificate=pages.certificate)
        got = [printed.readline() for _ in range(100_000)]
        pages.kill()
        pages.address = "127.0.0.1:0"  # and then on another
        pages.start()
        builder.registers(pages.address, certificate=pages.certificate)
        pages.write(f"jammy-{id}", "three\n")
        got.append(printed.readline())
        pages.write(f"jammy-{id}", "four")
        (pages.folder / "ended").touch()
        builder.ends(id, READY)
        got.append(printed.read())
    assert got == [*["two\n"] * 100_000, "three\n", "four"]
    assert following.returncode == 0


def test_log_follows_though_zookeeper_is_away(
    builder: Builder, pages: PageServer, zookeeper: Server, chroot: str
) -> None:
    id = builder.begins()
    builder.registers(pages.address, certificate=pages.certificate)
    pages.write(f"jammy-{id}", "one\n")
    with Proxy(zookeeper.port) as proxy, begun(proxy.hosts + chroot, *FOLLOW) as (following, printed, _):
        assert printed.readline() == "one\n"
        proxy.cut()
        pages.write(f"jammy-{id}", "two\n")
        assert printed.readline() == "two\n"
        (pages.folder / "ended").touch()
        assert printed.read() == ""
    assert following.returncode == 0


def test_log_waits_for_a_build_that_has_printed_nothing_yet(
    builder: Builder, ocb: Ocb, pages: PageServer, until: Until
) -> None:
    id = builder.begins()
    builder.registers(pages.address, certificate=pages.certificate)
    following = Later(lambda: ocb("image", "log", "jammy", "-f"))
    until(lambda: builder.view().holder is not None)
    pages.write(f"jammy-{id}", "one\n")
    (pages.folder / "ended").touch()
    builder.ends(id, READY)
    answer = following.result()
    assert (answer.exit_code, answer.stdout) == (0, "one\n")


def test_log_falls_back_to_the_file_on_this_host(builder: Builder, ocb: Ocb, tmp_path: Path) -> None:
    file = tmp_path / "whole.log"
    file.write_bytes(b"the whole \xff\n")
    builder.made(READY, log=f"{HOST}:{file}", tail="the end")
    answer = ocb("image", "log", "jammy")
    assert answer.stdout_bytes == b"the whole \\xff\n", "shown, not sent"
    assert f"from {file}" in answer.stderr


def test_log_follows_the_file_on_this_host_until_the_build_ends(
    builder: Builder, tmp_path: Path, zk_settings: ZooKeeperSettings
) -> None:
    file = tmp_path / "whole.log"
    file.write_text("one\n")
    id = builder.begins(log=f"{HOST}:{file}")
    with begun(zk_settings.hosts, *FOLLOW) as (following, printed, _):
        assert printed.readline() == "one\n"
        with file.open("a") as growing:
            growing.write("two\n")
        assert printed.readline() == "two\n"
        with file.open("a") as growing:
            growing.write("three\n")
        builder.ends(id, READY)
        assert printed.read() == "three\n"
    assert following.returncode == 0


def test_log_says_where_the_file_has_lost_its_end_and_goes_on(
    builder: Builder, tmp_path: Path, zk_settings: ZooKeeperSettings
) -> None:
    file = tmp_path / "whole.log"
    file.write_text("one\ntwo\n")
    builder.begins(log=f"{HOST}:{file}")
    with begun(zk_settings.hosts, *FOLLOW) as (following, printed, said):
        assert [printed.readline() for _ in range(2)] == ["one\n", "two\n"]
        os.truncate(file, 4)
        assert "has lost its end, from byte 4 on" in said.readline()
        with file.open("a") as growing:
            growing.write("three\n")
        builder.dies()
        assert printed.read() == "three\n"
    assert following.returncode == 0


def test_log_waits_a_while_for_the_builder_that_has_it_and_names_it(
    builder: Builder, ocb: Ocb, pages: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.7)
    builder.made(READY, tail="the end\n")
    builder.registers(f"127.0.0.1:{free_port()}", certificate="1" * 64)
    began = time.monotonic()
    other = Daemon(host=HOST, pid=1, version="1", started=1.0, pages=pages.address, certificate="0" * 64)
    builder.session.commit([Create(paths.daemon("builder", "another"), other)])
    answer = ocb("image", "log", "jammy")
    assert answer.stdout == "the end\n"
    assert "Connection refused; now its end, as recorded" in answer.stderr
    assert time.monotonic() - began > 0.7


def test_log_falls_back_to_the_end_in_the_record(builder: Builder, ocb: Ocb) -> None:
    builder.made(FAILED, builder="far.example.com", log="far.example.com:/var/log/x.log", tail="the end\n")
    answer = ocb("image", "log", "jammy")
    assert (answer.exit_code, answer.stdout) == (0, "the end\n")
    assert "far.example.com is not running" in answer.stderr
    assert "now its end, as recorded; whole log: far.example.com:/var/log/x.log" in answer.stderr


def test_log_follows_to_the_end_of_a_build_that_dies_with_its_builder(
    builder: Builder, zk_settings: ZooKeeperSettings, pages: PageServer
) -> None:
    id = builder.begins()
    builder.registers(pages.address, certificate=pages.certificate)
    pages.write(f"jammy-{id}", "one\n")
    with begun(zk_settings.hosts, *FOLLOW) as (_, printed, said):
        assert printed.readline() == "one\n"
        builder.leaves()
        builder.dies()
        pages.kill()
        assert printed.read() == ""
        assert f"jammy-{id}: aborted; read up to byte 4" in said.read()
    pages.start()


def test_a_loopback_address_is_used_on_its_own_host_only() -> None:
    build = Build(builder="b1", builder_id="i1", filename="f", state=READY, state_time=1.0)

    def daemon(host: str, pages: str | None) -> Daemon:
        return Daemon(host=host, pid=1, version="1", started=1.0, pages=pages)

    far = {"i1": daemon("b1", "127.0.0.1:1"), "i2": daemon("b2", "b2:1"), "x": daemon("b1", "b1:2")}
    assert list(addresses(build, far)) == ["b1:2"]
    near = {"x": daemon(HOST, "[::1]:1"), "i1": daemon(HOST, "127.0.0.1:1"), "none": daemon(HOST, None)}
    build = Build(builder=HOST, builder_id="i1", filename="f", state=READY, state_time=1.0)
    assert list(addresses(build, near)) == ["127.0.0.1:1", "[::1]:1"]
