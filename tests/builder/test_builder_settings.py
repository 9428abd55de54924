"""The settings of a builder that a reload does not change."""

from __future__ import annotations

from nodepool_ocb.config import Settings
from nodepool_ocb.daemon.reloading import kept
from nodepool_ocb_builder.configuration import FIXED


def test_the_tree_of_images_stays_until_the_next_start() -> None:
    running, waiting = kept(Settings(), Settings(layout="nodepool", admin_domain="example.com"), FIXED)
    assert (running.layout, running.admin_domain, waiting) == ("native", "example.com", ("layout",))
