"""The offers of a pool: its labels, and the machines of a static provider, from the keys of a nodepool.yaml. Pure.

The keys of a label are laid over those of its image at the provider. Keys without a field are the driver's ``options``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodepool_ocb.images.nodepool import Provider
from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import PoolLabel, StaticMachine

PORTS: Final = {"winrm": 5986}  # by connection-type; all others have SSH's
SSH_PORT: Final = 22
#: The keys of an image, or of a pool's label, for connections to its machines.
CONNECTION_KEYS: Final = frozenset({"username", "python-path", "shell-type", "connection-type", "connection-port"})
#: The keys of a pool's label that have fields of their own.
POOL_LABEL_KEYS: Final = CONNECTION_KEYS | {"name", "diskimage", "cloud-image", "host-key-checking"}
#: Nodepool's keys of clouds, and of their labels, that change no node: about leftovers, and the log of a failed launch.
HARMLESS: Final = frozenset({"nodepool-id", "clean-floating-ips", "port-cleanup-interval", "console-log"})
#: The keys of a machine of a static provider.
MACHINE_KEYS: Final = CONNECTION_KEYS | {
    *("name", "labels", "host-key", "host-key-checking", "timeout", "ssh-port", "max-parallel-jobs")
}


def pool_label(name: str, keys: Mapping[str, Json], pool: Mapping[str, Json], provider: Provider) -> PoolLabel:
    """A label with the keys of its image, as the provider has it. The label's own keys have priority."""
    image = _image(keys, provider)
    reached = {key: value for key, value in {**image, **keys}.items() if key in CONNECTION_KEYS}
    kind = reached.get("connection-type", "ssh")
    return PoolLabel(
        name=name,
        diskimage=keys.get("diskimage"),
        cloud_image=keys.get("cloud-image"),
        host_key_checking=keys.get("host-key-checking", pool.get("host-key-checking", True)),
        username=reached.get("username"),
        python_path=reached.get("python-path"),
        shell_type=reached.get("shell-type"),
        connection_type=kind,
        connection_port=reached.get("connection-port", PORTS.get(kind, SSH_PORT)),
        options={key: value for key, value in {**image, **keys}.items() if key not in POOL_LABEL_KEYS | HARMLESS},
    )


def _image(keys: Mapping[str, Json], provider: Provider) -> Mapping[str, Json]:
    """The provider's keys of a label's image. A cloud image without an id or a name there has its own name."""
    if "diskimage" in keys:
        return next((each.options for each in provider.diskimages if each.name == keys["diskimage"]), {})
    if "cloud-image" not in keys:
        return {}
    images = provider.launch.get("cloud-images") or ()
    image: Mapping[str, Json] = next((each for each in images if each.get("name") == keys["cloud-image"]), {})
    named = {} if image.keys() & {"image-id", "image-name"} else {"image-name": keys["cloud-image"]}
    return {**image, **named}


def static_machine(name: str, keys: Mapping[str, Json]) -> StaticMachine:
    """A machine of a static provider. Labels and host keys may be one text; ``ssh-port`` is the former name of the port."""
    labels, host_keys = keys["labels"], keys.get("host-key", ())
    return StaticMachine(
        name=name,
        labels=tuple(dict.fromkeys(labels.split() if isinstance(labels, str) else labels)),
        host_keys=(host_keys,) if isinstance(host_keys, str) else tuple(host_keys),
        host_key_checking=keys.get("host-key-checking", True),
        timeout_seconds=float(keys.get("timeout", 5)),
        port=keys.get("connection-port", keys.get("ssh-port", SSH_PORT)),
        connection_type=keys.get("connection-type", "ssh"),
        shell_type=keys.get("shell-type"),
        username=keys.get("username", "zuul"),
        slots=keys.get("max-parallel-jobs", 1),
        python_path=keys.get("python-path", "auto"),
    )
