"""The ages of nodes: the reason why an idle or held node is deleted now. Pure."""

from __future__ import annotations

import math

from nodepool_ocb.pool.capacity.judging import image_of, static
from nodepool_ocb.pool.capacity.ledger import pool_of
from nodepool_ocb.pool.configuration import PoolConfiguration
from nodepool_ocb.pool.views import PoolNodeView, PoolView


def ready_seconds(configuration: PoolConfiguration, node: PoolNodeView) -> float:
    """The max-ready-age of a node: the lowest of its labels and its pool; infinite without one."""
    pool = configuration.pool(*pool_of(node))
    ages = [configuration.labels[label].max_ready_age_seconds for label in node.labels if label in configuration.labels]
    return min((age for age in [*ages, pool.max_age_seconds if pool else 0.0] if age > 0), default=math.inf)


def hold_seconds(configuration: PoolConfiguration, node: PoolNodeView) -> float:
    """The longest time in ``hold``: the node's own expiration and the configured ages, the lowest; infinite without one."""
    ages = [configuration.labels[label].max_hold_age_seconds for label in node.labels if label in configuration.labels]
    every = [*ages, configuration.max_hold_age_seconds, _seconds(node.record.hold_expiration)]
    return min((age for age in every if age > 0), default=math.inf)


def _seconds(text: float | str | None) -> float:
    try:
        found = float(text or 0.0)
    except ValueError:
        return 0.0
    return found if math.isfinite(found) else 0.0


def outdated(view: PoolView, configuration: PoolConfiguration, node: PoolNodeView) -> str | None:
    """Why the image of an idle node is outdated; None if it is current, or if no newer one is ready.

    A label with max-ready-age keeps the node until that age.
    """
    pool, label = configuration.pool(*pool_of(node)), node.labels[0] if node.labels else ""
    if pool is None or static(pool) or not math.isinf(ready_seconds(configuration, node)):
        return None
    image = image_of(view, pool, label)
    if image is None or node.record.image_id in (None, image.path, image.external_id):
        return None
    return f"its image is replaced by {image.path}"
