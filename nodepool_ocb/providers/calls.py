"""The calls to one provider of machines. A launcher reaches each driver through here.

Each call runs in a thread of its own and has a deadline, so a provider that hangs delays no other. Calls begin at the rate of the
provider. An exception of a driver is a MachineRefused; so is an answer that is none. After failures in a row the circuit of the
provider is open: calls are refused without asking, for a time that doubles. A fault of this host never counts for the circuit.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from nodepool_ocb import extensions
from nodepool_ocb.errors import OcbError, Unavailable
from nodepool_ocb.pool.configuration import LaunchProvider
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers import answers
from nodepool_ocb.providers.machines import (
    LaunchParty,
    Machine,
    MachineOrder,
    MachineProvider,
    MachineRefused,
    MachineStamp,
)
from nodepool_ocb.providers.ownfaults import of_this_host
from nodepool_ocb.providers.transfer import Pace
from nodepool_ocb.telemetry.redaction import Mask
from nodepool_ocb.threads import SpareThreads

T = TypeVar("T")

ANSWER_SECONDS: Final = 60.0  # that a provider may take to answer, but for a creation
CREATE_SECONDS: Final = 300.0  # that it may take an order: the machine may still be building then
GRACE_SECONDS: Final = 2.0  # beyond the time that a driver was told
STOP_SECONDS: Final = 0.2  # between two looks at whether to give up
ABANDONED: Final = 50  # calls of one provider that may hang
FAILURES: Final = 3  # in a row, which open the circuit
FIRST_SECONDS: Final = 1.0  # that the circuit is open
LONGEST_SECONDS: Final = 60.0
LISTED: Final = 100_000  # machines of one answer


class Circuit:
    """Whether a provider is asked at present. After its time is over, one call is let through; its result decides."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0  # monotonic; the circuit is open before it
        self._trying = False
        self._reason = ""

    @property
    def fault(self) -> str | None:
        """Why nothing is asked of the provider now; None if it is."""
        with self._lock:
            return self._sentence() if self._failures >= FAILURES else None

    def refusal(self) -> MachineRefused | None:
        """None if the caller may ask; it then calls ``passed`` or ``failed``, or ``undecided``."""
        with self._lock:
            if self._failures < FAILURES:
                return None
            if self._trying or time.monotonic() < self._until:
                return MachineRefused(self._sentence(), LaunchParty.PROVIDER)
            self._trying = True
            return None

    def passed(self) -> None:
        """The provider answered."""
        with self._lock:
            self._failures, self._trying = 0, False

    def failed(self, reason: str) -> None:
        """The provider did not answer, or failed."""
        with self._lock:
            self._failures += 1
            self._trying = False
            self._reason = reason
            if self._failures >= FAILURES:
                open_seconds = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(20, self._failures - FAILURES))
                self._until = time.monotonic() + open_seconds

    def undecided(self) -> None:
        """The call told nothing of the provider."""
        with self._lock:
            self._trying = False

    def _sentence(self) -> str:
        left = max(0.0, self._until - time.monotonic())
        return f"provider {self._name} failed {self._failures} times in a row and is asked again in {left:.0f} s: {self._reason}"


class MachineCalls:
    """A provider of machines, as a launcher uses it: the methods of MachineProvider and SlotLender, in bounded time."""

    def __init__(
        self,
        provider: LaunchProvider,
        driver: MachineProvider,
        mask: Mask = Mask(),  # noqa: B008  # immutable
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.name = provider.name
        self._driver: Any = driver
        self._mask = mask
        self._answer_seconds = answer_seconds
        self._pace = Pace(provider.rate_seconds)
        self._circuit = Circuit(provider.name)
        self._abandoned = 0
        self._begun = 0  # calls that have not ended, abandoned ones included
        self._retired = False
        self._threads = SpareThreads()
        self._lock = threading.Lock()

    @property
    def fault(self) -> str | None:
        """Why nothing can be launched there now, for PoolView.faults; None if something can."""
        return self._circuit.fault

    def create(self, order: MachineOrder, may: Callable[[], bool] | None = None) -> Machine | MachineRefused:
        """``may``: whether the order may still be given, asked after the wait for the rate of the provider."""

        def made() -> Machine | MachineRefused:
            if may is not None and not may():
                return MachineRefused(f"provider {self.name}: create: the lock of the node is lost", LaunchParty.HOST)
            return _stamped(self._driver.create(order), order.stamp)

        seconds = min(order.timeout_seconds, CREATE_SECONDS)
        return self._call("create", made, seconds + GRACE_SECONDS, order.stop)

    def renew(self, orders: Sequence[MachineOrder]) -> list[Machine | MachineRefused]:
        """The answers of ``create`` for slots of one machine that is lent, in one call if the driver has ``renew``."""
        first = orders[0]

        def made() -> list[Machine | MachineRefused] | MachineRefused:
            renew = getattr(self._driver, "renew", None)
            found = [self._driver.create(each) for each in orders] if renew is None else list(renew(orders))
            if len(found) != len(orders):
                return MachineRefused(f"the driver gave {len(found)} answers to {len(orders)} orders")
            return [_stamped(answer, order.stamp) for answer, order in zip(found, orders, strict=True)]

        seconds = min(first.timeout_seconds, CREATE_SECONDS)
        answer = self._call("renew", made, seconds + GRACE_SECONDS, first.stop)
        return [answer] * len(orders) if isinstance(answer, MachineRefused) else answer

    def find(self, stamp: MachineStamp) -> Machine | MachineRefused | None:
        def found() -> Machine | MachineRefused | None:
            answer = self._driver.find(stamp)
            return None if answer is None else _stamped(answer, stamp)

        return self._call("find", found, self._answer_seconds)

    def look(self, external_id: str) -> Machine | MachineRefused | None:
        def seen() -> Machine | MachineRefused | None:
            answer = self._driver.look(external_id)
            return answer if answer is None or isinstance(answer, MachineRefused) else answers.machine(answer)

        return self._call("look", seen, self._answer_seconds)

    def delete(self, external_id: str, stamp: MachineStamp) -> MachineRefused | None:
        return self._call("delete", lambda: _refusal(self._driver.delete(external_id, stamp)), self._answer_seconds)

    def list(self) -> tuple[Machine, ...]:
        """All that carries a stamp; an answer that is no machine is left out. Raises Unavailable."""

        def listed() -> tuple[Machine, ...] | MachineRefused:
            return _machines(self._driver.list())

        found = self._call("list", listed, self._answer_seconds)
        if isinstance(found, MachineRefused):
            raise Unavailable(found.reason)
        return found

    def quota(self) -> ProviderQuota | MachineRefused:
        def limits() -> ProviderQuota | MachineRefused:
            answer = self._driver.quota()
            return answer if isinstance(answer, MachineRefused) else answers.quota(answer)

        return self._call("quota", limits, self._answer_seconds)

    @property
    def lends(self) -> bool:
        """Whether it lends machines that it does not make: whether ``check`` asks anything."""
        return hasattr(self._driver, "check")

    @property
    def deletes(self) -> bool:
        """Whether ``delete`` does anything."""
        return bool(getattr(self._driver, "deletes", True))

    @property
    def of_fleet(self) -> bool:
        """Whether its machines are nodes of /ocb, each with its name as the external id."""
        return hasattr(self._driver, "join")

    def join(self, fleet: object) -> None:
        """Tell a driver of such machines which launcher it asks; others need none."""
        if self.of_fleet:
            self._driver.join(fleet)

    def check(self, external_id: str, host_keys: tuple[str, ...]) -> MachineRefused | None:
        """None also for a driver that makes its machines."""
        if not self.lends:
            return None
        return self._call("check", lambda: _refusal(self._driver.check(external_id, host_keys)), self._answer_seconds)

    def close(self) -> None:
        """Give back connections. The launcher's other providers are closed too, if this one hangs or raises."""
        _Call(self._threads, "close", self._driver.close).within(GRACE_SECONDS, None)

    def retire(self) -> None:
        """Other calls replace these: give back connections as soon as no call is under way, now and after each later one.

        Works that began with these calls go on with them.
        """
        with self._lock:
            self._retired, idle = True, not self._begun
        if idle:
            self._close_behind()

    def _close_behind(self) -> None:
        with contextlib.suppress(RuntimeError):  # no thread: the next call's end closes
            _Call(self._threads, "close", self._driver.close).within(0.0, None)

    def _call(
        self, verb: str, ask: Callable[[], T | MachineRefused], seconds: float, stop: threading.Event | None = None
    ) -> T | MachineRefused:
        refused = self._circuit.refusal()
        if refused is not None:
            return refused
        answer = self._asked(verb, ask, seconds, stop)
        if not isinstance(answer, MachineRefused):
            self._circuit.passed()
            return answer
        reason = answers.sentence(self._mask.text(str(answer.reason)))
        party = answer.party if isinstance(answer.party, LaunchParty) else LaunchParty.PROVIDER
        if party is LaunchParty.PROVIDER:
            self._circuit.failed(reason)
        elif party is LaunchParty.HOST:
            self._circuit.undecided()
        else:
            self._circuit.passed()
        return MachineRefused(reason, party)

    def _asked(
        self, verb: str, ask: Callable[[], T | MachineRefused], seconds: float, stop: threading.Event | None
    ) -> T | MachineRefused:
        what = f"provider {self.name}: {verb}"
        self._pace.wait()
        if stop is not None and stop.is_set():
            return MachineRefused(f"{what}: stopped", LaunchParty.HOST)
        with self._lock:
            if self._abandoned >= ABANDONED:
                return MachineRefused(f"{what}: {self._abandoned} calls have not ended", LaunchParty.PROVIDER)
        call = _Call(self._threads, what, ask, self._ended_late, self._ended)
        with self._lock:
            self._begun += 1
        try:
            ended = call.within(seconds, stop)
        except RuntimeError as error:  # no thread
            self._ended()
            return MachineRefused(f"{what}: {error}", LaunchParty.HOST)
        with self._lock:
            abandoned = not ended and call.abandon()
            self._abandoned += abandoned
        if not abandoned:
            answer: T | MachineRefused = call.answer()
            return answer
        if stop is not None and stop.is_set():
            return MachineRefused(f"{what}: stopped", LaunchParty.HOST)
        return MachineRefused(f"{what}: no answer within {seconds:g} s", LaunchParty.PROVIDER)

    def _ended_late(self) -> None:
        with self._lock:
            self._abandoned -= 1

    def _ended(self) -> None:
        with self._lock:
            self._begun -= 1
            last = self._retired and not self._begun
        if last:
            self._close_behind()


class _Call:
    """One call in a thread of its own, which ends with the process."""

    def __init__(
        self,
        threads: SpareThreads,
        what: str,
        ask: Callable[[], Any],
        late: Callable[[], None] | None = None,
        done: Callable[[], None] | None = None,
    ) -> None:
        self._threads, self._what, self._ask, self._late, self._done = threads, what, ask, late, done
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._abandoned = False
        self._answer: Any = None
        self._error: BaseException | None = None

    def within(self, seconds: float, stop: threading.Event | None) -> bool:
        """Begin; whether it ended in this time. Raises RuntimeError where this host starts no thread."""
        self._threads.begin(self._what[:40], self._run)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._ended.wait(left if stop is None else min(left, STOP_SECONDS)):
                return True
            if stop is not None and stop.is_set():
                return self._ended.wait(min(left, GRACE_SECONDS))
        return self._ended.is_set()

    def abandon(self) -> bool:
        """Whether it has not ended; then ``late`` is called when it does."""
        with self._lock:
            self._abandoned = not self._ended.is_set()
            return self._abandoned

    def answer(self) -> Any:
        """The answer of the ended call; an exception is a refusal."""
        error = self._error
        if error is None:
            return self._answer
        if of_this_host(error):
            return MachineRefused(f"{self._what}: {extensions.in_a_line(error)}", LaunchParty.HOST)
        said = str(error) if isinstance(error, OcbError) else f"the driver raised {extensions.in_a_line(error)}"
        return MachineRefused(f"{self._what}: {said}", LaunchParty.PROVIDER)

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except BaseException as error:  # of a package of others; also SystemExit
            self._error = error
        with self._lock:
            self._ended.set()
            late = self._late if self._abandoned else None
        if late is not None:
            late()
        if self._done is not None:
            self._done()


def _stamped(answer: object, stamp: MachineStamp) -> Machine | MachineRefused:
    """The machine, if it is one and carries this stamp."""
    if isinstance(answer, MachineRefused):
        return answer
    found = answers.machine(answer)
    if isinstance(found, Machine) and found.stamp != stamp:
        return MachineRefused(f"the driver answered machine {found.external_id}, which carries another stamp")
    return found


def _refusal(answer: object) -> MachineRefused | None:
    if answer is None or isinstance(answer, MachineRefused):
        return answer
    return MachineRefused(f"the driver answered {type(answer).__name__}, which is neither None nor MachineRefused")


def _machines(listed: Iterable[object]) -> tuple[Machine, ...] | MachineRefused:
    found = []
    for number, each in enumerate(listed):
        if number >= LISTED:
            return MachineRefused(f"the driver lists more than {LISTED} machines", LaunchParty.PROVIDER)
        made = answers.machine(each)
        if isinstance(made, Machine) and made.stamp is not None:
            found.append(made)
    return tuple(found)
