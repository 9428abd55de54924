"""Nodepool's own configuration. TEMPORARY: only the record that backends take, until the module itself is here."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodepool_ocb.model import Json


class Diskimage(msgspec.Struct, frozen=True, kw_only=True):
    """One image that builders build."""

    name: str
    elements: tuple[str, ...] = ()
    release: str | None = None
    env_vars: Mapping[str, str] = {}
    formats: tuple[str, ...] = ("qcow2",)
    rebuild_age_seconds: float = 86400.0
    build_timeout_seconds: float = 28800.0
    pause: bool = False
    dib_cmd: str = "disk-image-create"
    username: str | None = None
    python_path: str | None = None
    shell_type: str | None = None
    metadata: Mapping[str, str] = {}
    backend: str = "dib"
    options: Mapping[str, Json] = {}
    builders: tuple[str, ...] = ()
    arch: str | None = None
    keep: int | None = None
