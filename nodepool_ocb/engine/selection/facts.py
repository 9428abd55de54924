"""The facts of machines in selectors: comparisons of numbers with units, and words. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Final

from nodepool_ocb.engine.selection.expression import Criterion, CriterionKind
from nodepool_ocb.model.joining import MachineFacts


def _known(*numbers: int) -> tuple[int, ...]:
    """Without 0, which a machine gives where it knows no number."""
    return tuple(filter(None, numbers))


#: The numbers of a machine that are known; a comparison holds if it holds for one of them.
NUMBERS: Final[Mapping[CriterionKind, Callable[[MachineFacts], tuple[int, ...]]]] = {
    CriterionKind.MEMORY: lambda facts: _known(facts.memory),
    CriterionKind.CPUS: lambda facts: _known(facts.cpus),
    CriterionKind.DISKS: lambda facts: (len(facts.disks),),
    CriterionKind.DISK_SIZE: lambda facts: _known(*(disk.size for disk in facts.disks)),
    CriterionKind.NICS: lambda facts: (len(facts.nics),),
    CriterionKind.NIC_SPEED: lambda facts: _known(*(nic.speed for nic in facts.nics)),
}
#: The words of a machine; a criterion holds if it means one of them.
WORDS: Final[Mapping[CriterionKind, Callable[[MachineFacts], tuple[str, ...]]]] = {
    CriterionKind.SERIAL: lambda facts: (facts.serial,),
    CriterionKind.VENDOR: lambda facts: (facts.vendor,),
    CriterionKind.PRODUCT: lambda facts: (facts.product,),
    CriterionKind.ARCH: lambda facts: (facts.arch,),
    CriterionKind.FIRMWARE: lambda facts: (facts.firmware,),
    CriterionKind.MAC: lambda facts: tuple(nic.mac for nic in facts.nics),
    CriterionKind.LLDP_SWITCH: lambda facts: tuple(nic.lldp_switch for nic in facts.nics),
    CriterionKind.LLDP_PORT: lambda facts: tuple(nic.lldp_port for nic in facts.nics),
}
COMPARES: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
#: Bytes have units of 1024, bits per second of 1000; the numbers of things have none.
_BASES: Final = {CriterionKind.MEMORY: 1024, CriterionKind.DISK_SIZE: 1024, CriterionKind.NIC_SPEED: 1000}
_UNITS: Final = "kmgtp"
_QUANTITY: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)([kmgtp]?)")


def quantity(kind: CriterionKind, text: str) -> float:
    """The number that a text means, in bytes, bits per second or things. Raises ValueError with a sentence.

    >>> quantity(CriterionKind.MEMORY, "64G") == 64 * 1024**3, quantity(CriterionKind.NIC_SPEED, "2.5G")
    (True, 2500000000.0)
    """
    base = _BASES.get(kind)
    found = _QUANTITY.fullmatch(text.lower())
    if found is None or (base is None and found[2]):
        units = f" with K, M, G, T or P behind it, such as {kind}>=64G" if base else f", such as {kind}>=2"
        raise ValueError(f"{text!r} is no number{units}")
    return float(found[1]) * (float(base or 1) ** (_UNITS.index(found[2]) + 1) if found[2] else 1.0)


def of_facts(kind: CriterionKind) -> bool:
    """Whether only the facts of a machine can have it."""
    return kind in NUMBERS or kind in WORDS


def words(kind: CriterionKind, facts: MachineFacts) -> tuple[str, ...]:
    """Without empty ones, which are not known."""
    return tuple(word for word in WORDS[kind](facts) if word)


def compared(criterion: Criterion, facts: MachineFacts) -> bool:
    """Whether a comparison of numbers holds."""
    [word] = criterion.values
    assert word.second is not None, "the parser gives an operator and a number"
    wanted = quantity(criterion.kind, word.second.text)
    return any(COMPARES[word.text](each, wanted) for each in NUMBERS[criterion.kind](facts))


def holds(criterion: Criterion, facts: MachineFacts) -> bool:
    """Whether a criterion of facts holds for a machine."""
    if criterion.kind in NUMBERS:
        return compared(criterion, facts)
    known = words(criterion.kind, facts)
    return any(word.among(known) for word in criterion.values)
