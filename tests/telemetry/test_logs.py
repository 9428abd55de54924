"""What a log line looks like, whatever is in it."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from nodepool_ocb.telemetry.logs import Lines, Plain, Repeats


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


def test_the_coloured_message_of_uvicorn_is_no_field() -> None:
    made = record("Started server process [1]", color_message="Started server process [\x1b[36m1\x1b[0m]")
    assert Plain(journal=True).format(made) == "<4>annealer: Started server process [1]"


def test_text_of_others_cannot_begin_a_line() -> None:
    assert Plain(journal=True).format(record("first\nCRITICAL forged", said="a\r\nb")) == (
        "<4>annealer: first\\nCRITICAL forged said=a\\r\\nb"
    )


@pytest.mark.parametrize("odd", ["\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1b", "\x00", "\x7f", "\u202e"])
def test_no_odd_character_ends_a_line_or_reaches_a_terminal(odd: str) -> None:
    made = failed(f"first{odd}CRITICAL forged")
    for line in (Plain(journal=True).format(made), Plain().format(made), Lines().format(made)):
        assert odd not in line
    assert len(Lines().format(made).splitlines()) == 1
    assert json.loads(Lines().format(made))["message"] == f"first{odd}CRITICAL forged"


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


def test_what_repeats_itself_is_logged_once_a_minute_and_anew_when_it_is_over() -> None:
    said: list[tuple[float, str]] = []
    repeats = Repeats(anew="established")
    for at, text in (
        *((float(second), "refused") for second in range(100)),
        (100.0, "established"),
        (101.0, "refused"),
        (102.0, "established"),
        (103.0, "established"),
    ):
        made = record(text)
        made.created = at
        if repeats.filter(made):
            said.append((at, text))
    assert said == [
        (0.0, "refused"),
        (60.0, "refused"),
        (100.0, "established"),
        (101.0, "refused"),
        (102.0, "established"),
        (103.0, "established"),
    ]
