"""The fields of nodes in site files, tables and inventories, as the verbs for nodes take them."""

from __future__ import annotations

from collections.abc import Iterator

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.ranges import is_login, is_name, is_node
from nodepool_ocb.operations.assignments import wrong_hint
from nodepool_ocb.provisioning.addressing import macs
from nodepool_ocb.site.desired_state import DesiredState


def _wrong_names(wanted: DesiredState) -> Iterator[str]:
    """A state that came over HTTP was not checked as a document."""
    named = [(key, each.name, each.place, is_name) for key, each in wanted.roles.items()]
    named += [(key, each.name, each.place, is_name) for key, each in wanted.deployments.items()]
    named += [(key, each.name, each.place, is_name) for key, each in wanted.networks.items()]
    named += [(key, each.fqdn, each.place, is_node) for key, each in wanted.nodes.items()]
    for deployment in wanted.deployments.values():
        named += [(role, role, deployment.place, is_name) for role in deployment.roles]
    for noderole in wanted.noderoles():
        named.append((noderole.role, noderole.role, noderole.place, is_name))
    for key, name, place, valid in named:
        if key != name or not valid(name):
            yield place.fault(f"{name!r} is no name here: small letters, digits, - and ., as in the key")


def refuse_fields(wanted: DesiredState) -> None:
    """Raises Invalid for names and fields that no verb takes: a wrong login, a wrong hint, a name that no znode may have."""
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
    problems += [
        node.place.fault(f"macs: {problem}")
        for node in wanted.nodes.values()
        for mac in node.fields.get("macs", ())
        if (problem := macs.fault(mac))
    ]
    problems += _wrong_names(wanted)
    if problems:
        raise Invalid(problems)
