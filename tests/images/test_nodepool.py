"""Nodepool's own configuration: real files, and what each key comes to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodepool_ocb.config import TlsSettings, ZooKeeperSettings
from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import nodepool
from nodepool_ocb.images.nodepool import Nodepool
from tests.fixtures.corpora import CORPORA, needs

CORPUS = CORPORA / "nodepool"
FILES = sorted(path.name for path in CORPUS.glob("*.yaml"))


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Load what a text says: ``written(text, secure, environ)``."""

    def load(text: str, secure: str | None = None, environ: dict[str, str] | None = None) -> Nodepool:
        path, above = tmp_path / "nodepool.yaml", tmp_path / "secure.yaml"
        path.write_text(text)
        if secure is not None:
            above.write_text(secure)
        return nodepool.load(path, above if secure is not None else None, environ=environ or {})

    return load


# -- real files --


def slowly(sections: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """What a diskimage of Nodepool comes to: the rules once more, in small steps."""
    (section,) = [each for each in sections if each["name"] == name]
    whole: dict[str, Any] = {"elements": [], "env-vars": {}}
    if "parent" in section:
        whole = slowly(sections, section["parent"])
    for key, value in section.items():
        if key == "elements":
            for element in value:
                whole["elements"].append(element)
        elif key == "env-vars":
            for variable, text in value.items():
                whole["env-vars"][variable] = text
        elif key not in ("name", "parent", "abstract"):
            whole[key] = value
    return whole


@needs("nodepool")
@pytest.mark.parametrize("name", FILES or ["none"])
def test_a_real_file_loads_as_its_rules_say(name: str) -> None:
    raw = yaml.safe_load((CORPUS / name).read_text())
    loaded = nodepool.load(CORPUS / name, environ={})
    assert [image.name for image in loaded.diskimages] == [
        each["name"] for each in raw["diskimages"] if not each.get("abstract")
    ]
    for image in loaded.diskimages:
        whole = slowly(raw["diskimages"], image.name)
        assert list(image.elements) == whole["elements"]
        assert image.env_vars == whole["env-vars"]
        assert image.release == (str(whole["release"]) if "release" in whole else None)
        assert image.rebuild_age_seconds == whole.get("rebuild-age", 86400)
        assert image.pause is whole.get("pause", False)
        assert image.python_path == whole.get("python-path", "auto")
        assert image.keep_formats == (tuple(whole["keep-formats"]) if whole.get("delete-after-upload") else True)
        assert image.formats == ("qcow2",)
    for provider, section in zip(loaded.providers, raw["providers"], strict=True):
        assert (provider.name, provider.driver) == (section["name"], "openstack")
        assert provider.options["cloud"] == section["cloud"]
        assert [image.name for image in provider.diskimages] == [each["name"] for each in section["diskimages"]]
    assert [label.name for label in loaded.labels] == [each["name"] for each in raw.get("labels", [])]


@needs("nodepool")
def test_an_image_of_opendev_by_hand() -> None:
    loaded = nodepool.load(CORPUS / "nodepool.yaml", environ=os.environ)
    images = {image.name: image for image in loaded.diskimages}
    jammy = images["ubuntu-jammy"]
    assert jammy.elements == (
        "vm", "simple-init", "openstack-repos", "nodepool-base", "growroot", "infra-package-needs",
        "ubuntu-minimal", "cache-devstack",
    )  # fmt: skip
    assert (jammy.release, jammy.rebuild_age_seconds, jammy.keep_formats) == ("jammy", 86400.0, ("qcow2",))
    assert jammy.env_vars["DIB_GRUB_TIMEOUT"] == "0"
    assert jammy.env_vars["DIB_APT_LOCAL_CACHE"] == "0"
    assert jammy.env_vars["DIB_DEBIAN_COMPONENTS"] == "main,universe"
    assert len(jammy.env_vars) == 9 + 3 + 3
    assert images["gentoo-17-0-systemd"].pause
    assert images["ubuntu-bionic"].rebuild_age_seconds == 604800.0
    assert sorted(name for name, image in images.items() if image.stub) == sorted(
        name for name in images if name.endswith("-arm64")
    )
    assert loaded.elements_dir == ("/etc/nodepool/elements",)
    assert loaded.zookeeper == ZooKeeperSettings(hosts=",".join(f"zk0{n}.example.org:2281" for n in (1, 2, 3)))


@needs("nodepool")
def test_an_image_for_arm_by_hand() -> None:
    loaded = nodepool.load(CORPUS / "nb07.opendev.org.yaml", environ=os.environ)
    rocky = next(image for image in loaded.diskimages if image.name == "rockylinux-9-arm64")
    assert rocky.elements[:1] + rocky.elements[-2:] == ("block-device-efi", "rocky-container", "epel")
    assert len(rocky.elements) == 11
    assert (rocky.release, rocky.python_path, rocky.keep_formats) == ("9", "/usr/bin/python3", True)
    (provider,) = loaded.providers
    assert provider.image_upload_timeout_seconds == 21600.0
    assert provider.options == {"region-name": "RegionOne", "cloud": "osuosl", "rate": 0.25}
    uploaded = provider.diskimages[0]
    assert uploaded.meta["hw_firmware_type"] == "uefi"
    assert uploaded.options == {"config-drive": True}


def test_the_shipped_example_loads() -> None:
    loaded = nodepool.load(Path(__file__).parents[2] / "etc" / "nodepool.yaml", environ={})
    assert [(image.name, image.backend, image.formats) for image in loaded.diskimages] == [
        ("debian-bookworm", "mmdebstrap", ("tar",)),
        ("debian-trixie", "mmdebstrap", ("tar",)),
    ]
    assert [(provider.driver, provider.diskimages[0].format) for provider in loaded.providers] == [("local", "tar")]

    provisioner = Path(__file__).parents[2] / "etc" / "provisioner" / "nodepool.yaml"
    loaded = nodepool.load(provisioner, environ={})
    assert [(image.name, image.formats) for image in loaded.diskimages] == [
        ("environment", ("pxe",)),
        ("environment-virtual", ("pxe",)),
        ("debian-bookworm-metal", ("tar",)),
    ]
    assert loaded.diskimages[1].options["overlays"] == [str(provisioner.parent / "environment")]


def test_an_admin_node_gets_each_image_in_its_own_format(written: Any) -> None:
    loaded = written(
        "diskimages: [{name: e, backend: command, formats: [pxe]}, {name: d, backend: command, formats: [tar]}]\n"
        "providers: [{name: a, driver: admin-node, address: a, diskimages: [{name: e}, {name: d}]}]\n"
    )
    (provider,) = loaded.providers
    assert [(each.name, each.format) for each in provider.diskimages] == [("e", "pxe"), ("d", "tar")]


# -- keys --


def test_an_empty_file_is_nothing_to_do(written: Any) -> None:
    assert written("") == Nodepool()
    assert written("diskimages:\nproviders:\nlabels:\nwebapp:\n") == Nodepool()


def test_file_names_count_from_the_file(written: Any, tmp_path: Path) -> None:
    loaded = written("elements-dir: /a:b\nimages-dir: images\nbuild-log-dir: /log\nbuild-log-retention: -1\n")
    assert loaded.elements_dir == ("/a", str(tmp_path / "b"))
    assert (loaded.images_dir, loaded.build_log_dir) == (str(tmp_path / "images"), "/log")
    assert loaded.build_log_retention == -1


def test_the_ensemble_is_as_kazoo_takes_it(written: Any, tmp_path: Path) -> None:
    loaded = written(
        "zookeeper-servers:\n  - {host: zk1, chroot: nodepool/}\n  - {host: '::1', port: 2181, chroot: /nodepool}\n"
        "zookeeper-tls: {ca: ca.pem, cert: /c.pem, key: k.pem}\nzookeeper-timeout: 20\n"
    )
    tls = TlsSettings(ca=str(tmp_path / "ca.pem"), cert="/c.pem", key=str(tmp_path / "k.pem"))
    wanted = ZooKeeperSettings(hosts="zk1:2281,[::1]:2181/nodepool", session_timeout_seconds=20.0, tls=tls)
    assert loaded.zookeeper == wanted


@pytest.mark.parametrize(
    ("provider", "format", "of_image"),
    [
        ("{name: p, cloud: c}", "qcow2", "qcow2"),
        ("{name: p, cloud: c, format: raw}", "raw", "raw"),
        ("{name: p, driver: aws}", "raw", "raw"),
        ("{name: p, driver: aws, image-format: vmdk}", "vmdk", "vmdk"),
        ("{name: p, driver: azure}", "vhd", "vhd"),
        ("{name: p, driver: docker}", "tar", "tar"),
        ("{name: p, driver: local}", "qcow2", "squashfs"),
        ("{name: p, driver: local, format: raw}", "raw", "raw"),
        ("{name: p, driver: nobody-knows}", "qcow2", "qcow2"),
    ],
)
def test_a_provider_gets_what_it_takes(written: Any, provider: str, format: str, of_image: str) -> None:
    loaded = written(
        f"diskimages: [{{name: i, formats: [squashfs, raw]}}]\nproviders: [{provider[:-1]}, diskimages: [{{name: i}}]}}]"
    )
    assert (loaded.providers[0].format, loaded.providers[0].diskimages[0].format) == (format, of_image)
    assert loaded.diskimages[0].formats == tuple(sorted({"squashfs", "raw", of_image}))


def test_a_local_provider_of_an_image_without_formats_gets_qcow2(written: Any) -> None:
    loaded = written("diskimages: [{name: i}]\nproviders: [{name: p, driver: local, diskimages: [{name: i}]}]")
    assert loaded.providers[0].diskimages[0].format == "qcow2"


def test_other_drivers_keep_their_keys_as_they_are_written(written: Any) -> None:
    loaded = written("providers: [{name: p, driver: static, upload-workers: 2, pools: [{nodes: [{name: n, x: yes}]}]}]")
    assert loaded.providers[0].launch == {"pools": [{"nodes": [{"name": "n", "x": "yes"}]}]}
    assert loaded.providers[0].options == {}
    assert loaded.providers[0].upload_workers == 2


def test_a_launcher_leaves_diskimages_to_builders(written: Any) -> None:
    loaded = written(
        "providers: [{name: p, cloud: c, diskimages: [{name: i}],"
        " pools: [{labels: [{name: l, diskimage: i, min-ram: 1}]}]}]"
    )
    assert loaded.providers[0].diskimages[0].name == "i"


def test_labels(written: Any) -> None:
    loaded = written("labels: [{name: a}, {name: b, min-ready: 2, max-ready-age: 3600}]")
    assert loaded.labels == (
        nodepool.Label(name="a"),
        nodepool.Label(name="b", min_ready=2, max_ready_age_seconds=3600.0),
    )


def test_everything_else_that_nodepool_knows_is_accepted(written: Any) -> None:
    written(
        "webapp: {port: 8005, listen_address: '::'}\nmax-hold-age: -1\n"
        "tenant-resource-limits: [{tenant-name: t, max-cores: 4, max-servers: 2, max-ram: 1, max-volumes: 7}]\n"
    )


def test_an_image_with_elements_that_nobody_takes_is_not_built_and_that_is_said(written: Any, tmp_path: Path) -> None:
    loaded = written(
        "diskimages:\n  - {name: named}\n  - {name: forgotten, elements: [vm]}\n  - {name: own, elements: [vm], formats: [raw]}\n"
    )
    assert [image.name for image in loaded.diskimages if image.stub] == ["named", "forgotten"]
    assert loaded.warnings == (
        f"{tmp_path}/nodepool.yaml:3: diskimages[forgotten]: is not built: it has no formats, and no provider takes it;"
        " add `formats` to have it built",
    )


def test_a_key_that_is_there_twice_with_one_value_is_a_warning(written: Any, tmp_path: Path) -> None:
    loaded = written("diskimages:\n  - name: i\n    formats: [raw]\n    release: 9\n    formats: [raw]\n")
    assert loaded.diskimages[0].formats == ("raw",)
    (warning,) = loaded.warnings
    assert warning.startswith(f"{tmp_path}/nodepool.yaml:5: ")
    assert "key is there twice with one value, first in line 3" in warning


def test_numbers_may_be_quoted_and_ages_be_long(written: Any) -> None:
    (image,) = written("diskimages: [{name: i, rebuild-age: '3600', build-timeout: 99999999999}]").diskimages
    assert (image.rebuild_age_seconds, image.build_timeout_seconds) == (3600.0, 315360000.0)
    loaded = written(
        "zookeeper-servers: [{host: a, port: '2181'}]\nbuild-log-retention: '3'\n"
        "labels: [{name: l, min-ready: '2'}]\nproviders: [{name: p, cloud: c, rate: '0.5', image-upload-timeout: 1e12}]"
    )
    assert loaded.zookeeper == ZooKeeperSettings(hosts="a:2181")
    assert (loaded.build_log_retention, loaded.labels[0].min_ready) == (3, 2)
    assert (loaded.providers[0].options["rate"], loaded.providers[0].image_upload_timeout_seconds) == (0.5, 315360000.0)


def test_an_empty_text_says_nothing(written: Any) -> None:
    loaded = written(
        "images-dir: ''\nbuild-log-dir: ''\nelements-dir: ''\n"
        "diskimages:\n  - {name: base, abstract: true, username: ann}\n"
        "  - {name: i, parent: base, username: '', dib-cmd: '', python-path: '', shell-type: '', release: ''}\n"
    )
    (image,) = loaded.diskimages
    assert (loaded.images_dir, loaded.build_log_dir, loaded.elements_dir) == (None, None, ())
    assert (image.username, image.dib_cmd, image.python_path) == ("ann", "disk-image-create", "auto")
    assert (image.shell_type, image.release) == (None, None)


# -- words, numbers, variables --


@pytest.mark.parametrize(
    ("word", "value"), [("yes", True), ("On", True), ("NO", False), ("off", False), ("'no'", False)]
)
def test_words_of_yaml_1_1_are_booleans_where_one_is_meant(written: Any, word: str, value: bool) -> None:
    loaded = written(
        f"diskimages: [{{name: i, pause: {word}, env-vars: {{W: {word}}}}}]\n"
        f"providers: [{{name: p, cloud: c, diskimages: [{{name: i, config-drive: {word}}}]}}]"
    )
    assert loaded.diskimages[0].pause is value
    assert loaded.diskimages[0].env_vars == {"W": word.strip("'")}
    assert loaded.providers[0].diskimages[0].options["config-drive"] is value


def test_numbers_become_text_where_text_is_meant(written: Any) -> None:
    loaded = written(
        "diskimages: [{name: i, release: 9, env-vars: {A: 1, B: '01', C: 0755, D: -3, E: 1:30}, metadata: {m: 1.5, t: true}}]"
    )
    (image,) = loaded.diskimages
    assert image.release == "9"
    assert image.env_vars == {"A": "1", "B": "01", "C": "0755", "D": "-3", "E": "1:30"}
    assert image.metadata == {"m": "1.5", "t": "True"}


def test_variables_of_the_environment_stand_in_any_value(written: Any) -> None:
    loaded = written(
        "# %(NODEPOOL_NOT_THERE)\n"
        "images-dir: %(NODEPOOL_HOME)/images\n"
        "zookeeper-servers: [{host: '%(NODEPOOL_ZK)', port: %(NODEPOOL_PORT)}]\n"
        "diskimages:\n"
        "  - name: i\n"
        "    pause: %(NODEPOOL_PAUSE)\n"
        "    release: %(NODEPOOL_RELEASE)\n"
        "    env-vars: {KEY: 'a %(NODEPOOL_KEY)%(NODEPOOL_HOME)', TEN: '%(HOME)'}\n",
        environ={
            "NODEPOOL_HOME": "/srv",
            "NODEPOOL_ZK": "10",
            "NODEPOOL_PORT": "2181",
            "NODEPOOL_PAUSE": "yes",
            "NODEPOOL_RELEASE": "22.10",
            "NODEPOOL_KEY": "b: [c\n# d %(NODEPOOL_ZK)",
            "HOME": "/root",
        },
    )
    (image,) = loaded.diskimages
    assert loaded.images_dir == "/srv/images"
    assert loaded.zookeeper == ZooKeeperSettings(hosts="10:2181")
    assert (image.pause, image.release) == (True, "22.10")
    assert image.env_vars == {"KEY": "a b: [c\n# d %(NODEPOOL_ZK)/srv", "TEN": "%(HOME)"}


def test_aliases_and_merge_keys_are_read_as_what_they_stand_for(written: Any) -> None:
    loaded = written(
        "diskimages:\n"
        "  - &first\n"
        "    name: a\n"
        "    env-vars: &vars {A: 1}\n"
        "  - {<<: *first, name: b}\n"
        "  - name: c\n"
        "    env-vars: {<<: *vars, B: 2}\n"
        "providers:\n"
        "  - {name: p, cloud: c, diskimages: &all [{name: a, config-drive: yes}, {name: b}]}\n"
        "  - {name: q, cloud: c, diskimages: *all}\n"
    )
    assert [image.env_vars for image in loaded.diskimages] == [{"A": "1"}, {"A": "1"}, {"A": "1", "B": "2"}]
    assert loaded.providers[0].diskimages == loaded.providers[1].diskimages
    assert loaded.providers[1].diskimages[0].options == {"config-drive": True}


# -- the secure file --


def test_secrets_are_laid_over(written: Any) -> None:
    loaded = written(
        "zookeeper-servers: [{host: a}, {host: b}]\n"
        "diskimages: [{name: base, abstract: true, env-vars: {A: 0, B: 0}}, {name: i, parent: base}]\n"
        "providers: [{name: p, driver: docker, auth: {user: u, password: x}, tags: [a]}]\n",
        "zookeeper-servers: [{host: c}]\n"
        "zookeeper-tls: {ca: /ca, cert: /cert, key: /key}\n"
        "zookeeper-auth: {username: u, password: '%(NODEPOOL_SECRET)'}\n"
        "diskimages: [{name: i, env-vars: {B: 1, C: 2}}]\n"
        "providers: [{name: p, auth: {password: y}, tags: [b]}]\n",
        {"NODEPOOL_SECRET": "s"},
    )
    tls = TlsSettings(ca="/ca", cert="/cert", key="/key")
    assert loaded.zookeeper == ZooKeeperSettings(hosts="c:2281", tls=tls, username="u", password="s")
    assert loaded.diskimages[0].env_vars == {"A": "0", "B": "1", "C": "2"}
    assert loaded.providers[0].options == {"auth": {"user": "u", "password": "y"}, "tags": ["b"]}


def test_file_names_in_the_secure_file_count_from_that_file(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    path, above = tmp_path / "nodepool.yaml", tmp_path / "secrets" / "secure.yaml"
    path.write_text("zookeeper-servers: [{host: a}]\nzookeeper-tls: {ca: ca.pem}\n")
    above.write_text("zookeeper-servers:\nzookeeper-tls: {key: key.pem, cert: cert.pem}\n")
    tls = TlsSettings(
        ca=str(tmp_path / "ca.pem"),
        cert=str(tmp_path / "secrets/cert.pem"),
        key=str(tmp_path / "secrets/key.pem"),
    )
    assert nodepool.load(path, above, environ={}).zookeeper == ZooKeeperSettings(hosts="a:2281", tls=tls)


def test_an_empty_secure_file_is_fine(written: Any) -> None:
    assert written("diskimages: [{name: i}]", "").diskimages[0].name == "i"


def test_faults_of_both_files_are_told_together(written: Any, tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        written("diskimages: [{name: i, pause: 3}]", "diskimages: [{name: j, env-vars: {}}]\nzookeeper: {}\n")
    assert caught.value.problems == (
        f"{tmp_path}/nodepool.yaml:1: diskimages[i].pause: must be true or false, and is 3",
        f"{tmp_path}/secure.yaml:1: diskimages[j].name: diskimage j does not exist; add it to `diskimages` of"
        f" {tmp_path}/nodepool.yaml",
        f"{tmp_path}/secure.yaml:2: zookeeper: unknown key `zookeeper`; did you mean `zookeeper-tls`?",
    )


def test_an_empty_post_upload_hook_is_none(written: Any) -> None:
    sections = [
        f"  - {{name: {name}, driver: local, post-upload-hook: '{hook}'}}\n" for name, hook in (("a", ""), ("b", "/x"))
    ]
    assert [each.post_upload_hook for each in written(f"providers:\n{''.join(sections)}").providers] == [None, "/x"]


def test_a_relative_dib_cmd_counts_from_the_directory_of_the_file(written: Any, tmp_path: Path) -> None:
    programs = ("bin/my dib", "'bin/my dib' -x", "sudo -E disk-image-create", "/opt/dib", "")
    sections = [f'  - {{name: i{n}, elements: [vm], dib-cmd: "{program}"}}\n' for n, program in enumerate(programs)]
    assert [each.dib_cmd for each in written(f"diskimages:\n{''.join(sections)}").diskimages] == [
        f"{tmp_path}/bin/my dib",
        f"'{tmp_path}/bin/my dib' -x",
        "sudo -E disk-image-create",
        "/opt/dib",
        "disk-image-create",
    ]


def test_a_provider_that_is_made_without_options_has_none() -> None:
    assert (nodepool.Provider(name="west").options, nodepool.ProviderImage(name="jammy").options) == ({}, {})
