"""The configurations of Nodepool 11's own tests load for builders and launchers, or are refused for a listed reason."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import nodepool
from nodepool_ocb.pool.documents.reading import pool_configuration
from nodepool_ocb.providers import launching

#: The words that those tests replace.
WORDS: Final = {
    "zookeeper_host": "127.0.0.1",
    "zookeeper_port": "2281",
    "zookeeper_chroot": "/x",
    "zookeeper_ca": "/ca",
    "zookeeper_cert": "/cert",
    "zookeeper_key": "/key",
    "images_dir": "/i",
    "build_log_dir": "/b",
    "build_log_retention": "7",
    "elements_dir": "/e",
    "context_name": "c",
}
#: File → a part of the fault.
REFUSED: Final = {
    "clouds.yaml": "unknown key `clouds`",  # no nodepool.yaml
    "gce.yaml": "zookeeper-servers[0].host: must be text, and is nothing",  # the test sets the server later
    "config_validate/good.yaml": "must be TYPE BASE64",  # a host key without a key
    "config_validate/yaml_error.yaml": "is not YAML",
    "config_validate/schema_error.yaml": "unknown key `nothandled`",
    "config_validate/missing_diskimage_provider.yaml": "diskimage wrong does not exist",
    "config_validate/missing_parent_diskimage.yaml": "this_does_not_exist does not exist",
    "config_validate/missing_top_label.yaml": "label trusty does not exist",
    "config_validate/no_diskimage_name.yaml": "key `name` is missing",
    "config_validate/duplicate_diskimage_name.yaml": "trusty is there twice",
    "integration_noocc.yaml": "key `cloud` is missing",
}


@pytest.mark.long
def test_the_files_of_nodepool_s_tests_load(nodepool11: Path, tmp_path: Path) -> None:
    command = "import nodepool, pathlib; print(pathlib.Path(nodepool.__file__).parent)"
    found = subprocess.run([nodepool11 / "python", "-c", command], capture_output=True, text=True, check=True)
    folder = Path(found.stdout.strip()) / "tests/fixtures"
    files = sorted(folder.rglob("*.yaml"))
    assert len(files) > 100
    refused = {}
    for file in files:
        text = file.read_text()
        for word, value in WORDS.items():
            text = text.replace("{" + word + "}", value)
        path = tmp_path / "nodepool.yaml"
        path.write_text(text)
        try:
            read = nodepool.load(path, environ={"NODEPOOL_PORT": "8005"})
            pool_configuration(read, str(path), launching.drivers())
        except Invalid as error:
            refused[str(file.relative_to(folder))] = "\n".join(error.problems)
    assert {name: fault for name, fault in refused.items() if REFUSED.get(name, "\0") not in fault} == {}
    assert refused.keys() == REFUSED.keys()
