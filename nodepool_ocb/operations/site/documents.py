"""Site files, tables and inventories as values: ``Wanted``. The caller reads the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nodepool_ocb.documents import document as documents
from nodepool_ocb.documents.document import Document
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.ranges import is_login
from nodepool_ocb.operations.assignments import wrong_hint
from nodepool_ocb.site import reading
from nodepool_ocb.site.reading import MOST as MOST
from nodepool_ocb.site.wanted import Wanted as Wanted


def wanted(found: Sequence[Document]) -> Wanted:
    """The statements of site files together; raises Invalid with every fault."""
    read = reading.read(found)
    refuse_fields(read)
    return read


def nodes(text: str, name: str, domain: str | None, defaults: Mapping[str, Any]) -> Wanted:
    """The nodes of a CSV table, or of an inventory of Ansible, which is a JSON object; raises Invalid."""
    from nodepool_ocb.site import ansible, spreadsheet

    if not text.lstrip().startswith("{"):
        read = spreadsheet.read(text, name, dict(defaults))
    else:
        read = ansible.read(documents.load_all(text, name, most=MOST)[0], domain, dict(defaults))
    refuse_fields(read)
    return read


def refuse_fields(wanted: Wanted) -> None:
    """Raises Invalid for fields that no verb takes for a node: a wrong login, a wrong hint."""
    problems = [
        node.place.fault(f"{user!r} is no login: it is one word, and begins with no -")
        for node in wanted.nodes.values()
        if (user := node.fields.get("user")) is not None and not is_login(user)
    ]
    problems += [
        node.place.fault(problem)
        for node in wanted.nodes.values()
        for name, value in node.fields.get("hints", {}).items()
        if (problem := wrong_hint(name, value))
    ]
    if problems:
        raise Invalid(problems)
