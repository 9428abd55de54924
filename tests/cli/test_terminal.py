"""What machines, files and people say never acts on a terminal: every verb in a world whose every text would."""

from __future__ import annotations

import io
import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
import pytest
import yaml
from msgspec.structs import replace

from nodepool_ocb.cli import logs
from nodepool_ocb.cli.kit import output, terminal
from nodepool_ocb.cli.kit.live import Live
from nodepool_ocb.cli.kit.walking import verbs
from nodepool_ocb.cli.main import cli
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.pool import NodeRequest, RequestState
from nodepool_ocb.model.records import Create, Daemon, Json, Node, Run, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.telemetry.terminal_escape import odd, visible
from nodepool_ocb.views.view import View
from tests.cli.images.played_builder import Builder
from tests.cli.pools.played_launcher import PlayedLauncher
from tests.cli.tmux_screen import needs_tmux, screen
from tests.fixtures.commands import Ocb

#: Clears the screen, renames the window, DEL, C1's CSI, a bidi override, a line separator, a tag; what takes no room; the
#: clipboard, a link, the other screen without a cursor and of two lines, and the mouse.
POISON: Final = (
    "\x1b[2J\x1b]0;owned\x07\b\r\x7f\x9b2J\u202egpj.\u2028\u2066\U000e0041end\u200b\u00ad\u2060"
    "\x1b]52;c;b3duZWQ=\x07\x1b]8;;http://owned\x07\x1b[?1049h\x1b[?25l\x1b[2;3r\x1b[?1003h\x1b[3g"
)
SHOWN: Final = "\\x1b[2J\\x1b]0;owned\\x07\\x08\\r\\x7f\\x9b2J\\u202egpj."

STRATEGY: Final = "groups: [{{name: all, critical: true, depends_on: [], selectors: []{more}}}]\n"

#: Every verb, in an order in which each has something to say; what stands in braces is a file.
LINES: Final = """
status
barclamp check {barclamp}
barclamp import {barclamp}
role list
role show base
role delete base
barclamp delete POISON
deployment list
deployment show lab
deployment set lab base note=POISON
deployment wait lab --timeout 0
node list
node show n1.example.com
node set n1.example.com note=POISON
node dead n1.example.com --reason POISON
node alive n1.example.com
node hold n1.example.com --reason POISON
node release n1.example.com
deployment pause lab --reason POISON
deployment resume lab
pause --reason POISON
resume
daemon pause annealer@h --reason POISON
daemon resume annealer@h
node move n1.example.com POISON
node rename n1.example.com POISON
node create POISON
node bind n1.example.com POISON
node commit n1.example.com --dry-run
noderole list
noderole show base@n1.example.com
noderole show POISON
noderole attributes base@n1.example.com --explain
noderole attributes base@n1.example.com POISON
noderole explain base@n1.example.com
noderole explain top@n1.example.com
noderole log base@n1.example.com
noderole log base@n1.example.com POISON
noderole log base@n1.example.com -f
noderole wait base@n1.example.com --timeout 1
noderole commit top@n1.example.com --dry-run
noderole cancel base@n1.example.com
noderole refresh base@n1.example.com
noderole check base@n1.example.com
noderole drift -l POISON
noderole causes
noderole causes --deployment POISON
network create POISON subnet=POISON
network create admin subnet=10.1.0.0/24 domain=POISON
network set POISON POISON=1
network show POISON
network addresses POISON
network allocate POISON n1.example.com POISON
network release POISON n1.example.com POISON
network serve POISON POISON
network release POISON POISON
network unserve POISON POISON
network delete POISON --yes
network list
registration create POISON
registration create 52:54:00:00:00:91 --host-key POISON
registration show POISON
registration delete POISON
registration poll POISON
registration refuse POISON --reason POISON
registration refuse 52:54:00:00:00:91 --reason POISON
registration list
adoption set POISON POISON=1
adoption set web name=POISON when=POISON
adoption set web name=w.example.com tags=POISON
adoption show POISON
adoption delete POISON
adoption list
adoption check
node adopt POISON POISON
node adopt 52:54:00:00:00:91 POISON --deployment POISON
node hint POISON POISON
node hint 52:54:00:00:00:91 POISON
node machine POISON
node inventory POISON POISON
node going-down POISON --reason POISON
node going-down n1.example.com --reason POISON
power set n1.example.com POISON
power set n1.example.com driver=POISON
power set n1.example.com driver=ipmi address=POISON
power unset POISON
power list
power discover POISON
power discover --within POISON
power rotate POISON
power show n1.example.com
power on POISON
power off POISON
power cycle n1.example.com --reason POISON
power check n1.example.com --reason POISON
token create POISON
token create ann --reason POISON
token list
token show POISON
token revoke POISON
bootenv list
bootenv show POISON
bootenv create POISON kind=local
bootenv set POISON image=x
bootenv delete POISON
installation show POISON
installation show n1.example.com
installation identity n1.example.com POISON POISON POISON
installation report n1.example.com failed --detail POISON
node reinstall n1.example.com
node reinstall POISON
node decommission n1.example.com
node decommission POISON
node recommission POISON
node rescue POISON
node rescue n1.example.com --end
login POISON
logout POISON
deployment checks lab --schedule POISON
noderole redeploy base@n1.example.com --dry-run
noderole set base@n1.example.com POISON=1
noderole set base@n1.example.com note=POISON
noderole unset base@n1.example.com POISON
deployment unset lab base POISON
graph
graph --format mermaid
image list
image show jammy
image log jammy
image log jammy 0000000002
image export
image import {import}
image pause jammy --reason POISON
image unpause jammy
image build jammy --reason POISON
image delete jammy --build 0000000001 --yes
upload list
image erase POISON
upload leaks
upload delete jammy 0000000002 POISON
request create --label POISON
request list
request show 100-0000000000
request show POISON
request delete POISON --yes
lease list
lease show 0000000000
lease show POISON
lease take POISON
lease take 100-0000000000
lease hold 0000000000 --comment POISON
lease release 0000000000
lease return POISON
lease leaks
lease leaks POISON
lease delete 0000000000 --yes
lease run --label POISON --dry-run -- POISON
lease run --label POISON --wait-timeout 1s -- POISON
pool list
pool show west/POISON
pool show POISON
pool erase POISON --yes
request delete 100-0000000000 --yes
daemon list
lock list
secret list
secret rotate
secret keygen {folder}/new.key
export
apply -f {site} --dry-run
node import {table}
record list
record show /ocb/roles/base
record show {record}
record delete {record} --yes
config check --config {config} --offline
completion bash
man {folder}/man
rollout check {strategy}
rollout check {good}
rollout plan {good} --deployment lab
rollout select {selector}
rollout start {good} --deployment lab
rollout list
rollout show lab
rollout accept lab all --reason POISON
rollout promote lab all
rollout cancel lab --reason POISON
rollout wait lab --timeout 1
rollout resume lab
rollout retry lab
tasks check {badtasks}
tasks check {tasks}
tasks upload {tasks} --deployment lab
tasks sync --dir {folder}
tasks list
tasks show first --deployment lab
tasks show POISON --deployment lab
tasks plan --deployment lab
tasks plan --deployment lab --tasks POISON
tasks graph --deployment lab
tasks run --deployment lab
tasks runs lab
tasks history lab
events --since 1h
history POISON
history --since 1h
tasks stop lab
tasks wait lab --timeout 1
tasks download --deployment lab --dir {folder}
noderole retry base@n1.example.com
noderole propose base@n1.example.com
noderole unbind top@n1.example.com --dry-run
deployment propose lab
deployment commit lab --dry-run
node unavailable n1.example.com
node available n1.example.com
node delete n1.example.com --yes
deployment create POISON
deployment delete lab --yes
restored --reason POISON
init
acl check
acl init
POISON
node POISON
node list --POISON
node list -o POISON
--POISON
""".strip().splitlines()


#: Of these the verbs that look on, which a real terminal is given in one go.
LOOKING: Final = [
    line
    for line in LINES
    if line.split()[1:2]
    in (["list"], ["show"], ["explain"], ["log"], ["history"], ["runs"], ["plan"], ["check"], ["leaks"])
    or line.startswith(("status", "graph", "events", "POISON", "node POISON", "--POISON"))
]

#: Runs the command line for each of the lines in a file, all in one process.
ALL_IN_ONE: Final = """
import contextlib, json, sys
from nodepool_ocb.cli.main import cli
for number, words in enumerate(json.load(open(sys.argv[1]))):
    with contextlib.suppress(SystemExit):
        cli(words, prog_name="nodepool-ocb")
    print(f"\\n-- {number}", flush=True)
"""


@pytest.fixture
def poisoned(world: Session, becomes: Callable[..., None], tmp_path: Path) -> Session:
    """The world of the other tests, with a run that failed, images and daemons; every text in it is poisoned."""
    log = tmp_path / "run.log"
    log.write_text(f"{POISON}\n")
    becomes("base@n1.example.com", State.ERROR, reason=POISON, by=POISON, run="1-a")
    run = Run(
        annealer=POISON, started=1.0, ended=2.0, outcome="failed", generation=1, epoch=1, reason=POISON, tail=f"{POISON}\n",
        log=f"{socket.gethostname()}:{log}",
    )  # fmt: skip
    changes: list[Any] = [Create(paths.run("base", "n1.example.com", "1-a"), run)]
    path = paths.node("n1.example.com")
    znode = world.get(path)
    assert znode is not None
    node = replace(codec.decode(Node, znode), reason=POISON, tags=(POISON,), labels={POISON: POISON}, rack=POISON)
    changes.append(Set(path, node, znode.version))
    changes.append(Create(paths.wall("base", "n1.example.com"), {POISON: POISON}))
    changes.append(Create(paths.role("r\u202e"), {"not": "a role"}))  # the name of a znode, and garbage
    world.commit(changes)
    daemon = Daemon(host=POISON, pid=1, version=POISON, started=time.time(), jigs=(POISON,))
    world.ensure(paths.daemons("annealer"))
    world.commit([Create(paths.daemon("annealer", "a\u202e"), daemon, ephemeral=True)])
    launcher = PlayedLauncher(world)
    launcher.registers(POISON, pool=POISON)
    taken = launcher.makes(POISON, pool=POISON, hostname=POISON, comment=POISON, interface_ip=POISON, username=POISON)
    asked = NodeRequest(
        state=RequestState.REQUESTED, state_time=1.0, node_types=(POISON,), requestor=POISON, tenant_name=POISON, reason=POISON
    )  # fmt: skip
    world.create_next(f"{paths.REQUESTS}/100-", asked)
    launcher.fulfils("100-0000000000", taken)
    builder = Builder(world, host=f"h{POISON}")
    texts: dict[str, Any] = {"reason": POISON, "tail": POISON, "metadata": {POISON: POISON}}
    builder.made(BuildState.FAILED, log=f"{socket.gethostname()}:{log}", **texts)
    build = builder.made(BuildState.READY, **texts)
    builder.uploads(build, "west\u202e", UploadState.FAILED, reason=POISON, external_id=POISON)
    return world


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Files whose keys, values and faults are poisoned."""
    escaped = json.dumps(POISON)
    texts = {
        "barclamp.yml": f"barclamp: {{name: b, {escaped}: 1}}\nroles: [{{name: {escaped}, jig: noop, {escaped}: {escaped}}}]\n",
        "import.json": json.dumps({"version": 1, "images": {POISON: {POISON: POISON}}}),
        "config.yaml": f"annealer: {{slots: 3, {escaped}: {escaped}}}\n",
        "strategy.yaml": STRATEGY.format(more=f", {escaped}: {escaped}"),
        "good.yaml": STRATEGY.format(more=""),
        "selector.yaml": f"node_tags: [{escaped}]\n",
        "site.yaml": f"site: 1\nnodes: {{n1.example.com: {{rack: {escaped}, labels: {{{escaped}: {escaped}}}}}}}\n",
        "table.csv": f"fqdn,tags\nn8.example.com{POISON},a\n",
    }
    task = f"- {{id: first, type: shell, role: ['*'], parameters: {{cmd: {escaped}}}}}\n"
    texts |= {"tasks.yaml": task, "badtasks.yaml": f"{task}- {{id: {escaped}, {escaped}: {escaped}}}\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    made = {name.partition(".")[0]: str(tmp_path / name) for name in texts}
    return made | {"record": "/ocb/roles/r\u202e", "folder": str(tmp_path)}


#: The forms of an output beside its text.
OTHERS = ("json", "yaml", "name")


@pytest.mark.parametrize("forms", [1, pytest.param(3, marks=pytest.mark.long)])
def test_no_verb_lets_a_control_character_through(
    poisoned: Session, files: dict[str, str], ocb: Ocb, forms: int
) -> None:
    """The short form asks each verb for its text, and for one of the three other forms in turn."""
    assert poisoned.connected
    spoke = 0
    for number, line in enumerate(LINES):
        words = [word.replace("POISON", POISON) for word in line.format_map(files).split()]
        others = [["-o", OTHERS[(number + more) % len(OTHERS)]] for more in range(forms)]
        for form in ([], *others):
            if form and line.startswith(("POISON", "--", "node POISON", "noderole log base@n1.example.com -f")):
                continue
            result = ocb(*words, *form)
            assert not odd(result.output), (line, form, result.output)
            assert "error: unexpected" not in result.output, (line, result.output)
            spoke += SHOWN[:8] in result.output
    assert spoke > 40, "the poison was there"


@needs_tmux
def test_nothing_that_machines_say_changes_a_real_terminal(
    poisoned: Session, files: dict[str, str], tmp_path: Path
) -> None:
    assert poisoned.connected
    lines = [line.replace("POISON", POISON).format_map(files).split() for line in LOOKING]
    (tmp_path / "lines.json").write_text(json.dumps(lines))
    (tmp_path / "all.py").write_text(ALL_IN_ONE)
    (tmp_path / "poison").write_text(POISON)
    with screen(tmp_path) as tmux:
        before = tmux.state(), tmux.clipboard()
        tmux.runs(f"{sys.executable} {tmp_path}/all.py {tmp_path}/lines.json </dev/null")
        assert (tmux.state(), tmux.clipboard()) == before
        text = tmux.text()
        assert text.startswith("$ "), "what stood on the screen before is there"
        assert [line for line in text.splitlines() if line.startswith("-- ")] == [f"-- {n}" for n in range(len(lines))]
        assert text.count("\\x1b]0;owned") > len(lines) / 2, "it was there to be shown"
        tmux.runs(f"cat {tmp_path}/poison")
        assert "owned" in tmux.state(), "a terminal would have been changed"


def test_every_verb_is_asked() -> None:
    asked = {" ".join(words[:2]) for words in map(str.split, LINES)} | {line.split()[0] for line in LINES}
    assert {title for title, _ in verbs(click.Context(cli))} <= asked


def test_documents_are_exact_though_nothing_in_them_acts_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    value: Json = {POISON: [POISON, "ä\n\t"]}
    terminal.document(value)
    printed = capsys.readouterr().out
    assert not odd(printed)
    assert json.loads(printed) == value
    terminal.yaml_document(value)
    printed = capsys.readouterr().out
    assert not odd(printed)
    assert yaml.safe_load(printed) == value


def test_bytes_are_shown_however_they_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    data = f"ä{POISON}ü\n".encode() + b"\xff\x9b\n"
    printer = terminal.Printer()
    for place in range(len(data)):
        printer.take(data[place : place + 1])
    printer.close()
    assert capsys.readouterr().out == f"ä{visible(POISON)}ü\n\\xff\\x9b\n"


class Line(View, frozen=True):
    """A row of two columns."""

    name: str
    reason: str


@pytest.mark.parametrize("interrupted", [False, True])
def test_what_is_said_after_half_a_line_begins_a_line_on_a_terminal_and_a_pipe_gets_the_bytes_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    def print_half_a_line() -> str:
        with suppress(KeyboardInterrupt), logs.printer(raw=False) as out:
            out(b"one\ntw")
            out(b"")
            if interrupted:
                raise KeyboardInterrupt
        return capsys.readouterr().out

    assert print_half_a_line() == "one\ntw"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert print_half_a_line() == "one\ntw\n"
    with logs.printer(raw=False) as out:
        out(b"one\n")
    assert capsys.readouterr().out == "one\n"


def test_the_first_column_of_a_table_stays_however_narrow_the_terminal_is() -> None:
    widths = {"deployment": 16, "drifted": 7, "unknown": 7, "unchecked": 9, "in_sync": 7, "advice": 57}
    assert list(output.narrowed(widths, [], 80)) == ["deployment", "drifted", "unknown", "advice"]


def test_a_line_of_a_picture_is_cut_to_the_terminal() -> None:
    drawn = io.StringIO()
    drawn.isatty = lambda: True  # type: ignore[method-assign]
    with Live(drawn) as live:
        live._live.console.width = 20
        live.show("12 of 16 ACTIVE, 3 running, 1 ERROR")
        shown = drawn.getvalue()
    assert "12 of 16 ACTIVE, 3 " in shown
    assert "ERROR" not in shown


def test_a_table_is_as_wide_as_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    output.render(output.table([Line("a\x1b[2J", "b"), Line("c", "d")], ("name", "reason")))
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["NAME      REASON", "a\\x1b[2J  b", "c         d"]


def test_a_picture_of_rich_shows_what_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    output.console().print(f"a{POISON}")
    assert not odd(capsys.readouterr().out)
