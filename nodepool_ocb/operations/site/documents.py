"""Site files, tables and inventories as values: ``DesiredState``. The caller reads the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nodepool_ocb.documents import document as documents
from nodepool_ocb.documents.document import Document
from nodepool_ocb.operations.site.fields import refuse_fields
from nodepool_ocb.site import reading
from nodepool_ocb.site.desired_state import DesiredState as DesiredState
from nodepool_ocb.site.reading import MOST as MOST


def wanted(found: Sequence[Document]) -> DesiredState:
    """The statements of site files together; raises Invalid with every fault."""
    read = reading.read(found)
    refuse_fields(read)
    return read


def nodes(text: str, name: str, domain: str | None, defaults: Mapping[str, Any]) -> DesiredState:
    """The nodes of a CSV table, or of an inventory of Ansible, which is a JSON object; raises Invalid."""
    from nodepool_ocb.site import ansible, spreadsheet

    if not text.lstrip().startswith("{"):
        read = spreadsheet.read(text, name, dict(defaults))
    else:
        read = ansible.read(documents.load_all(text, name, most=MOST)[0], domain, dict(defaults))
    refuse_fields(read)
    return read
