"""What a machine may send: each has a bound, and what goes beyond it is said in a sentence and kept nowhere."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from nodepool_ocb.jigs import Failed, Succeeded, Unreachable
from nodepool_ocb.jigs.output import CUT, Output
from nodepool_ocb.jigs.ssh.keys import load_keys
from nodepool_ocb.jigs.ssh.link import BEFORE_LOGIN_BYTES, Link, connect
from nodepool_ocb.jigs.ssh.protocol import FRAME_BYTES, WRITTEN_BYTES, Ear, Nonsense, number
from nodepool_ocb.jigs.ssh.runner import NOISE_BYTES
from nodepool_ocb.model.records import Node
from tests.jigs.workshop import Annealer


def test_attributes_beyond_the_bound_fail_the_run_at_once_with_a_sentence(machine: Any, annealer: Any) -> None:
    size = 60_000_000
    script = (
        f"printf 't {size} big\\n' >$OCB_RUN.written; head -c {size} /dev/zero | tr '\\0' x >>$OCB_RUN.written\n"
        "echo >>$OCB_RUN.written; echo the end"
    )
    before, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    outcome = annealer.run(machine.order(script))
    assert isinstance(outcome, Failed)
    assert f"more than {WRITTEN_BYTES} bytes" in outcome.reason
    assert (outcome.exit_code, outcome.tail) == (0, "the end\n")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000, "KiB"
    assert time.process_time() - cpu < 5.0
    assert annealer.run(machine.order("echo next", epoch=2, generation=2)).tail == "next\n"


def test_attributes_up_to_the_bound_come_whole(machine: Any, annealer: Any) -> None:
    size = WRITTEN_BYTES - 100
    outcome = annealer.run(machine.order(f"head -c {size} /dev/zero | tr '\\0' x | write_attribute big"))
    assert isinstance(outcome, Succeeded)
    assert outcome.attributes == {"big": "x" * size}


READY = r'printf "\n%s READY\n" "$OCB_TOKEN"; read -r order; '


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("exec yes", "bytes that belong to nothing"),
        (READY + r'printf "\n%s " "$OCB_TOKEN"; exec tr -d "\n" </dev/urandom', "a frame of more than"),
        (READY + r'printf "\n%s DANCE\n" "$OCB_TOKEN"; cat', "the word 'DANCE'"),
    ],
    ids=["noise", "endless frame", "unknown word"],
)
def test_a_machine_that_lies_is_unreachable_and_its_noise_is_not_kept(machine: Any, program: str, said: str) -> None:
    annealer = Annealer(machine.settings(connect_timeout_seconds=1.0))
    annealer.run(machine.order("true", log=None))
    annealer.jig.close()
    (runner,) = machine.state.glob("runner-*/runner")
    runner.write_text(f"{program}\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    liar = Annealer(machine.settings(connect_timeout_seconds=1.0))
    outcome = liar.run(machine.order("true", epoch=2, generation=2))
    liar.jig.close()
    assert isinstance(outcome, Unreachable)
    assert said in outcome.reason
    assert len(outcome.reason) < 2000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000, "KiB"


def test_a_machine_that_lies_is_not_asked_again_by_the_same_order(machine: Any) -> None:
    annealer = Annealer(machine.settings())
    annealer.run(machine.order("true", log=None))
    annealer.jig.close()
    (runner,) = machine.state.glob("runner-*/runner")
    runner.write_text(f'echo >>"$HOME/asked"; {READY} printf "\\n%s DANCE\\n" "$OCB_TOKEN"; cat\n')
    liar = Annealer(machine.settings())
    assert isinstance(liar.run(machine.order("true", epoch=2, generation=2)), Unreachable)
    liar.jig.close()
    assert (machine.state.parent / "asked").read_text() == "\n"


def test_a_machine_that_gives_attributes_back_without_end_is_cut_off(machine: Any, annealer: Any) -> None:
    annealer.run(machine.order("true", log=None))
    annealer.jig.close()
    (runner,) = machine.state.glob("runner-*/runner")
    runner.write_text(READY + r'printf "\n%s WRITTEN\n" "$OCB_TOKEN"; exec yes' + "\n")
    liar = Annealer(machine.settings())
    outcome = liar.run(machine.order("true", epoch=2, generation=2, log=None))
    liar.jig.close()
    assert isinstance(outcome, Failed)
    assert f"more than {WRITTEN_BYTES} bytes" in outcome.reason


def test_a_frame_without_end_is_held_back_no_further_than_its_bound() -> None:
    ear = Ear("f00d")
    list(ear.hear(b"\nf00d DONE " + b"x" * (FRAME_BYTES - 20)))
    with pytest.raises(Nonsense, match="a frame of more than"):
        list(ear.hear(b"x" * 40))


@pytest.mark.parametrize("text", ["", "-1", "1e3", "9" * 19, "²", "x" * 100])
def test_what_is_no_number_is_nonsense_and_is_not_repeated_at_length(text: str) -> None:
    with pytest.raises(Nonsense) as raised:
        number(text)
    assert len(str(raised.value)) < 140


@contextmanager
def flood(data: bytes) -> Iterator[str]:
    """An address where something listens that sends this again and again."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    caller, _ = server.accept()
                    with caller, suppress(OSError):
                        while True:
                            caller.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("data", [b"x" * 65536, b"SSH-2.0-x\r\n" + b"\x0f" * 65536], ids=["no line", "a huge packet"])
def test_what_floods_instead_of_speaking_ssh_costs_next_to_nothing(machine: Any, data: bytes) -> None:
    settings = machine.settings(connect_timeout_seconds=5.0)
    with flood(data) as address:
        cpu = time.thread_time(), time.process_time()
        answer = connect("n", Node(addresses=(address,)), settings, load_keys(settings), ())
        assert not isinstance(answer, Link)
        assert answer.step == "connect"
        assert time.process_time() - cpu[1] < 3.0
    assert BEFORE_LOGIN_BYTES < NOISE_BYTES


def test_a_log_is_cut_with_a_line_that_says_so_and_the_end_is_known_all_the_same(tmp_path: Any) -> None:
    with Output(tmp_path / "run.log", 1000) as output:
        for place in range(0, 5000, 700):
            output.take(place, b"%04d" % place + b"x" * 696)
    assert (tmp_path / "run.log").read_bytes() == (b"0000" + b"x" * 696 + b"0700" + b"x" * 296) + CUT.format(
        1000
    ).encode()
    assert output.tail.endswith("4900" + "x" * 696)


def test_a_run_that_is_asked_about_again_has_its_output_in_its_log_once(
    machine: Any, annealer: Any, another: Any
) -> None:
    order = machine.order("echo once")
    annealer.run(order)
    another.run(order)
    assert machine.log.read_text() == "once\n"


def test_a_log_that_is_read_never_shrinks_though_its_run_is_asked_about_again(tmp_path: Any) -> None:
    file = tmp_path / "run.log"
    with Output(file) as output:
        output.take(0, b"one\ntwo\n")
    with Output(file) as output:
        output.take(0, b"one\n")
        assert file.read_bytes() == b"one\ntwo\n", "what is there is of the same run"
        output.take(4, b"two\nthree\n")
    assert file.read_bytes() == b"one\ntwo\nthree\n"


def test_the_log_of_a_run_that_was_started_anew_begins_with_its_first_byte(tmp_path: Any) -> None:
    with Output(tmp_path / "run.log") as output:
        output.take(0, b"of the one that was killed\n")
        output.restart()
        output.take(0, b"anew\n")
        assert output.tail == "anew\n"
    assert (tmp_path / "run.log").read_bytes() == b"anew\n"
