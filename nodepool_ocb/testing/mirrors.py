"""Where real packages come from: the mirror that apt uses here."""

from __future__ import annotations

import os
import re
from pathlib import Path


def mirror(kind: str) -> str | None:
    """The first address in apt's sources of Debian (``debian``) or of its security updates (``debian-security``).

    NODEPOOL_OCB_TEST_MIRROR and NODEPOOL_OCB_TEST_SECURITY_MIRROR go before it. None where there is no such address.
    """
    wanted = "NODEPOOL_OCB_TEST_MIRROR" if kind == "debian" else "NODEPOOL_OCB_TEST_SECURITY_MIRROR"
    if wanted in os.environ:
        return os.environ[wanted]
    for file in (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))):
        if file.is_file():
            for address in re.findall(r"^(?:deb|URIs:)\s.*?(https?://\S+)", file.read_text(), re.MULTILINE):
                if address.rstrip("/").endswith(f"/{kind}"):
                    return str(address).rstrip("/")
    return None
