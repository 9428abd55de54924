"""The fields of nodes in site files, tables and inventories, as the verbs for nodes take them."""

from __future__ import annotations

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.ranges import is_login
from nodepool_ocb.operations.assignments import wrong_hint
from nodepool_ocb.site.desired_state import DesiredState


def refuse_fields(wanted: DesiredState) -> None:
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
