"""Logs of runs through real servers of the API: by offset, over breaks and servers, within limits, and by the command line."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.http.certificates import OwnCertificate
from nodepool_ocb.model import paths
from nodepool_ocb.remote.tokens import VARIABLE
from nodepool_ocb.store import clusters, logkeys
from nodepool_ocb.store.client.session import Session
from tests.api.logged import FQDN, RUN, LoggedRun
from tests.api.served import ServedApi, problem

PATH: Final = f"/v1/noderoles/base@{FQDN}/runs/{RUN}/log"
LINES: Final = 5_000
LONG_LINES: Final = 100_000
BREAKS: Final = 5


@pytest.fixture
def logged(zk_session: Session, tmp_path: Path) -> Iterator[LoggedRun]:
    made = LoggedRun(zk_session, tmp_path / "runs")
    yield made
    made.pages.close()


@pytest.fixture
def served(zk_settings: ZooKeeperSettings, logged: LoggedRun, tmp_path: Path) -> Iterator[ServedApi]:
    assert logged
    api = ServedApi(zk_settings, tmp_path / "api")
    yield api
    api.close()


def test_a_part_of_a_log_comes_by_its_offset_with_its_size_and_end(served: ServedApi, logged: LoggedRun) -> None:
    logged.write(b"one\ntwo\n")
    answer = served.ask("GET", f"{PATH}?offset=4")
    assert (answer.status_code, answer.content) == (200, b"two\n")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert [answer.headers[f"log-{each}"] for each in ("offset", "size", "ended")] == ["4", "8", "no"]
    assert served.ask("GET", f"{PATH}?offset=-4").content == b"two\n"
    assert problem(served.ask("GET", f"{PATH}?offset=9"))[0] == 416
    threading.Timer(0.3, lambda: logged.write(b"three\n")).start()
    assert served.ask("GET", f"{PATH}?offset=8&wait=15").content == b"three\n"
    logged.end()
    assert served.ask("GET", f"{PATH}?offset=14").headers["log-ended"] == "yes"
    for wrong in ("offset=x", "wait=1000", "colour=red"):
        assert problem(served.ask("GET", f"{PATH}?{wrong}"))[0] == 422
    assert problem(served.ask("GET", PATH.replace(RUN, "0000000009-c0ffee10")))[0] == 404
    logged.pages.close()
    assert problem(served.ask("GET", PATH))[0] == 503


def test_a_viewer_of_another_deployment_gets_the_answer_of_an_absent_log(served: ServedApi, logged: LoggedRun) -> None:
    logged.write(b"one\n")
    for deployment, status in (("lab", 200), ("web", 404)):
        token = served.direct.token(role="viewer", deployments=(deployment,))
        for path in (PATH, f"{PATH}/seen"):
            answer = served.ask("GET", path, token=token)
            assert answer.status_code == status
            if status == 404:
                absent = served.ask("GET", path.replace(FQDN, "n9.example.com"), token=token)
                assert absent.text == answer.text.replace(FQDN, "n9.example.com")
    assert problem(served.ask("GET", PATH, token=served.direct.token(role="node", selector=f"name:{FQDN}")))[0] == 403
    assert problem(served.client.get(PATH))[0] == 401


def test_a_new_key_of_the_cluster_leaves_no_moment_without_logs(
    served: ServedApi, logged: LoggedRun, zk_session: Session, until: Callable[..., None]
) -> None:
    logged.write(b"one\n")
    assert served.ask("GET", PATH).content == b"one\n"
    for _ in range(3):
        zk_session.commit(logkeys.renewal(zk_session, new=True))
        assert served.ask("GET", PATH).content == b"one\n"
        newest = clusters.current(zk_session).readers
        until(lambda newest=newest: logged.readers() == newest)
    assert served.ask("GET", PATH).content == b"one\n"


def test_a_server_does_not_read_a_log_from_a_daemon_with_another_certificate_or_none(
    served: ServedApi, logged: LoggedRun
) -> None:
    logged.write(b"one\n")
    for certificate, sentence in ((OwnCertificate().digest, "is not the one"), (None, "registered no certificate")):
        logged.register(certificate=certificate)
        answer = served.ask("GET", PATH)
        assert problem(answer)[0] == 503
        assert sentence in answer.json()["detail"]
    logged.register()
    assert served.ask("GET", PATH).content == b"one\n"


def test_no_reader_sees_the_key_for_logs(served: ServedApi, zk_session: Session) -> None:
    answer = served.ask("GET", f"/v1/records/show?path={paths.LOG_KEY}")
    assert answer.status_code == 200
    assert answer.json()["answer"]["data"] == "(secret)"
    assert not [each for each in logkeys.read(zk_session) if each in answer.text]


def followed(pair: tuple[ServedApi, ServedApi], logged: LoggedRun, lines: int) -> None:
    """Write numbered lines, and read them through one server and then another, with breaks."""
    part = lines // (BREAKS + 2)
    got = b""
    for number in range(BREAKS + 2):
        first, last = number * part, lines if number == BREAKS + 1 else (number + 1) * part
        logged.write(b"".join(b"line %d\n" % each for each in range(first, last)))
        served = pair[number % 2 if number > BREAKS // 2 else 0]
        token = {"Authorization": f"Bearer {served.token}"}
        with served.client.stream("GET", f"{PATH}?offset={len(got)}&wait=1", headers=token) as answer:
            got += next(answer.iter_raw(1000))  # the rest of the answer is lost with the connection
    logged.end()
    while True:
        answer = pair[1].ask("GET", f"{PATH}?offset={len(got)}&wait=1")
        assert answer.status_code == 200, answer.text
        got += answer.content
        if answer.headers["log-ended"] == "yes" and len(got) == int(answer.headers["log-size"]):
            break
    assert got == logged.file.read_bytes() == b"".join(b"line %d\n" % each for each in range(lines))


@pytest.fixture
def pair(served: ServedApi, zk_settings: ZooKeeperSettings, tmp_path: Path) -> Iterator[tuple[ServedApi, ServedApi]]:
    other = ServedApi(zk_settings, tmp_path / "other")
    yield served, other
    other.close()


def test_a_log_read_over_breaks_and_a_change_of_servers_equals_the_file_byte_for_byte(
    pair: tuple[ServedApi, ServedApi], logged: LoggedRun
) -> None:
    followed(pair, logged, LINES)


@pytest.mark.long
def test_a_long_log_read_over_breaks_and_a_change_of_servers_equals_the_file_byte_for_byte(
    pair: tuple[ServedApi, ServedApi], logged: LoggedRun
) -> None:
    followed(pair, logged, LONG_LINES)


def run(words: str, *options: str) -> Any:
    return CliRunner().invoke(cli, [*options, *shlex.split(words)], prog_name="nodepool-ocb")


def test_the_command_line_follows_a_log_over_a_restart_of_its_server_as_it_does_directly(
    served: ServedApi, logged: LoggedRun, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    monkeypatch.setenv(VARIABLE, served.token)
    logged.write(b"one\n")
    ended: list[Any] = []
    answers = 'nodepool_ocb_api_requests_total{status="200"}'
    before = served.daemon.metric(answers)
    words = f"noderole log -f base@{FQDN}"
    follower = threading.Thread(target=lambda: ended.append(run(words, "--api", served.address)))
    follower.start()
    until(lambda: served.daemon.metric(answers) >= before + 2)  # the run is chosen, and its log has begun
    served.daemon.terminate()
    assert served.daemon.wait(20.0) == 0
    logged.write(b"two\n")
    served.daemon.start()
    logged.write(b"three\n")
    logged.end()
    follower.join(60.0)
    (distant,) = ended
    assert (distant.exit_code, distant.stdout) == (0, "one\ntwo\nthree\n"), (distant.stderr, distant.exception)
    for line in (words, f"noderole log -o json base@{FQDN} {RUN}", f"noderole log base@{FQDN} 0000000009-c0ffee10"):
        directly = run(line, "--zookeeper", served.settings.hosts)
        over_http = run(line, "--api", served.address)
        assert (over_http.exit_code, over_http.stdout) == (directly.exit_code, directly.stdout)
        assert over_http.stderr == directly.stderr
