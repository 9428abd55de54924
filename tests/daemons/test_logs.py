"""What a log line looks like, whatever is in it."""

from __future__ import annotations

import json
import logging
import sys

from nodepool_ocb.logs import Lines, Plain


def record(message: str, **extra: object) -> logging.LogRecord:
    return logging.getLogger("annealer").makeRecord(
        "annealer", logging.WARNING, __file__, 1, message, (), None, extra=extra
    )


def failed(message: str) -> logging.LogRecord:
    try:
        raise ValueError("no luck")
    except ValueError:
        made = record(message)
        made.exc_info = sys.exc_info()
        return made


def test_a_plain_line_says_when_how_bad_who_and_what() -> None:
    made = record("gone", node="n1.example.com")
    made.created, made.msecs = 0.0, 0.0
    assert Plain().format(made) == "1970-01-01T00:00:00.000Z WARNING annealer: gone node=n1.example.com"


def test_text_of_others_cannot_begin_a_line() -> None:
    assert Plain(journal=True).format(record("first\nCRITICAL forged", said="a\r\nb")) == (
        "<4>annealer: first\\nCRITICAL forged said=a\\r\\nb"
    )


def test_every_line_of_a_traceback_has_the_journal_s_priority() -> None:
    lines = Plain(journal=True).format(failed("oh")).splitlines()
    assert lines[0] == "<4>annealer: oh"
    assert lines[-1] == "<4>ValueError: no luck"
    assert all(line.startswith("<4>") for line in lines)


def test_a_json_line_is_one_object() -> None:
    line = Lines().format(record("two\nlines", node="n1.example.com", tries=3))
    assert "\n" not in line
    read = json.loads(line)
    assert read["message"] == "two\nlines"
    assert (read["level"], read["logger"]) == ("WARNING", "annealer")
    assert (read["node"], read["tries"]) == ("n1.example.com", 3)


def test_a_json_line_carries_the_traceback() -> None:
    assert json.loads(Lines().format(failed("oh")))["exception"].endswith("ValueError: no luck")
