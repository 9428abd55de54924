"""Which files of this host a document may name: below the directories of a setting, never a key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodepool_ocb.config import SecretsSettings, Settings, load, secret_files, task_sources
from nodepool_ocb.documents.allowed import Allowed, Outside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a file in it, beside one with a longer name and a key."""
    for name in ("root", "root-of-others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "key").write_text("key")
    return tmp_path / "root"


def allowed(*directories: Path | str, keys: tuple[Path, ...] = ()) -> Allowed:
    return Allowed(setting="tasks.sources", directories=tuple(map(str, directories)), keys=tuple(map(str, keys)))


def refusal(by: Allowed, path: Path | str) -> str:
    with pytest.raises(Outside) as refused:
        by.resolve(str(path))
    assert refused.value.setting == by.setting
    return str(refused.value)


def test_without_directories_nothing_is_allowed(root: Path) -> None:
    assert refusal(allowed(), root / "file") == f"{root}/file is outside tasks.sources (it is not set)"


def test_a_file_below_a_directory_is_allowed_and_so_is_the_directory(root: Path) -> None:
    assert allowed("/no/such", root).resolve(f"{root}/file") == str((root / "file").resolve())
    assert allowed(root).resolve(f"{root}/") == str(root.resolve())
    assert allowed("/").resolve(str(root)) == str(root.resolve())


def test_a_directory_whose_name_begins_the_same_is_outside(root: Path) -> None:
    assert "is outside tasks.sources" in refusal(allowed(root), f"{root}-of-others/file")


@pytest.mark.parametrize("way", ["link", "folder/key", "../key", "folder/../../key"])
def test_links_are_resolved_before_a_path_is_checked(root: Path, way: str) -> None:
    (root / "link").symlink_to("../key")
    (root / "folder").symlink_to("..")
    assert "is outside tasks.sources" in refusal(allowed(root), root / way)


def test_a_link_within_the_directories_is_followed_and_the_real_path_is_given(root: Path) -> None:
    (root / "link").symlink_to("file")
    assert allowed(root).resolve(f"{root}/link") == str((root / "file").resolve())


def test_a_directory_that_is_a_link_itself_is_resolved_too(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert allowed(tmp_path / "alias").resolve(f"{root}/file") == str((root / "file").resolve())


def test_a_zero_byte_is_refused(root: Path) -> None:
    assert "can be no path of a file" in refusal(allowed(root), f"{root}/a\0b")


def test_a_key_is_refused_below_a_directory_under_every_name(root: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    (root / "link").symlink_to(key)
    os.link(key, root / "hard")
    by = allowed(tmp_path, keys=(key,))
    for name in ("key", "root/link", "root/hard"):
        assert "a key of this host" in refusal(by, tmp_path / name)


def test_a_directory_with_a_key_below_it_is_refused(root: Path, tmp_path: Path) -> None:
    assert "holds, a key" in refusal(allowed(tmp_path, keys=(root / "file",)), tmp_path)
    assert "holds, a key" in refusal(allowed(tmp_path, keys=(root,)), root / "file")


CONFIGURATION = """\
zookeeper: {tls: {key: keys/tls}}
ssh: {key_files: [keys/ssh]}
annealer: {webhook: {url: "https://h.example.com", secret_file: keys/webhook}}
builder: {secure: keys/secure}
secrets: {key_file: keys/secrets, directory: keys/secret, vault: {address: "https://v.example.com", token_file: keys/vault}}
tasks: {sources: [.]}
"""


@pytest.mark.parametrize(
    "name", ["tls", "ssh", "webhook", "secure", "secrets", "secret/db", "vault", "../nodepool-ocb.yaml"]
)
def test_no_key_or_password_of_the_configuration_is_given_to_a_task(tmp_path: Path, name: str) -> None:
    (tmp_path / "nodepool-ocb.yaml").write_text(CONFIGURATION)
    settings = load(tmp_path)
    assert task_sources(settings).resolve(f"{tmp_path}/keys/other") == str((tmp_path / "keys/other").resolve())
    assert "a key of this host" in refusal(task_sources(settings), f"{tmp_path}/keys/{name}")


def test_tasks_read_nothing_by_default_and_references_never_the_keys_of_secrets(tmp_path: Path) -> None:
    assert "is outside tasks.sources" in refusal(task_sources(Settings()), tmp_path)
    secrets = SecretsSettings(directory=str(tmp_path), key_file=f"{tmp_path}/key")
    assert secret_files(secrets).resolve(f"{tmp_path}/db") == str((tmp_path / "db").resolve())
    assert "a key of this host" in refusal(secret_files(secrets), tmp_path / "key")
