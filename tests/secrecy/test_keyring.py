"""Key files, and what their keys encrypt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodepool_ocb.model import secrecy
from nodepool_ocb.secrecy import keyring
from nodepool_ocb.secrecy.errors import Sealed
from nodepool_ocb.secrecy.keyring import Keyring

VALUE = "hunter22"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A key file with one key."""
    made = tmp_path / "secrets.key"
    keyring.generate(made)
    return made


@pytest.fixture
def keys(file: Path) -> Keyring:
    return keyring.load(str(file))


def text(sealed: object) -> str:
    found = secrecy.text_of(sealed)
    assert found is not None
    return found


def test_what_is_encrypted_for_a_place_is_decrypted_there(keys: Keyring) -> None:
    sealed = keys.encrypt("db/password", VALUE)
    assert VALUE not in str(sealed)
    assert keys.decrypt("db/password", text(sealed)) == VALUE


def test_a_token_that_somebody_moved_to_another_place_opens_nothing(keys: Keyring) -> None:
    with pytest.raises(Sealed, match="encrypted for db/password, and was moved here") as refused:
        keys.decrypt("motd/text", text(keys.encrypt("db/password", VALUE)))
    assert not refused.value.own


def test_an_id_that_somebody_changed_opens_nothing(keys: Keyring) -> None:
    sealed = re.sub(":[0-9a-f]{16}:", ":0123456789abcdef:", text(keys.encrypt("db/password", VALUE)))
    with pytest.raises(Sealed):
        keys.decrypt("db/password", sealed)


def test_the_same_value_twice_is_never_the_same_text(keys: Keyring) -> None:
    one, other = keys.encrypt("a", VALUE), keys.encrypt("a", VALUE)
    assert secrecy.noted(one) != secrecy.noted(other)


def test_a_new_key_encrypts_and_the_old_one_still_opens(file: Path, keys: Keyring) -> None:
    before = keys.encrypt("a", VALUE)
    keyring.generate(file)
    both = keyring.load(str(file))
    assert both.ids[1:] == keys.ids
    after = both.anew("a", text(before))
    assert after is not None
    assert both.anew("a", text(after)) is None
    file.write_text(file.read_text().splitlines()[0])  # the old key went
    newest = keyring.load(str(file))
    assert newest.decrypt("a", text(after)) == VALUE
    with pytest.raises(Sealed, match=r"encrypted by key .*, which is not here") as missing:
        newest.decrypt("a", text(before))
    assert missing.value.own
    assert secrecy.noted(after) == secrecy.noted(before)


def test_a_key_file_is_made_for_its_owner_alone_and_refused_where_others_may_read_it(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    with pytest.raises(Sealed, match="chmod 600"):
        keyring.load(str(file))
    with pytest.raises(Sealed, match="chmod 600"):
        keyring.generate(file)


def test_a_key_file_keeps_its_rights_when_it_gets_a_key(file: Path) -> None:
    file.chmod(0o400)
    keyring.generate(file)
    assert (file.stat().st_mode & 0o777, len(keyring.load(str(file)).ids)) == (0o400, 2)


def test_a_damaged_key_file_is_told_without_its_text(file: Path) -> None:
    file.write_text(file.read_text().strip()[:-3])
    part = file.read_text()[:20]
    with pytest.raises(Sealed, match="a line is no key") as refused:
        keyring.load(str(file))
    assert part not in str(refused.value)


def test_without_a_key_nothing_is_encrypted(tmp_path: Path) -> None:
    with pytest.raises(Sealed, match=r"secrets\.key_file is not set"):
        keyring.load(None).encrypt("a", VALUE)
    with pytest.raises(Sealed, match="cannot be read"):
        keyring.load(str(tmp_path / "none"))
