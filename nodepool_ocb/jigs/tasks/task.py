"""The common part of the jigs of all kinds of tasks: an order's parameters become a script, which jig script runs.

So a task is fenced, attached to, adopted and ended as any script is. It gives no attributes back. If it fails, the last
line of its output that begins with ``task:`` is the reason, except after a time-out.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from nodepool_ocb.jigs.jig import Failed, Order, Outcome, Succeeded, Unknown
from nodepool_ocb.jigs.script import ScriptJig
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.facts import as_yaml
from nodepool_ocb.tasks.parameters import DEFAULTS
from nodepool_ocb.tasks.substitution import Fact, substituted
from nodepool_ocb.tasks.tasklist import TaskKind

DATA_FROM: Final = "data_from"  # in the place of ``data``: the attributes of this name, as YAML
_SAID: Final = re.compile(r"^task: (.+)$", re.MULTILINE)

Shape = TypeVar("Shape")


class TaskRefused(Exception):
    """The task cannot be done by any annealer; the text has the reason.

    ``forbidden``: the setting that does not allow a file of this host which the task names.
    """

    def __init__(self, message: str, forbidden: str | None = None) -> None:
        super().__init__(message)
        self.forbidden = forbidden


class Lacking(Exception):
    """This annealer's host cannot do the task, another's may; the text has the reason."""


class OrderedTask(msgspec.Struct, frozen=True):
    """The parameters of a task in an order."""

    parameters: Mapping[str, Json]  # of the list, and those that differ on this node
    uid: str
    noop: bool  # report the changes, and make none
    once: str  # names this task of this run of its list, the same under each claim

    def shaped(self, kind: TaskKind, shape: type[Shape]) -> Shape:
        """The parameters, with the defaults of their kind; raises TaskRefused if one is missing or has a wrong type."""
        try:
            return msgspec.convert({**DEFAULTS[kind], **self.parameters}, shape, strict=False)
        except msgspec.ValidationError as wrong:
            raise TaskRefused(f"its parameters are wrong: {wrong}; correct them in the task list") from wrong


class TaskJig(ScriptJig):
    """Jig script, with the script that ``text`` makes of the task."""

    def text(self, task: OrderedTask) -> str:
        """The script for the machine. The same order must give the same text. Raises TaskRefused or Lacking."""
        raise NotImplementedError

    def prepared(self, order: Order) -> Order | Failed | Unknown:
        try:
            text = self.text(task(order))
        except TaskRefused as refused:
            return Failed(str(refused), forbidden=refused.forbidden)
        except Lacking as lacking:
            return Unknown(str(lacking), begun=False)
        return replace(order, definition=replace(order.definition, script=text))

    def run(self, order: Order, stop: threading.Event) -> Outcome:
        return concluded(order, super().run(order, stop))


def concluded(order: Order, outcome: Outcome) -> Outcome:
    """The outcome of a task, from the outcome of its script."""
    if isinstance(outcome, Succeeded):
        return replace(outcome, attributes=order.attributes, written={})
    if isinstance(outcome, Failed):
        said = _SAID.findall(outcome.tail) if outcome.exit_code else []
        timed_out = outcome.reason.startswith("timed out")
        return replace(outcome, attributes=None, reason=said[-1] if said and not timed_out else outcome.reason)
    return outcome


def task(order: Order) -> OrderedTask:
    """The task that an order asks for.

    Without the attributes of a run of tasks: the role's own parameters, no noop, and the noderole's generation for the run's id.
    """
    differing, facts, run = (_map(order.attributes, name) for name in ("task", "astute", "tasks"))
    parameters = {**order.definition.parameters, **_map(differing, "parameters")}
    own: dict[str, Fact] = {"uid": order.node, "fqdn": order.node, "CN_HOSTNAME": order.node}
    own |= {name: facts[name] for name in own if isinstance(facts.get(name), str | int)}
    whole = {name: substituted(value, own) for name, value in parameters.items()}
    if isinstance(source := whole.pop(DATA_FROM, None), str):
        whole["data"] = as_yaml(_map(order.attributes, source))
    once = f"{order.role} {run['run']}" if "run" in run else f"{order.role} @{order.generation}"
    return OrderedTask(whole, str(own["uid"]), run.get("noop") is True, once)


def _map(holder: Mapping[str, Json], name: str) -> dict[str, Any]:
    held = holder.get(name)
    return held if isinstance(held, dict) else {}


def program(file: str, **values: str) -> str:
    """A script that sets these variables and continues with this file of the package."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items()) + _text(file)


@cache
def _text(file: str) -> str:
    return files("nodepool_ocb.jigs.tasks").joinpath(file).read_text()
