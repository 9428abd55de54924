"""The table of the ways in which reaching a machine can fail, and the party at fault."""

from __future__ import annotations

import errno
import socket

import paramiko
import pytest

from nodepool_ocb.jigs.jig import Party
from nodepool_ocb.jigs.ssh.faults import GLUED, NO_THREAD, TABLE, OwnFault, of_connection, of_resolver, words
from nodepool_ocb.jigs.ssh.sockets import Unconnected, connected

EACH = {row.fault for row in TABLE}


@pytest.mark.parametrize("row", [row for row in TABLE if hasattr(socket, row.fault)], ids=str)
def test_each_fault_of_the_resolver_has_the_party_of_its_row(row: object) -> None:
    wanted = [each for each in TABLE if each.fault == row.fault]  # type: ignore[attr-defined]
    error = socket.gaierror(getattr(socket, wanted[0].fault), "")
    found = {of_resolver(error, alive=True), of_resolver(error, alive=False)}
    assert found == {each.party for each in wanted}


@pytest.mark.parametrize("name", sorted(name for name in EACH if hasattr(errno, name)))
def test_each_fault_of_a_connection_has_the_party_of_its_row(name: str) -> None:
    error = OSError(getattr(errno, name), "")
    found = {of_connection(error, routed=False), of_connection(error)}
    assert found == {row.party for row in TABLE if row.fault == name}


def test_what_the_table_does_not_know_kills_no_machine() -> None:
    assert of_resolver(socket.gaierror(-1234, ""), alive=False) is Party.OWN
    assert of_connection(OSError(1234, "")) is Party.PATH
    assert of_connection(OSError("no number")) is Party.PATH


def glued(cause: BaseException) -> paramiko.SSHException:
    """As paramiko raises it where the line of the banner does not come."""
    try:
        try:
            raise cause
        except Exception as error:
            raise paramiko.SSHException(GLUED + str(error))  # noqa: B904
    except paramiko.SSHException as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "party"),
    [
        (glued(OSError(errno.EMFILE, "")), Party.OWN),
        (glued(OSError(errno.EHOSTUNREACH, "")), Party.PATH),
        (glued(TimeoutError("timed out")), Party.MACHINE),
        (glued(EOFError()), Party.MACHINE),
        (glued(ConnectionResetError(errno.ECONNRESET, "")), Party.MACHINE),
        (RuntimeError(NO_THREAD), Party.OWN),
        (MemoryError(), Party.OWN),
        (OwnFault("connect", "what it was"), Party.OWN),
        (RuntimeError("something else"), Party.MACHINE),
        (paramiko.SSHException(NO_THREAD), Party.MACHINE),
        (paramiko.SSHException(f'Indecipherable protocol version "{NO_THREAD}"'), Party.MACHINE),
    ],
    ids=repr,
)
def test_what_the_library_raises_has_a_party_and_no_text_of_a_machine_decides_it(
    error: BaseException, party: Party
) -> None:
    assert of_connection(error) is party


def closed() -> tuple[str, int]:
    """Where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address: tuple[str, int] = probe.getsockname()
        return address


def test_of_several_addresses_the_word_of_the_machine_counts() -> None:
    """A name with an address of a family that this host cannot use must not hide that its machine is there."""
    own = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("255.255.255.255", 22))
    machine = (socket.AF_INET, socket.SOCK_STREAM, 0, "", closed())
    for addresses in ([own, machine], [machine, own]):
        answer = connected(addresses, 2.0, 100)
        assert isinstance(answer, Unconnected)
        assert (answer.party, words(answer.error)) == (Party.MACHINE, "Connection refused")
    alone = connected([own], 2.0, 100)
    assert isinstance(alone, Unconnected)
    assert alone.party is Party.OWN
