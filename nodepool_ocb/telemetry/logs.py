"""How a daemon logs: lines for people, or one JSON object a line for machines.

Fields given as ``extra={"node": ...}`` follow the message as ``node=...``, or are keys of the object. Under
the journal a plain line starts with its priority (``<4>``) and has no time of its own, as systemd wants it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from typing import Any, Final

from nodepool_ocb.config import LogSettings
from nodepool_ocb.errors import OcbError
from nodepool_ocb.telemetry import redaction, terminal_escape

#: Attributes that every record has, and uvicorn's message with colours; all others were given as ``extra``.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_PRIORITY: Final = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}  # the journal's, by level

REPEAT_SECONDS: Final = 60.0


def setup_logging(settings: LogSettings) -> None:
    """Log to stderr as the settings say; call once, first of all."""
    handler = logging.StreamHandler(sys.stderr)
    journal = "JOURNAL_STREAM" in os.environ
    handler.setFormatter(Lines() if settings.format == "json" else Plain(journal=journal))
    level = logging.getLevelName(settings.level.upper())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for chatty, least in (("kazoo", logging.WARNING), ("paramiko", logging.CRITICAL)):  # it logs a trace a failed login
        logging.getLogger(chatty).setLevel(max(level, least) if level > logging.DEBUG else level)
    logging.captureWarnings(True)
    threading.excepthook = _thread_died


def failed(logger: logging.Logger, error: Exception, text: str, *arguments: object) -> None:
    """Log that something failed: an error of ours with its sentence, any other with its traceback."""
    ours = isinstance(error, OcbError)
    logger.error(text + ": %s", *arguments, error, exc_info=None if ours else error)


class Repeats(logging.Filter):
    """Leaves out a line that was logged within the last minute already. After a line that begins with ``anew``, each line is new
    again. Lines below INFO are not judged."""

    def __init__(self, anew: str) -> None:
        super().__init__()
        self._anew = anew
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO:
            return True
        text = record.getMessage()
        if text.startswith(self._anew):
            self._logged.clear()
        elif record.created - self._logged.get(text, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        self._logged[text] = record.created
        return True


def _thread_died(died: threading.ExceptHookArgs) -> None:
    name = died.thread.name if died.thread else "?"
    value = died.exc_value or died.exc_type()
    logging.getLogger("nodepool_ocb").critical("thread %s died", name, exc_info=value)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that the call of the logger passed as ``extra``."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class Plain(logging.Formatter):
    """A record as a line for people: ``2026-01-31T12:00:00.123Z WARNING annealer: message node=n1.example.com``.

    For systemd's journal it has a priority in place of the time and the level: ``<4>annealer: message node=n1.example.com``.
    """

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, *, journal: bool = False) -> None:
        super().__init__(("" if journal else "%(asctime)s %(levelname)s ") + "%(name)s: %(message)s")
        self.converter = time.gmtime
        self._journal = journal

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, before a traceback is put below it; no text of others can begin a line of its own."""
        words = [super().formatMessage(record), *(f"{key}={value}" for key, value in fields(record).items())]
        return terminal_escape.line(" ".join(words))

    def format(self, record: logging.LogRecord) -> str:
        """The record as text, with the journal's priority before every line of it."""
        lines = [terminal_escape.line(line) for line in redaction.masked(super().format(record)).split("\n")]
        start = f"<{_PRIORITY.get(record.levelname, 6)}>" if self._journal else ""
        return "\n".join(start + line for line in lines)


class Lines(logging.Formatter):
    """A record as a line for programs: a JSON object.

    It has ``at`` (seconds since the epoch), ``level``, ``logger``, ``message``, and the fields of the record.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The object, with ``exception`` where there is a traceback."""
        line = fields(record) | {
            "at": round(record.created, 3),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return terminal_escape.exact(redaction.masked(json.dumps(line, default=str, ensure_ascii=False)))
