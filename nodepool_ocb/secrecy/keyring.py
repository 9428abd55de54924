"""A key file, and the values that its keys encrypt: they are bound to their place, so that a token moved elsewhere opens nothing.

A line is a key, the newest first; the first encrypts, all decrypt. Others than the owner must not be able to read the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from cryptography.fernet import Fernet, InvalidToken

from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json
from nodepool_ocb.secrecy import private
from nodepool_ocb.secrecy.errors import Sealed

MADE_WITH: Final = "nodepool-ocb secret keygen"


class Keyring:
    """Keys by their ids, the newest first."""

    def __init__(self, keys: Mapping[str, Fernet], origin: str) -> None:
        self._keys, self._origin = keys, origin

    @property
    def ids(self) -> tuple[str, ...]:
        """The newest first."""
        return tuple(self._keys)

    def encrypt(self, place: str, value: Json, id: str | None = None) -> dict[str, Json]:
        """A value, encrypted for one place; ``id``: its former one, if any. Raises Sealed if there is no key."""
        if not self._keys:
            raise Sealed(f"{self._origin}; {MADE_WITH} FILE makes a key", own=True)
        newest, id = self.ids[0], id or secrets.token_hex(8)
        data = json.dumps({"at": place, "id": id, "value": value}).encode()
        return {secrecy.KEY: f"enc:{newest}:{id}:{self._keys[newest].encrypt(data).decode()}"}

    def decrypt(self, place: str, text: str) -> Json:
        """The value of the secret at a place; raises Sealed."""
        parts = secrecy.encrypted(text)
        if parts is None:
            raise Sealed("it is neither encrypted nor a reference; set the secret again", own=False)
        key, id, token = parts
        if key not in self._keys:
            raise Sealed(
                f"it was encrypted by key {key}, which is not here: {self._origin}; add that key to secrets.key_file",
                own=True,
            )
        try:
            held = msgspec.json.decode(self._keys[key].decrypt(token))
        except (InvalidToken, msgspec.DecodeError):
            raise Sealed(
                "the stored value was damaged, or encrypted by another program; set the secret again", own=False
            ) from None
        if not isinstance(held, dict) or not {"at", "id", "value"} <= held.keys():
            raise Sealed("the stored value was encrypted by another program; set the secret again", own=False)
        if (held["at"], held["id"]) != (place, id):
            raise Sealed(
                f"the stored value was encrypted for {held['at']}, and was moved here; set the secret again", own=False
            )
        return held["value"]

    def anew(self, place: str, text: str) -> dict[str, Json] | None:
        """The same value, encrypted with the newest key; None if it is already, or is not encrypted.

        There must be a key. Raises Sealed if no key opens the value.
        """
        parts = secrecy.encrypted(text)
        if parts is None or parts[0] == self.ids[0]:
            return None
        return self.encrypt(place, self.decrypt(place, text), parts[1])


def load(name: str | None) -> Keyring:
    """The keys of a file; none for the name None. Raises Sealed if the file cannot be used."""
    if name is None:
        return Keyring({}, "secrets.key_file is not set")
    lines = private.text(name, "key file").splitlines()
    try:
        keys = {key_id(key): Fernet(key) for line in lines if (key := line.partition("#")[0].strip())}
    except ValueError:  # the text of the error may hold a part of a key
        raise Sealed(f"key file {name}: a line is no key; {MADE_WITH} writes them", own=True) from None
    return Keyring(keys, f"key file {name} has keys {', '.join(keys) or 'none'}")


def key_id(key: str) -> str:
    """The id of a key: a digest, which does not reveal the key."""
    return hashlib.sha256(b"nodepool-ocb key " + key.encode()).hexdigest()[:8]


def generate(path: Path) -> str:
    """Put a new key first in a file, which is created if it does not exist; returns the key's id.

    Raises Sealed if the file cannot be used, and Conflict if it cannot be written.
    """
    before = ""
    if path.exists():
        load(str(path))
        before = private.text(str(path), "key file")
    key = Fernet.generate_key().decode()
    try:
        made, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
        with open(made, "w") as file:
            file.write(f"{key}\n{before}")
            file.flush()
            os.fsync(made)
        _as_before(path, name)
        os.replace(name, path)
    except OSError as error:
        raise Conflict(f"{path} cannot be written: {error.strerror}; check the directory and its mode") from error
    return key_id(key)


def _as_before(path: Path, name: str) -> None:
    if path.exists():
        before = path.stat()
        os.chown(name, before.st_uid, before.st_gid)
        os.chmod(name, stat.S_IMODE(before.st_mode))
