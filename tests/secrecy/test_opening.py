"""The secrets of a run: opened for its jig, and sealed again in what it gives back."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from nodepool_ocb.config import SecretsSettings, VaultSettings
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json
from nodepool_ocb.secrecy import keyring
from nodepool_ocb.secrecy.errors import Sealed
from nodepool_ocb.secrecy.opening import Opened, Secrets
from nodepool_ocb.telemetry.redaction import masked

PLACE = "db/password"
REFERENCE = {"$secret": "env:NODEPOOL_OCB_SECRET_API"}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecretsSettings:
    keyring.generate(tmp_path / "key")
    monkeypatch.setenv("NODEPOOL_OCB_SECRET_API", "api-token-1")
    return SecretsSettings(key_file=str(tmp_path / "key"))


@pytest.fixture
def secrets(settings: SecretsSettings) -> Secrets:
    return Secrets(settings)


@pytest.fixture
def opened(secrets: Secrets) -> Opened:
    password = secrets.keys().encrypt(PLACE, "hunter22")
    return secrets.opened({"db": {"password": password, "name": "shop"}, "api": REFERENCE})


def open_again(secrets: Secrets, wall: Json) -> Json:
    return secrets.opened(wall).attributes


def test_the_secrets_of_a_run_are_opened_in_other_attributes_too_and_no_others(secrets: Secrets) -> None:
    known, other = (secrets.keys().encrypt(PLACE, value) for value in ("hunter22", "correct horse"))
    opened = secrets.opened({"db": {"password": known}, "api": REFERENCE})
    within = opened.within({"db": {"password": known, "old": other}, "token": REFERENCE, "plain": 1})
    assert within == {"db": {"password": "hunter22", "old": other}, "token": "api-token-1", "plain": 1}


def test_a_jig_sees_the_values_of_secrets(opened: Opened) -> None:
    assert opened.attributes == {"db": {"password": "hunter22", "name": "shop"}, "api": "api-token-1"}
    assert opened.mask.values == {"hunter22", "api-token-1"}


def test_what_equals_a_secret_goes_back_as_a_reference_or_encrypted_for_its_place(
    secrets: Secrets, opened: Opened
) -> None:
    wall = secrets.sealed({"seen": {"api": "api-token-1", "db": "hunter22", "n": 1}}, {}, (), opened)
    assert wall["seen"]["api"] == REFERENCE
    assert wall["seen"]["n"] == 1
    assert "hunter22" not in str(wall)
    assert open_again(secrets, wall)["seen"]["db"] == "hunter22"


def test_a_text_or_a_key_that_holds_a_secret_is_never_kept_as_it_is(secrets: Secrets, opened: Opened) -> None:
    given = {"urls": ["https://u:hunter22@h/", "https://h/"], "by hunter22": True, "of": {"hunter22": 1}}
    wall = secrets.sealed(given, {}, (), opened)
    assert "hunter22" not in str(wall)
    assert wall["urls"][1] == "https://h/", "what holds none stays"
    assert open_again(secrets, wall)["urls"] == ["https://u:hunter22@h/", "https://h/"]


def test_log_lines_hide_what_was_opened(opened: Opened) -> None:
    assert opened.mask
    assert masked("they are hunter22 and api-token-1") == "they are (secret) and (secret)"


def test_what_stood_there_and_cannot_be_opened_is_replaced(secrets: Secrets, opened: Opened, tmp_path: Path) -> None:
    keyring.generate(tmp_path / "other")
    before = {"copy": keyring.load(str(tmp_path / "other")).encrypt("copy", "hunter22")}
    assert open_again(secrets, secrets.sealed({"copy": "hunter22"}, before, (), opened)) == {"copy": "hunter22"}


def test_what_a_script_makes_up_for_a_secret_attribute_is_encrypted(secrets: Secrets) -> None:
    wall = secrets.sealed({"db": {"password": "made-up-here"}}, {}, (PLACE,), Opened())
    assert secrecy.is_secret(wall["db"]["password"])
    assert open_again(secrets, wall)["db"]["password"] == "made-up-here"


def test_a_wall_whose_secrets_stay_the_same_is_not_another(secrets: Secrets, opened: Opened) -> None:
    before = secrets.sealed({"copy": "hunter22"}, {}, (), opened)
    assert secrets.sealed({"copy": "hunter22"}, before, (), opened) == before


@pytest.mark.parametrize("value", [{"$secret": "file:/etc/shadow"}, {"$secret": 1}, [{"$secret": "env:A", "b": 1}]])
def test_a_machine_is_given_no_secret_that_it_names_itself(secrets: Secrets, value: Json) -> None:
    with pytest.raises(Sealed, match="which only people may set"):
        secrets.sealed({"mine": value}, {}, (), Opened())


def test_a_secret_that_no_log_could_hide_is_not_opened(secrets: Secrets) -> None:
    with pytest.raises(Sealed, match="secret db/password: it is shorter than 4 characters"):
        secrets.opened({"db": {"password": secrets.keys().encrypt(PLACE, "abc")}})


@pytest.mark.parametrize(
    "text",
    ["file:/x\0", "env:OTHER", "ftp:x", "", "enc:x", "enc:00000000:0000000000000000:x", "vault:a/b#c", "\udc80"],
)
def test_a_faulty_secret_is_the_only_one_named_as_faulty(secrets: Secrets, text: str) -> None:
    with pytest.raises(Sealed, match="secret db/password") as refused:
        secrets.opened({"db": {"password": {"$secret": text}}})
    if not text.startswith("enc:"):
        assert text.strip("\0\udc80") in str(refused.value)
    assert str(refused.value).isprintable()
    assert secrets.trouble is None


def test_what_another_program_encrypted_with_the_key_is_told_so(secrets: Secrets, settings: SecretsSettings) -> None:
    key = Path(str(settings.key_file)).read_text().strip()
    text = f"enc:{keyring.key_id(key)}:0000000000000000:{Fernet(key).encrypt(b'[1]').decode()}"
    with pytest.raises(Sealed, match="by another program") as refused:
        secrets.value(PLACE, text)
    assert not refused.value.own


def test_a_key_file_that_changed_is_read_again_and_one_that_is_spoiled_is_a_trouble(
    secrets: Secrets, settings: SecretsSettings
) -> None:
    file = Path(str(settings.key_file))
    assert secrets.trouble is None
    before = secrets.keys().ids
    keyring.generate(file)
    assert secrets.keys().ids[1:] == before
    file.chmod(0o644)
    assert "chmod 600" in str(secrets.trouble)
    file.chmod(0o600)
    assert secrets.trouble is None


def test_an_unexpected_exception_about_a_secret_names_that_secret_only(tmp_path: Path) -> None:
    """As by a library that is given an address which is none."""
    (tmp_path / "token").write_text("t")
    secrets = Secrets(SecretsSettings(vault=VaultSettings(address="nonsense", token_file=str(tmp_path / "token"))))
    with pytest.raises(Sealed, match=r"^secret db/password \(vault:a/b#c\): it cannot be read \(ValueError\)"):
        secrets.value(PLACE, "vault:a/b#c")
