"""Redfish, by sushy. A BMC accepts a command at once and carries it out later; the caller looks for the effect."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from nodepool_ocb.model.power import Powered
from nodepool_ocb.power import ipmi
from nodepool_ocb.power.driver import CALL_SECONDS, CONNECT_SECONDS, Endpoint, FaultKind, PowerFault, SerialConsole

T = TypeVar("T")
ACCOUNTS: Final = "/redfish/v1/AccountService/Accounts"
MOST_ACCOUNTS: Final = 32  # that are looked at
MODES: Final = {"uefi": "UEFI", "bios": "Legacy"}


def faults(address: str, options: Mapping[str, str]) -> list[str]:
    """One sentence for each fault of an address and options."""
    found = []
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError:  # brackets without an address between them, or no port behind a colon
        url, port = urlsplit(""), None
    if url.scheme not in ("https", "http") or not url.hostname or port == 0:
        found.append(f"address: {address!r} is no URL of a BMC; write https://HOST[:PORT]")
    if url.username is not None or url.query or url.fragment:
        found.append("address: it has more than scheme, host and path; user and password have keys of their own")
    if (mode := options.get("mode")) is not None and mode not in MODES:
        found.append(f"options: mode is {mode!r}; write uefi or bios")
    if (verify := options.get("verify")) not in (None, "yes", "no"):
        found.append(f"options: verify is {verify!r}; write yes or no")
    if (console := options.get("console")) is not None:
        found += [each.replace("address:", "options: console:") for each in ipmi.faults(console, {})]
    return found


class RedfishPower:
    """One system of one BMC."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._system: Any = None

    def status(self) -> Powered:
        """The state now."""

        def asked(system: Any) -> Powered:
            system.refresh(force=True)
            state = getattr(system.power_state, "value", system.power_state)
            return {"On": Powered.ON, "Off": Powered.OFF}.get(state, Powered.UNKNOWN)

        return self._call(asked)

    def on(self) -> None:
        """Switch it on."""
        self._call(lambda system: system.reset_system(_sushy().ResetType.ON))

    def off(self) -> None:
        """Switch it off without asking its system."""
        self._call(lambda system: system.reset_system(_sushy().ResetType.FORCE_OFF))

    def network_once(self) -> None:
        """Override the boot source for one boot."""
        mode = MODES.get(self._endpoint.options.get("mode", ""))

        def override(system: Any) -> None:
            names = _sushy()
            once = names.BootSourceOverrideEnabled.ONCE
            system.set_system_boot_options(target=names.BootSource.PXE, enabled=once, mode=mode)

        self._call(override)

    def set_password(self, password: str) -> None:
        """Change the account of the user. sushy knows no accounts: these are Redfish's own requests."""

        def change(system: Any) -> None:
            connection, name = system._conn, self._endpoint.username
            listed = connection.get(ACCOUNTS).json().get("Members", [])[:MOST_ACCOUNTS]
            for path in (each["@odata.id"] for each in listed):
                found = connection.get(path)
                if found.json().get("UserName") == name:
                    etag = found.headers.get("ETag")
                    connection.patch(path, data={"Password": password}, headers={"If-Match": etag} if etag else None)
                    return
            raise PowerFault(FaultKind.REFUSED, f"{self._endpoint.address} has no account {name}")

        self._call(change)

    def close(self) -> None:
        """The connections of a session that is not kept at the BMC."""
        with contextlib.suppress(Exception):  # it is only given back
            self._system._conn.close()

    def _call(self, ask: Callable[[Any], T]) -> T:
        with self._faults():
            if self._system is None:
                self._system = self._found()
            return ask(self._system)

    def _found(self) -> Any:
        """The system that the endpoint means; raises PowerFault where that is not one."""
        import sushy
        from sushy import auth

        endpoint = self._endpoint
        ca = endpoint.options.get("ca")
        if ca is not None and not Path(ca).is_file():
            raise PowerFault(FaultKind.OWN, f"{endpoint.address}: this host has no file {ca}, which option ca names")
        root = sushy.Sushy(
            endpoint.address,
            verify=False if endpoint.options.get("verify") == "no" else ca or True,
            auth=auth.BasicAuth(endpoint.username, endpoint.password) if endpoint.username else None,
            server_side_retries=1,  # the caller repeats a command, and says so
            read_timeout=CALL_SECONDS,
            connect_timeout=CONNECT_SECONDS,
        )
        systems = root.get_system_collection().get_members()
        wanted = endpoint.options.get("system")
        found = [each for each in systems if wanted in (None, each.identity, each.path)]
        if len(found) != 1:
            ids = ", ".join(sorted(each.identity for each in systems)) or "none"
            raise PowerFault(
                FaultKind.REFUSED, f"{endpoint.address} has the systems {ids}; name one of them with options system=ID"
            )
        return found[0]

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        """Turns faults of sushy into ours; a text of a BMC is no longer than a line."""
        try:
            from sushy import exceptions
        except ModuleNotFoundError:
            raise PowerFault(
                FaultKind.OWN, "this host lacks the package sushy for Redfish; install nodepool-ocb[redfish] here"
            ) from None
        address = self._endpoint.address
        try:
            yield
        except exceptions.AccessError:
            raise PowerFault(
                FaultKind.LOGIN,
                f"{address} refuses user {self._endpoint.username or '(none)'}; set user and password again",
            ) from None
        except exceptions.ConnectionError as error:
            self._system = None
            raise PowerFault(FaultKind.UNREACHABLE, f"{address} does not answer: {_line(error)}") from error
        except (exceptions.SushyError, ValueError, KeyError) as error:
            raise PowerFault(FaultKind.REFUSED, f"{address} answers, and does not do it: {_line(error)}") from error


def _sushy() -> Any:
    """The library, which few hosts need; ``_faults`` reports its absence before."""
    import sushy

    return sushy


def _line(error: BaseException) -> str:
    """Its text on one line of bounded length."""
    return " ".join(str(error).split())[:300]


def console(endpoint: Endpoint, *, take: bool) -> SerialConsole:
    """The serial console by the BMC's IPMI, with the same user: Redfish itself carries none."""
    return ipmi.console(replace(endpoint, address=endpoint.options["console"], options={}), take=take)


DRIVER: Final = RedfishPower
