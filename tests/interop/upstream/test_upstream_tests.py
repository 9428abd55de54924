"""Each test of Nodepool 11 has a verdict, and each test with the verdict ``passes`` passes against our daemons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.testing.zookeeper.guarded import Guarded
from tests.interop.upstream.upstream_tests import FAILS, INAPPLICABLE, MODULES, PASSES, UpstreamTests, verdicts

EXPECTED = [
    (module, name) for module in MODULES for name, verdict in verdicts(module).items() if verdict.kind == PASSES
]
OUTPUT_CHARACTERS = 6000


@pytest.fixture(scope="module")
def upstream(nodepool11: Path) -> Iterator[UpstreamTests]:
    with Guarded(demands_user=False) as guarded:
        yield UpstreamTests(nodepool11, guarded)


@pytest.mark.parametrize("module", MODULES)
def test_each_verdict_is_known_and_has_a_reason_if_the_test_does_not_pass(module: str) -> None:
    for name, verdict in verdicts(module).items():
        assert verdict.kind in (PASSES, INAPPLICABLE, FAILS), name
        assert bool(verdict.reason.strip()) is (verdict.kind != PASSES), name


@pytest.mark.long
@pytest.mark.parametrize("module", [each for each in MODULES if verdicts(each)])
def test_each_verdict_is_that_of_a_test_of_the_package(upstream: UpstreamTests, module: str) -> None:
    assert verdicts(module).keys() <= set(upstream.names(module))


@pytest.mark.long
@pytest.mark.parametrize(("module", "name"), EXPECTED)
def test_nodepools_test_passes(upstream: UpstreamTests, module: str, name: str) -> None:
    done = upstream.run(module, name)
    assert done.passed, done.output[-OUTPUT_CHARACTERS:]
