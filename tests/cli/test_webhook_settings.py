"""The webhook in the configuration: what is wrong is named with its key, and nothing secret is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nodepool_ocb import config
from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import AnnealerSettings, Settings, WebhookSettings
from nodepool_ocb.daemon import preflight
from nodepool_ocb.model.rights import ClientKind

SECRET = "https://ann:hunter22@hooks.example.com:8443/T0/token"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def check(folder: Path, webhook: object) -> Result:
    file = folder / "nodepool-ocb.yaml"
    file.write_text(json.dumps({"annealer": {"webhook": webhook}}))
    return CliRunner().invoke(cli, ["config", "check", "--offline", "--config", str(file), "-o", "json"])


@pytest.mark.parametrize(
    ("webhook", "says"),
    [
        (
            {"url": SECRET.replace("https", "ftp")},
            "url: must begin with http:// or https:// and name a host; write https://",
        ),
        ({"url": "https:///T0/token"}, "url: must begin with http:// or https:// and name a host"),
        ({"url": SECRET.replace("8443", "99999")}, "url: this is no URL; write https://HOST[:PORT]/PATH"),
        ({"url": SECRET + " x"}, "url: must be ASCII without blanks"),
        ({"url": SECRET + "\u00e9"}, "url: must be ASCII without blanks"),
        ({"url": SECRET + "\u007f"}, "url: must be ASCII without blanks"),
        ({"secret_file": "key"}, "key `url` is missing"),
        ({"url": SECRET, "secret": "key"}, "did you mean `secret_file`?"),
        (SECRET, "must be a mapping"),
        ([SECRET], "must be a mapping"),
    ],
)
def test_what_is_wrong_is_named_with_file_line_and_key_and_without_the_url(
    folder: Path, webhook: object, says: str
) -> None:
    answer = check(folder, webhook)
    assert answer.exit_code == 1
    assert f"{folder / 'nodepool-ocb.yaml'}:1: annealer.webhook" in answer.stderr
    assert says in answer.stderr
    assert "hunter22" not in answer.output
    assert "T0" not in answer.output


def test_a_secret_file_that_is_absent_empty_or_may_be_read_by_others_is_named(folder: Path) -> None:
    webhook, key = {"url": SECRET, "secret_file": "key"}, folder / "key"
    where = f"annealer.webhook.secret_file: secret file {key}"
    assert f"{where} cannot be read: No such file or directory" in check(folder, webhook).stderr
    key.write_text(" \n")
    key.chmod(0o600)
    assert f"{where} is empty; openssl rand -hex 32 makes a key" in check(folder, webhook).stderr
    key.write_text("of signatures")
    assert check(folder, webhook).exit_code == 0
    key.chmod(0o640)
    assert f"{where} may be used by others than its owner; chmod 600 {key}" in check(folder, webhook).stderr


def test_only_an_annealer_misses_it(folder: Path) -> None:
    settings = Settings(
        annealer=AnnealerSettings(webhook=WebhookSettings(url=SECRET, secret_file=str(folder / "absent")))
    )
    assert any("webhook" in each for each in preflight.wrong(settings, ClientKind.ANNEALER))
    assert not any("webhook" in each for each in preflight.wrong(settings, ClientKind.BUILDER))


def test_what_is_checked_is_shown_without_user_password_and_path(folder: Path) -> None:
    answer = check(folder, {"url": SECRET})
    assert answer.exit_code == 0, answer.output
    shown = json.loads(answer.stdout)["settings"]["annealer"]["webhook"]
    assert shown == {"url": "https://hooks.example.com:8443", "secret_file": None}
    assert "hunter22" not in answer.output
    assert "T0" not in answer.output
    assert "holds a password, and everybody may read it" in answer.stderr
    assert config.receiver("https://h/x") == "https://h"
