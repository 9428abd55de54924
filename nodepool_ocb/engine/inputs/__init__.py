"""What a noderole's jig is given: the layers of attributes that it sees, what is kept of them, and what differs since."""

from nodepool_ocb.engine.inputs.given import UNKNOWN, Judged, judged, kept, of_instant
from nodepool_ocb.engine.inputs.layers import Blobs, Catalogue, Layer, Sources, brought, layers, sources, visible
from nodepool_ocb.engine.inputs.outdated import Difference, all_outdated, differences, outdated, read_for
from nodepool_ocb.engine.inputs.templates import resting_on

__all__ = [
    "UNKNOWN",
    "Blobs",
    "Catalogue",
    "Difference",
    "Judged",
    "Layer",
    "Sources",
    "all_outdated",
    "brought",
    "differences",
    "judged",
    "kept",
    "layers",
    "of_instant",
    "outdated",
    "read_for",
    "resting_on",
    "sources",
    "visible",
]
