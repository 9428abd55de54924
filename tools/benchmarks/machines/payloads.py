"""Steps that carry something: long scripts, much output, deep attributes, and secrets; beside pyinfra and Ansible.

Each peer gets the same by its own means. Layers are groups with data, in Ansible each inside the one before it. Secrets are
encrypted by ansible-vault; pyinfra has no store for them and holds plain text. Ours are warm: the connections are open.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import ensemble, peers
from benchmarks.figure import Figure, Plan, over
from benchmarks.machines import sides
from benchmarks.machines.layered import Layered
from benchmarks.machines.ours import SCRIPT, OurSide, farm, our_side, scripted
from benchmarks.machines.steps import Round, middle, pooled, times
from nodepool_ocb.model.records import Attrib
from nodepool_ocb.secrecy import keyring
from nodepool_ocb.testing.zookeeper.server import Server

MACHINES: Final = 20
STEPS: Final = 5
FOR_ANSIBLE: Final = 3  # machines
LAYERS: Final = 10
VALUES: Final = 10  # of a layer, 50 bytes each
SECRETS: Final = 10
SCRIPT_BYTES: Final = 10_000
OUTPUT_BYTES: Final = 1 << 20

Measured = Mapping[str, Sequence[Round]]


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of steps."""

    what: str
    script: str = SCRIPT
    layers: Sequence[Mapping[str, str]] = ()
    secrets: Mapping[str, str] = {}

    def work(self, work: sides.Work) -> sides.Work:
        """The same for a peer, which writes the names of values into its commands."""
        uses = [*(next(iter(layer)) for layer in self.layers), *self.secrets]
        plain = self.script == SCRIPT
        return msgspec.structs.replace(
            work, module="command" if plain else "shell", layers=self.layers, secrets=self.secrets, uses=uses
        )


def _layer(number: int) -> dict[str, str]:
    return {f"layer_{number}_value_{value}": "x" * 50 for value in range(VALUES)} | {"shared": f"of layer {number}"}


PAYLOADS: Final = (
    Payload(what=f"scripts of {SCRIPT_BYTES:,} bytes", script=f"# {'x' * (SCRIPT_BYTES - len(SCRIPT) - 3)}\n{SCRIPT}"),
    Payload(
        what=f"{OUTPUT_BYTES >> 20} MiB of output",
        script=f"yes 0123456789abcdef0123456789abcdef0123456789abcdef0123456789 | head -c {OUTPUT_BYTES}; {SCRIPT}",
    ),
    Payload(what=f"attributes of {LAYERS} layers", layers=[_layer(number) for number in range(LAYERS)]),
    Payload(what=f"{SECRETS} secrets", secrets={f"secret_{number}": f"password-{number:032}" for number in range(SECRETS)}),
)  # fmt: skip


def measure(plan: Plan) -> Iterator[Figure]:
    """Steps a second, the CPU of the controllers, and the time of a step."""
    count = plan.size(MACHINES, least=2)
    with ensemble.server() as server:
        for payload in PAYLOADS:
            yield from _figures(
                f"{count} machines x {STEPS} steps, {payload.what}", _measured(plan, server, payload, count)
            )


def _measured(plan: Plan, server: Server, payload: Payload, count: int) -> Measured:
    with farm(count) as machines, tempfile.TemporaryDirectory(prefix="ocb-") as directory:
        key_file = Path(directory) / "secrets.key"
        keyring.generate(key_file)
        work = payload.work(sides.work(machines, STEPS, payload.script))
        with our_side(server, machines, grid_of(payload, key_file, count), secrets={"key_file": str(key_file)}) as ours:
            return _rounds(plan, ours, work)


def grid_of(payload: Payload, key_file: Path, count: int) -> Layered:
    """The world of a payload; ``key_file`` encrypts its secrets."""
    keys = keyring.load(str(key_file))
    own = {name: keys.encrypt(f"app/{name}", value) for name, value in payload.secrets.items()}
    attribs = tuple(Attrib(name=name, map=f"app/{name}", secret=True) for name in payload.secrets)
    return Layered(
        nodes=count,
        depth=STEPS,
        across=False,
        role=scripted(payload.script, attribs=attribs),
        layers=tuple({"app": dict(layer)} for layer in payload.layers),
        own={"app": own} if own else {},
    )


def _rounds(plan: Plan, ours: OurSide, work: sides.Work) -> Measured:
    found: defaultdict[str, list[Round]] = defaultdict(list)
    with ours.annealer() as process:
        ours.round(process)  # it connects, and installs the runner
        for _ in range(plan.rounds):
            found["ours"].append(ours.round(process))
            found[sides.PYINFRA] += sides.pyinfra(work)
            found[sides.ANSIBLE] += sides.ansible(work.first(plan.size(FOR_ANSIBLE)))
    return found


def _figures(what: str, found: Measured) -> Iterator[Figure]:
    for peer in (sides.PYINFRA, sides.ANSIBLE):
        own, other = middle(found["ours"], lambda each: each.rate), middle(found[peer], lambda each: each.rate)
        yield Figure(
            name="payloads", what=what, unit="steps/s", ours=own, other=other, beside=f"steps/s, {peer}",
            ratio=over(own, other), bound="at least", note=_note(peer) if other else peers.MISSING,
        )  # fmt: skip
    own, other = middle(found["ours"], _cpu_ms), middle(found[sides.PYINFRA], _cpu_ms)
    yield Figure(
        name="payloads", what=f"{what}: CPU of the controllers, a step", unit="ms", ours=own, other=other,
        beside=f"ms, {sides.PYINFRA}'s process", ratio=over(own, other), note="" if other else peers.MISSING,
    )  # fmt: skip
    mine = pooled(found["ours"], lambda each: each.durations)
    theirs = pooled(found[sides.PYINFRA], lambda each: each.durations)
    note = "from claim to result" if theirs else peers.MISSING
    yield times("payloads", f"{what}: a step, median", mine, theirs, sides.PYINFRA, None, note)


def _cpu_ms(each: Round) -> float | None:
    return each.cpu_ms


def _note(peer: str) -> str:
    return f"{sides.ABOUT_ANSIBLE}; {FOR_ANSIBLE} machines at most" if peer == sides.ANSIBLE else "it connects anew"
