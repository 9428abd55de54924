"""The table of keys in docs/from-nodepool.md: it names each key of Nodepool's schemas, and each state is true of the code."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import nodepool
from nodepool_ocb.images.nodepool import Nodepool
from nodepool_ocb.pool.configuration import PoolConfiguration
from nodepool_ocb.pool.documents.reading import pool_configuration
from nodepool_ocb.providers import launching

PAGE: Final = Path(__file__).parents[2] / "docs/from-nodepool.md"

CLOUD: Final = {
    "diskimages": [{"name": "i", "formats": ["raw"]}, {"name": "j", "formats": ["raw"]}],
    "labels": [{"name": "l"}, {"name": "k"}],
    "providers": [
        {
            "name": "p",
            "cloud": "c",
            "diskimages": [{"name": "i"}],
            "cloud-images": [{"name": "d"}, {"name": "e"}],
            "pools": [
                {
                    "name": "m",
                    "labels": [
                        {"name": "l", "diskimage": "i", "min-ram": 1},
                        {"name": "k", "cloud-image": "d", "flavor-name": "f"},
                    ],
                }
            ],
        }
    ],
}
RACK: Final = {
    "labels": [{"name": "l"}, {"name": "k"}],
    "providers": [{"name": "p", "driver": "static", "pools": [{"name": "m", "nodes": [{"name": "n", "labels": "l"}]}]}],
}
IMAGES: Final = {
    "diskimages": [
        {"name": "base", "abstract": True, "elements": ["vm"]},
        {"name": "i", "formats": ["raw", "qcow2"], "delete-after-upload": True},
    ]
}
FIRST_PROVIDER: Final = ("providers", 0)
FIRST_POOL: Final = (*FIRST_PROVIDER, "pools", 0)

#: Heading → a document, the place of its keys, and each key of Nodepool's schema there with a value that is not the default.
SECTIONS: Final[Mapping[str, tuple[Any, tuple[str | int, ...], Mapping[str, Any]]]] = {
    "At the top": (
        {"zookeeper-servers": [{"host": "z"}]},
        (),
        {
            "webapp": {"port": 1},
            "elements-dir": "/e",
            "images-dir": "/i",
            "build-log-dir": "/b",
            "build-log-retention": 1,
            "zookeeper-servers": [{"host": "a"}],
            "zookeeper-tls": {"ca": "/a"},
            "zookeeper-timeout": 5,
            "providers": [{"name": "p", "driver": "test"}],
            "labels": [{"name": "l"}],
            "diskimages": [{"name": "i"}],
            "max-hold-age": 5,
            "tenant-resource-limits": [{"tenant-name": "t"}],
        },
    ),
    "Entries of `zookeeper-servers`": (
        {"zookeeper-servers": [{"host": "a"}]},
        ("zookeeper-servers", 0),
        {"host": "b", "port": 1, "chroot": "/x"},
    ),
    "`zookeeper-tls`": (
        {"zookeeper-servers": [{"host": "a"}], "zookeeper-tls": {}},
        ("zookeeper-tls",),
        {"ca": "/a", "cert": "/b", "key": "/c"},
    ),
    "`webapp`": ({"webapp": {}}, ("webapp",), {"port": 1, "listen_address": "::1"}),
    "Entries of `labels`": (
        {"labels": [{"name": "l"}]},
        ("labels", 0),
        {"name": "k", "min-ready": 1, "max-ready-age": 1},
    ),
    "Entries of `tenant-resource-limits`": (
        {"tenant-resource-limits": [{"tenant-name": "t"}]},
        ("tenant-resource-limits", 0),
        {"tenant-name": "u", "max-servers": 1, "max-cores": 1, "max-ram": 1},
    ),
    "Entries of `diskimages`": (
        IMAGES,
        ("diskimages", 1),
        {
            "name": "j",
            "abstract": True,
            "dib-cmd": "d",
            "pause": True,
            "elements": ["e"],
            "formats": ["vhd"],
            "keep-formats": ["raw"],
            "delete-after-upload": False,
            "parent": "base",
            "release": "r",
            "rebuild-age": 5,
            "env-vars": {"A": "b"},
            "username": "u",
            "python-path": "/p",
            "build-timeout": 5,
            "metadata": {"a": "b"},
        },
    ),
    "Entries of `providers`, of any driver": (
        RACK,
        FIRST_PROVIDER,
        {"name": "q", "driver": "local", "max-concurrency": 1, "priority": 1},
    ),
    "Entries of `pools`, of any driver": (
        CLOUD,
        FIRST_POOL,
        {"name": "n", "max-servers": 1, "node-attributes": {"a": "b"}, "priority": 1},
    ),
    "Driver openstack: entries of `providers`": (
        CLOUD,
        FIRST_PROVIDER,
        {
            "region-name": "r",
            "cloud": "d",
            "boot-timeout": 1,
            "image-upload-timeout": 1,
            "launch-timeout": 1,
            "launch-retries": 1,
            "nodepool-id": "x",
            "rate": 1.0,
            "image-name-format": "{image_name}",
            "clean-floating-ips": True,
            "port-cleanup-interval": 1,
            "diskimages": [{"name": "j"}],
            "cloud-images": [{"name": "d", "image-id": "x"}],
            "post-upload-hook": "/h",
        },
    ),
    "Driver openstack: entries of `diskimages` of a provider": (
        CLOUD,
        (*FIRST_PROVIDER, "diskimages", 0),
        {
            "name": "j",
            "pause": True,
            "meta": {"a": "b"},
            "config-drive": True,
            "connection-type": "winrm",
            "connection-port": 5,
        },
    ),
    "Driver openstack: entries of `cloud-images`": (
        CLOUD,
        (*FIRST_PROVIDER, "cloud-images", 0),
        {
            "config-drive": True,
            "connection-type": "winrm",
            "connection-port": 5,
            "image-id": "x",
            "image-name": "y",
            "username": "u",
            "python-path": "/p",
            "shell-type": "cmd",
        },
    ),
    "Driver openstack: entries of `pools`": (
        CLOUD,
        FIRST_POOL,
        {
            "networks": ["n"],
            "auto-floating-ip": False,
            "host-key-checking": False,
            "ignore-provider-quota": True,
            "max-cores": 1,
            "max-ram": 1,
            "max-volumes": 1,
            "max-volume-gb": 1,
            "availability-zones": ["z"],
            "security-groups": ["s"],
        },
    ),
    "Driver openstack: entries of `labels` of a pool": (
        CLOUD,
        (*FIRST_POOL, "labels", 0),
        {
            "diskimage": "j",
            "min-ram": 2,
            "flavor-name": "g",
            "key-name": "k",
            "console-log": True,
            "boot-from-volume": True,
            "volume-size": 1,
            "instance-properties": {"a": "b"},
            "dynamic-instance-properties": {"a": "b"},
            "userdata": "u",
            "networks": ["n"],
            "host-key-checking": False,
        },
    ),
    "Driver static: entries of `pools`": (RACK, FIRST_POOL, {"nodes": []}),
    "Driver static: entries of `nodes`": (
        RACK,
        (*FIRST_POOL, "nodes", 0),
        {
            "name": "o",
            "labels": ["l", "k"],
            "username": "u",
            "timeout": 1,
            "host-key-checking": False,
            "host-key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
            "connection-port": 5,
            "connection-type": "winrm",
            "shell-type": "cmd",
            "max-parallel-jobs": 2,
            "python-path": "/p",
        },
    ),
    "Driver test: entries of `pools`": (
        {"labels": [{"name": "l"}], "providers": [{"name": "p", "driver": "test", "pools": [{"name": "m"}]}]},
        FIRST_POOL,
        {"labels": ["l"]},
    ),
}
#: Further keys of the tables: they need others beside them, the validator of Nodepool refuses them, or they are ours.
FURTHER: Final[Mapping[tuple[str, str], Any]] = {
    ("Entries of `labels`", "max-hold-age"): 1,
    ("Entries of `labels`", "roles"): ["r"],
    ("Entries of `labels`", "deployment"): "d",
    ("Entries of `labels`", "anneal"): True,
    ("Entries of `tenant-resource-limits`", "max-volumes"): 1,
    ("Entries of `tenant-resource-limits`", "max-volume-gb"): 1,
    ("Entries of `diskimages`", "shell-type"): "cmd",
    ("Entries of `providers`, of any driver", "hostname-format"): "{node.id}",
    ("Entries of `providers`, of any driver", "pools"): [],
    ("Entries of `pools`, of any driver", "labels"): [],
    ("Entries of `pools`, of any driver", "max-ready-age"): 1,
    ("Driver static: entries of `nodes`", "ssh-port"): 5,
}
#: The keys of drivers whose pools are left out.
OTHERS: Final[Mapping[str, str]] = {
    "aws": "name username image-id image-filters connection-type connection-port python-path shell-type pause architecture"
    " ena-support volume-size volume-type import-method imds-support iops throughput tags cloud-image diskimage instance-type"
    " fleet instance-types allocation-strategy key-name ebs-optimized userdata iam-instance-profile arn dynamic-tags use-spot"
    " imdsv2 dedicated-host labels security-group-id subnet-id public-ip-address public-ipv4 public-ipv6 host-key-checking"
    " max-cores max-ram max-resources availability-zone bucket-name pools region-name rate profile-name cloud-images"
    " diskimages boot-timeout launch-timeout launch-retries object-storage image-format image-import-timeout max-servers"
    " post-upload-hook",
    "azure": "sku publisher version offer location name tags gallery-name username password generate-password key"
    " image-reference image-id image-filter community-gallery-image shared-gallery-image connection-type connection-port"
    " python-path shell-type pause vm-size cloud-image diskimage hardware-profile dynamic-tags user-data custom-data"
    " volume-size labels public-ipv4 public-ipv6 use-internal-ip host-key-checking ipv4 ipv6 pools resource-group"
    " resource-group-location subnet-id network subnet cloud-images diskimages auth-path post-upload-hook rate boot-timeout"
    " launch-timeout launch-retries zuul-public-key",
    "gce": "name cloud-image instance-type volume-type volume-size labels use-internal-ip connection-type connection-port"
    " shell-type image-id image-project image-family username key python-path pools region project zone cloud-images"
    " boot-timeout launch-timeout launch-retries rate-limit",
    "ibmvpc": "operating-system architecture dedicated-host-only display-name family href name vendor version owner-type"
    " status username keys image-href image-id image-name image-filter connection-type connection-port python-path shell-type"
    " pause cloud-image diskimage profile user-data labels zone subnet public-ipv4 use-internal-ip host-key-checking"
    " instance-name endpoint bucket-name instances cores ram pools vpc region cloud-images diskimages quota post-upload-hook"
    " rate boot-timeout launch-timeout launch-retries credentials-file object-storage",
    "kubernetes": "name value type image image-pull python-path shell-type cpu memory storage cpu-limit memory-limit"
    " storage-limit gpu gpu-resource env node-selector privileged scheduler-name volumes volume-mounts labels dynamic-labels"
    " annotations extra-resources spec max-cores max-ram max-resources default-label-cpu default-label-memory"
    " default-label-storage default-label-cpu-limit default-label-memory-limit default-label-storage-limit"
    " default-label-extra-resources pools context launch-retries max-servers",
    "metastatic": "name backing-label max-parallel-jobs grace-time min-retention-time max-age host-key-checking labels"
    " max-servers boot-timeout launch-timeout launch-retries pools",
    "openshift": "name value type image image-pull image-pull-secrets python-path shell-type cpu memory storage cpu-limit"
    " memory-limit storage-limit gpu gpu-resource env node-selector privileged scheduler-name volumes volume-mounts labels"
    " dynamic-labels annotations extra-resources spec max-cores max-ram max-resources default-label-cpu default-label-memory"
    " default-label-storage default-label-cpu-limit default-label-memory-limit default-label-storage-limit"
    " default-label-extra-resources pools context launch-retries max-projects",
    "openshiftpods": "name value image image-pull image-pull-secrets python-path shell-type cpu memory storage cpu-limit"
    " memory-limit storage-limit gpu gpu-resource env node-selector privileged scheduler-name volumes volume-mounts labels"
    " dynamic-labels annotations extra-resources spec max-cores max-ram max-resources default-label-cpu default-label-memory"
    " default-label-storage default-label-cpu-limit default-label-memory-limit default-label-storage-limit"
    " default-label-extra-resources pools context launch-retries max-pods",
}


def tables() -> dict[tuple[str, str], str]:
    """Heading and key → the second cell, in the tables of the page."""
    found: dict[tuple[str, str], str] = {}
    for part in re.split(r"^##+ ", PAGE.read_text(), flags=re.MULTILINE):
        heading = part.partition("\n")[0]
        for cells in re.findall(r"^\| (.+?) \| (.+?) \|", part, re.MULTILINE):
            found |= {(heading, key): cells[1] for key in re.findall(r"`([^`]+)`", cells[0])}
    return found


STATES: Final = tables()
CASES: Final = {
    **{(heading, key): value for heading, (_, _, keys) in SECTIONS.items() for key, value in keys.items()},
    **FURTHER,
}


def test_the_page_names_each_key_of_nodepool_s_schemas() -> None:
    assert [case for case in CASES if case not in STATES] == []


def test_each_state_of_the_page_is_one_of_four() -> None:
    assert {STATES[case] for case in CASES} == {"obeyed", "builders", "ignored", "refused"}


@pytest.mark.parametrize("driver", OTHERS)
def test_the_page_names_each_key_of_a_driver_that_is_left_out(driver: str) -> None:
    rows = re.findall(rf"^\| `{driver}` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert set(OTHERS[driver].split()) <= set(re.findall(r"`([^`]+)`", " ".join(rows)))


def loaded(folder: Path, document: Any) -> tuple[Nodepool, PoolConfiguration]:
    """A document as a builder and as a launcher have it."""
    path = folder / "nodepool.yaml"
    path.write_text(yaml.safe_dump(document))
    read = nodepool.load(path, environ={})
    return replace(read, lines={}), pool_configuration(read, str(path), launching.drivers())


def bare(read: Nodepool) -> Nodepool:
    """Without the keys as they are written."""
    return replace(read, providers=tuple(replace(each, options={}, launch={}) for each in read.providers))


@pytest.mark.parametrize(("heading", "key"), CASES, ids=lambda text: text)
def test_the_state_of_a_key_is_true(tmp_path: Path, heading: str, key: str) -> None:
    base, place, _ = SECTIONS[heading]
    document = copy.deepcopy(base)
    section = document
    for step in place:
        section = section[step]
    section[key] = CASES[heading, key]
    if STATES[heading, key] == "refused":
        with pytest.raises(Invalid, match=rf"nodepool\.yaml:\d+: .*{key}"):
            loaded(tmp_path, document)
        return
    (builder, launcher), (builder_before, launcher_before) = loaded(tmp_path, document), loaded(tmp_path, base)
    obeyed = (launcher, builder.zookeeper) != (launcher_before, builder_before.zookeeper)
    match STATES[heading, key]:
        case "obeyed":
            assert obeyed
        case "builders":
            assert not obeyed
            assert builder != builder_before
        case "ignored":
            assert not obeyed
            assert bare(builder) == bare(builder_before)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({}, ()),
        (CLOUD, FIRST_PROVIDER),
        (CLOUD, FIRST_POOL),
        (CLOUD, (*FIRST_POOL, "labels", 0)),
        (CLOUD, (*FIRST_PROVIDER, "diskimages", 0)),
        (CLOUD, (*FIRST_PROVIDER, "cloud-images", 0)),
        (RACK, FIRST_PROVIDER),
        (RACK, FIRST_POOL),
        (RACK, (*FIRST_POOL, "nodes", 0)),
    ],
)
def test_a_key_that_is_in_no_table_is_refused(tmp_path: Path, document: Any, place: tuple[str | int, ...]) -> None:
    changed = copy.deepcopy(document)
    section = changed
    for step in place:
        section = section[step]
    section["unheard-of"] = 1
    with pytest.raises(Invalid, match=r"nodepool\.yaml:\d+: .*unheard-of: "):
        loaded(tmp_path, changed)
