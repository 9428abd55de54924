"""What the pages for people print works as printed: pages.py says which block is what."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nodepool_ocb.cli.main import cli
from tests.docs.pages import PAGES, PROGRAM, ROOT, Block, Fate, blocks, commands, script
from tests.docs.stage import command

MACHINES = [f"192.0.2.{number}" for number in range(11, 15)]
BIN = Path(sys.executable).parent
#: What `pip install` makes, for the tests that have no network.
INSTALLED = f"mkdir -p /opt/nodepool-ocb\nln -s {shlex.quote(str(BIN))} /opt/nodepool-ocb/bin\n"
BLOCKS = [block for page in PAGES for block in blocks(page)]
#: The README and the pages that continue it, in their order.
FIRSTS = ("README.md", *(f"docs/first-{name}.md" for name in ("deployment", "rollout", "task-list", "image", "lease")))


def called(block: Block) -> str:
    return block.place


def stageable() -> bool:
    """Whether this host lets us make hosts; in many containers not even root may."""
    return os.geteuid() == 0 and not subprocess.run(["unshare", "-n", "-m", "true"], capture_output=True).returncode


needs_stage = pytest.mark.skipif(not stageable(), reason="needs root, and the right to make namespaces")


def follow(text: str, folder: Path, machines: list[str], *, network: bool = False) -> str:
    """Run a script on a stage; gives what it printed."""
    file = folder / "script"
    file.write_text(text)
    words = command(file, machines, network=network)
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=570)
    except subprocess.TimeoutExpired as late:
        said = [(each or b"").decode(errors="replace") for each in (late.stderr, late.stdout)]
        raise AssertionError(
            f"not within {late.timeout} s:\n{said[0][-6000:]}\n-- stdout --\n{said[1][-4000:]}"
        ) from None
    assert done.returncode == 0, f"{done.stderr[-6000:]}\n-- stdout --\n{done.stdout[-4000:]}"
    return done.stdout


@needs_stage
@pytest.mark.parametrize(
    ("pages", "ready", "same"),
    [
        pytest.param(FIRSTS[:1], 1, 1, id="readme"),
        pytest.param(FIRSTS, 4, 2, id="first pages", marks=pytest.mark.long),
    ],
)
def test_a_new_user_of_the_readme_and_the_first_pages_has_machines_ready(
    tmp_path: Path, pages: tuple[str, ...], ready: int, same: int
) -> None:
    """So many are ready, and the first ones have what the pages wrote; the short form follows the README alone."""
    ask = "".join(
        f"ssh -i /etc/nodepool-ocb/id_ed25519 root@{machine} 'ls /tmp/try/etc/motd; cat /tmp/try/var/lib/nodepool-ocb/packages'\n"
        for machine in MACHINES[:same]
    )
    ends = f"echo THE END\nnodepool-ocb noderole list --state ACTIVE -o name | sort\n{ask}"
    text = "".join(script(ROOT / page) for page in pages)
    printed = follow(INSTALLED + text + ends, tmp_path, MACHINES).partition("THE END\n")[2]
    assert {f"crowbar-managed-node@n{n}.example.com" for n in range(1, ready + 1)} < set(printed.split())
    assert printed.endswith("/tmp/try/etc/motd\nvim\ntmux\n" * same)


@needs_stage
def test_what_operations_says_of_the_install_works(tmp_path: Path) -> None:
    page, key, settings = (
        ROOT / "docs/operations.md",
        "/etc/nodepool-ocb/id_ed25519",
        "/etc/nodepool-ocb/nodepool-ocb.yaml",
    )
    again = "".join(block.text for block in blocks(page) if "useradd" in block.text or "ssh-keygen" in block.text)
    kept = f"echo '# ours' >>{settings}\nsha256sum {key} {settings} >sums\n{again}sha256sum --quiet -c sums\n"
    ends = f"{kept}echo THE END\nstat -c '%a %U' {key} {settings}\n"
    printed = follow(INSTALLED + script(page) + ends, tmp_path, MACHINES[:1])
    assert printed.partition("THE END\n")[2] == "600 nodepool-ocb\n640 root\n"


@pytest.mark.long
@needs_stage
def test_a_directory_of_fuel_runs_on_three_machines_in_ten_commands(tmp_path: Path) -> None:
    readme = script(ROOT / "README.md").partition("ssh-copy-id ")[0]  # the installation, and an annealer
    (ten,) = (block for block in blocks(ROOT / "docs/from-fuel.md") if "tasks sync" in block.text)
    ask = f"ssh -i /etc/nodepool-ocb/id_ed25519 root@{MACHINES[2]} 'cat /tmp/try/order; head -c 4 /etc/astute.yaml'\n"
    ends = f"echo THE END\nnodepool-ocb tasks history lab -o name | sort\n{ask}"
    printed = follow(INSTALLED + readme + script(ROOT / "docs/from-fuel.md") + ends, tmp_path, MACHINES[:3])
    assert len(ten.text.splitlines()) == 10
    assert {f"services@node-{n}.example.com" for n in (1, 2, 3)} < set(printed.partition("THE END\n")[2].split())
    assert "network\nservices\n" in printed.partition("THE END\n")[2]


@pytest.mark.long  # the page is one of the first pages, which are followed above
@needs_stage
def test_a_new_user_of_the_page_about_leases_runs_a_command_with_a_node(tmp_path: Path) -> None:
    readme = script(ROOT / "README.md").partition("(nodepool-ocb-annealer)")[0]  # the installation
    access = f"ssh-copy-id -f -i /etc/nodepool-ocb/id_ed25519.pub root@{MACHINES[1]}\n"
    key = f"ssh -i /etc/nodepool-ocb/id_ed25519 root@{MACHINES[1]} 'grep -c nodepool-ocb-lease .ssh/authorized_keys || true'\n"
    ends = f"echo THE END\nnodepool-ocb lease list -o json\n{key}"
    printed = follow(INSTALLED + readme + access + script(ROOT / "docs/first-lease.md") + ends, tmp_path, MACHINES[:2])
    assert "load average" in printed.partition("THE END\n")[0]
    leases, _, count = printed.partition("THE END\n")[2].rstrip().rpartition("\n")
    assert {row["labels"][0] for row in json.loads(leases)} <= {"debian"}
    assert count == "0"


@pytest.mark.long
@needs_stage
def test_what_the_readme_installs_can_be_called(tmp_path: Path) -> None:
    install = next(block for block in blocks(ROOT / "README.md") if block.fate is Fate.LONG)
    printed = follow(install.text + "/opt/nodepool-ocb/bin/nodepool-ocb --version\n", tmp_path, [], network=True)
    assert "version" in printed


@pytest.mark.parametrize("block", BLOCKS, ids=called)
def test_every_block_is_run_or_says_why_not(block: Block) -> None:
    followed = block.page in (*FIRSTS, "docs/operations.md", "docs/from-fuel.md", "docs/site.md", "docs/day-two.md")
    followed = followed or block.page == "docs/jigs.md"  # tests/jigs/test_third_parties.py
    followed = followed or block.page == "docs/providers.md"  # tests/providers/machines/test_machine_contract.py
    assert block.fate in (Fate.CHECKED, Fate.NOT_RUN) or followed, "no test follows this page: mark the block"
    assert block.word or block.fate in (Fate.RUN, Fate.RUNS_ON, Fate.NOT_RUN)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.fate is Fate.CHECKED], ids=called)
def test_documents_pass_the_check_that_reads_them(block: Block, tmp_path: Path) -> None:
    file = tmp_path / f"document.{block.kind}"
    file.write_text(block.text)
    check = [str(file) if word == "FILE" else word for word in shlex.split(block.word)]
    path = f"{BIN}:{os.environ['PATH']}"
    done = subprocess.run(check, capture_output=True, text=True, env={**os.environ, "PATH": path}, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_a_page_exist_with_their_options(page: Path) -> None:
    wrong = {" ".join(words): found for words in commands(page) if (found := unknown(words))}
    assert not wrong


@pytest.mark.parametrize("daemon", ["annealer", "api", "builder", "launcher"])
def test_the_page_of_commands_has_the_daemons(daemon: str) -> None:
    page = (ROOT / "docs/commands.md").read_text().partition(f"\n## nodepool-ocb-{daemon}\n")[2].partition("\n## ")[0]
    assert all(option in page for option in ("--config", "--zookeeper", "--listen"))


def unknown(words: list[str]) -> list[str]:
    """The words of a call that the command line does not know: nouns, verbs, options."""
    here: click.Command = cli
    context = click.Context(cli, info_name=PROGRAM)
    options = {name for each in cli.params for name in each.opts}
    strange = []
    for word in words[: words.index("--")] if "--" in words else words:
        if (
            isinstance(here, click.Group)
            and not word.startswith("-")
            and word.islower()
            and word.replace("-", "").isalpha()
        ):
            found = here.get_command(context, word)
            if found is None:
                return [*strange, word]
            here = found
            options |= {name for each in here.params for name in (*each.opts, *each.secondary_opts)}
        elif word.startswith("-") and word.partition("=")[0] not in options | {"--help", "-h", "-"}:
            strange.append(word)
    return strange


@pytest.mark.parametrize("words", ["rolout start", "node bind n1 role --dryrun", "deployment commmit web"])
def test_a_command_that_does_not_exist_is_noticed(words: str) -> None:
    assert unknown(words.split())


def test_an_option_comes_from_the_environment_as_the_page_of_commands_says(monkeypatch: pytest.MonkeyPatch) -> None:
    variable, option = re.findall(
        r"`(NODEPOOL_OCB_\w+)` is `--(\w+)` of `node create`", (ROOT / "docs/commands.md").read_text()
    )[0]
    monkeypatch.setenv(variable, "web db")
    context = cli.make_context(PROGRAM, ["node", "create", "n1.example.com"])
    for name in ("node", "create"):
        assert isinstance(context.command, click.Group)
        found = context.command.get_command(context, name)
        assert found is not None
        context = found.make_context(name, [*["create"][: name == "node"], "n1.example.com"], parent=context)
    asked = {name: each.name for each in context.command.params for name in each.opts}[f"--{option}"]
    assert context.params[str(asked)] == ("web", "db")
