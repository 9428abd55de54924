"""Nodes of tables and of Ansible's inventories, as people have them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from nodepool_ocb.documents import document as documents
from nodepool_ocb.errors import Invalid
from nodepool_ocb.site import ansible, spreadsheet
from nodepool_ocb.site.desired_state import DesiredState

#: What ansible-inventory 2.x prints for two groups and one that has both of them.
INVENTORY = {
    "_meta": {
        "hostvars": {
            "db1.example.com": {"ansible_host": "2001:db8::5", "ansible_port": 2200, "ntp_server": "10.0.0.1"},
            "web1.example.com": {"ansible_host": "10.0.0.11", "ansible_user": "debian", "ntp_server": "10.0.0.1"},
            "web2.example.com": {"ansible_port": 2222},
        },
        "profile": "inventory_legacy",
    },
    "all": {"children": ["ungrouped", "east"]},
    "db": {"hosts": ["db1.example.com"]},
    "east": {"children": ["web", "db"]},
    "ungrouped": {"hosts": ["alone.example.com"]},
    "web": {"hosts": ["web1.example.com", "web2.example.com"]},
}


def _table(text: str) -> dict[str, dict[str, object]]:
    return _fields(spreadsheet.read(text, "nodes.csv", {}))


def _fields(wanted: DesiredState) -> dict[str, dict[str, object]]:
    return {name: dict(node.fields) for name, node in wanted.nodes.items()}


def _inventory(value: object, domain: str | None = None) -> DesiredState:
    text = json.dumps(value, indent=4)
    return ansible.read(documents.load(text, "inventory.json"), domain, {})


def test_a_table_has_a_column_for_each_field_and_an_empty_cell_says_nothing() -> None:
    text = (
        "FQDN,address,Tags,labels,label:room,rack,user,available\n"
        "n1.example.com,10.0.0.1:2222,web db,site=west,B 12,r1,admin,yes\n\n"
        "n2.example.com,,,,,,,no\n"
    )
    assert _table(text) == {
        "n1.example.com": {
            "addresses": ("10.0.0.1:2222",),
            "tags": ("web", "db"),
            "labels": {"site": "west", "room": "B 12"},
            "rack": "r1",
            "user": "admin",
            "available": True,
        },
        "n2.example.com": {"available": False},
    }


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_of_excel_in_any_language_are_read(delimiter: str) -> None:
    rows = [["fqdn", "address", "tags"], ["n1.example.com", "10.0.0.1", '"web, db"' if delimiter == "," else "web, db"]]
    text = "\r\n".join(delimiter.join(row) for row in rows) + "\r\n"
    assert _table(text) == {"n1.example.com": {"addresses": ("10.0.0.1",), "tags": ("web", "db")}}


def test_every_fault_of_a_table_is_told_with_its_line() -> None:
    text = (
        "fqdn,available,labels,address\n"
        "n1.example.com,maybe,room,10.0.0.1\n"
        "\n"
        "N2,,,\n"
        "n3.example.com,,,\n"
        '"n3.example.com",,,\n'
        "n4.example.com,,,10.0.0.1,10.0.0.2\n"
    )
    with pytest.raises(Invalid) as refused:
        _table(text)
    assert list(refused.value.problems) == [
        "nodes.csv:2: column available: 'maybe' is neither true nor false",
        "nodes.csv:2: column labels: 'room' is not KEY=VALUE; write a key, = and a value",
        "nodes.csv:4: 'N2' is no fully qualified domain name in small letters; write one like n1.example.com",
        "nodes.csv:6: n3.example.com is in line 5 already; remove one of them",
        "nodes.csv:7: has 5 cells, and there are 4 columns; quote a value that has a comma",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "nodes.csv:1: is empty"),
        ("fqdn,adress\n", "nodes.csv:1: column 'adress' is not known; did you mean `address`"),
        ("fqdn,colour\n", "column 'colour' is not known; known are fqdn, name, node, hostname, address, ip"),
        ("address,tags\n", "no column is called fqdn"),
        ("fqdn,tag,tags\n", "column tags is there twice"),
        ('fqdn\n"n1.example.com\n', "nodes.csv:2: is not CSV"),
    ],
)
def test_a_table_whose_columns_are_not_known_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence.replace("(", r"\(")):
        _table(text)


def test_a_host_of_ansible_is_a_node_and_its_groups_are_tags() -> None:
    assert _fields(_inventory(INVENTORY)) == {
        "alone.example.com": {"tags": ()},
        "db1.example.com": {"addresses": ("[2001:db8::5]:2200",), "tags": ("db", "east")},
        "web1.example.com": {"addresses": ("10.0.0.11",), "user": "debian", "tags": ("east", "web")},
        "web2.example.com": {"addresses": ("web2.example.com:2222",), "tags": ("east", "web")},
    }


def test_hosts_without_a_domain_are_given_one_or_refused_with_their_line() -> None:
    value = {"_meta": {"hostvars": {"web1": {}}}, "web": {"hosts": ["web1"]}}
    assert list(_inventory(value, "example.com").nodes) == ["web1.example.com"]
    with pytest.raises(
        Invalid, match=r"inventory\.json:4: .*'web1' is no fully qualified.*--domain example\.com makes web1"
    ):
        _inventory(value)


def test_groups_that_hold_each_other_are_read_once() -> None:
    value = {"_meta": {"hostvars": {"a.b": {}}}, "x": {"children": ["y"], "hosts": ["a.b"]}, "y": {"children": ["x"]}}
    assert _fields(_inventory(value)) == {"a.b": {"tags": ("x", "y")}}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "is no inventory as `ansible-inventory --list` prints it"),
        ({"all": {}}, "no _meta.hostvars"),
        ({"_meta": {"hostvars": {"a.b": {"ansible_host": "{{ ip }}"}}}}, "ansible_host is no plain value"),
        (
            {"_meta": {"hostvars": {"a.b": {"ansible_port": 70000}}}},
            "ansible_port is 70000, and that is no port; write a number from 1 to 65535",
        ),
    ],
)
def test_invalid_inventories_are_refused(value: object, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        _inventory(value)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"web": {"hosts": 5}}, "is 5, and not a list of names; correct it"),
        ({"web": {"hosts": ["a.example.com", 5]}}, "not a list of names"),
        ({"web": {"children": "db"}}, "not a list of names"),
        ({"web": ["a.example.com"]}, "a group is a mapping"),
    ],
)
def test_a_group_of_another_shape_is_refused(value: dict[str, object], sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence):
        _inventory({"_meta": {"hostvars": {}}, **value})


def _seconds(work: Callable[[], object]) -> float:
    """Of this process's CPU, so that a busy machine does not count."""
    began = time.process_time()
    work()
    return time.process_time() - began


def test_inventories_of_many_groups_cost_little() -> None:
    chain = {f"g{n}": {"children": [f"g{n + 1}"]} for n in range(3000)}
    dense = {f"g{n}": {"children": [f"g{m}" for m in range(150)], "hosts": ["n1.example.com"]} for n in range(150)}
    bottom = {"g900": {"hosts": ["n1.example.com"]}}
    few = {name: group for name, group in chain.items() if int(name[1:]) < 900}
    assert _seconds(lambda: _inventory({"_meta": {"hostvars": {}}, **chain})) < 3.0
    assert _seconds(lambda: _inventory({"_meta": {"hostvars": {}}, **dense})) < 3.0
    assert len(_fields(_inventory({"_meta": {"hostvars": {}}, **few, **bottom}))["n1.example.com"]["tags"]) == 901  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="is in 1501 groups"):
        _inventory({"_meta": {"hostvars": {}}, **chain, "g1500": {"hosts": ["n1.example.com"]}})


def test_a_table_of_very_many_columns_is_refused() -> None:
    def text(labels: int) -> str:
        titles = ",".join(f"label:x{n}" for n in range(labels))
        return f"fqdn,{titles}\nn5.example.com,{','.join('1' * labels)}\n"

    assert len(_table(text(999))["n5.example.com"]["labels"]) == 999  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="has 30001 columns, and may have 1000; remove some"):
        _table(text(30_000))


def test_a_hundred_thousand_faults_are_a_few_lines() -> None:
    with pytest.raises(Invalid) as caught:
        _table("fqdn\n" + "\n".join("x" * 50_000 + str(n) for n in range(300)))
    assert len(str(caught.value)) < 500_000
    assert "and 100 more faults" in str(caught.value)
