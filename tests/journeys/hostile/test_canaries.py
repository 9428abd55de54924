"""The canaries themselves: each of their judges sees what it is there for."""

from __future__ import annotations

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Deployment, DeploymentState, Set
from tests.journeys.hostile.canaries import DEPLOYMENT, Canaries


def test_canaries_that_may_not_be_run_are_missed(canaries: Canaries) -> None:
    path = paths.deployment(DEPLOYMENT)
    znode = canaries.session.get(path)
    assert znode is not None
    canaries.session.commit([Set(path, Deployment(), znode.version)])
    with pytest.raises(AssertionError, match="every canary was run again"):
        canaries.sing(seconds=1.0)
    committed = Deployment(state=DeploymentState.COMMITTED)
    canaries.session.commit([Set(path, committed, znode.version + 1)])
    canaries.sing()
    canaries.level()
    canaries.quiet(lines=5, writes=50)


def test_an_annealer_that_is_gone_is_missed(canaries: Canaries) -> None:
    canaries.annealers[0].kill()
    with pytest.raises(AssertionError, match="both annealers"):
        canaries.level()
    with pytest.raises(AssertionError, match="both annealers"):
        canaries.sing()
