"""``tools/bench api`` in its quick form: each part measures, and a rate is beside the floor's."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_rates_of_lists_are_measured_beside_the_bare_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from benchmarks.figure import Plan
    from benchmarks.serving import listing

    figures = list(listing.measure(Plan(rounds=1, share=0.1)))
    assert [figure.ratio == figure.ours / figure.other for figure in figures] == [True, True]
    assert all(figure.ours > 0 and "load" in figure.note for figure in figures)
