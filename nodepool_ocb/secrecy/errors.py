"""The reasons why a secret cannot be opened, and the party at fault."""

from __future__ import annotations

from nodepool_ocb.errors import OcbError


class Sealed(OcbError):
    """A secret cannot be opened, or made. ``own``: this host lacks something, and others may have it.

    ``forbidden``: the setting that does not allow the file which a reference names.
    """

    def __init__(self, message: str, *, own: bool, forbidden: str | None = None) -> None:
        super().__init__(message)
        self.own = own
        self.forbidden = forbidden
