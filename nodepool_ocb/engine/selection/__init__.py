"""Many at once: which nodes or noderoles a selector means (docs/selectors.md), and decisions about all in one pass."""

from nodepool_ocb.engine.selection.expression import Expression
from nodepool_ocb.engine.selection.meaning import SelectionFacts, asks_outdated, noderoles, nodes
from nodepool_ocb.engine.selection.parsing import parse

__all__ = ["Expression", "SelectionFacts", "asks_outdated", "noderoles", "nodes", "parse"]
