"""Images for virtual machines that begin with power alone: sections ``diskimages`` of nodepool.yaml.

The environment is the shipped one. The system to install is a small Debian: as much as boots in QEMU and takes roles over SSH.
The second form of both copies files that an earlier test had built from the same sections and files: ``kept``, ``at_hand``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from nodepool_ocb.testing.mirrors import mirror

ENVIRONMENT: Final = "environment-virtual"  # of the shipped file
SYSTEM: Final = "metal"
SHIPPED: Final = Path(__file__).parents[3] / "etc" / "provisioner"
#: Kernel arguments of all boots. On a loaded host the emulated timer may be late, which Linux takes for a fault of the board. The
#: mitigations protect no emulated CPU, and cost a tenth of its time.
ARGUMENTS: Final = "console=ttyS0 panic=10 no_timer_check mitigations=off quiet"
_MODULES: Final = (
    *(
        "drivers/net/ethernet",
        "drivers/infiniband",
        "drivers/gpu",
        "drivers/media",
        "drivers/hid",
        "drivers/usb",
        "drivers/nvme",
    ),
    *(
        "drivers/target",
        "drivers/md",
        "drivers/hv",
        "drivers/xen",
        "drivers/crypto",
        "sound",
        "net/netfilter",
        "net/sctp",
    ),
    *(
        "net/openvswitch",
        "net/sched",
        "net/ceph",
        "net/sunrpc",
        "net/tipc",
        "net/dccp",
        "net/bridge",
        "net/ipv4/netfilter",
    ),
    *(
        "net/ipv6/netfilter",
        "net/batman-adv",
        "net/9p",
        "net/rds",
        "fs/xfs",
        "fs/btrfs",
        "fs/nfs",
        "fs/nfsd",
        "fs/ceph",
    ),
    *(
        "fs/smb",
        "fs/ocfs2",
        "fs/gfs2",
        "fs/dlm",
        "fs/f2fs",
        "fs/jfs",
        "fs/ntfs3",
        "fs/ntfs",
        "fs/afs",
        "fs/udf",
        "fs/lockd",
    ),
)
_UNUSED: Final = (
    *("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/zoneinfo/*"),
    *("/usr/share/i18n/*", "/usr/share/zsh/*", "/usr/share/bash-completion/*", "/usr/lib/udev/hwdb.d/*"),
    *("/lib/udev/hwdb.d/*", "/usr/lib/x86_64-linux-gnu/gconv/*"),
    *(f"/lib/modules/*/kernel/{part}/*" for part in _MODULES),
)
_INITRD: Final = "virtio_pci\nvirtio_scsi\nsd_mod\next4\n"
_SETTINGS: Final = f"""\
mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/etc/default"
printf 'MODULES=list\\nCOMPRESS=zstd\\nRESUME=none\\n' >"$1/etc/initramfs-tools/conf.d/small"
printf '{_INITRD}' >>"$1/etc/initramfs-tools/modules"
printf '%s\\n' 'GRUB_TIMEOUT=0' 'GRUB_CMDLINE_LINUX="{ARGUMENTS}"' >"$1/etc/default/grub"
"""
#: Of usrmerge, which has done its work.
_PERL: Final = "libfile-find-rule-perl libnumber-compare-perl libtext-glob-perl perl perl-modules-5.36 libperl5.36"
_MASKED: Final = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer"),
    *("e2scrub_all.timer", "e2scrub_reap.service"),
)


def fresh() -> list[dict[str, Any]]:
    """The sections that build both images from Debian's mirror; raises LookupError without one."""
    address = mirror("debian")
    if address is None:
        raise LookupError("a mirror of Debian is needed")
    sections = yaml.safe_load((SHIPPED / "nodepool.yaml").read_text())["diskimages"]
    named = {each["name"]: each for each in sections}
    plain, small = named["environment"], named[ENVIRONMENT]
    options = {**plain["options"], **small["options"], "overlays": [str(SHIPPED / "environment")], "mirror": address}
    environment = {**plain, **small, "options": options}
    del environment["parent"]
    return [environment, _system(address)]


def kept(sections: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same images, from files that ``keep`` stored; raises LookupError if one is not there."""
    return [_copied(each, _kept(each)) for each in sections]


def at_hand(sections: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The images from stored files, if this host has all of them; else these sections, which build them."""
    try:
        return kept(sections)
    except LookupError:
        return [dict(each) for each in sections]


def keep(section: Mapping[str, Any], file: Path) -> None:
    """Store the file that a builder made from this section, in place of older ones of its name."""
    place = _place(section)
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f"{place.name}.{os.getpid()}")
    shutil.copy(file, part)
    part.rename(place)
    for old in place.parent.glob(f"{section['name']}-*"):
        if old != place:
            old.unlink(missing_ok=True)


def _kept(section: Mapping[str, Any]) -> Path:
    place = _place(section)
    if not place.exists():
        raise LookupError(f"no test on this host has built the image {section['name']} yet: run the long form")
    return place


def _copied(section: Mapping[str, Any], file: Path) -> dict[str, Any]:
    copy = "import os, shutil, sys; shutil.copy(sys.argv[1], os.environ['NODEPOOL_OCB_OUTPUT_' + sys.argv[2].upper()])"
    (form,) = section["formats"]
    options = {"argv": [sys.executable, "-c", copy, str(file), form]}
    return {"name": section["name"], "backend": "command", "formats": [form], "options": options}


def _place(section: Mapping[str, Any]) -> Path:
    """By the checksum of all that the image is made of, packages aside."""
    digest = hashlib.sha256(json.dumps(section, sort_keys=True).encode())
    for overlay in section["options"].get("overlays", ()):
        for file in sorted(Path(overlay).rglob("*")):
            if file.is_file():
                digest.update(f"{file.relative_to(overlay)} {file.stat().st_mode:o}\n".encode() + file.read_bytes())
    folder = os.environ.get("XDG_CACHE_HOME") or (Path.home() / ".cache" if os.access(Path.home(), os.W_OK) else None)
    root = Path(folder) if folder else Path(tempfile.gettempdir())
    return root / "nodepool-ocb-tests" / f"{section['name']}-{digest.hexdigest()[:32]}"


def _system(address: str) -> dict[str, Any]:
    customize = [
        _SETTINGS,
        f'chroot "$1" dpkg --purge --force-depends usrmerge {_PERL}',
        'chroot "$1" update-initramfs -u -k all',
        'rm -f "$1"/etc/ssh/ssh_host_* "$1"/usr/lib/udev/hwdb.bin && :>"$1/etc/machine-id"',
        f'for each in {" ".join(_MASKED)}; do ln -sf /dev/null "$1/etc/systemd/system/$each"; done',
    ]
    return {
        "name": SYSTEM,
        "backend": "mmdebstrap",
        "release": "bookworm",
        "formats": ["tar"],
        "build-timeout": 3600,
        "options": {
            "variant": "essential",
            "components": ["main"],
            "mirror": address,
            "include": [
                "usr-is-merged,linux-image-cloud-amd64,initramfs-tools,zstd",
                "systemd-sysv,systemd-timesyncd,udev,dbus,openssh-server,iproute2",
            ],
            "dpkgopts": [f"path-exclude={each}" for each in _UNUSED],
            "customize-hooks": customize,
        },
    }
