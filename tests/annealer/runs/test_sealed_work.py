"""Work whose secrets cannot be opened here: how long it is left alone, and for how long this host is in trouble by it."""

from __future__ import annotations

from nodepool_ocb_annealer.runs.sealed import MEMORY_SECONDS, SealedWork

NAME = "db@n1"


def test_it_is_left_alone_for_a_time_that_doubles_up_to_half_a_minute_until_it_is_well() -> None:
    sealed, now, waits = SealedWork(), 0.0, []
    for _ in range(6):
        waits.append(sealed.aside(NAME, "no key", now, own=True))
        assert sealed.until(NAME, now) == now + waits[-1]
        assert sealed.until("web@n1", now) is None, "of others nothing is known"
        now += waits[-1]
        assert sealed.until(NAME, now) is None
    assert waits == sorted(waits)
    assert (waits[1] / waits[0], waits[-1]) == (2.0, 30.0)
    sealed.well(NAME)
    assert sealed.aside(NAME, "no key", now, own=True) == waits[0]


def test_what_this_host_lacks_is_its_trouble_for_as_long_as_it_was_met_lately() -> None:
    sealed = SealedWork()
    sealed.aside(NAME, "no key", 0.0, own=True)
    assert "no key" in str(sealed.trouble(MEMORY_SECONDS - 1))
    assert sealed.trouble(MEMORY_SECONDS) is None
    sealed.aside(NAME, "no key", 100.0, own=True)
    sealed.well(NAME)
    assert sealed.trouble(100.0) is None


def test_what_nobody_can_open_is_no_trouble_of_this_host() -> None:
    sealed = SealedWork()
    sealed.aside(NAME, "no key", 0.0, own=True)
    sealed.aside(NAME, "damaged", 1.0, own=False)
    assert sealed.trouble(1.0) is None


def test_a_reason_is_logged_once_while_it_stays_the_same() -> None:
    sealed = SealedWork()
    logged = []
    for reason in ("no key", "no key", "no token"):
        sealed.aside(NAME, reason, 0.0, own=True)
        logged.append(sealed.news(NAME, reason))
    assert logged == [True, False, True]
