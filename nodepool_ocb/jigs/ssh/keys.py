"""The private keys that this host logs in with."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import paramiko

from nodepool_ocb.config import SshSettings
from nodepool_ocb.documents import files
from nodepool_ocb.jigs.ssh.faults import OwnFault, words

PUBLIC: Final = (
    b"ssh-",
    b"ecdsa-sha2-",
    b"sk-",
    b"---- BEGIN SSH2 PUBLIC",
    b"-----BEGIN PUBLIC",
)  # how such files begin
PUBLIC_BYTES: Final = 100


class NoKey(OwnFault):
    """This host has no private key to log in with."""

    def __init__(self, said: str) -> None:
        super().__init__("key", said)

    def __str__(self) -> str:
        return str(self.args[0]).removeprefix("key: ")


def load_keys(settings: SshSettings) -> list[paramiko.PKey]:
    """The private keys of the files that exist; raises NoKey where none does, or one cannot be read."""
    found = []
    for name in settings.key_files:
        path = Path(name).expanduser()
        try:
            if path.exists():
                files.require(path)
                found.append(paramiko.PKey.from_path(path))
        except (paramiko.SSHException, ValueError, TypeError, OSError) as error:
            raise NoKey(f"ssh.key_files: key file {name} {_no_key(path, error)}") from error
    if not found:
        raise NoKey(
            f"ssh.key_files: none of the key files exists: {', '.join(settings.key_files)};"
            " make one: ssh-keygen -t ed25519 -f FILE"
        )
    return found


def _no_key(path: Path, error: Exception) -> str:
    """Why a file is no key to log in with, and the next step."""
    if isinstance(error, IsADirectoryError):
        return "is a folder; name a private key in it"
    if isinstance(error, TypeError | paramiko.PasswordRequiredException):  # cryptography raises the first
        return "has a passphrase, which an annealer cannot type; use a key without a passphrase"
    if isinstance(error, OSError):
        return f"cannot be read: {words(error)}; check the mode and the owner"
    with suppress(OSError):  # it was there a moment ago
        if files.read(path, PUBLIC_BYTES).lstrip().startswith(PUBLIC):
            other = f"without .pub, {path.with_suffix('')}" if path.suffix == ".pub" else "with the private half"
            return f"is the public half; name the file {other}"
    return f"holds no private key that can be used: {words(error)}; ssh-keygen -t ed25519 makes one"
