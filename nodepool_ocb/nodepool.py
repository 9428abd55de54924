"""Nodepool's own configuration: the records of providers (to be replaced when merging)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodepool_ocb.model import Json


class ProviderImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image that a provider is to have."""

    name: str
    pause: bool = False
    meta: Mapping[str, str] = {}
    options: Mapping[str, Json] = {}


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """Where images go."""

    name: str
    driver: str = "openstack"
    diskimages: tuple[ProviderImage, ...] = ()
    image_upload_timeout_seconds: float = 3600.0
    upload_workers: int | None = None
    format: str = "qcow2"
    options: Mapping[str, Json] = {}
