"""sushy-tools' Redfish emulator with two more drivers and with accounts: ``python -m nodepool_ocb.testing.emulator``.

Its fake system may be told to ignore commands, by a file ``ignores`` in its folder. With ``OCB_QMP`` in its configuration it
drives the QEMU behind that socket instead, which begins with ``-S -no-shutdown`` and has a network device ``nic0``. A boot from
the network counts for one boot: the next time that the machine is off, its disk comes first again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import bcrypt
import flask
from sushy_tools import error
from sushy_tools.emulator import main
from sushy_tools.emulator.resources.systems import fakedriver

from nodepool_ocb.testing.virtual import qmp

FakeDriver: Any = fakedriver.FakeDriver
ACCOUNTS = "/redfish/v1/AccountService/Accounts"


class DeafDriver(FakeDriver):  # type: ignore[misc]
    """The fake system; it accepts commands, and they have no effect while the file is there."""

    def set_power_state(self, identity: str, state: str) -> None:
        if not (Path(self._config["OCB_FOLDER"]) / "ignores").exists():
            super().set_power_state(identity, state)


class QemuDriver(FakeDriver):  # type: ignore[misc]
    """One QEMU."""

    def get_power_state(self, identity: str) -> str:
        self._get(identity)
        return "On" if self._ask("query-status")["status"] == "running" else "Off"

    def set_power_state(self, identity: str, state: str) -> None:
        on = self.get_power_state(identity) == "On"
        if state in ("On", "ForceOn") and not on:
            self._ask("system_reset")
            self._ask("cont")
        elif state == "ForceOff":
            self._ask("stop")
            self._ask("system_reset")
            self._first(5)
            self._update(identity, boot_device="Hdd")
        elif state not in ("On", "ForceOn"):
            raise error.NotSupportedError(f"power state {state}")

    def set_boot_device(self, identity: str, boot_source: str) -> None:
        super().set_boot_device(identity, boot_source)
        self._first(0 if boot_source == "Pxe" else 5)

    def _first(self, index: int) -> None:
        place = {"path": "/machine/peripheral/nic0", "property": "bootindex", "value": index}
        self._ask("qom-set", place)

    def _ask(self, command: str, arguments: dict[str, Any] | None = None) -> Any:
        return qmp.execute(Path(self._config["OCB_QMP"]), command, arguments)


def accounts(users: Path) -> flask.Blueprint:
    """The accounts of the BMC; a new password counts from the next request on."""
    made = flask.Blueprint("accounts", __name__)

    def names() -> list[str]:
        return [line.partition(":")[0] for line in users.read_text().splitlines()]

    @made.get(ACCOUNTS)
    def listed() -> Any:
        members = [{"@odata.id": f"{ACCOUNTS}/{number}"} for number, _ in enumerate(names(), 1)]
        return flask.jsonify({"@odata.id": ACCOUNTS, "Members": members, "Members@odata.count": len(members)})

    @made.get(f"{ACCOUNTS}/<int:number>")
    def shown(number: int) -> Any:
        answer = flask.jsonify({"Id": str(number), "UserName": names()[number - 1], "RoleId": "Administrator"})
        answer.headers["ETag"] = f'"{number}"'
        return answer

    @made.patch(f"{ACCOUNTS}/<int:number>")
    def changed(number: int) -> Any:
        if flask.request.headers.get("If-Match") not in (None, f'"{number}"'):
            return "another writer was faster", 412
        password = flask.request.get_json()["Password"]
        if len(password) > 20:
            return "the password is too long", 400
        lines = users.read_text().splitlines()
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        lines[number - 1] = f"{names()[number - 1]}:{hashed}"
        users.write_text("\n".join(lines) + "\n")
        return "", 204

    return made


def begin() -> int:
    """Run the emulator, with the words of the command line."""
    config = flask.Config(".")
    config.from_pyfile(str(Path(sys.argv[sys.argv.index("--config") + 1]).absolute()))
    fakedriver.FakeDriver = QemuDriver if "OCB_QMP" in config else DeafDriver
    main.app.register_blueprint(accounts(Path(config["SUSHY_EMULATOR_AUTH_FILE"])))
    result: int = main.main()
    return result


if __name__ == "__main__":
    sys.exit(begin())
