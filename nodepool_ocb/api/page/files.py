"""The files of the page, as they stand in the package: HTML, one style sheet, ES modules.

They are read one time. The page may load nothing from another host, run no inline script, and stand in no frame of another page.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

INDEX: Final = "index.html"
MEDIA_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",  # a browser keeps it, and asks whether it is still the same
}


class PageFile(msgspec.Struct, frozen=True):
    """A file; ``etag`` is a digest of its content."""

    content: bytes
    media_type: str
    etag: str


@cache
def all_files() -> dict[str, PageFile]:
    """The files by name."""
    found = {}
    for entry in sorted(files(__package__).joinpath("static").iterdir(), key=lambda each: each.name):
        media_type = MEDIA_TYPES.get(f".{entry.name.rpartition('.')[2]}")
        if media_type is not None and entry.is_file():
            content = entry.read_bytes()
            found[entry.name] = PageFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:24]}"')
    return found
