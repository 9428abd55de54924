"""Drivers test and fake: machines that are files in a directory, for tests of launchers.

The directory is the provider: it survives the launcher's process, and several launchers see the same machines. A machine is
one file, which appears and disappears as a whole. ``calls.jsonl`` has a line for each call that was begun. Faults come from the
option ``faults``, or from ``faults.json`` in the directory, which is read anew for each call. Without the option ``directory``
the machines last as long as the process. Driver fake takes the keys of driver openstack, and ignores them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.config import SshSettings
from nodepool_ocb.documents import files
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, Resources
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers.fake.settings import ANY, KEY, ONLY, FakeFault, FakeSettings
from nodepool_ocb.providers.launchoptions import option_faults, volume_resources
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineRefused, MachineStamp

CALLS_FILE: Final = "calls.jsonl"
FILE_BYTES: Final = 1 << 20

_folders: dict[str, tempfile.TemporaryDirectory[str]] = {}  # of providers without a directory


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a machine."""

    machine: Machine
    properties: Mapping[str, str] = {}
    image: str | None = None
    public_keys: tuple[str, ...] = ()
    began: float = 0.0  # by the kernel's clock: launchers with wrong clocks see one boot

    def building(self, boot_seconds: float) -> bool:
        """Whether the machine still boots. It ran before if the host itself booted since."""
        return self.machine.state == "running" and 0.0 <= time.monotonic() - self.began < boot_seconds


class FakeCloud:
    """A provider of either driver."""

    def __init__(self, provider: LaunchProvider, ssh: SshSettings) -> None:
        del ssh
        self._provider = provider
        self._settings = msgspec.convert(provider.options.get(KEY) or {}, FakeSettings)
        folder = self._settings.directory or _lasting(provider.name)
        self._folder = Path(folder)
        self._machines = self._folder / "machines"

    @staticmethod
    def faults(provider: LaunchProvider) -> list[str]:
        return list(option_faults(provider, ANY, ANY, ANY))

    @staticmethod
    def resources(provider: LaunchProvider, label: PoolLabel) -> Resources:
        """Those of Nodepool's fake flavor and of the volume, if the label names none."""
        del provider
        return {"instances": 1.0, "cores": 4.0, "ram": 8192.0} | volume_resources(label) | dict(label.resources)

    def create(self, order: MachineOrder) -> Machine | MachineRefused:
        fault = self._begin("create", f"{order.name} {order.stamp.key}", order)
        if isinstance(fault, MachineRefused):
            return fault
        settings = self._settings
        if settings.azs and order.az and order.az not in settings.azs:
            return MachineRefused(f"there is no zone {order.az}", LaunchParty.REQUEST)
        made = Machine(
            external_id=f"fake-{secrets.token_hex(8)}",
            name=order.name,
            stamp=order.stamp,
            state="failed" if fault is not None and fault.do == "error" else "running",
            fault=fault.reason if fault is not None and fault.do == "error" else None,
            address=settings.address,
            port=settings.port,
            public_ipv4=settings.address,
            private_ipv4=settings.address,
            az=order.az or next(iter(settings.azs), None),
            region=self._provider.region,
            cloud=self._provider.cloud,
            host_id="fake",
            host_keys=settings.host_keys,
            resources=_flavored(self.resources(self._provider, order.label)),
            since=time.time(),
        )
        with self._locked():
            full = self._full(made)
            if full is not None:
                return full
            kept = _Kept(
                machine=made,
                properties=order.properties,
                image=order.image,
                public_keys=order.public_keys,
                began=time.monotonic(),
            )
            self._write(kept)
        return self._end(fault, self._now(kept))  # type: ignore[no-any-return]

    def find(self, stamp: MachineStamp) -> Machine | MachineRefused | None:
        fault = self._begin("find", stamp.key)
        if isinstance(fault, MachineRefused):
            return fault
        found = next((self._now(each) for each in self._all() if each.machine.stamp == stamp), None)
        return self._end(fault, found)  # type: ignore[no-any-return]

    def look(self, external_id: str) -> Machine | MachineRefused | None:
        fault = self._begin("look", external_id)
        if isinstance(fault, MachineRefused):
            return fault
        kept = self._read(self._machines / f"{external_id}.json") if _plain(external_id) else None
        return self._end(fault, None if kept is None else self._now(kept))  # type: ignore[no-any-return]

    def delete(self, external_id: str, stamp: MachineStamp) -> MachineRefused | None:
        fault = self._begin("delete", external_id)
        if isinstance(fault, MachineRefused):
            return fault
        file = self._machines / f"{external_id}.json"
        with self._locked():
            kept = self._read(file) if _plain(external_id) else None
            if kept is not None and kept.machine.stamp != stamp:
                return MachineRefused(f"machine {external_id} carries another stamp")
            if kept is not None:
                file.unlink()
        return self._end(fault, None)  # type: ignore[no-any-return]

    def list(self) -> tuple[Machine, ...]:
        fault = self._begin("list", "")
        answer = fault if isinstance(fault, MachineRefused) else self._end(fault, tuple(map(self._now, self._all())))
        if isinstance(answer, MachineRefused):
            raise Unavailable(answer.reason)
        return answer  # type: ignore[no-any-return]

    def quota(self) -> ProviderQuota | MachineRefused:
        fault = self._begin("quota", "")
        if isinstance(fault, MachineRefused):
            return fault
        reported = self._settings.reported_quota
        limits = self._settings.quota if reported is None else reported
        return self._end(fault, ProviderQuota(limits=limits, foreign=self._settings.foreign, read=time.time()))  # type: ignore[no-any-return]

    def close(self) -> None: ...

    # -- faults --

    def _begin(self, call: str, detail: str, order: MachineOrder | None = None) -> FakeFault | MachineRefused | None:
        """Count the call and do the faults before its work; the fault that is left to be done with it or after it."""
        with self._locked():
            log = self._folder / CALLS_FILE
            number = 1 + self._counted(call)
            line = {"call": call, "number": number, "detail": detail, "pid": os.getpid(), "time": time.time()}
            with log.open("ab") as file:
                file.write(msgspec.json.encode(line) + b"\n")
            faults = self._faults()
        fault = next((each for each in faults if each.call == call and (not each.at or number in each.at)), None)
        if fault is None or fault.when == "after" or fault.do in ("error", "nonsense"):
            return fault
        return self._done(fault, order)

    def _end(self, fault: FakeFault | None, answer: Any) -> Any:
        if fault is None or fault.do == "error":
            return answer
        if fault.do == "nonsense":
            return replace(answer, name="\x1b[2J", port=-1) if isinstance(answer, Machine) else 7
        return self._done(fault, None) or answer

    def _done(self, fault: FakeFault, order: MachineOrder | None) -> MachineRefused | None:
        match fault.do:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "raise":
                raise RuntimeError(fault.reason)
            case "hang":
                _hang(fault.seconds, order)
                return None
        return MachineRefused(fault.reason, fault.party)

    def _faults(self) -> tuple[FakeFault, ...]:
        try:
            data = files.read(self._folder / "faults.json", FILE_BYTES)
        except FileNotFoundError:
            return self._settings.faults
        return msgspec.json.decode(data, type=tuple[FakeFault, ...])

    def _counted(self, call: str) -> int:
        """The calls of this kind so far, of all processes; counted anew from a file with one number for each kind."""
        file = self._folder / "counts.json"
        try:
            counts = msgspec.json.decode(files.read(file, FILE_BYTES), type=dict[str, int])
        except FileNotFoundError:
            counts = {}
        before = counts.get(call, 0)
        _put(file, msgspec.json.encode(counts | {call: before + 1}))
        return before

    # -- machines --

    def _full(self, wanted: Machine) -> MachineRefused | None:
        """The refusal where the quota has no room; the lock is held."""
        used = [wanted.resources, self._settings.foreign, *(each.machine.resources for each in self._all())]
        for resource, limit in self._settings.quota.items():
            if sum(each.get(resource, 0.0) for each in used) > limit:
                return MachineRefused(f"Quota exceeded for {resource}: {limit:g}", LaunchParty.QUOTA)
        return None

    def _now(self, kept: _Kept) -> Machine:
        """The machine at this time: it has an address when it runs."""
        machine = kept.machine
        if kept.building(self._settings.boot_seconds):
            return Machine(
                external_id=machine.external_id,
                name=machine.name,
                stamp=machine.stamp,
                state="building",
                az=machine.az,
                resources=machine.resources,
                since=machine.since,
            )
        return machine

    def _all(self) -> tuple[_Kept, ...]:
        kept = [self._read(file) for file in sorted(self._machines.glob("*.json"))]
        return tuple(each for each in kept if each is not None)

    def _read(self, file: Path) -> _Kept | None:
        try:
            return msgspec.json.decode(files.read(file, FILE_BYTES), type=_Kept)
        except FileNotFoundError:
            return None

    def _write(self, kept: _Kept) -> None:
        self._machines.mkdir(parents=True, exist_ok=True)
        _put(self._machines / f"{kept.machine.external_id}.json", msgspec.json.encode(kept))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among the threads and processes that use this directory: each opens the file for itself."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class TestCloud(FakeCloud):
    """Driver test: the same. Each node is one instance."""

    __test__ = False  # for pytest

    @staticmethod
    def faults(provider: LaunchProvider) -> list[str]:
        return list(option_faults(provider, ONLY))

    @staticmethod
    def resources(provider: LaunchProvider, label: PoolLabel) -> Resources:
        del provider
        return {"instances": 1.0} | dict(label.resources)


def _flavored(resources: Resources) -> Resources:
    """The resources that a cloud tells of a machine: its flavor, and nothing of its volumes."""
    return {name: amount for name, amount in resources.items() if not name.startswith("volume")}


def _hang(seconds: float, order: MachineOrder | None) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not (order is not None and order.stop.is_set()):
        time.sleep(0.05)


def _lasting(name: str) -> str:
    """A directory that lasts as long as the process: a provider that is opened again has its machines."""
    if name not in _folders:
        _folders[name] = tempfile.TemporaryDirectory(prefix="ocb-fake-")
    return _folders[name].name


def _plain(name: str) -> bool:
    return "/" not in name and "\0" not in name and not name.startswith(".")


def _put(file: Path, data: bytes) -> None:
    """Write a file that is seen whole or not at all."""
    part = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    part.write_bytes(data)
    part.replace(file)
