"""The tokens of this user, by API server: a file that this user alone can read.

``NODEPOOL_OCB_TOKEN`` goes before the file. A token never stands in a URL or on a command line.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid

VARIABLE: Final = "NODEPOOL_OCB_TOKEN"
OTHERS: Final = 0o077  # the rights of other users


class StoredToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token, with the facts about its server that were known at the login."""

    token: str
    cluster: str | None = None  # the id of the cluster that the server served
    ca: str | None = None  # a file of certificates that identify the server


def place() -> Path:
    """The file of the tokens."""
    above = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(above) / "nodepool-ocb" / "tokens.json"


def stored(url: str) -> StoredToken | None:
    """The token for the server at ``url``; that of the environment before that of the file. Raises Invalid."""
    kept = _read().get(url)
    given = os.environ.get(VARIABLE)
    if not given:
        return kept
    return StoredToken(token=given.strip(), ca=kept.ca if kept else None)


def keep(url: str, token: StoredToken) -> None:
    """Store a token in place of an earlier one. Raises Invalid if the file cannot be written."""
    _write({**_read(), url: token})


def forget(url: str) -> bool:
    """Delete the token for the server at ``url``; False if there was none. Raises Invalid."""
    kept = _read()
    if url not in kept:
        return False
    _write({name: token for name, token in kept.items() if name != url})
    return True


def _read() -> dict[str, StoredToken]:
    file = place()
    try:
        data, mode = file.read_bytes(), file.stat().st_mode
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Invalid(f"{file}: cannot be read: {error.strerror}; let this user read it, or set {VARIABLE}") from error
    if mode & OTHERS:
        raise Invalid(f"{file}: other users can read it; chmod 600 {file}, and replace the tokens in it")
    try:
        return msgspec.json.decode(data, type=dict[str, StoredToken])
    except (msgspec.DecodeError, UnicodeError) as wrong:
        raise Invalid(f"{file}: {wrong}; delete it, then: nodepool-ocb login URL") from wrong


def _write(tokens: Mapping[str, StoredToken]) -> None:
    """The file is replaced as a whole, so that a reader never sees a part of it."""
    file = place()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        made, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # with mode 0600
        try:
            with os.fdopen(made, "wb") as out:
                out.write(msgspec.json.format(msgspec.json.encode(tokens)) + b"\n")
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Invalid(f"{file}: cannot be written: {error.strerror}; set {VARIABLE} instead") from error
