"""What stands in the place of a file that a person names: no reader waits for a FIFO, or reads a device to no end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from nodepool_ocb.cli.kit import sealing
from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import SecretsSettings, Settings, VaultSettings, WebhookSettings
from nodepool_ocb.daemon import preflight
from nodepool_ocb.documents import files
from nodepool_ocb.errors import OcbError
from nodepool_ocb.secrecy import keyring, private, references


def _vault(file: str, **more: str) -> object:
    settings = VaultSettings(address="https://127.0.0.1:9", token_file=more.get("token", file), ca=more.get("ca"))
    return references.resolve(SecretsSettings(vault=settings), "vault:a/b#c")


def _config_check(file: str) -> None:
    faults = preflight.wrong(replace(Settings(), secrets=SecretsSettings(key_file=file)))
    assert any("secrets.key_file" in each for each in faults)
    raise OcbError("; ".join(faults))


def _import(file: str) -> None:
    result = CliRunner().invoke(cli, ["image", "import", file], prog_name="nodepool-ocb")
    assert result.exit_code != 0
    raise OcbError(result.output)


def _token(tmp: str) -> str:
    return str(Path(tmp).with_name("token"))


READERS: dict[str, Callable[[str], object]] = {
    "private": lambda file: private.text(file, "key file"),
    "webhook": lambda file: private.webhook_key(WebhookSettings(url="https://x/", secret_file=file)),
    "keyring": keyring.load,
    "keygen": lambda file: keyring.generate(Path(file)),
    "file reference": lambda file: references.resolve(
        SecretsSettings(directory=str(Path(file).parent)), f"file:{file}"
    ),
    "token": _vault,
    "ca": lambda file: _vault(file, ca=file, token=_token(file)),
    "secret of a role": lambda file: sealing._file("password", file),
    "image import": _import,
    "config check": _config_check,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_a_path_that_is_no_regular_file_is_refused_at_once(tmp_path: Path, reader: str, kind: str) -> None:
    file = tmp_path / "file"
    (tmp_path / "token").write_text("t")
    match kind:
        case "fifo":
            os.mkfifo(file, 0o600)
        case "folder":
            file.mkdir()
        case "device":
            file.symlink_to("/dev/zero")
    said: list[BaseException] = []

    def read() -> None:
        try:
            READERS[reader](str(file))
        except Exception as refused:
            said.append(refused)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive(), "it waits for the FIFO"
    assert [type(each) for each in said if not isinstance(each, OcbError)] == []
    assert len(said) == 1
    if (reader, kind) != ("file reference", "device"):  # which leads out of the directory
        assert "not a regular file" in str(said[0]) or "directory" in str(said[0])


def test_a_file_that_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 11)
    assert files.text(file, 11) == "x" * 11
    with pytest.raises(OSError, match="larger than 10 bytes"):
        files.text(file, 10)
    file.write_bytes(b"\xff")
    with pytest.raises(OSError, match="no text"):
        files.text(file, 10)
