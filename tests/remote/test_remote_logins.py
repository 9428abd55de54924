"""``login`` and ``logout``, the file of the tokens, and commands with ``--api``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from nodepool_ocb import errors
from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import load
from nodepool_ocb.errors import Invalid
from nodepool_ocb.remote import tokens
from nodepool_ocb.remote.tokens import StoredToken
from nodepool_ocb.testing.zookeeper.server import free_port
from nodepool_ocb.views.tokens import TokenRow
from tests.remote.scripted_server import ScriptedServer, answered, refused, serving

TOKEN: Final = f"ocb_{'0' * 12}_{'a' * 43}"
OTHER: Final = f"ocb_{'1' * 12}_{'b' * 43}"
ROW: Final = TokenRow(
    id="0" * 12, name="ann", role="operator", deployments=(), selector=None, reveal=False, created=1.0, by=None,
    expires=None, expired=False, used=None,
)  # fmt: skip


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with serving() as made:
        yield made


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(tokens.VARIABLE, raising=False)
    return tmp_path


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, words, input=stdin, prog_name="nodepool-ocb")


def test_a_login_checks_the_token_at_the_server_and_stores_it_for_this_user_alone(
    server: ScriptedServer, home: Path
) -> None:
    server.answers = [answered(ROW, headers={"Ocb-Cluster": "a1"})]
    ended = run("login", server.url, "-o", "json", stdin=f"{TOKEN}\n")
    assert (ended.exit_code, json.loads(ended.stdout)["name"]) == (0, "ann"), ended.output
    path, headers, body = server.asked[0]
    assert (path, headers["authorization"]) == ("/v1/operations/token/show", f"Bearer {TOKEN}")
    assert bytes(body.fields) == b'{"token":"000000000000"}'
    file = home / "nodepool-ocb" / "tokens.json"
    assert json.loads(file.read_text()) == {server.url: {"token": TOKEN, "cluster": "a1"}}
    assert file.stat().st_mode & 0o777 == 0o600
    assert TOKEN not in ended.output


def test_a_token_that_the_server_refuses_is_not_stored(server: ScriptedServer, home: Path) -> None:
    server.answers = [refused(errors.Denied("this token is not valid"), 401)]
    ended = run("login", server.url, stdin=TOKEN)
    assert (ended.exit_code, "this token is not valid" in ended.stderr) == (8, True)
    assert not (home / "nodepool-ocb").exists()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        *((each, "no token") for each in ("", "hello", "x" * 5000)),
        (TOKEN[:-1], "the token is malformed: it has 59 letters, and a whole one 60; perhaps it was cut"),
        (f"{TOKEN[:-1]}!", "the token is malformed: it has a letter"),
    ],
)
def test_a_text_that_is_no_token_is_sent_nowhere(server: ScriptedServer, given: str, problem: str) -> None:
    ended = run("login", server.url, stdin=given)
    assert (ended.exit_code, problem in ended.stderr, server.asked) == (1, True, []), ended.stderr


def test_a_logout_deletes_the_token_of_one_server(server: ScriptedServer) -> None:
    tokens.keep(server.url, StoredToken(token=TOKEN))
    tokens.keep("https://other", StoredToken(token=OTHER, ca="/etc/ca.pem"))
    assert "is deleted" in run("logout", f"{server.url}/").stderr
    assert tokens.stored(server.url) is None
    assert tokens.stored("https://other") == StoredToken(token=OTHER, ca="/etc/ca.pem")
    assert "nothing changed" in run("logout", server.url).stderr


def test_the_token_of_the_environment_goes_before_the_stored_one(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens.keep(server.url, StoredToken(token=TOKEN, cluster="a1"))
    monkeypatch.setenv(tokens.VARIABLE, OTHER)
    server.answers = [answered([], headers={"Ocb-Cluster": "b2"})]
    assert run("--api", server.url, "daemon", "list", "-o", "json").output == "[]\n"
    assert server.asked[0][1]["authorization"] == f"Bearer {OTHER}"


def test_a_file_of_tokens_that_others_can_read_is_refused(home: Path) -> None:
    tokens.keep("https://ocb", StoredToken(token=TOKEN))
    (home / "nodepool-ocb" / "tokens.json").chmod(0o640)
    with pytest.raises(Invalid, match="other users can read it; chmod 600"):
        tokens.stored("https://ocb")


def test_a_file_of_tokens_that_is_broken_is_named(home: Path) -> None:
    tokens.keep("https://ocb", StoredToken(token=TOKEN))
    (home / "nodepool-ocb" / "tokens.json").write_text("{")
    with pytest.raises(Invalid, match=r"tokens\.json: .*delete it, then: nodepool-ocb login URL"):
        tokens.stored("https://ocb")


# -- commands --


def test_a_command_without_a_token_names_the_login(server: ScriptedServer) -> None:
    ended = run("--api", server.url, "node", "list")
    assert ended.exit_code == 8
    assert f"there is no token for {server.url}; store one: nodepool-ocb login {server.url}" in ended.stderr


def test_the_address_may_stand_in_the_environment(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens.keep(server.url, StoredToken(token=TOKEN))
    monkeypatch.setenv("NODEPOOL_OCB_API", server.url)
    server.answers = [answered([])]
    assert run("daemon", "list", "-o", "json").output == "[]\n"
    assert server.asked[0][0] == "/v1/operations/daemon/list"


def test_the_configuration_may_name_the_server(server: ScriptedServer, home: Path) -> None:
    tokens.keep(server.url, StoredToken(token=TOKEN))
    (home / "nodepool-ocb.yaml").write_text(f"api: {{url: '{server.url}', ca: ca.pem}}\n")
    server.answers = [answered([])]
    assert run("--config", str(home), "daemon", "list", "-o", "json").output == "[]\n"
    assert load(home).api.ca == str(home / "ca.pem")
    direct = run("--config", str(home), "--zookeeper", f"127.0.0.1:{free_port()}", "daemon", "list")
    assert (direct.exit_code, "connection refused" in direct.stderr) == (7, True)
    assert len(server.asked) == 1


def test_a_command_takes_one_way_to_the_records() -> None:
    ended = run("--api", "https://ocb", "--zookeeper", "127.0.0.1:1", "node", "list")
    assert (ended.exit_code, "contradict each other" in ended.stderr) == (2, True)


def test_a_text_that_is_no_address_is_a_wrong_call() -> None:
    ended = run("--api", "127.0.0.1:9480", "node", "list")
    assert (ended.exit_code, "http://127.0.0.1[:PORT]" in ended.stderr) == (2, True), ended.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("acl check", "this does not work with --api. It compares rights"),
        ("init", "this does not work with --api. It makes the cluster"),
        ("lease run --label small -- true", "this does not work with --api. It runs a command"),
    ],
)
def test_a_local_operation_is_refused_with_its_reason(server: ScriptedServer, words: str, reason: str) -> None:
    tokens.keep(server.url, StoredToken(token=TOKEN))
    ended = run("--api", server.url, *words.split())
    assert (ended.exit_code in (2, 125), reason in ended.stderr) == (True, True), ended.stderr
    assert server.asked == []


def test_the_other_commands_do_not_load_the_client_of_the_api() -> None:
    script = (
        "import sys; from nodepool_ocb.cli.main import cli\n"
        "try: cli(['node', 'list', '--zookeeper', '127.0.0.1:1'])\n"
        "except SystemExit: pass\n"
        "print(sorted(name for name in sys.modules if name.startswith('nodepool_ocb.remote') or name == 'http.client'))"
    )
    env = {**os.environ, "PYTHONWARNINGS": ""}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    assert ended.stdout == "[]\n"
