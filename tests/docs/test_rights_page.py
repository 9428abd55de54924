"""docs/security.md: its table is the code's, and what it prints for servers and configuration works as printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec.structs import replace

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.rights import TABLE, ClientKind, replaces
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.guarded import SETTINGS, SUPERUSER, Guarded, password
from tests.docs.pages import PROGRAM, ROOT, Block, blocks

PAGE = ROOT / "docs/security.md"
HEADING = "\n## A user for each kind\n"


def printed(word: str) -> Block:
    """The block in which a word stands, of those below the heading where there are several."""
    line = PAGE.read_text().partition(HEADING)[0].count("\n") + 1
    found = [block for block in blocks(PAGE) if word in block.text]
    return next((block for block in found if block.line > line), found[0])


def test_the_page_says_who_may_do_what() -> None:
    said = re.findall(r"^\| `(/[^`]*)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    rows = {path: dict(zip(ClientKind, cells.split(" | "), strict=True)) for path, cells in said}
    assert rows == {row.path: {kind: row.of(kind) or "-" for kind in ClientKind} for row in TABLE}
    assert [path for path, _ in said] == [row.path for row in TABLE]
    (header,) = re.findall(r"^\| place \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert header.split(" | ") == list(ClientKind)


def test_the_page_names_each_place_that_a_kind_replaces_without_the_right_to_write_it() -> None:
    said = re.findall(r"^- ([a-z]+): `(/[^`]*)`$", PAGE.read_text(), re.MULTILINE)
    found = {
        (str(kind), row.path)
        for row in TABLE
        for kind in ClientKind
        if "w" not in row.of(kind) and replaces(kind, row.path.replace("*", "any"))
    }
    assert set(said) == found


def test_the_lines_for_the_server_are_those_that_tests_use() -> None:
    lines = (line.partition("#")[0].strip().partition("=") for line in printed("serverCnxnFactory=").text.splitlines())
    said = {key: value for key, _, value in lines}
    assert SETTINGS.items() <= said.items()
    assert said.keys() - SETTINGS.keys() == {"secureClientPort", "ssl.keyStore.location", "ssl.trustStore.location"}


@pytest.fixture(scope="module")
def world() -> Iterator[Guarded]:
    jaas = printed("user_ocb-annealer=").text
    assert jaas.count("required\n") == 1
    with Guarded(jaas=jaas.replace("required\n", f'required\n user_{SUPERUSER}="{password(SUPERUSER)}"\n')) as made:
        yield made


def configured(world: Guarded, chroot: str) -> ZooKeeperSettings:
    """What the page prints, with the hosts and certificates of the test's server."""
    document = yaml.safe_load(printed("people: ocb").text)
    ours = world.settings("", chroot)
    settings = msgspec.convert(document["zookeeper"], ZooKeeperSettings)
    return replace(settings, hosts=ours.hosts, tls=ours.tls, session_timeout_seconds=30.0)


def run(folder: Path, settings: ZooKeeperSettings, words: list[str]) -> Result:
    file = folder / "nodepool-ocb.yaml"
    file.write_text(yaml.safe_dump({"zookeeper": msgspec.to_builtins(settings)}))
    return CliRunner().invoke(cli, ["--config", str(file), *words], prog_name=PROGRAM)


@pytest.mark.parametrize("former", [False, True], ids=["a new cluster", "a cluster of before"])
def test_the_first_hour_with_users_works_as_printed(world: Guarded, chroot: str, tmp_path: Path, former: bool) -> None:
    settings = configured(world, chroot)
    if former:
        with Session(replace(settings, users=None)) as session:
            clusters.bootstrap(session)
        assert run(tmp_path, settings, ["acl", "check"]).exit_code == 1
    for line in printed(f"{PROGRAM} acl init").text.splitlines():
        answer = run(tmp_path, settings, line.partition("#")[0].split()[1:])
        assert answer.exit_code == 0, (line, answer.output)


def test_every_user_of_the_page_can_log_in_with_its_password(world: Guarded, chroot: str, tmp_path: Path) -> None:
    settings = configured(world, chroot)
    assert run(tmp_path, settings, ["init"]).exit_code == 0
    passwords = dict(re.findall(r'user_([\w-]+)="([^"]+)"', printed("user_ocb-annealer=").text))
    assert settings.names().keys() == set(ClientKind)
    assert passwords[str(settings.username)] == settings.password
    for name in settings.names().values():
        with Session(replace(settings, username=name, password=passwords[name])) as session:
            assert session.get("/ocb/cluster") is not None
