"""Whether the code of a role's hooks is installed on this host. An annealer without it leaves its hooks to others."""

from __future__ import annotations

import logging

from nodepool_ocb.catalogue.code import KIND, find, installed, left_out, look_again
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.errors import Invalid
from nodepool_ocb.extensions import titled

log = logging.getLogger(__name__)


class InstalledCode:
    """Missing code is logged once for each role and hook."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration
        self._missed: set[tuple[str, str]] = set()  # role and hook

    def has(self, role: str, barclamp: str, hook: str) -> bool:
        """Whether the code of a role is here, and can be loaded: where it cannot, that is a fault of this host."""
        why = "is not installed on this host"
        try:
            if find(role, barclamp) is not None:
                return True
        except Invalid as error:
            why = f"cannot be used on this host ({error})"
        if (role, hook) not in self._missed:
            self._missed.add((role, hook))
            log.warning("%s of role %s: its code %s; another annealer has to run it", hook, role, why)
        return False

    def look_again(self) -> None:
        """If missing code was installed meanwhile, register it."""
        if self._missed:
            look_again()
            if installed() != self._registration.record.code:
                self._missed.clear()
            self._register()

    def _register(self) -> None:
        """Write which jigs are here and which are left out, where that changed; the jigs that are left out stay as they are."""
        record = self._registration.record
        jigs = {title: why for title, why in record.left_out.items() if not title.startswith(f"{KIND} ")}
        fresh = {"code": installed(), "left_out": jigs | titled(left_out())}
        if fresh != {name: getattr(record, name) for name in fresh}:
            self._registration.change(**fresh)
