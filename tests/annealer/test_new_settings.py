"""Settings that an annealer takes over while it runs: each part has them, and one that cannot is named."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import AnnealerSettings, Settings
from nodepool_ocb.errors import Invalid
from nodepool_ocb.jigs.ssh.keys import NoKey
from nodepool_ocb_annealer import reloading

SETTINGS = Settings()
FRESH = replace(SETTINGS, annealer=AnnealerSettings(slots=3, drain_seconds=7.0))


class Taking:
    """A part that takes settings over."""

    def __init__(self, error: Exception | None = None) -> None:
        self.taken: list[Any] = []
        self._error = error

    def configure(self, settings: Any) -> None:
        self.taken.append(settings)
        if self._error is not None:
            raise self._error


class Prober(Taking):
    has_keys = True

    def load_keys(self, _: Any) -> None:
        if self._error is not None:
            raise self._error


def annealer(**jigs: Any) -> Any:
    changed: list[Any] = []
    registration = SimpleNamespace(change=lambda **fields: changed.append(fields), changed=changed)
    context = SimpleNamespace(jigs=jigs, secrets=Taking(), registration=registration, cluster="")
    made = Taking()
    made.context, made.powering = context, Taking()  # type: ignore[attr-defined]
    return made


def prepared(made: Any, prober: Any, fresh: Settings = FRESH, listen: str | None = None) -> Any:
    asked: Any = SimpleNamespace(read=lambda: fresh, listen=listen)
    return reloading.reloading(asked, SETTINGS, made, prober)._prepare(fresh)


def test_each_part_takes_over_its_settings_also_after_a_jig_that_cannot(caplog: pytest.LogCaptureFixture) -> None:
    bad, good, fixed, prober = Taking(ValueError("no licence")), Taking(), object(), Prober()
    made = annealer(bad=bad, fixed=fixed, good=good)
    reload = prepared(made, prober, listen="127.0.0.1:9")
    assert (reload.listen, reload.waiting, good.taken) == ("127.0.0.1:9", ("jig fixed",), [])
    assert reload.end_within_seconds == 7.0 + reloading.END_SECONDS
    with caplog.at_level(logging.WARNING, reloading.log.name):
        reload.apply()
    assert (good.taken, made.taken, prober.taken) == ([FRESH], [FRESH.annealer], [FRESH.ssh])
    assert made.context.secrets.taken == [FRESH.secrets]
    assert [sorted(fields) for fields in made.context.registration.changed] == [["references"]]
    assert [each.getMessage() for each in caplog.records] == [
        "jig bad keeps its settings: configure raised ValueError: no licence"
    ]


def test_where_nothing_changed_no_jig_is_named() -> None:
    assert prepared(annealer(fixed=object()), Prober(), SETTINGS).waiting == ()
    assert prepared(annealer(fixed=object()), Prober(), SETTINGS).listen == SETTINGS.http.listen


def test_a_key_that_is_gone_refuses_the_reload() -> None:
    with pytest.raises(Invalid, match="no key; the keys that were read before stay in use"):
        prepared(annealer(), Prober(NoKey("no key")))
    without = Prober(NoKey("no key"))
    without.has_keys = False
    prepared(annealer(), without)
