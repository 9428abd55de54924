"""Jigs, role classes and providers of other packages: one that is no use is left out by name, and harms nothing else."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from nodepool_ocb import extensions, providers
from nodepool_ocb.catalogue import code
from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import Settings
from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import backends
from nodepool_ocb.images.diskimages import Diskimage
from nodepool_ocb.images.nodepool import Provider
from nodepool_ocb.jigs import installed
from nodepool_ocb.model.records import Role, State
from nodepool_ocb.providers.provider import Refused, Sent, send
from nodepool_ocb.testing.processes import CutDaemon
from tests.docs.pages import ROOT, Fate, blocks
from tests.journeys.fleet import Fleet

SOURCE: Final = """
from nodepool_ocb.catalogue.code import Role
from nodepool_ocb.jigs import Succeeded


class Whole:
    name, instant, attaches = "whole", False, True
    def __init__(self, settings): ...
    def run(self, order, stop):
        return Succeeded(order.attributes, tail="one line\\n")
    def cancel(self, order): ...
    def close(self): ...

class Mute(Whole):
    def run(self, order, stop):
        return Succeeded(order.attributes)

class Bare:
    def __init__(self, settings): ...
    def run(self, order): ...

class OneArgument(Whole):
    def run(self, order): ...

class Texts(Whole):
    instant = "no"

class Unmade(Whole):
    def __init__(self): ...

class Raises(Whole):
    def run(self, order, stop):
        raise RuntimeError("the API is away")

class Odd(Whole):
    def run(self, order, stop):
        return {"answer": 42}

class Loud(Whole):
    def close(self):
        raise RuntimeError("it does not close")

class Watched(Role):
    def on_active(self, hooked): ...

class Deaf(Role):
    def on_active(self): ...

class NoRole: ...

class Cloud:
    def __init__(self, provider): ...
    @staticmethod
    def faults(provider):
        raise KeyError("region")

class Halved:
    def __init__(self, provider): ...
    @staticmethod
    def faults(provider): return []
    def upload(self, item): ...
"""
BROKEN: Final = "import nothing_of_this_name\n"
EGG: Final = (sys.executable, "-c", "from setuptools import setup; setup()", "--quiet")
JIGS: Final = ("whole", "mute", "bare", "one-argument", "texts", "unmade", "raises", "odd", "loud")


def package(folder: Path) -> Path:
    """A folder for the path of Python with two packages: acme, with good and bad classes, and broken."""
    points = {
        "nodepool_ocb.jigs": [f"acme-{jig} = acme_code:{jig.title().replace('-', '')}" for jig in JIGS],
        "nodepool_ocb.roles": [f"acme-{name} = acme_code:{cls}" for name, cls in ROLES.items()],
        "nodepool_ocb.providers": ["acme-cloud = acme_code:Cloud", "acme-halved = acme_code:Halved"],
        "nodepool_ocb.backends": ["acme-bare = acme_code:Bare"],
    }
    points["nodepool_ocb.jigs"] += ["acme-broken = acme_broken:Jig", "noop = acme_code:Whole"]
    points["nodepool_ocb.providers"].append("acme-broken = acme_broken:Driver")
    info = folder / "acme_ocb-1.dist-info"
    info.mkdir(parents=True)
    (folder / "acme_code.py").write_text(SOURCE)
    (folder / "acme_broken.py").write_text(BROKEN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-ocb\nVersion: 1\n")
    lines = [f"[{group}]\n" + "\n".join(each) for group, each in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


ROLES: Final = {"watched": "Watched", "deaf": "Deaf", "norole": "NoRole"}


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both packages, in this process."""
    monkeypatch.syspath_prepend(str(package(tmp_path / "site")))
    code.look_again()
    yield
    monkeypatch.undo()
    for name in ("acme_code", "acme_broken"):
        sys.modules.pop(name, None)
    code.look_again()


@pytest.mark.usefixtures("acme")
def test_each_jig_is_checked_by_itself_and_one_that_breaks_the_contract_is_left_out() -> None:
    usable, left_out = installed(Settings())
    reasons = extensions.titled(left_out)
    assert {"acme-whole", "acme-mute", "acme-raises", "script", "noop"} <= usable.keys()
    assert type(usable["noop"]).__module__ == "nodepool_ocb.jigs.noop"
    assert {key: text.partition(": ")[2].partition(": ")[2] for key, text in reasons.items()} == {
        "jig acme-bare": "it has no `name`",
        "jig acme-broken": "it cannot be loaded: ModuleNotFoundError: No module named 'nothing_of_this_name'",
        "jig acme-one-argument": "`run` is called as run(order, stop), and takes run(order)",
        "jig acme-texts": "`instant` is no bool",
        "jig acme-unmade": "it cannot be loaded: TypeError: Unmade.__init__() takes 1 positional argument but 2 were given",
        "jig noop": "package nodepool-ocb offers this name too, and is used",
    }
    assert all(text.startswith("acme-ocb: acme_") for text in reasons.values())


@pytest.mark.usefixtures("acme")
def test_a_class_of_a_role_is_checked_when_it_is_found_and_its_role_alone_is_refused() -> None:
    assert "acme-watched" in code.installed()
    assert {each.name for each in code.left_out()} == {"acme-deaf", "acme-norole"}
    assert code.find("acme-watched", "b") is not None
    with pytest.raises(Invalid, match=r"role acme-deaf is left out: .* `on_active` is called as on_active\(hooked\)"):
        code.find("acme-deaf", "b")
    with pytest.raises(Invalid, match=r"it is no subclass of nodepool_ocb.catalogue.code.Role"):
        code.find("any", "acme-norole")


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("driver", "fault"),
    [
        ("acme-broken", "provider acme-broken is left out: acme-ocb: acme_broken:Driver: it cannot be loaded"),
        ("acme-cloud", "driver `acme-cloud` raised KeyError: 'region'"),
        ("acme-halved", "driver `acme-halved`: it has no `verify`"),
    ],
)
def test_a_driver_of_a_provider_that_is_no_use_refuses_that_provider(driver: str, fault: str) -> None:
    with pytest.raises(Invalid) as refused:
        providers.open(Provider(name="p", driver=driver, format="raw"))
    assert fault in str(refused.value)
    assert "local" in providers.installed().usable


class Uploader:
    """Answers an upload in one way."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def upload(self, item: Any) -> Any:  # noqa: ARG002
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_a_driver_that_raises_or_answers_oddly_has_its_upload_refused() -> None:
    item: Any = None
    assert send(Uploader(Sent("x")), item) == Sent("x")  # type: ignore[arg-type]
    raised = send(Uploader(KeyError("region")), item)  # type: ignore[arg-type]
    assert raised == Refused("the driver raised KeyError: 'region'; correct its package")
    odd = send(Uploader(None), item)  # type: ignore[arg-type]
    assert odd == Refused("the driver answered NoneType, which is neither Sent nor Refused; correct its package")


@pytest.mark.usefixtures("acme")
def test_a_backend_that_is_no_use_refuses_no_configuration_and_builds_nothing() -> None:
    checkers, left_out = backends.checkers()
    assert [each.title for each in left_out] == ["backend acme-bare"]
    image = Diskimage(
        name="i", elements=(), release=None, env_vars={}, formats=("raw",), options={}, backend="acme-bare"
    )
    assert backends.faults(image, checkers) == []
    from nodepool_ocb_builder import backends as built

    usable, _ = built.installed()
    assert built.missing(usable["acme-bare"]).startswith("backend acme-bare is left out: acme-ocb")
    assert built.missing(usable["command"]) == ""


# -- at work --


def ocb(fleet: Fleet, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--zookeeper", fleet.hosts, *words], prog_name="nodepool-ocb")


def shown(fleet: Fleet, *words: str) -> str:
    answer = ocb(fleet, *words)
    assert answer.exit_code == 0, answer.output
    return answer.output


@pytest.fixture
def annealer(fleet: Fleet) -> CutDaemon:
    return fleet.annealer(slots=2, log_dir=str(fleet.folder / "runs")).begin(
        PYTHONPATH=str(package(fleet.folder / "site"))
    )


def jig(name: str) -> Role:
    return Role(barclamp="acme", jig=f"acme-{name}")


def test_a_bad_jig_holds_back_its_own_noderoles_alone_and_is_named_everywhere(
    fleet: Fleet, annealer: CutDaemon
) -> None:
    fleet.add_role("first", fleet.work(0.0))
    fleet.add_role("api", jig("bare"))
    fleet.add_role("deaf", Role(barclamp="b", jig="noop", hooks=("on_active",)))
    fleet.add_role("acme-deaf", Role(barclamp="b", jig="noop", hooks=("on_todo",)))
    first = fleet.bind("first", fleet.nodes[0])
    api = fleet.bind("api", fleet.nodes[0], [first])
    deaf = fleet.bind("acme-deaf", fleet.nodes[0], hooks=("on_todo",))
    fleet.until_state(first, State.ACTIVE)
    fleet.until(lambda: fleet.state(api) is State.TODO, "its parent is done")
    reason = "acme-ocb: acme_code:Bare: it has no `name`"
    assert f"jig acme-bare: {reason}" in shown(fleet, "daemon", "list")
    assert f"jig acme-bare: {reason}" in shown(fleet, "status")
    explained = shown(fleet, "noderole", "explain", api)
    assert "JIG_INACTIVE: no living annealer has the jig acme-bare: annealer " in explained
    assert f"leaves it out: {reason}" in explained
    assert "mend the package of the jig, then restart the annealer" in explained
    assert "leaves it out: acme-ocb: acme_code:Deaf: it cannot be loaded" in shown(fleet, "noderole", "explain", deaf)
    shown(fleet, "node", "create", "other.example.com", "--virtual")
    refused = ocb(fleet, "node", "bind", "other.example.com", "api")
    assert (refused.exit_code, f"leaves it out: {reason}; mend the package" in refused.output) == (4, True)
    assert f"jig acme-bare is left out: {reason}" in annealer.said
    assert "Traceback" not in annealer.said


def test_a_jig_that_raises_gives_its_slot_back_and_is_no_fault_of_the_host(fleet: Fleet, annealer: CutDaemon) -> None:
    """Two such noderoles fail again and again; a third machine's work goes on, and the annealer stays ready."""
    (machine,) = fleet.nodes
    for number, name in enumerate(("raises", "odd")):
        fqdn = f"bad{number}.example.com"
        fleet.add_node(fqdn, fleet.node(machine))
        fleet.add_role(name, jig(name))
        fleet.bind(name, fqdn)
    raises, odd = "raises@bad0.example.com", "odd@bad1.example.com"
    fleet.until(lambda: fleet.record(raises).reason and fleet.record(odd).reason, "both were given back")
    assert fleet.record(raises).reason == "jig acme-raises raised RuntimeError: the API is away"
    assert fleet.record(odd).reason == "jig acme-odd answered dict, which is no outcome"
    assert {fleet.state(raises), fleet.state(odd)} == {State.TRANSITION}
    fleet.add_role("first", fleet.work(0.0))
    fleet.until_state(fleet.bind("first", machine), State.ACTIVE)
    assert annealer.metric("nodepool_ocb_host_faults_total") == 0
    assert annealer.ready()
    unknown = "the newest attempt ended with: jig acme-raises raised"
    fleet.until(lambda: unknown in explanation(fleet), "it is said")


def explanation(fleet: Fleet) -> str:
    return shown(fleet, "noderole", "explain", "raises@bad0.example.com")


def test_the_log_of_a_jig_of_another_package_is_kept_or_its_absence_is_said(fleet: Fleet, annealer: CutDaemon) -> None:
    (machine,) = fleet.nodes
    for name in ("whole", "mute"):
        fleet.add_role(name, jig(name))
        fleet.until_state(fleet.bind(name, machine), State.ACTIVE)
    kept, silent = ocb(fleet, "noderole", "log", f"whole@{machine}"), ocb(fleet, "noderole", "log", f"mute@{machine}")
    assert kept.stdout == "one line\n"
    assert "this run has no log, since jig acme-mute wrote no output" in silent.stderr
    assert annealer.running()


def test_the_jig_of_the_page_works_as_printed(fleet: Fleet, tmp_path: Path) -> None:
    printed = {block.word: block.text for block in blocks(ROOT / "docs/jigs.md") if block.fate is Fate.FILE}
    for name, text in printed.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    site = tmp_path / "acme-ocb"
    subprocess.run([*EGG, "egg_info"], check=True, cwd=site)  # as pip does, which lacks the package wheel here
    (machine,) = fleet.nodes
    annealer = fleet.annealer(log_dir=str(fleet.folder / "runs")).begin(PYTHONPATH=str(site))
    shown(fleet, "barclamp", "import", str(tmp_path / "acme.yml"))
    server = HTTPServer(("127.0.0.1", 0), Healthy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        shown(fleet, "node", "bind", machine, "--role", "acme-health")
        noderole, url = f"acme-health@{machine}", f"http://127.0.0.1:{server.server_port}/"
        shown(fleet, "noderole", "set", noderole, f'url="{url}"')
        shown(fleet, "noderole", "commit", noderole)
        fleet.until_state(noderole, State.ACTIVE)
        assert ocb(fleet, "noderole", "log", noderole).stdout == f"{url}: 200\n"
        assert "left out" not in annealer.said
    finally:
        server.shutdown()
        server.server_close()


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...
