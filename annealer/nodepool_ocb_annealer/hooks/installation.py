"""Whether the code of a role's hooks is installed on this host. An annealer without it leaves its hooks to others."""

from __future__ import annotations

import logging

from nodepool_ocb.catalogue.code import find, installed, look_again
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.engine.hooks.code import brings

log = logging.getLogger(__name__)


class Installation:
    """What is missed is logged once for each role and hook."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration
        self._missed: set[tuple[str, str]] = set()  # role and hook

    def has(self, role: str, barclamp: str, hook: str) -> bool:
        """Whether the code of a role is here, and can be loaded: where it cannot, that is a fault of this host."""
        why = "is not installed on this host"
        if brings(installed(), role, barclamp):
            try:
                find(role, barclamp)
            except Exception as error:  # whatever a package of somebody else raises
                why = f"cannot be loaded on this host ({type(error).__name__}: {error})"
            else:
                return True
        if (role, hook) not in self._missed:
            self._missed.add((role, hook))
            log.warning("%s of role %s: its code %s; another annealer has to run it", hook, role, why)
        return False

    def look_again(self) -> None:
        """What was not installed may be by now: then it is registered."""
        if self._missed:
            look_again()
            if installed() != self._registration.record.code:
                self._missed.clear()
                self._registration.change(code=installed())
