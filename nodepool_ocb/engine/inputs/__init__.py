"""The inputs of a noderole's jig: the layers of attributes that it sees, their stored form, and later differences."""

from nodepool_ocb.engine.inputs.former import former, of_runs
from nodepool_ocb.engine.inputs.given import UNKNOWN, Judged, judged, kept, of_instant, of_nothing
from nodepool_ocb.engine.inputs.layers import (
    AttributeLayer,
    Blobs,
    Catalogue,
    InputSources,
    brought,
    layers,
    sources,
    visible,
)
from nodepool_ocb.engine.inputs.outdated import InputChange, all_outdated, between, differences, outdated, read_for
from nodepool_ocb.engine.inputs.templates import resting_on

__all__ = [
    "UNKNOWN",
    "AttributeLayer",
    "Blobs",
    "Catalogue",
    "InputChange",
    "InputSources",
    "Judged",
    "all_outdated",
    "between",
    "brought",
    "differences",
    "former",
    "judged",
    "kept",
    "layers",
    "of_instant",
    "of_nothing",
    "of_runs",
    "outdated",
    "read_for",
    "resting_on",
    "sources",
    "visible",
]
