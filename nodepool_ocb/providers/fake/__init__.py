"""Drivers test and fake: machines that are files in a directory, for tests of launchers."""

from nodepool_ocb.providers.fake.cloud import FakeCloud, TestCloud

__all__ = ["FakeCloud", "TestCloud"]
