"""Rules of adoption: the machines that they fit, and the nodes that they make. Pure; a rule has no code.

``when`` is a selector with criteria of facts alone. ``name`` is a template over the facts; ``{n}`` is the lowest free number.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Mapping
from typing import Final, NamedTuple

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine.selection import Expression, facts, parse
from nodepool_ocb.engine.selection.expression import All, Criterion, CriterionKind, Either, Has, Not
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.joining import AdoptionRule, MachineFacts, MachineRegistration

MOST_NUMBERS: Final = 100_000  # that a template tries
_PLACE: Final = re.compile(r"\{([a-z_]*)(?::0([1-9]))?\}")
#: The places of a template beside {n}.
PLACES: Final = ("serial", "mac", "uuid", "vendor", "product", "arch", "rack", "switch", "port")
_ANY: Final = "*"


class ChosenRule(NamedTuple):
    """The rule that fits a machine; None with the reason of each rule that does not."""

    name: str | None
    rule: AdoptionRule | None
    reason: str


def checked(rule: AdoptionRule) -> AdoptionRule:
    """The rule. Raises Invalid with each fault of its template and its selector."""
    faults = [*_template_faults(rule.name), *_selector_faults(rule.when)]
    doubled = sorted({*rule.roles} & {*rule.commission})
    if doubled:
        faults.append(f"commission: {', '.join(doubled)} would wait for itself; leave it out of roles")
    if faults:
        raise Invalid(faults)
    return rule


def chosen(rules: Mapping[str, AdoptionRule], machine: MachineRegistration) -> ChosenRule:
    """The first rule by order and name that fits."""
    misses: list[str] = []
    for name, rule in sorted(rules.items(), key=lambda each: (each[1].order, each[0])):
        if machine.deployments and rule.deployment not in machine.deployments:
            misses.append(f"{name}: the join token is limited to {', '.join(machine.deployments)}")
        elif (miss := missed(parse(rule.when), machine.facts)) is not None:
            misses.append(f"{name}: {miss}")
        else:
            return ChosenRule(name, rule, f"rule {name}")
    return ChosenRule(None, None, "; ".join(["no rule fits", *misses]) if misses else "there is no rule of adoption")


def missed(expression: Expression, machine: MachineFacts) -> str | None:
    """None if the expression holds for a machine, else the criterion that does not."""
    match expression:
        case Criterion(CriterionKind.NAME):
            return None  # "*", which is for each machine
        case Criterion():
            return None if facts.holds(expression, machine) else f"not {_text(expression)}"
        case Not(inner):
            return None if missed(inner, machine) is not None else "a part after `not` holds"
        case All(parts):
            return next(filter(None, (missed(each, machine) for each in parts)), None)
        case Either(parts):
            found = [missed(each, machine) for each in parts]
            return None if None in found else " and ".join(filter(None, found))
        case Has():
            return "has() is no criterion of facts"


def node_name(rule: AdoptionRule, machine: MachineRegistration, taken: Container[str]) -> str:
    """The name of the node. Raises Conflict if a fact of the template is not known, or if no number is free."""
    text = _filled(rule, machine)
    place = _number(text)
    if place is None:
        return text
    for number in itertools.islice(itertools.count(1), MOST_NUMBERS):
        name = f"{text[: place.start()]}{number:0{place[2] or 1}d}{text[place.end() :]}"
        if name not in taken:
            return name
    raise Conflict(f"no number of {rule.name} is free; write another name")


def rack_of(rule: AdoptionRule, machine: MachineFacts) -> str | None:
    """The rack by the first network card with a known switch."""
    for nic in machine.nics:
        for key in (f"{nic.lldp_switch}/{nic.lldp_port}", nic.lldp_switch):
            if nic.lldp_switch and key in rule.racks:
                return rule.racks[key]
    return None


def _filled(rule: AdoptionRule, machine: MachineRegistration) -> str:
    """The template with all facts; {n} stays."""
    known = machine.facts
    linked = next((nic for nic in known.nics if nic.lldp_switch), None)
    values = {
        **{name: getattr(known, name) for name in ("serial", "uuid", "vendor", "product", "arch")},
        "mac": machine.macs[0].replace(":", ""),
        "rack": rack_of(rule, known) or "",
        "switch": linked.lldp_switch if linked else "",
        "port": linked.lldp_port if linked else "",
    }

    def one(place: re.Match[str]) -> str:
        if place[1] == "n":
            return place[0]
        text = re.sub("[^a-z0-9]+", "-", values[place[1]].lower()).strip("-")
        if not text:
            raise Conflict(f"the machine has no {place[1]}, and the name {rule.name} needs it")
        return text

    return _PLACE.sub(one, rule.name)


def _number(text: str) -> re.Match[str] | None:
    return next((place for place in _PLACE.finditer(text) if place[1] == "n"), None)


def _template_faults(text: str) -> list[str]:
    found = [
        f"name: there is no {{{place[1]}}}{did_you_mean(place[1], PLACES) or '; there is: n, ' + ', '.join(PLACES)}"
        for place in _PLACE.finditer(text)
        if place[1] not in (*PLACES, "n")
    ]
    if sum(place[1] == "n" for place in _PLACE.finditer(text)) > 1:
        found.append("name: {n} stands there more than one time; a node has one number")
    if not re.fullmatch(r"[a-z0-9.-]*", _PLACE.sub("x", text)):
        found.append(f"name: {text!r} is no template of a name; write one such as web-{{n:03}}.example.com")
    return found


def _selector_faults(text: str) -> list[str]:
    try:
        expression = parse(text)
    except Invalid as fault:
        return [f"when: {fault}"]
    return [f"when: {fault}" for fault in _foreign(expression)]


def _foreign(expression: Expression) -> list[str]:
    """The parts that are no criteria of facts."""
    match expression:
        case Criterion(CriterionKind.NAME, values) if [word.text for word in values] == [_ANY]:
            return []
        case Criterion(kind, values):
            if facts.of_facts(kind):
                return []
            known = ", ".join([*facts.NUMBERS, *facts.WORDS])
            words = ",".join(str(word) for word in values)
            return [f"a machine that waits has no {kind} ({words}); it has: {known}"]
        case Not(inner):
            return _foreign(inner)
        case All(parts) | Either(parts):
            return [fault for each in parts for fault in _foreign(each)]
        case Has():
            return ["has() is about noderoles, and a machine that waits has none"]


def _text(criterion: Criterion) -> str:
    if criterion.kind in facts.NUMBERS:
        [word] = criterion.values
        return f"{criterion.kind}{word.text}{word.second}"
    return f"{criterion.kind}:{','.join(map(str, criterion.values))}"
