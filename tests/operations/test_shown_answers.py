"""An answer of the API that is JSON already is shown without its secrets, as others are."""

from __future__ import annotations

import msgspec

from nodepool_ocb.api import encoding
from nodepool_ocb.model.secrecy import HIDDEN, KEY
from nodepool_ocb.operations.site.exporting import ExportedSite


def test_a_site_file_is_shown_as_json_without_secrets() -> None:
    document = {"site": 1, "nodes": {"n1": {"user": {"password": {KEY: "AAAA"}}}}}
    shown = encoding.shown(ExportedSite(msgspec.Raw(msgspec.json.encode(document)), ("n1",)))
    assert shown == encoding.shown({"document": document, "nodes": ["n1"]})
    assert "AAAA" not in repr(shown)
    assert HIDDEN in repr(shown)
