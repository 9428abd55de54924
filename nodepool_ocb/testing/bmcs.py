"""Real BMCs of machines that do not exist: sushy-tools' Redfish emulator with its fake driver, and OpenIPMI's ipmi_sim."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from nodepool_ocb.testing.ports import free_port

USER: Final = "admin"
PASSWORD: Final = "a-secret-of-the-bmc"  # at most 20 letters, for IPMI
START_SECONDS: Final = 30.0
_CHASSIS: Final = """\
#!/bin/sh
# called by ipmi_sim: ADDRESS get NAME... | ADDRESS set NAME VALUE...
shift
case $1 in
get)
    shift
    for name; do
        default=0
        [ "$name" = boot ] && default=none
        echo "$name:$(cat '{state}'/"$name" 2>/dev/null || echo $default)"
    done
    ;;
set)
    shift
    while [ $# -gt 1 ]; do
        echo "$1 $2" >>'{state}/commands'
        [ -e '{state}/ignores' ] || echo "$2" >'{state}'/"$1"
        shift 2
    done
    ;;
esac
"""
_LAN: Final = """\
name "bmc"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{chassis} 0x20"
  sol "tcp:127.0.0.1:{serial}" 115200
  user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""
_CONTROLLER: Final = """\
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
mc_enable 0x20
"""


class SerialLine:
    """The serial port of a machine: a socket of the local host, as QEMU has one. Letters before the first reader are lost."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._readers: list[socket.socket] = []

    @property
    def port(self) -> int:
        """Of the socket."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def readers(self) -> int:
        """How many connections were made to it."""
        with contextlib.suppress(BlockingIOError):
            while True:
                reader, _ = self._listener.accept()
                reader.settimeout(START_SECONDS)
                self._readers.append(reader)
        return len(self._readers)

    def say(self, text: str) -> None:
        """Letters of the machine, for each reader that is connected now."""
        if self.readers:
            for reader in self._readers:
                with contextlib.suppress(OSError):  # it has gone
                    reader.sendall(text.encode())

    def hang_up(self) -> None:
        """End each connection."""
        for reader in self._readers:
            reader.close()
        self._readers.clear()

    def close(self) -> None:
        """End the socket, too."""
        self.hang_up()
        self._listener.close()


class _Bmc:
    """A process with an address, started on entry, and ended by its id."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__(None, None, None)
                raise RuntimeError(f"the BMC did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError


class RedfishBmc(_Bmc):
    """One system, whose power follows a command after 1 to 11 s, as a real one's does.

    With ``qmp`` it is the QEMU of this socket. ``ignore``: it accepts commands from then on, and they have no effect.
    """

    def __init__(self, folder: Path, qmp: Path | None = None) -> None:
        super().__init__(folder)
        self._qmp = qmp

    def ignore(self, ignores: bool = True) -> None:
        """Whether commands have no effect."""
        mark = self.folder / "ignores"
        mark.touch() if ignores else mark.unlink(missing_ok=True)

    def set_password(self, password: str) -> None:
        """Give its user another password, as by its own page."""
        import bcrypt

        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        (self.folder / "users").write_text(f"{USER}:{hashed}\n")

    def accepts(self, password: str) -> bool:
        """Whether this is the password of its user now."""
        import bcrypt

        hashed = (self.folder / "users").read_text().strip().partition(":")[2]
        return bcrypt.checkpw(password.encode(), hashed.encode())

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def _command(self) -> list[str]:
        users, config = self.folder / "users", self.folder / "emulator.conf"
        self.set_password(PASSWORD)
        settings = {"SUSHY_EMULATOR_STATE_DIR": str(self.folder), "SUSHY_EMULATOR_AUTH_FILE": str(users)}
        settings |= {"OCB_FOLDER": str(self.folder)} | ({"OCB_QMP": str(self._qmp)} if self._qmp is not None else {})
        config.write_text("".join(f"{name}={value!r}\n" for name, value in settings.items()))
        program = [sys.executable, "-m", "nodepool_ocb.testing.emulator", "--fake", "--config", str(config)]
        return [*program, "-i", "127.0.0.1", "-p", str(self.port)]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True
        return False


class IpmiBmc(_Bmc):
    """One chassis. ``ignore``: it accepts commands from then on, and they have no effect. ``serial``: the line of its SOL."""

    def __init__(self, folder: Path, password: str = PASSWORD) -> None:
        """``password``: ipmi_sim keeps the letters behind the 16th when it changes a password."""
        super().__init__(folder)
        self.serial, self._password = SerialLine(), password

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.serial.close()

    @property
    def address(self) -> str:
        """HOST:PORT over UDP."""
        return f"127.0.0.1:{self.port}"

    def value(self, name: str) -> str:
        """The newest value of ``power`` or ``boot``; empty before the first."""
        file = self.folder / "state" / name
        return file.read_text().strip() if file.exists() else ""

    def commands(self, name: str) -> list[str]:
        """The values that were set, in their order."""
        file = self.folder / "state" / "commands"
        words = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [value for each, value in words if each == name]

    def ignore(self, ignores: bool = True) -> None:
        """Whether commands have no effect."""
        mark = self.folder / "state" / "ignores"
        mark.touch() if ignores else mark.unlink(missing_ok=True)

    def _command(self) -> list[str]:
        state, chassis, kept = self.folder / "state", self.folder / "chassis", self.folder / "kept"
        state.mkdir(exist_ok=True)
        kept.mkdir(exist_ok=True)
        chassis.write_text(_CHASSIS.replace("{state}", str(state)))
        chassis.chmod(0o755)
        lan, controller = self.folder / "lan.conf", self.folder / "bmc.emu"
        lan.write_text(
            _LAN.format(port=self.port, chassis=chassis, user=USER, password=self._password, serial=self.serial.port)
        )
        controller.write_text(_CONTROLLER)
        return ["ipmi_sim", "-c", str(lan), "-f", str(controller), "-s", str(kept), "-n"]

    def _answers(self) -> bool:
        """Whether it answers a request for its abilities, the first of each session."""
        ask = bytes.fromhex("0600ff07000000000000000000092018c88100380e0435")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.5)
            with contextlib.suppress(OSError):
                probe.connect(("127.0.0.1", self.port))
                probe.send(ask)
                return bool(probe.recv(256))
        return False


def lacking() -> str | None:
    """The reason why no BMC can be started here; None where both can."""
    for program in ("ipmi_sim", "ipmitool"):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
            return f"{program} is not installed; tools/setup installs it"
    return None
