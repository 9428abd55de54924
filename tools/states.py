"""Names code that writes the state of a record outside the tables of states.

Run by ``tools/check``. A record with a state is made and changed by the functions in TABLES alone. Elsewhere these are faults:

- a call of the class of such a record, or of its ``of``, even without ``state``: the class may have a default;
- the keyword ``state`` in a call of anything but a class; rows and documents are classes, and may show a state;
- a mapping with the key ``state``, an assignment to ``x["state"]`` or to ``x.state`` (``self.state`` is an object's own: records
  are frozen), ``setattr`` with that name or a computed one;
- ``replace``, or ``amended`` of a noderole, with ``**`` of a mapping with computed keys.

For a run (engine/run) the field is ``phase``, and only ``replace`` and the class RunState of engine/run count: other records have
a number of that name. A record that is decoded, from ZooKeeper or from a document, comes whole; this check does not see that.
EXEMPT lists such places that write no state of a record, with the reason. An entry without such a place is a fault, too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

PRODUCT: Final = ("nodepool_ocb", "annealer", "builder", "launcher")
FIELD: Final = "state"
PHASE: Final = "phase"

#: The records with a state, by the module that defines them.
RECORDS: Final[Mapping[str, frozenset[str]]] = {
    "nodepool_ocb.model.records": frozenset({"NodeRole", "Deployment"}),
    "nodepool_ocb.model.images": frozenset({"Build", "Upload"}),
    "nodepool_ocb.model.pool": frozenset({"NodeRequest", "PoolNode"}),
    "nodepool_ocb.tasks.runs.records": frozenset({"TaskRun"}),
    "nodepool_ocb.rollout.records": frozenset({"RolloutRecord", "GroupRecord", "Progress"}),
}
RUN: Final = "nodepool_ocb.engine.run"

#: The functions that apply a table, by file.
TABLES: Final[Mapping[str, frozenset[str]]] = {
    "nodepool_ocb/engine/noderole.py": frozenset({"bound", "after", "settled"}),
    "nodepool_ocb/engine/run/machine.py": frozenset({"step"}),
    "nodepool_ocb/engine/deployments.py": frozenset({"new_deployment", "deployment_after"}),
    "nodepool_ocb/images/states.py": frozenset({"new_build", "build_after", "new_upload", "upload_after"}),
    "nodepool_ocb/tasks/runs/states.py": frozenset({"new_task_run", "task_run_after"}),
    "nodepool_ocb/pool/states.py": frozenset({"new_request", "request_after", "new_pool_node", "pool_node_after"}),
    "nodepool_ocb/rollout/states/rollouts.py": frozenset({"new_rollout", "rollout_after"}),
    "nodepool_ocb/rollout/states/groups.py": frozenset({"new_group", "group_after"}),
    "nodepool_ocb/rollout/states/members.py": frozenset({"new_member", "member_after"}),
}

BENCHMARKS: Final = "a world for benchmarks is written as it is after the work, without the work"

#: File and function (with its class) → why that writes no state of a record, or may.
EXEMPT: Final[Mapping[tuple[str, str], str]] = {
    (
        "nodepool_ocb/views/foreign/nodepool11.py",
        "",
    ): "the headers of tables",
    (
        "nodepool_ocb/api/oidc/people.py",
        "OidcPeople.address",
    ): "a part of the address of a sign-in",
    (
        "nodepool_ocb/store/nodepool11.py",
        "_respell",
    ): "the state of a record in the words of Nodepool, or back",
    (
        "nodepool_ocb/store/pool/salvage.py",
        "salvaged",
    ): "a node in a view, for a record that cannot be read; it is never written",
    (
        "nodepool_ocb/store/pool/salvage.py",
        "_sound",
    ): "a record to judge one value of another; it is never written",
    (
        "annealer/nodepool_ocb_annealer/hooks/calls.py",
        "_check",
    ): "the fields of a node that a hook sets; a node has no state",
    (
        "annealer/nodepool_ocb_annealer/runs/executor.py",
        "Executor._hand_over",
    ): "the whole RunState, with its phase unchanged",
    (
        "annealer/nodepool_ocb_annealer/runs/executor.py",
        "Executor._step",
    ): "the whole RunState, as step() of engine/run gives it",
    (
        "nodepool_ocb/daemon/turns.py",
        "Turns._drain",
    ): "a daemon's own record says running or draining; it is no table",
    ("nodepool_ocb/engine/liveness.py", "changed"): "the fields of a node that a person changes; a node has no state",
    ("nodepool_ocb/jigs/jig.py", "bounded"): "texts of an outcome; an outcome is no record",
    ("nodepool_ocb/jigs/tasks/upload.py", "_file"): "parameters of a task",
    ("nodepool_ocb/operations/limits/showing.py", "_nodes"): "a row of a table",
    ("nodepool_ocb/site/exporting.py", "_deployment"): "the wanted state in a site file",
    ("nodepool_ocb/site/exporting.py", "_noderole"): "the wanted state in a site file",
    ("nodepool_ocb/testing/grid.py", "Grid._frame"): BENCHMARKS,
    ("nodepool_ocb/testing/grid.py", "Grid.record"): BENCHMARKS,
    ("nodepool_ocb/testing/grid.py", "Grid._rewind"): BENCHMARKS,
    ("nodepool_ocb/testing/grid.py", "Grid.start"): BENCHMARKS,
    ("nodepool_ocb/views/images.py", "wait_words"): "a row of a table",
}

REPLACES: Final = frozenset({"replace", "_replace", "__replace__", "amended"})
MAKES: Final = "of"  # NodeRole.of
KEYS: Final = frozenset({"setdefault", "__setitem__"})
SETS: Final = frozenset({"setattr", "force_setattr", "__setattr__"})


class Fault(NamedTuple):
    """A place that writes a state."""

    line: int
    function: str  # with its class; "" at the top of the module
    form: str


class Finder(ast.NodeVisitor):
    """The faults of one module."""

    def __init__(self, applying: frozenset[str] = frozenset()) -> None:
        self.found: list[Fault] = []
        self._applying = applying
        self._inside: list[str] = []
        self._computed: list[set[str]] = [set()]  # in each function: names of mappings with computed keys
        self._records: set[str] = set()  # names of classes of records in this module
        self._runs: set[str] = set()  # the same of runs
        self._modules: dict[str, str] = {}  # name → module

    def _fault(self, node: ast.AST, form: str) -> None:
        if not (self._inside and self._inside[0] in self._applying):
            self.found.append(Fault(getattr(node, "lineno", 0), ".".join(self._inside), form))

    # -- names --

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for each in node.names:
            name, whole = each.asname or each.name, f"{node.module}.{each.name}"
            if each.name in RECORDS.get(node.module or "", ()):
                self._records.add(name)
            elif (node.module or "").startswith(RUN) and each.name == "RunState":
                self._runs.add(name)
            if whole in RECORDS or whole.startswith(RUN):
                self._modules[name] = whole

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            self._modules[each.asname or each.name] = each.name

    def _is_record(self, called: ast.expr) -> bool:
        if isinstance(called, ast.Attribute) and called.attr == MAKES:
            return self._is_record(called.value)
        if isinstance(called, ast.Attribute):
            return called.attr in RECORDS.get(self._modules.get(ast.unparse(called.value), ""), ())
        return isinstance(called, ast.Name) and called.id in self._records

    def _is_run(self, called: ast.expr) -> bool:
        if isinstance(called, ast.Attribute):
            return called.attr == "RunState" and self._modules.get(ast.unparse(called.value), "").startswith(RUN)
        return isinstance(called, ast.Name) and called.id in self._runs

    # -- places --

    def _enter(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._inside.append(node.name)
        self._computed.append({name for each in ast.walk(node) for name in _computed(each)})
        self.generic_visit(node)
        self._computed.pop()
        self._inside.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _enter

    # -- forms --

    def visit_Call(self, node: ast.Call) -> None:
        name = _last(node.func)
        replaces = name in REPLACES or any(_last(each) in REPLACES for each in node.args)  # partial(replace, ...)
        if self._is_record(node.func) or (name == "partial" and any(map(self._is_record, node.args[:1]))):
            self._fault(node, f"{name}(...)")
        for each in node.keywords:
            if each.arg == FIELD and (replaces or not name[:1].lstrip("_").isupper()):
                self._fault(node, f"{name}({FIELD}=...)")
            if each.arg == PHASE and (replaces or self._is_run(node.func)):
                self._fault(node, f"{name}({PHASE}=...)")
            if each.arg is None and (replaces or self._is_run(node.func)) and self._is_computed(each.value):
                self._fault(node, f"{name}(**...)")
        if name in KEYS and any(isinstance(each, ast.Constant) and each.value == FIELD for each in node.args[:1]):
            self._fault(node, f'{name}("{FIELD}", ...)')
        if name in SETS and not any(isinstance(each, ast.Constant) and each.value != FIELD for each in node.args[:2]):
            self._fault(node, f"{name}(...)")
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        if any(isinstance(key, ast.Constant) and key.value == FIELD for key in node.keys):
            self._fault(node, f'{{"{FIELD}": ...}}')
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if node.attr == FIELD and not own and isinstance(node.ctx, ast.Store | ast.Del):
            self._fault(node, f".{FIELD} = ...")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        key = node.slice
        if isinstance(node.ctx, ast.Store) and isinstance(key, ast.Constant) and key.value == FIELD:
            self._fault(node, f'["{FIELD}"] = ...')
        self.generic_visit(node)

    def _is_computed(self, value: ast.expr) -> bool:
        """Whether a mapping may have keys that do not stand in the code."""
        names = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
        return bool(names & self._computed[-1]) or any(map(_has_computed_keys, ast.walk(value)))


def _last(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _has_computed_keys(node: ast.AST) -> bool:
    if isinstance(node, ast.DictComp):
        return not isinstance(node.key, ast.Constant)
    if isinstance(node, ast.Dict):
        return any(key is not None and not isinstance(key, ast.Constant) for key in node.keys)
    return isinstance(node, ast.Call) and _last(node.func) in ("dict", "zip", "fromkeys") and bool(node.args)


def _computed(node: ast.AST) -> Iterator[str]:
    """The names to which a statement gives a mapping with computed keys, or one such key."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    value = getattr(node, "value", None) if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) else None
    for target in targets:
        if isinstance(target, ast.Name) and value is not None and any(map(_has_computed_keys, ast.walk(value))):
            yield target.id
        elif isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Constant):
            yield from [target.value.id] if isinstance(target.value, ast.Name) else []


def found(text: str, applying: frozenset[str] = frozenset()) -> list[Fault]:
    """The faults of a module with this text; ``applying``: its functions that apply a table."""
    finder = Finder(applying)
    finder.visit(ast.parse(text))
    return finder.found


def faults(
    root: Path,
    tables: Mapping[str, frozenset[str]] = TABLES,
    exempt: Mapping[tuple[str, str], str] = EXEMPT,
) -> Iterator[str]:
    """The faults below ``root``, one sentence each."""
    met = set[tuple[str, str]]()
    for folder in PRODUCT:
        for file in sorted((root / folder).rglob("*.py")):
            name = str(file.relative_to(root))
            for fault in found(file.read_text(), tables.get(name, frozenset())):
                if (name, fault.function) in exempt:
                    met.add((name, fault.function))
                else:
                    place = f" in {fault.function}" if fault.function else ""
                    yield f"{name}:{fault.line}: {fault.form}{place} writes a state; apply an event (tools/states.py)"
    for name, function in sorted(exempt.keys() - met):
        yield f"tools/states.py: {name} {function} is exempt, and writes no state any more"


def main() -> int:
    """Print each fault; gives the exit status."""
    faulty = list(faults(Path(__file__).parent.parent))
    for fault in faulty:
        print(fault)
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
