"""A document against its schema: ``document`` reads it, ``schema`` checks it."""

from __future__ import annotations

from nodepool_ocb.documents.document import Document
from nodepool_ocb.errors import Invalid


def validate(document: Document, schema: str) -> None:
    """Raises Invalid with every fault that the schema file of this name finds."""
    from nodepool_ocb.documents.schema import faults  # here, since jsonschema takes long to import

    problems = [fault.at(document.name) for fault in faults(document, schema)]
    if problems:
        raise Invalid(problems)
