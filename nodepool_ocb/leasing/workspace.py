"""The private directory of a lease: its key, the host keys, the configuration of ssh, the inventory; and the environment."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from nodepool_ocb.documents import written
from nodepool_ocb.leasing import nodes as describing
from nodepool_ocb.leasing.nodes import LeasedNode


class LeaseWorkspace(msgspec.Struct, frozen=True):
    """The files, all of them below ``directory``, which only this user may enter."""

    directory: Path
    identity: Path  # the private key; with --identity the caller's own
    public_key: str | None  # of a key that was made for this lease

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        return self.directory / "ssh_config"

    @property
    def inventory(self) -> Path:
        return self.directory / "inventory.yaml"

    def describe(self, nodes: Sequence[LeasedNode]) -> None:
        """Write the files about the nodes."""
        identity, hosts, config = str(self.identity), str(self.known_hosts), str(self.ssh_config)
        self.known_hosts.write_text(describing.known_hosts(nodes))
        self.ssh_config.write_text(describing.ssh_config(nodes, identity, hosts))
        self.inventory.write_text(written.text(describing.inventory(nodes, identity, config)))

    def environment(self, request: str, nodes: Sequence[LeasedNode], ends: float) -> Mapping[str, str]:
        """The environment of COMMAND: that of this process and the variables of docs/leases.md.

        ``ends``: the end of the lease in seconds since the epoch.
        """
        first = nodes[0]
        return {
            **os.environ,
            "LEASE_REQUEST": request,
            "LEASE_NODES": " ".join(node.id for node in nodes),
            "LEASE_NAMES": " ".join(node.name for node in nodes),
            "LEASE_ADDRESSES": " ".join(node.place for node in nodes),
            "LEASE_NAME": first.name,
            "LEASE_ADDRESS": first.address,
            "LEASE_PORT": str(first.port),
            "LEASE_USER": first.user,
            "LEASE_IDENTITY": str(self.identity),
            "LEASE_KNOWN_HOSTS": str(self.known_hosts),
            "LEASE_SSH_CONFIG": str(self.ssh_config),
            "LEASE_INVENTORY": str(self.inventory),
            "LEASE_ENDS": str(int(ends)),
            "ANSIBLE_INVENTORY": str(self.inventory),
        }


def make(identity: Path | None) -> LeaseWorkspace:
    """A new directory, with a new key pair unless the caller has one. Raises OSError."""
    directory = Path(tempfile.mkdtemp(prefix="nodepool-ocb-lease-", dir=_parent()))
    if identity is not None:
        return LeaseWorkspace(directory, identity.expanduser().resolve(), None)
    from cryptography.hazmat.primitives import serialization as forms  # here, since it takes long to import
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption())
    public = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH).decode()
    path = directory / "id_ed25519"
    path.touch(mode=0o600)
    path.write_bytes(private)
    (directory / "id_ed25519.pub").write_text(f"{public}\n")
    return LeaseWorkspace(directory, path, public)


def _parent() -> str | None:
    """The user's directory in memory, if there is one."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return runtime if runtime and os.access(runtime, os.W_OK | os.X_OK) else None


def remove(place: LeaseWorkspace) -> None:
    """Remove the directory; nothing happens if it is gone."""
    shutil.rmtree(place.directory, ignore_errors=True)
