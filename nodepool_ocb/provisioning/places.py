"""Bounded templates: a text with names in braces that stand for values of a node. No code, no nesting, no conditions.

``${name}`` is a variable of iPXE, and stays as it is. A value goes onto a kernel's command line, so it may have no space,
quotation mark or ``$``. The script of a node with such a value is not made, and the reason names the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid

ARGUMENTS_CHARACTERS: Final = 1024  # Linux reads 2048 of its command line; ours come on top
SCRIPT_CHARACTERS: Final = 8192

#: The names that stand for a value; ``labels.`` and ``hints.`` go before the name of a label or a hint.
NAMES: Final = (
    *("node", "mac", "macs", "address", "network", "deployment", "rack", "bootenv", "image", "mode"),
    *("labels.NAME", "hints.NAME"),
)
IN_SCRIPTS: Final = (*NAMES, "arguments", "server")

_PLACE: Final = re.compile(r"(?<!\$)\{([^{}]*)\}")
_FAMILY: Final = re.compile(r"(labels|hints)\.([A-Za-z0-9][A-Za-z0-9_.-]{0,62})")
_VALUE: Final = re.compile(r"[A-Za-z0-9._:/,=@+\[\]-]*")
_ARGUMENTS: Final = re.compile(r"[\x21-\x7e]*(?: [\x21-\x7e]+)*")


def faults(text: str, names: Iterable[str] = NAMES) -> Iterator[str]:
    """Why a template cannot be used: a sentence for each fault.

    >>> list(faults("a={node} b={lables.x} c={labels.x} ${net0/mac}"))
    ['{lables.x} is no value of a node; did you mean `labels.x`?']
    """
    known = list(names)
    for name in _PLACE.findall(text):
        family = _FAMILY.fullmatch(name)
        if name in known or (family and f"{family[1]}.NAME" in known):
            continue
        section, dot, rest = name.partition(".")
        near = [each.replace(".NAME", f".{rest}") if dot else each for each in known]
        meant = did_you_mean(name, near) or f"; known are {', '.join(known)}"
        yield f"{{{name}}} is no value of a node{meant}" if section else "{} has no name"
    if set(_PLACE.sub("", re.sub(r"\$\{[^{}]*\}", "", text))) & set("{}"):
        yield "a brace has no partner; write {NAME}"


def arguments_faults(text: str) -> Iterator[str]:
    """Why a text can be no template of kernel arguments."""
    if len(text) > ARGUMENTS_CHARACTERS:
        yield f"it has {len(text)} characters; at most {ARGUMENTS_CHARACTERS} may be given"
    if not _ARGUMENTS.fullmatch(text):
        yield "write printable ASCII with single spaces between the arguments"
    if "$" in text or "||" in text or "&&" in text:
        yield "$, || and && are words of iPXE, and can be in no kernel argument"
    yield from faults(text)


def script_faults(text: str) -> Iterator[str]:
    """Why a text can be no template of an iPXE script."""
    if len(text) > SCRIPT_CHARACTERS:
        yield f"it has {len(text)} characters; at most {SCRIPT_CHARACTERS} may be given"
    if not text.startswith("#!ipxe\n"):
        yield "its first line must be #!ipxe"
    yield from faults(text, IN_SCRIPTS)


def filled(text: str, values: Mapping[str, str], trusted: Mapping[str, str] = {}) -> str:
    """The template with the values of a node; ``trusted`` are texts of ours, and not checked. Raises Invalid.

    A label or a hint that the node does not have is an empty text.

    >>> filled("a={node} b=${mac}", {"node": "n1"})
    'a=n1 b=${mac}'
    """

    def one(place: re.Match[str]) -> str:
        name = place[1]
        if name in trusted:
            return trusted[name]
        value = values.get(name, "")
        if not _VALUE.fullmatch(value):
            raise Invalid(f"{name} is {value!r}; in a boot script it may have letters, digits and ._:/,=@+[]- only")
        return value

    return _PLACE.sub(one, text)
