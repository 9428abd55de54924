"""Reads of this host's files by a run that were refused: counted, logged, and written into the journal.

An author of a task list or of an attribute that reads a key of this host leaves a trace, and cannot delete it.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import OrderedDict
from typing import Final

from nodepool_ocb.errors import OcbError
from nodepool_ocb.model.journal import REFUSE_FILE, Entry
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.telemetry import metrics

log = logging.getLogger(__name__)

LOGIN: Final = "annealer"
REMEMBERED: Final = 1000
REASON_CHARACTERS: Final = 1000


class Forbidden:
    """Any number of threads may call ``note``, which raises nothing."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._noted: OrderedDict[tuple[str, int, str], None] = OrderedDict()

    def note(self, noderole: str, generation: int, setting: str, reason: str) -> None:
        """Count it each time; log it and write it into the journal once for each generation of a noderole."""
        metrics.FORBIDDEN_FILES.labels(setting).inc()
        if not self._news((noderole, generation, reason)):
            return
        log.warning("%s: %s", noderole, reason)
        entry = Entry(
            at=self._session.now(),
            login=LOGIN,
            host=socket.gethostname(),
            verb=REFUSE_FILE,
            subjects=(noderole,),
            reason=reason[:REASON_CHARACTERS],
        )
        try:
            journal.write(self._session, entry)
        except OcbError as error:
            log.warning("%s: its refusal is not in the journal: %s", noderole, error)

    def _news(self, key: tuple[str, int, str]) -> bool:
        with self._lock:
            if key in self._noted:
                return False
            self._noted[key] = None
            while len(self._noted) > REMEMBERED:
                self._noted.popitem(last=False)
            return True
