"""Files that hold a secret: only the owner may use them."""

from __future__ import annotations

import os
from typing import Final

from nodepool_ocb.config import WebhookSettings
from nodepool_ocb.documents import files
from nodepool_ocb.secrecy.errors import Sealed

MOST_BYTES: Final = 1 << 20


def text(name: str, what: str) -> str:
    """The text of a file, which errors call ``what``; raises Sealed if it cannot be read, or others may use it."""
    try:
        with files.opened(name) as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Sealed(f"{what} {name} may be used by others than its owner; chmod 600 {name}", own=True)
            return files.decoded(file.read(MOST_BYTES + 1), MOST_BYTES, name)
    except OSError as error:
        raise Sealed(f"{what} {name} cannot be read: {error.strerror}; check the path and the mode", own=True) from None


def webhook_key(settings: WebhookSettings) -> bytes | None:
    """The key of signatures as its file has it now, without blanks around it; None without a file. Raises Sealed."""
    name, setting = settings.secret_file, "annealer.webhook.secret_file"
    if name is None:
        return None
    try:
        key = text(name, "secret file").strip()
    except Sealed as sealed:
        raise Sealed(f"{setting}: {sealed}; only the annealer's user may read it", own=True) from None
    if not key:
        raise Sealed(f"{setting}: secret file {name} is empty; openssl rand -hex 32 makes a key", own=True)
    return key.encode()
