"""Every transaction of every verb loses its answer while another writer writes: the report is ZooKeeper's outcome."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final

import click
import pytest
from msgspec.structs import replace

from nodepool_ocb.cli.kit.walking import verbs
from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine import powering
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import UploadState
from nodepool_ocb.model.joining import MachineRegistration
from nodepool_ocb.model.records import Create, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.builder.fleet_of_builders import BuilderFleet
from tests.cli.images.played_builder import Builder
from tests.cli.pools.played_launcher import PlayedLauncher
from tests.cli.rollouts.driving import Driver
from tests.fixtures.commands import Ocb
from tests.journeys.answers import lossy_daemon, write_sites
from tests.journeys.answers.lost_answers import Ledger, Rival, faults, read, table, untried

N1, N2, N3 = "n1.example.com", "n2.example.com", "n3.example.com"

#: Verbs that are not typed here, each with the reason and the file of its tests.
ELSEWHERE: Final = {
    "acl init": "it sets rights, and no znode: tests/cli/test_acl.py",
    "rollout accept": "it writes as `rollout retry` does: tests/cli/rollouts/test_rollout_verbs.py",
    "rollout promote": "it writes as `rollout retry` does: tests/cli/rollouts/test_rollout_verbs.py",
    "upload leaks": "it deletes at a provider: tests/cli/images/test_upload_leaks.py",
    "lease leaks": "it deletes at a provider: tests/cli/pools/test_lease_leaks.py",
    "installation identity": "an installer asks for it: tests/api/test_api_installations.py",
    "installation report": "an installer asks for it: tests/api/test_api_installations.py",
    "node decommission": "it writes as `node bind` and `noderole redeploy` do: tests/operations/test_decommissioning.py",
    "node recommission": "it writes as `node set` does: tests/operations/test_decommissioning.py",
    "node rescue": "it writes as `node bind` and `noderole redeploy` do: tests/operations/test_decommissioning.py",
    "node reinstall": "it writes as `noderole redeploy` does: tests/operations/test_reinstalling.py",
    "lease run": "it waits for a launcher, beside a command that runs: test_lost_answers_of_leases.py",
    "registration create": "after a lost answer it is a stranger: tests/api/test_joining_machines.py",
    "registration poll": "it needs a secret, and each poll gives a new token: tests/api/test_joining_machines.py",
    "power rotate": "it needs key files, and writes as `power on` does: tests/operations/test_power_operations.py",
    "secret rotate": "it needs key files, and writes as `noderole set` does: tests/cli/test_secret.py",
}

#: The sites of a builder that goes through a build, its upload and the deletion of both.
BUILDING: Final = (
    "builder.build.Building._commit",
    "builder.build.Building._number#1",
    "builder.cleanup.steps._mark_build",
    "builder.cleanup.steps._mark_upload",
    "builder.cleanup.steps._remove_build",
    "builder.cleanup.steps._remove_locked",
    "builder.upload.Uploading._begin#1",
    "builder.upload.Uploading._begin#2",
    "builder.upload.Uploading._end",
    "builder.upload.Uploading._make_room",
)

#: What is typed, in order. A line in brackets is something that a daemon did meanwhile.
#: REQUEST and LEASE stand for the newest request and the newest node of a pool.
WALK: Final = [
    "init", "barclamp import extra.yml", "barclamp import chain.yml", "role delete lonely --yes",
    "barclamp delete extra --yes", "deployment create lab", "deployment create sub --parent lab",
    "deployment set lab middle middle-size=3", "deployment unset lab middle middle-size --yes",
    f"node create {N1} --deployment lab --address 192.0.2.9", f"node create {N2} --virtual",
    "node import nodes.csv", f"node set {N1} rack=r2", f"node move {N2} lab", f"node unavailable {N1}",
    f"node available {N1}", f"node hold {N1} --reason disk", f"node release {N1}", f"node rename {N2} {N3}",
    f"node dead {N1}", f"node alive {N1}", f"node set {N1} admin=true macs=52:54:00:00:00:01",
    "network create admin subnet=10.1.0.0/24 ranges.host=10.1.0.20-10.1.0.29 ranges.dhcp=10.1.0.100-10.1.0.199",
    "network set admin vlan=7", f"network allocate admin {N1}", f"network release admin {N1}",
    f"network serve admin {N1}", f"network unserve admin {N1}", "network delete admin --yes",
    f"node set {N1} admin=false", "[registered]",
    "adoption set web name=web.example.com", "adoption delete web",
    "registration refuse 52:54:00:00:00:91 --reason laptop", "registration delete 52:54:00:00:00:91", "[registered]",
    "node adopt 52:54:00:00:00:91 j1.example.com", "node inventory j1.example.com facts.json", "node going-down j1.example.com",
    "registration delete 52:54:00:00:00:91", "node hint 52:54:00:00:00:92 j2.example.com", "node delete j1.example.com --yes",
    "node delete j2.example.com --yes",
    f"node bind {N1} top", f"noderole unbind top@{N1} --yes", f"node bind {N1} top",
    f"noderole set middle@{N1} middle-size=2", f"noderole unset middle@{N1} middle-size",
    "deployment commit lab --no-noderoles", f"noderole commit base@{N1}", f"noderole propose base@{N1}",
    f"node commit {N1}", "[ACTIVE]", f"noderole redeploy base@{N1} --yes", "[ACTIVE]", f"noderole refresh base@{N1}",
    "[ACTIVE]", f"noderole check base@{N1}", "[TRANSITION]", f"noderole cancel base@{N1} --reason late", "[ERROR]",
    f"noderole retry base@{N1}", "[ACTIVE]", "deployment checks lab --schedule '0 3 * * *'",
    "deployment pause lab --reason move", "deployment resume lab", "pause --reason move", "resume",
    "deployment commit sub", "deployment propose sub", "deployment commit sub",
    "daemon pause annealer@h1 --reason move", "daemon resume annealer@h1", "[images]",
    "image pause jammy", "image unpause jammy", "image build jammy",
    "upload delete jammy 0000000001 cloud 0000000000 --yes --force",
    "image erase cloud --yes", "image delete jammy --build 0000000000 --yes --force", "image import images.json",
    "token create ann --role viewer", "token revoke TOKEN",
    "bootenv create fw kind=rescue image=fw", "bootenv set fw description=x", "bootenv delete fw",
    f"power set {N1} driver=manual", f"power unset {N1}", f"power set {N1} driver=manual", f"power on {N1}", "[switched]",
    f"power off {N1} --force", "[switched]", f"power cycle {N1} --force", "[switched]", f"power check {N1}", "[switched]",
    "request create --label small", "request delete REQUEST --yes",
    "request create --label small", "[fulfilled]", "lease take REQUEST", "lease return LEASE",
    "lease hold LEASE --comment look", "lease release LEASE", "lease delete LEASE --yes", "pool erase west --yes",
    "[spoiled]", "record delete /ocb/roles/spoiled --yes",
    "tasks upload tasks.yaml --deployment lab", "tasks sync --dir releases",
    f"node bind {N1} late", "rollout start --default --deployment lab", "rollout cancel lab", "[driven]",
    "rollout resume lab", "rollout cancel lab", "[driven]", "rollout retry lab --attempt 2", "rollout cancel lab", "[driven]",
    "node delete m1.example.com --yes", "tasks run --deployment lab --facts-file none", "tasks stop lab",
    "apply -f site.yaml", "deployment delete sub --yes", "restored",
]  # fmt: skip


#: Sites of a builder that need a fault, and go through no moment here.
OF_FAULTS: Final = {
    "builder.build.Building._abort_orphans",
    "builder.build.Building._begin",
    "builder.build.Building._forget.write",
    "builder.build.Building._number#2",
    "builder.cleanup.leaks._Records.disown",
    "builder.cleanup.steps._remove_files",
    "builder.cleanup.steps.remove_uploaded",
    "builder.upload.Uploading._spoiled.write",
}


def test_every_transaction_of_a_builder_is_in_the_table_or_needs_a_fault() -> None:
    sites = {name for name in write_sites.names() if name.startswith("builder.")}
    assert sites == OF_FAULTS | set(BUILDING)


def test_every_verb_that_writes_is_in_the_walk() -> None:
    writing = {name for name, command in verbs(click.Context(cli)) if getattr(command, "writes", False)}
    walked = {name for name in writing for line in WALK if f"{line} ".startswith(f"{name} ")}
    assert writing - walked - set(ELSEWHERE) == set()


@pytest.mark.parametrize(
    "rival",
    [
        pytest.param(Rival.TOUCH, marks=pytest.mark.long),
        Rival.STRUCTURE,
        pytest.param(Rival.SAME, marks=pytest.mark.long),
    ],
)
def test_what_every_verb_is_told_of_a_lost_answer_is_so(
    rival: Rival,
    zk_settings: ZooKeeperSettings,
    zk_session: Session,
    ocb: Ocb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _documents(tmp_path)
    monkeypatch.chdir(tmp_path)
    failed = []
    with Ledger(zk_settings, rival) as ledger:
        for line in WALK:
            _meanwhile(zk_session, line)
            if line.startswith("["):
                continue
            ledger.about = line
            words = shlex.split(_numbered(zk_session, line))
            with ledger.watch():
                answer = ocb(*words)
            if answer.exit_code:
                answer = ocb(*words)  # another writer changed the same things on and on
            if answer.exit_code:
                failed.append((line, answer.exit_code, answer.output))
    print("\n".join(table(ledger.reports)), *failed, sep="\n")
    print(untried(ledger.reports, [x for x in write_sites.names() if x.split(".")[0] not in ("annealer", "builder")]))
    assert faults(ledger.reports) == []
    assert rival is Rival.SAME or failed == []  # where another did the same before, a verb may find nothing to do


@pytest.mark.long
def test_what_a_builder_is_told_of_a_lost_answer_is_so(builders: BuilderFleet, ocb: Ocb, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    builder = builders.builder(
        builders.image("jammy"),
        providers=[builders.provider("north", "jammy")],
        session_seconds=20.0,
        retry_seconds=0.05,
        cleanup_seconds=0.1,
        sweep_seconds=0.5,
        launcher=(lossy_daemon.__file__, "builder"),
    )
    hosts = builders.settings(5.0).hosts
    builder.begin(RIVAL=hosts, LEDGER=str(ledger))
    builders.until_ready("jammy", seconds=60.0)

    def tried() -> bool:
        if not untried(read(ledger), BUILDING):
            return True
        if builders.uploads("jammy", UploadState.READY):
            ocb("image", "delete", "jammy", "--yes", "--force")  # then none is ready, and another is built
        return False

    builders.until(tried, "each site has gone through each moment", 60.0)
    reports = read(ledger)
    print("\n".join(table(reports)))
    assert faults(reports) == []


def _documents(folder: Path) -> None:
    (folder / "chain.yml").write_text(
        "barclamp: {name: chain, version: 1}\nroles:\n"
        "  - {name: base, jig: script, script: 'true', check: 'true', flags: [implicit]}\n"
        "  - {name: middle, jig: noop, flags: [implicit], requires: [base],\n"
        "     attribs: [{name: middle-size, map: middle/size, default: 1, schema: {type: int}}]}\n"
        "  - {name: top, jig: noop, requires: [middle]}\n  - {name: late, jig: noop}\n  - {name: lonely, jig: noop}\n"
    )
    (folder / "extra.yml").write_text("barclamp: {name: extra, version: 1}\nroles: [{name: alone, jig: noop}]\n")
    (folder / "facts.json").write_text('{"memory": 1}')
    (folder / "nodes.csv").write_text("fqdn,address,deployment\nm1.example.com,192.0.2.1,lab\n")
    (folder / "tasks.yaml").write_text(
        "- {id: deploy, type: stage}\n"
        "- {id: one, type: shell, role: '*', requires: [deploy], parameters: {cmd: 'true', retries: 0, timeout: 60}}\n"
    )
    (folder / "releases/9.0").mkdir(parents=True)
    (folder / "releases/9.0/tasks.yaml").write_text("- {id: deploy, type: stage}\n")
    build = {"state": "ready", "state_time": 1.0, "builder": "h", "builder_id": "i", "filename": "f", "uploads": {}}
    images = {"schema": 1, "images": {"focal": {"builds": {"0000000007": build}}}}
    (folder / "images.json").write_text(json.dumps(images))
    (folder / "site.yaml").write_text("site: 1\nnodes: {s1.example.com: {virtual: true}}\n")


def _meanwhile(session: Session, line: str) -> None:
    """The part of the daemons, before a line."""
    if line.startswith(("[ACTIVE]", "[TRANSITION]", "[ERROR]")):
        state = State(line[1:-1])
        for vertex in load_world(session).vertices():
            record = vertex.record
            if vertex.node.name == N1 and record.state is not State.PROPOSED:
                moved = record.amended(state=state, refresh=False, check=None, cancel_reason=None)
                session.commit([Set(paths.noderole(vertex.role, N1), moved, vertex.version)])
    if line == "[images]":
        builder = Builder(session)
        builds = [builder.made() for _ in range(3)]
        for build in builds[1:]:
            builder.uploads(build, "cloud")
    if line == "[driven]":
        Driver(session).run_out()
    if line == "[fulfilled]":
        launcher = PlayedLauncher(session)
        launcher.fulfils(launcher.requests()[-1], launcher.makes())
    if line == "[switched]":
        stored = powering.record_of(load_world(session), N1)
        session.commit([Set(paths.power(N1), replace(stored.record, request=None), stored.version)])
    if line == "[registered]":
        machine = MachineRegistration(macs=("52:54:00:00:00:91",), digest="0" * 64)
        session.commit([Create(paths.registration(machine.macs[0]), machine)])
    if line == "[spoiled]":
        session.commit([Create(paths.role("spoiled"), {"schema": 1})])


def _numbered(session: Session, line: str) -> str:
    """The line with the ids of the newest request, the newest node of a pool, and a token."""
    for word, folder in (("REQUEST", paths.REQUESTS), ("LEASE", paths.POOL_NODES), ("TOKEN", paths.TOKENS)):
        if word in line.split():
            line = line.replace(word, max(session.children(folder) or [word]))
    return line
