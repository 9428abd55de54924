"""Work that cannot be prepared here: how long it is left alone, and when that is logged."""

from __future__ import annotations

from nodepool_ocb_annealer.runs.decrypt_backoff import DecryptBackoff

NAME = "db@n1"


def test_it_is_left_alone_for_a_time_that_doubles_up_to_half_a_minute_until_it_is_well() -> None:
    sealed, now, waits = DecryptBackoff(), 0.0, []
    for _ in range(6):
        waits.append(sealed.aside(NAME, now))
        assert sealed.until(NAME, now) == now + waits[-1]
        assert sealed.until("web@n1", now) is None, "of others nothing is known"
        now += waits[-1]
        assert sealed.until(NAME, now) is None
    assert waits == sorted(waits)
    assert (waits[1] / waits[0], waits[-1]) == (2.0, 30.0)
    sealed.well(NAME)
    assert sealed.aside(NAME, now) == waits[0]


def test_a_reason_is_logged_once_while_it_stays_the_same() -> None:
    sealed = DecryptBackoff()
    logged = []
    for reason in ("no key", "no key", "no token"):
        sealed.aside(NAME, 0.0)
        logged.append(sealed.news(NAME, reason))
    assert logged == [True, False, True]
