"""References to secrets: what is looked up, and what is not, whoever asks for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import SecretsSettings, VaultSettings
from nodepool_ocb.secrecy.errors import Sealed
from nodepool_ocb.secrecy.references import resolve

TOKEN = "hvs.test-token"
VALUES = {"/v1/secret/data/apps/shop": {"password": "hunter22"}, "/v1/secret/data/apps/odd": ["password"]}


class Answers(BaseHTTPRequestHandler):
    """Vault's KV engine, as far as it is asked."""

    def do_GET(self) -> None:
        if self.path.startswith("/v1/secret/data/moved"):
            self.send_response(302)
            self.send_header("Location", "/v1/secret/data/shop")
            self.end_headers()
            return
        allowed = self.headers["X-Vault-Token"] == TOKEN
        there = self.path in VALUES
        self.send_response(403 if not allowed else 200 if there else 404)
        self.end_headers()
        if allowed and there:
            self.wfile.write(json.dumps({"data": {"data": VALUES[self.path]}}).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[SecretsSettings]:
    (tmp_path / "token").write_text(TOKEN + "\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05))
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    yield SecretsSettings(vault=VaultSettings(address=address, token_file=str(tmp_path / "token")))
    server.shutdown()
    server.server_close()
    thread.join()


def refusal(settings: SecretsSettings, text: str) -> Sealed:
    with pytest.raises(Sealed) as refused:
        resolve(settings, text)
    return refused.value


def test_a_key_of_a_secret_in_vault_is_looked_up_with_the_token_of_this_host(vault: SecretsSettings) -> None:
    assert resolve(vault, "vault:apps/shop#password") == "hunter22"


def test_vault_is_asked_directly_whatever_the_environment_names_as_a_proxy(
    vault: SecretsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would see the token."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert resolve(vault, "vault:apps/shop#password") == "hunter22"


def test_a_token_file_that_holds_something_else_is_told_without_its_text(
    vault: SecretsSettings, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("one\ntwo: three")
    refused = refusal(vault, "vault:apps/shop#password")
    assert (refused.own, "holds no token; write one into it" in str(refused), "two" in str(refused)) == (
        True,
        True,
        False,
    )


def test_what_vault_does_not_have_is_no_fault_of_this_host(vault: SecretsSettings) -> None:
    assert not refusal(vault, "vault:apps/shop#user").own
    assert not refusal(vault, "vault:apps/none#password").own
    assert not refusal(vault, "vault:apps/odd#password").own


def test_a_vault_that_refuses_or_is_away_is_a_matter_of_this_host(vault: SecretsSettings, tmp_path: Path) -> None:
    assert refusal(SecretsSettings(), "vault:apps/shop#password").own
    (tmp_path / "token").write_text("another")
    refused = refusal(vault, "vault:apps/shop#password")
    assert refused.own
    assert "answers 403" in str(refused)
    assert "another" not in str(refused)
    away = VaultSettings(address="http://127.0.0.1:1", token_file=str(tmp_path / "token"))
    assert refusal(SecretsSettings(vault=away), "vault:apps/shop#password").own


def test_a_redirection_is_not_followed_with_the_token(vault: SecretsSettings) -> None:
    assert "answers 302" in str(refusal(vault, "vault:moved#password"))


def test_a_path_cannot_leave_the_mount(vault: SecretsSettings) -> None:
    assert "path in Vault" in str(refusal(vault, "vault:../../sys/health#data"))


def test_files_are_read_below_the_directory_of_the_configuration_alone(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "db").write_text("hunter22\n")
    (tmp_path / "other").write_text("hunter23")
    (tmp_path / "own" / "link").symlink_to(tmp_path / "other")
    settings = SecretsSettings(directory=str(tmp_path / "own"))
    assert resolve(settings, f"file:{tmp_path}/own/db") == "hunter22"
    for name in ("other", "own/../other", "own/link"):
        assert "is outside secrets.directory" in str(refusal(settings, f"file:{tmp_path}/{name}"))
    assert refusal(SecretsSettings(), f"file:{tmp_path}/own/db").own
    assert refusal(settings, f"file:{tmp_path}/own/none").own


@pytest.mark.parametrize(
    "text",
    [
        "file:/x\0y", "file:relative", "env:", "env:A B", "env:NODEPOOL_OCB_SECRET_\0", "ftp:x", "", ":", "file",
        "vault:a/b", "vault:a b#c", "vault:a//b#c", "vault:a/b#\0", "enc:", "x" * 10_000,
    ],
)  # fmt: skip
def test_a_text_that_is_no_reference_is_reported_and_is_no_fault_of_this_host(
    text: str, vault: SecretsSettings, tmp_path: Path
) -> None:
    settings = replace(vault, directory=str(tmp_path))
    refused = refusal(settings, text)
    assert not refused.own
    assert "write file:/PATH, env:NAME or vault:PATH#KEY" in str(refused) or "path in Vault" in str(refused)


def test_variables_are_read_by_their_prefix_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEPOOL_OCB_SECRET_DB", "hunter22")
    monkeypatch.setenv("DB", "hunter23")
    assert resolve(SecretsSettings(), "env:NODEPOOL_OCB_SECRET_DB") == "hunter22"
    assert not refusal(SecretsSettings(), "env:DB").own
    assert refusal(SecretsSettings(), "env:NODEPOOL_OCB_SECRET_NONE").own
