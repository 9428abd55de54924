"""Each test of Nodepool 11 has a verdict, and each test with the verdict ``passes`` passes against our daemons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.testing.zookeeper.guarded import Guarded
from tests.fixtures.upstream import ROOT
from tests.interop.upstream.upstream_tests import FAILS, HERE, INAPPLICABLE, MODULES, PASSES, UpstreamTests, verdicts

EXPECTED = [
    (module, name) for module in MODULES for name, verdict in verdicts(module).items() if verdict.kind == PASSES
]
OUTPUT_CHARACTERS = 6000
PAGE = ROOT / "docs/nodepool-tests.md"
SCRATCH = Path("/opt/dib_tmp")  # the TMPDIR that the configurations of the tests name


@pytest.fixture(scope="module")
def upstream(nodepool11: Path) -> Iterator[UpstreamTests]:
    there = SCRATCH.exists()
    with Guarded(demands_user=False) as guarded:
        yield UpstreamTests(nodepool11, guarded)
    if not there and SCRATCH.exists():
        SCRATCH.rmdir()


@pytest.mark.parametrize("module", MODULES)
def test_each_verdict_is_known_and_has_a_reason_if_the_test_does_not_pass(module: str) -> None:
    for name, verdict in verdicts(module).items():
        assert verdict.kind in (PASSES, INAPPLICABLE, FAILS), name
        assert bool(verdict.reason.strip()) is (verdict.kind != PASSES), name


def test_our_builder_takes_the_place_of_nodepools() -> None:
    """Without the shim each test passes, with the builder that it was written for."""
    assert (HERE / "builder_shim.py").is_file()


def test_at_most_a_quarter_does_not_apply_and_nine_tenths_of_the_rest_pass() -> None:
    counts = Counter(verdict.kind for module in MODULES for verdict in verdicts(module).values())
    assert counts[INAPPLICABLE] <= counts.total() / 4, counts
    assert counts[PASSES] >= 0.9 * (counts.total() - counts[INAPPLICABLE]), counts


def test_the_page_has_each_verdict_with_its_reason() -> None:
    rows = [line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    shown = {cells[0].strip("`"): (cells[1].rstrip(" |"), *cells[2:]) for cells in rows}
    expected = {
        name: (verdict.kind, verdict.reason.strip()) if verdict.reason else (verdict.kind,)
        for module in MODULES
        for name, verdict in verdicts(module).items()
    }
    assert shown == expected, "run tools/generate"


@pytest.mark.long
@pytest.mark.parametrize("module", [each for each in MODULES if verdicts(each)])
def test_each_test_of_the_package_has_a_verdict(upstream: UpstreamTests, module: str) -> None:
    assert verdicts(module).keys() == set(upstream.names(module))


@pytest.mark.long
@pytest.mark.parametrize(("module", "name"), EXPECTED)
def test_nodepools_test_passes(upstream: UpstreamTests, module: str, name: str) -> None:
    done = upstream.run(module, name)
    assert done.passed, done.output[-OUTPUT_CHARACTERS:]
