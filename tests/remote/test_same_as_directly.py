"""Each verb over HTTP: the same document, the same sentences and the same exit code as directly on ZooKeeper."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.kit.performing import me
from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.cluster.watching import StatusWatchLook
from nodepool_ocb.operations.completion.offering import CompletionNames
from nodepool_ocb.operations.daemons.listing import DaemonList
from nodepool_ocb.operations.history.reading import EventsChoose
from nodepool_ocb.operations.images.logs import ImageLog
from nodepool_ocb.operations.images.watching import ImageBuildLook
from nodepool_ocb.operations.noderoles.acting import NoderoleCommitOutdated
from nodepool_ocb.operations.noderoles.awaiting import NoderoleCheckLook, NoderoleWaitLook
from nodepool_ocb.operations.noderoles.checking import NoderoleCheckResults
from nodepool_ocb.operations.noderoles.logs import NoderoleLog
from nodepool_ocb.operations.operation import Call, Operation
from nodepool_ocb.operations.rollouts.watching import RolloutWaitLook
from nodepool_ocb.operations.tasks.runs import TasksWaitLook
from nodepool_ocb.operations.tokens.reading import TokenList
from nodepool_ocb.remote.performer import logged_in
from nodepool_ocb.remote.tokens import VARIABLE
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import ServedApi
from tests.fixtures.chroots import fresh
from tests.remote.verbs import APART, FILES, LINES, N1

FORMS: Final = ("json", "table")
SUCCEED: Final = 0.5  # the others have no record that they could concern

#: Parts of an output that differ between two trees, and the words in place of them.
DIFFERENT: Final = (
    (r"\b1[6-9]\d{8}(\.\d+)?\b", "TIME"),
    (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", "DATE"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b", "ID"),
    (r'("(?:[cmp]zxid|version|ctime|mtime|tx|bytes|age|number)": )[^,\n]+', r"\1N"),
    (r"\bbytes +\d+\b", "bytes N"),
    (r"\b\d+ ?(s|ms)\b", "DURATION"),
    (r'(\\*"tx\\*":\\*")[^"\\]+', "SIGNATURE"),
    (r"[ -]{2,}", " "),  # the widths of columns
)


class Ended(NamedTuple):
    """The end of a command."""

    code: int
    stdout: str
    stderr: str


def run(words: str, *options: str) -> Ended:
    found = CliRunner().invoke(cli, [*options, *shlex.split(words)], prog_name="nodepool-ocb")
    return Ended(found.exit_code, found.stdout, found.stderr)


def plain(ended: Ended, own: Mapping[str, str]) -> Ended:
    """Without the parts that differ between two trees; ``own``: those of one tree."""

    def same(text: str) -> str:
        for word, name in own.items():
            text = text.replace(word, name)
        for pattern, name in DIFFERENT:
            text = re.sub(pattern, name, text)
        return text

    return Ended(ended.code, same(ended.stdout), same(ended.stderr))


class Trees(NamedTuple):
    """The server on one tree; and operation and form → the ends of its command: directly on another tree, and at the server."""

    served: ServedApi
    ended: dict[tuple[str, str], list[Ended]]


@pytest.fixture(scope="module")
def trees(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trees]:
    folder = tmp_path_factory.mktemp("same")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    direct = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('same-direct')}")
    with Session(direct) as session:
        clusters.bootstrap(session)
    server_folder = tmp_path_factory.mktemp("api")
    served = ServedApi(ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('same-served')}"), server_folder)
    with pytest.MonkeyPatch.context() as patch, chdir(folder):
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        patch.setenv(VARIABLE, served.direct.token(name=me()))
        try:
            yield Trees(served, _run_all(direct, served, server_folder))
        finally:
            served.close()


def _run_all(direct: ZooKeeperSettings, served: ServedApi, folder: Path) -> dict[tuple[str, str], list[Ended]]:
    """Each command one time in each way, and a command that writes nothing in each form; ``folder``: of the server's file."""
    ways = (
        (("--zookeeper", direct.hosts), {direct.hosts: "PLACE", socket.gethostname(): "CLIENT"}),
        (("--api", served.address), {served.settings.hosts: "PLACE", "127.0.0.1": "CLIENT", str(folder) + "/": ""}),
    )
    kinds = {each.__name__: each for each in registry.every()}
    found: dict[tuple[str, str], list[Ended]] = {}
    for name, words in LINES.items():
        forms = FORMS[:1] if kinds[name].writes or "--format" in words else FORMS
        for form in forms:
            output = () if "--format" in words else ("-o", form)
            found[name, form] = [plain(run(words, *way, *output), own) for way, own in ways]
    return found


@pytest.mark.parametrize("name", [each.__name__ for each in registry.remote().values() if each.__name__ not in APART])
def test_a_verb_over_http_ends_as_it_does_directly(trees: Trees, name: str) -> None:
    forms = [form for form in FORMS if (name, form) in trees.ended]
    assert forms, f"{name} has no line in tests/remote/verbs.py"
    for form in forms:
        directly, over_http = trees.ended[name, form]
        assert over_http == directly, LINES[name]
        assert "unexpected" not in directly.stderr


def test_most_verbs_succeed_on_the_trees(trees: Trees) -> None:
    """Two refusals are alike, too, but show less."""
    first = {name: ends[0] for (name, _), ends in trees.ended.items()}
    assert [(LINES[name], end.stderr) for name, end in first.items() if end.code == 2] == []
    assert sum(end.code in (0, 10) for end in first.values()) > SUCCEED * len(first)


#: Operations that a look of a wait performs, or that show the server itself.
LOOKS: Final[Sequence[Operation[Any]]] = (
    CompletionNames(kind="noderoles", incomplete="base@"),
    CompletionNames(kind="tasks", typed={"deployment": "lab"}),
    CompletionNames(kind="colours"),
    DaemonList(),
    EventsChoose(names=(N1,), since=1.0),
    ImageBuildLook(image="jammy", request=1),
    ImageLog(image="jammy"),
    NoderoleCheckLook(noderoles=(f"base@{N1}",)),
    NoderoleCheckResults(asked={f"base@{N1}": 0}),
    NoderoleCommitOutdated(concerned=frozenset({f"base@{N1}"})),
    NoderoleLog(noderole=f"base@{N1}"),
    NoderoleWaitLook(nodes=(N1,), known=("gone@" + N1,)),
    RolloutWaitLook(key=Key("lab", "0000000001")),
    StatusWatchLook(deployment="lab"),
    TasksWaitLook(key=Key("lab", "0000000001")),
    TokenList(),
)


@pytest.mark.parametrize("operation", LOOKS, ids=lambda each: type(each).__name__)
def test_an_operation_of_a_wait_has_the_same_answer_or_error(trees: Trees, operation: Operation[Any]) -> None:
    distant = logged_in(Call(login="ann", host="desk"), trees.served.direct, trees.served.address)

    def tried(perform: Callable[[], Any]) -> Any:
        try:
            return perform()
        except OcbError as error:
            return type(error), str(error)

    directly = tried(lambda: trees.served.direct.perform(operation))
    assert tried(lambda: distant.perform(operation).answer) == directly


def test_every_operation_of_the_api_is_compared() -> None:
    compared = {*LINES} | {type(each).__name__ for each in LOOKS} | {"StatusOverview", "TokenCreate"}
    assert compared == {each.__name__ for each in registry.remote().values()}


def test_the_lines_name_operations_alone() -> None:
    assert {*LINES, *APART} <= {each.__name__ for each in registry.remote().values()}
    assert not LINES.keys() & APART.keys()
