"""``network``, and the MACs and addresses of nodes, on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from nodepool_ocb.model import paths
from nodepool_ocb.store.client.session import Session

Ask = Callable[..., Any]
Ocb = Callable[..., Result]
N1, N2, N3 = "n1.example.com", "n2.example.com", "n3.example.com"
MAC, OTHER = "52:54:00:12:34:56", "52:54:00:12:34:57"
ADMIN = ("network", "create", "admin", "subnet=10.1.0.0/24", "router=10.1.0.1", "ranges.host=10.1.0.20-10.1.0.29")


@pytest.fixture
def network(ask: Ask) -> None:
    ask(*ADMIN, "ranges.admin=10.1.0.10-10.1.0.19", "ranges.dhcp=10.1.0.100-10.1.0.199")


def owned(session: Session) -> list[str]:
    return sorted(session.children(paths.MACS) or ())


def held(ask: Ask, node: str) -> tuple[Any, Any, Any]:
    shown = ask("node", "show", node)
    return shown["macs"], shown["networks"], shown["addresses"]


def states(ask: Ask) -> dict[str, Any]:
    return {row["address"]: row["node"] or f"was {row['former']}" for row in ask("network", "addresses", "admin")}


def test_a_network_is_created_changed_listed_and_deleted(ask: Ask, ocb: Ocb) -> None:
    assert ocb(*ADMIN, "--dry-run").exit_code == 10
    ask(
        *ADMIN,
        "vlan=12",
        "domain=example.com",
        "nameservers=10.1.0.2,10.1.0.3",
        'segments=[{"subnet": "10.2.0.0/24", "router": "10.2.0.1"}]',
    )
    assert ocb(*ADMIN).exit_code == 4
    ask("network", "set", "admin", "ranges.dhcp=10.1.0.100-10.1.0.199", "vlan=")
    shown = ask("network", "show", "admin")
    assert (shown["vlan"], shown["ranges"]["dhcp"], shown["nameservers"]) == (
        None,
        "10.1.0.100-10.1.0.199",
        ["10.1.0.2", "10.1.0.3"],
    )
    assert [row["host"] for row in ask("network", "list")] == ["10.1.0.20-10.1.0.29"]
    assert (
        ocb("network", "create", "b", "subnet=10.2.0.128/25").stderr.count("overlaps 10.2.0.0/24 of network admin") == 1
    )
    ask("network", "delete", "admin", "--yes")
    assert ask("network", "list") == []


@pytest.mark.usefixtures("network")
def test_a_mac_is_of_one_node_and_the_refusal_names_it(ask: Ask, ocb: Ocb, zk_session: Session) -> None:
    ask("node", "create", N1, "--hint", f"admin-mac={MAC.upper()}", "--mac", OTHER)
    assert held(ask, N1) == ([MAC, OTHER], {"admin": ["10.1.0.20"]}, ["10.1.0.20", N1])
    refused = ocb("node", "create", N2, "--mac", MAC)
    assert (refused.exit_code, f"node {N1} has the MAC {MAC}" in refused.stderr) == (4, True)
    ask("node", "set", N1, "hints.admin-mac=52:54:00:00:00:01")
    assert held(ask, N1)[0] == ["52:54:00:00:00:01", OTHER]
    ask("node", "create", N2, "--mac", MAC)
    assert owned(zk_session) == ["52:54:00:00:00:01", MAC, OTHER]
    assert ocb("node", "set", N1, N2, "macs=52:54:00:00:00:09").exit_code == 1
    ask("node", "set", N1, "macs=")
    assert (held(ask, N1)[0], len(owned(zk_session))) == (["52:54:00:00:00:01"], 2)


@pytest.mark.usefixtures("network")
def test_the_hint_of_an_address_is_obeyed_or_refused_with_the_reason(ask: Ask, ocb: Ocb) -> None:
    ask("node", "create", N1, "--no-address", "--hint", "admin-v4addr=10.1.0.25/24")
    assert held(ask, N1) == ([], {"admin": ["10.1.0.25"]}, ["10.1.0.25"])
    for hint, said in (
        ("10.1.0.25", f"allocated to {N1}"),
        ("10.1.0.200", "outside of the host range"),
        ("10.1.0.11", "outside of the host range"),
        ("10.9.0.1", "no network has 10.9.0.1"),
        ("10.1.0.26/16", "write 10.1.0.26/24"),
        ("10.1.0.700", "write an IPv4 address"),
    ):
        refused = ocb("node", "create", N2, "--hint", f"admin-v4addr={hint}")
        assert (refused.exit_code != 0, said in refused.stderr) == (True, True), (hint, refused.stderr)
    ask("node", "set", N1, "hints.admin-v4addr=10.1.0.26")
    assert states(ask) == {"10.1.0.25": f"was {N1}", "10.1.0.26": N1}
    refused = ocb("node", "create", N2, "--hint", "admin-v4addr=10.1.0.25")
    assert (refused.exit_code, "in quarantine" in refused.stderr) == (4, True)
    ask("node", "create", "a.example.com", "--admin", "--hint", "admin-v4addr=10.1.0.11")


def test_without_a_network_the_hint_of_an_address_stays_a_hint_and_this_is_said(ask: Ask, ocb: Ocb) -> None:
    made = ocb("node", "create", N1, "--hint", "admin-v4addr=192.0.2.7/24", "--hint", f"admin-mac={MAC}")
    assert (made.exit_code, "stays a hint" in made.output) == (0, True)
    assert held(ask, N1) == ([MAC], {}, [N1])


@pytest.mark.usefixtures("network")
def test_macs_and_addresses_go_with_a_node_and_follow_its_name(ask: Ask, ocb: Ocb, zk_session: Session) -> None:
    ask("node", "create", N1, "--mac", MAC)
    ask("node", "rename", N1, N2)
    assert (held(ask, N2), states(ask)) == (([MAC], {"admin": ["10.1.0.20"]}, ["10.1.0.20", N2]), {"10.1.0.20": N2})
    assert f"node {N2} has the MAC" in ocb("node", "create", N3, "--mac", MAC).stderr
    ask("node", "delete", N2, "--yes")
    assert (owned(zk_session), states(ask)) == ([], {"10.1.0.20": f"was {N2}"})
    ask("node", "create", N3, "--mac", MAC)
    assert held(ask, N3)[1] == {"admin": ["10.1.0.21"]}
    ask("network", "set", "admin", "quarantine_seconds=0")
    ask("node", "create", N1, "--network", "admin")
    assert states(ask) == {"10.1.0.20": N1, "10.1.0.21": N3}


@pytest.mark.usefixtures("network")
def test_addresses_are_allocated_and_released_by_name(ask: Ask, ocb: Ocb) -> None:
    ask("node", "create", N1)
    ask("network", "allocate", "admin", N1)
    ask("network", "allocate", "admin", N1, "10.1.0.29")
    assert held(ask, N1)[1:] == ({"admin": ["10.1.0.20", "10.1.0.29"]}, ["10.1.0.20", N1])
    assert ocb("network", "delete", "admin", "--yes").exit_code == 4
    assert (
        "10.1.0.29"
        in ocb("network", "set", "admin", "subnet=10.1.0.0/28", "ranges.host=", "ranges.admin=", "ranges.dhcp=").stderr
    )
    ask("network", "release", "admin", N1, "10.1.0.20")
    assert held(ask, N1)[1:] == ({"admin": ["10.1.0.29"]}, [N1])
    assert ocb("network", "release", "admin", N1, "10.1.0.20").exit_code == 3
    ask("network", "release", "admin", N1)
    assert held(ask, N1)[1] == {}
    ask("network", "delete", "admin", "--yes")


@pytest.mark.usefixtures("network")
def test_a_full_range_and_an_address_that_a_person_gave_are_told(ask: Ask, ocb: Ocb) -> None:
    ask("network", "set", "admin", "ranges.host=10.1.0.20-10.1.0.21")
    ask("node", "create", N1, "--address", "10.1.0.20")
    ask("node", "create", N2, "--network", "admin")
    assert held(ask, N2)[1] == {"admin": ["10.1.0.21"]}
    refused = ocb("node", "create", N3, "--network", "admin")
    assert (refused.exit_code, "no free address in 10.1.0.20-10.1.0.21" in refused.stderr) == (4, True)


@pytest.mark.usefixtures("network")
def test_admin_nodes_have_slices_that_stay_when_others_go(ask: Ask, ocb: Ocb) -> None:
    ask("network", "set", "admin", "slice_count=2")
    for name in ("a", "b", "c"):
        ask("node", "create", f"{name}.example.com", "--admin")
    ask("node", "create", N1)
    assert ocb("network", "serve", "admin", N1).exit_code == 4
    ask("network", "serve", "admin", "a.example.com")
    ask("network", "serve", "admin", "b.example.com")
    refused = ocb("network", "serve", "admin", "c.example.com")
    assert (refused.exit_code, "has 2 slices" in refused.stderr) == (4, True)
    ask("node", "rename", "b.example.com", "z.example.com")
    ask("node", "delete", "a.example.com", "--yes")
    ask("network", "serve", "admin", "c.example.com")
    assert ask("network", "show", "admin")["parts"] == {
        "c.example.com": {"dhcp": "10.1.0.100-10.1.0.149"},
        "z.example.com": {"dhcp": "10.1.0.150-10.1.0.199"},
    }
    ask("network", "unserve", "admin", "z.example.com")
    assert list(ask("network", "show", "admin")["parts"]) == ["c.example.com"]


SITE = """\
site: 1
networks:
  admin: {subnet: 10.1.0.0/24, ranges: {host: 10.1.0.20-10.1.0.29, dhcp: 10.1.0.100-10.1.0.199}}
nodes:
  n1.example.com: {hints: {admin-mac: "52:54:00:12:34:56", admin-v4addr: 10.1.0.22}}
  n2.example.com: {macs: ["52-54-00-12-34-57"]}
"""


def test_a_site_file_makes_networks_and_obeys_hints_and_an_export_makes_the_same_again(
    ask: Ask, ocb: Ocb, tmp_path: Path, zk_session: Session
) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    apply = ("apply", "-f", str(tmp_path / "site.yaml"))
    assert ocb(*apply, "--dry-run").exit_code == 10
    ask(*apply)
    assert [held(ask, name)[:2] for name in (N1, N2)] == [
        ([MAC], {"admin": ["10.1.0.22"]}),
        ([OTHER], {"admin": ["10.1.0.20"]}),
    ]
    assert ask(*apply)["changes"] == []
    (tmp_path / "site.yaml").write_text(SITE.replace("10.1.0.22", "10.1.0.99"))
    refused = ocb(*apply)
    assert (refused.exit_code, "site.yaml:5" in refused.stderr, "outside of the host range" in refused.stderr) == (
        4,
        True,
        True,
    )
    (tmp_path / "site.yaml").write_text(SITE.replace("12-34-57", "12-34-56"))
    assert f"site.yaml:6: nodes.{N2}: node {N1} has the MAC {MAC}" in ocb(*apply).stderr
    ask("network", "allocate", "admin", N2, "10.1.0.29")
    exported = ocb("export").stdout
    (tmp_path / "export.yaml").write_text(exported)
    ask("node", "delete", N1, N2, "--yes")
    ask("network", "delete", "admin", "--yes")
    assert owned(zk_session) == []
    ask("apply", "-f", str(tmp_path / "export.yaml"))
    assert held(ask, N2)[:2] == ([OTHER], {"admin": ["10.1.0.20", "10.1.0.29"]})
    assert ocb("export").stdout == exported


@pytest.mark.usefixtures("world")
def test_an_explanation_names_the_machine_of_the_node(ask: Ask, ocb: Ocb) -> None:
    assert "its machine" not in ocb("noderole", "explain", f"top@{N1}").stdout
    ask(*ADMIN)
    ask("node", "set", N1, f"macs={MAC}")
    ask("network", "allocate", "admin", N1)
    assert f"its machine: MAC {MAC}, 10.1.0.20 of network admin" in ocb("noderole", "explain", f"top@{N1}").stdout


@pytest.mark.usefixtures("network")
def test_a_table_has_columns_for_macs_and_hints(ask: Ask, ocb: Ocb, tmp_path: Path) -> None:
    table = tmp_path / "nodes.csv"
    table.write_text(f"fqdn,mac,hint:admin-v4addr\n{N1},{MAC},10.1.0.25\n{N2},{OTHER},\n")
    ask("node", "import", str(table))
    assert states(ask) == {"10.1.0.20": N2, "10.1.0.25": N1}
    table.write_text(f"fqdn,mac\n{N3},{MAC}\n")
    refused = ocb("node", "import", str(table))
    assert (refused.exit_code, f"nodes.csv:2: {N3}: node {N1} has the MAC" in refused.stderr) == (4, True)
