"""``tools/bench annealer``: the times of steps, the delaying relay, and the counts of requests; a missing peer is no pass."""

from __future__ import annotations

import doctest
import importlib
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import Create
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server

ROOT = Path(__file__).parents[2]
ROUND_TRIP = 0.2  # seconds


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """The address of a server that sends back each thing that it gets, on one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                while data := client.recv(1000):
                    client.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()
        thread.join(5.0)


@pytest.mark.parametrize("name", ["figure", "report", "relay", "machines.steps", "machines.sides"])
def test_the_examples_of_the_bench_are_true(name: str) -> None:
    done = doctest.testmod(importlib.import_module(f"benchmarks.{name}"))
    assert done.attempted > 0
    assert done.failed == 0


def test_a_relay_adds_a_round_trip_to_each_question_and_answer(echo: tuple[str, int]) -> None:
    from benchmarks.relay import Relay

    with Relay([echo], ROUND_TRIP) as relay, socket.create_connection(("127.0.0.1", relay.ports[0]), 10.0) as client:
        first, second = _asked(client, b"one"), _asked(client, b"two")
    assert first >= 2 * ROUND_TRIP  # the handshake of TCP takes one, too
    assert 2 * ROUND_TRIP > second >= ROUND_TRIP


def test_pieces_under_way_do_not_wait_for_one_another(echo: tuple[str, int]) -> None:
    from benchmarks.relay import Relay

    with Relay([echo], ROUND_TRIP) as relay, socket.create_connection(("127.0.0.1", relay.ports[0]), 10.0) as client:
        _asked(client, b"first")
        began, got = time.monotonic(), b""
        for piece in (b"a", b"b", b"c", b"d"):
            client.sendall(piece)
            time.sleep(ROUND_TRIP / 8)
        while len(got) < 4:
            got += client.recv(10)
    assert got == b"abcd"
    assert time.monotonic() - began < 3 * ROUND_TRIP


def test_the_requests_of_a_session_are_counted_by_their_kind(zookeeper: Server, chroot: str) -> None:
    from benchmarks.relay import Relay, Requests

    seen = Requests()
    with Relay([("127.0.0.1", zookeeper.port)], tap=seen) as relay:
        settings = ZooKeeperSettings(hosts=f"127.0.0.1:{relay.ports[0]}{chroot}", session_timeout_seconds=30.0)
        with Session(settings) as session:
            session.ensure("/of-the-bench")
            before = seen.seen.copy()
            for number in range(3):
                session.commit([Create(f"/of-the-bench/{number}", None)])
            session.get_many(["/of-the-bench/0", "/of-the-bench/1"])
            assert seen.seen - before == {"multi": 3, "multiRead": 1}


def test_requests_of_one_session_are_left_out_by_its_id(zookeeper: Server, chroot: str) -> None:
    from nodepool_ocb.testing.zookeeper import counters

    with Session(ZooKeeperSettings(hosts=zookeeper.hosts + chroot, session_timeout_seconds=30.0)) as session:
        session.ensure("/of-the-bench")
        assert counters.requests(zookeeper) > counters.requests(zookeeper, but=session.id)


@pytest.mark.parametrize("peer", ["pyinfra", "Ansible"])
def test_a_peer_that_is_missing_is_no_pass_and_the_line_says_so(peer: str) -> None:
    from benchmarks import peers, report
    from benchmarks.machines import latency, rates

    of_rates, of_latency = (
        _measured(rates.INSTALLING, rates.COLD, rates.WARM),
        _measured(latency.INSTALLING, latency.COLD),
    )
    of_rates[peer] = of_latency[peer] = []
    found = [*rates.figures("a few", of_rates), *latency.figures(0.05, 0.45, of_latency)]
    without = [figure for figure in found if peer in figure.beside]
    assert without
    assert all(figure.holds is None and figure.ratio is None for figure in without)
    assert {figure.note for figure in without} == {peers.MISSING}
    assert "could not be measured, which is no pass" in report.summary(found)


def test_a_figure_without_a_target_is_shown_and_promises_nothing() -> None:
    from benchmarks import report
    from benchmarks.figure import Figure

    shown = Figure(name="links", what="each", unit="KiB", ours=100.0, other=50.0, ratio=2.0, p99=300.0)
    kept = replace(shown, target=3.0)
    assert (shown.holds, kept.holds) == (None, True)
    assert report.summary([shown, kept]) == "1 of 1 promises hold, 0 do not"


def test_an_interrupted_bench_keeps_the_parts_that_it_measured(tmp_path: Path) -> None:
    from benchmarks import __main__ as bench
    from benchmarks.figure import Figure, Plan

    def interrupted(_: Plan) -> list[Figure]:
        raise KeyboardInterrupt

    whole = Figure(name="first", what="steps", unit="s", ours=1.0, ratio=1.0, bound="at most", target=2.0)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(KeyboardInterrupt):
            bench.measure({"first": lambda _: [whole], "second": interrupted}, (), Plan(), tmp_path / "figures.json")
    finally:
        signal.signal(signal.SIGTERM, before)
    written = json.loads((tmp_path / "figures.json").read_text())
    assert ([each["name"] for each in written["figures"]], list(written["seconds"])) == (["first"], ["first"])


def test_a_target_is_missed_by_a_step_that_takes_more_round_trips() -> None:
    from benchmarks.machines import latency

    found = _measured(latency.INSTALLING, latency.COLD)
    (figure, *_) = latency.figures(0.05, 0.45, found)
    assert (figure.ours, figure.other, figure.holds) == (pytest.approx(100.0), pytest.approx(100.0), False)


@pytest.mark.long
def test_a_step_through_the_relay_takes_its_round_trip_once_here_and_twice_in_pyinfra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from benchmarks.figure import Plan
    from benchmarks.machines import latency

    monkeypatch.setattr(latency, "TARGETS", {0.5: 0.55})
    figures = list(latency.measure(Plan(rounds=1, share=0.1)))
    further = figures[0]
    assert 500.0 < further.ours < 900.0
    assert further.other is None or 1000.0 < further.other < 1800.0


@pytest.mark.long
def test_the_counts_of_zookeeper_are_those_of_a_claim_and_a_result() -> None:
    from benchmarks.figure import Plan
    from benchmarks.machines import writes

    found = {figure.unit: figure for figure in writes.measure(Plan(rounds=1, share=0.1))}
    assert found["requests"].other == pytest.approx(2.0, abs=0.1)
    assert found["transactions"].other == pytest.approx(2.0, abs=0.1)
    assert 1.0 < found["transactions"].ours < 4.0
    assert 0.0 < found["fsyncs"].ours <= found["transactions"].ours
    assert found["bytes to the disk"].ours > 0.0


@pytest.mark.long
@pytest.mark.parametrize("name", ["rates", "payloads", "links"])
def test_each_measure_of_machines_runs_in_its_quick_form(name: str) -> None:
    from benchmarks.figure import Plan

    module = importlib.import_module(f"benchmarks.machines.{name}")
    figures = list(module.measure(Plan(rounds=1, share=0.05)))
    assert figures
    assert all(figure.ours is not None for figure in figures)


@pytest.mark.long
def test_layers_and_secrets_reach_the_script_and_all_of_the_output_comes_back(tmp_path: Path) -> None:
    from benchmarks import ensemble
    from benchmarks.machines import ours as ours_
    from benchmarks.machines import payloads

    script = f"""set -eu
    for number in 0 9; do [ "$(read_attribute app/layer_${{number}}_value_3)" = {"x" * 50} ]; done
    [ "$(read_attribute app/shared)" = "of layer 9" ]
    [ "$(read_attribute app/secret_7)" = {payloads.PAYLOADS[3].secrets["secret_7"]} ]
    head -c 1048576 /dev/zero | tr "\\0" y
    """
    layers, secrets = payloads.PAYLOADS[2].layers, payloads.PAYLOADS[3].secrets
    payload = payloads.Payload(what="all", script=script, layers=layers, secrets=secrets)
    payloads.keyring.generate(key_file := tmp_path / "secrets.key")
    grid = payloads.grid_of(payload, key_file, 2)
    with ensemble.server() as server, ours_.farm(2) as machines:
        keys = {"key_file": str(key_file)}
        with ours_.our_side(server, machines, grid, secrets=keys) as ours, ours.annealer() as process:
            done = ours.round(process)
            logs = [file.stat().st_size for file in (process.config.parent / "runs").rglob("*") if file.is_file()]
    assert done.size == 2 * payloads.STEPS
    assert [size >= payloads.OUTPUT_BYTES for size in logs].count(True) == done.size


def _asked(client: socket.socket, question: bytes) -> float:
    """Seconds until the answer."""
    began = time.monotonic()
    client.sendall(question)
    assert client.recv(100) == question
    return time.monotonic() - began


def _measured(*sides: str) -> dict[str, Any]:
    """A round for each of these sides and for both peers: two machines, two steps of 100 ms."""
    from benchmarks.machines.steps import Round

    steps = [[(0.0, 0.1), (0.1, 0.2)]] * 2
    return {side: [Round(seconds=0.2, steps=steps, cpu_seconds=0.1)] for side in (*sides, "pyinfra", "Ansible")}
