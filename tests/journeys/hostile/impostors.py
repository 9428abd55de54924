"""What may listen where an sshd should: each ``Talk`` is what is done to one caller.

Those that begin with ``ssh`` speak SSH as far as it takes, with the host key ``KEY``.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

import paramiko
from paramiko.common import cMSG_CHANNEL_DATA, cMSG_CHANNEL_OPEN, cMSG_DISCONNECT, cMSG_GLOBAL_REQUEST, cMSG_IGNORE

Talk = Callable[[socket.socket], None]

BANNER: Final = b"SSH-2.0-impostor\r\n"
AFTER_ANSWER_SECONDS: Final = 0.3  # the command is answered by then
KEY: Final = paramiko.ECDSAKey.generate()
HOST_KEY: Final = f"{KEY.get_name()} {KEY.get_base64()}"


class Impostor:
    """Listens on a free port; a context manager."""

    def __init__(self, talk: Talk) -> None:
        self.calls = 0
        self._talk = talk
        self._callers: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Impostor:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._server, *self._callers):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._server.accept()
                self.calls += 1
                self._callers = [each for each in self._callers if each.fileno() >= 0]
                self._callers.append(caller)
                threading.Thread(target=self._meet, args=(caller,), daemon=True).start()

    def _meet(self, caller: socket.socket) -> None:
        with caller, suppress(Exception):
            self._talk(caller)


# -- before SSH begins --


def closes(_: socket.socket) -> None: ...


def resets(caller: socket.socket) -> None:
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def mute(caller: socket.socket) -> None:
    while caller.recv(65536):
        pass


def says(data: bytes) -> Talk:
    """This once, then it is mute."""

    def talk(caller: socket.socket) -> None:
        caller.sendall(data)
        mute(caller)

    return talk


def says_and_closes(data: bytes) -> Talk:
    return lambda caller: caller.sendall(data)


def floods(data: bytes, first: bytes = b"") -> Talk:
    """This without end."""

    def talk(caller: socket.socket) -> None:
        caller.sendall(first)
        while True:
            caller.sendall(data)

    return talk


def drips(data: bytes, pause_seconds: float) -> Talk:
    """These bytes one by one, again and again."""

    def talk(caller: socket.socket) -> None:
        while True:
            for byte in data:
                caller.sendall(bytes([byte]))
                time.sleep(pause_seconds)

    return talk


def garbage(caller: socket.socket) -> None:
    caller.sendall(BANNER)
    while True:
        caller.sendall(os.urandom(65536))


# -- in SSH --


def hear(channel: paramiko.Channel) -> None:
    """And say nothing."""
    while channel.recv(65536):
        pass


class Sshd(paramiko.ServerInterface):
    """Lets everybody in, opens every channel, and ``answer`` is what a command gets."""

    login = paramiko.AUTH_SUCCESSFUL
    opens = paramiko.OPEN_SUCCEEDED
    executes = True

    def __init__(self, answer: Callable[[paramiko.Channel], None] = hear) -> None:
        self._answer = answer

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:  # noqa: ARG002
        return self.login

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        return self.opens

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:  # noqa: ARG002
        threading.Thread(target=self._serve, args=(channel,), daemon=True).start()
        return self.executes

    def _serve(self, channel: paramiko.Channel) -> None:
        with suppress(Exception):
            self._answer(channel)


class Refuses(Sshd):
    login = paramiko.AUTH_FAILED


class WantsMore(Sshd):
    login = paramiko.AUTH_PARTIALLY_SUCCESSFUL


class OpensNothing(Sshd):
    opens = paramiko.OPEN_FAILED_RESOURCE_SHORTAGE


class RunsNothing(Sshd):
    executes = False


class NeverOpens(Sshd):
    def check_channel_request(self, kind: str, chanid: int) -> int:
        time.sleep(60.0)
        return super().check_channel_request(kind, chanid)


class NeverAnswersLogin(Sshd):
    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        time.sleep(60.0)
        return super().check_auth_publickey(username, key)


def ssh(make: Callable[[], paramiko.ServerInterface] = Sshd) -> Talk:
    """Speaks SSH as this server does."""

    def talk(caller: socket.socket) -> None:
        transport = paramiko.Transport(caller)
        transport.add_server_key(KEY)
        transport.start_server(event=threading.Event(), server=make())
        while transport.is_active():
            transport.join(0.2)

    return talk


def ssh_answers(answer: Callable[[paramiko.Channel], None]) -> Talk:
    return ssh(lambda: Sshd(answer))


def _kexinit(names: bytes) -> bytes:
    """The packet that proposes these algorithms, and nothing but these."""
    lists = (struct.pack("!I", len(names)) + names) * 10
    payload = b"\x14" + b"\0" * 16 + lists + b"\0" * 5
    padding = 16 - (len(payload) + 5) % 8
    return struct.pack("!IB", len(payload) + padding + 1, padding) + payload + b"\0" * padding


NO_TEXT: Final = b"\xff\xfe\x80"
KEYS_THAT_ARE_NO_TEXT: Final = BANNER + _kexinit(NO_TEXT)


def channels_that_are_no_text(channel: paramiko.Channel) -> None:
    channel.get_transport()._send_message(_message(cMSG_CHANNEL_OPEN, NO_TEXT, 1, 2, 3))  # type: ignore[attr-defined]
    hear(channel)


def packets_that_hold_nothing(channel: paramiko.Channel) -> None:
    _flood(channel, cMSG_CHANNEL_DATA, channel.remote_chanid, b"")


def output_without_end(channel: paramiko.Channel) -> None:
    while True:
        channel.sendall(b"x" * 32768)


def more_than_the_window(channel: paramiko.Channel) -> None:
    _flood(channel, cMSG_CHANNEL_DATA, channel.remote_chanid, b"x" * 32768)


def packets_to_be_ignored(channel: paramiko.Channel) -> None:
    _flood(channel, cMSG_IGNORE, b"x" * 32768)


def questions(channel: paramiko.Channel) -> None:
    _flood(channel, cMSG_GLOBAL_REQUEST, b"are you there?" * 500, True)


def a_long_farewell(channel: paramiko.Channel) -> None:
    channel.get_transport()._send_message(_message(cMSG_DISCONNECT, 2, b"\x1b[2J" * 50_000, b""))  # type: ignore[attr-defined]


def exits(code: int) -> Callable[[paramiko.Channel], None]:
    def answer(channel: paramiko.Channel) -> None:
        time.sleep(AFTER_ANSWER_SECONDS)
        channel.send_exit_status(code)
        channel.close()

    return answer


def hangs_up(channel: paramiko.Channel) -> None:
    time.sleep(AFTER_ANSWER_SECONDS)
    channel.close()


def _flood(channel: paramiko.Channel, *parts: Any) -> None:
    transport: Any = channel.get_transport()
    while transport.is_active():
        transport._send_user_message(_message(*parts))


def _message(kind: bytes, *parts: Any) -> paramiko.Message:
    message = paramiko.Message()
    message.add_byte(kind)
    for part in parts:
        if isinstance(part, bool):
            message.add_boolean(part)
        elif isinstance(part, int):
            message.add_int(part)
        else:
            message.add_string(part)
    return message
