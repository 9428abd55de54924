"""The way to boot under Secure Boot: shim, GRUB and a kernel that are signed. Pure.

Firmware of UEFI loads shim by TFTP, and shim loads GRUB. The configuration of GRUB on the server reads the name of the node's
own one from a DHCP option. So a boot that an installation caused has a name that cannot be guessed. GRUB and shim refuse a
kernel that is not signed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SHIM: Final = "shimx64.efi"
OPTION: Final = 224  # of DHCP, for private use: the name of the configuration
NAME: Final = "node-{}"  # of a node's configuration: dnsmasq takes a text that begins with a number for one
FOLDER: Final = "tftp/boot"  # of configurations, below the directory of a server

#: ``base`` is by TFTP, and ``image`` is for the arguments of the kernel, as in the script of iPXE. The server's own
#: configuration has set ``files`` and ``server``.
_CONFIG: Final = """\
# {node}: {bootenv}
set base=$files/images/{image}
set image=$server/images/{image}
source $base/newest.cfg
echo 'ocb: {node} boots {bootenv} by GRUB, with image {image}'
if linux $base/$build/vmlinuz {arguments}; then
  if initrd $base/$build/initrd $files/site.cpio; then
    boot
  fi
fi
echo 'ocb: {node}: boot environment {bootenv} was not started: the kernel of image {image} is absent, or Secure Boot refuses it'
sleep 30
reboot
"""


def config(node: str, bootenv: str, image: str, arguments: Iterable[str]) -> str:
    """The configuration of GRUB for a node, or for unknown machines."""
    texts = {"node": node or "unknown machine", "bootenv": bootenv, "image": image, "arguments": words(arguments)}
    found = _CONFIG
    for name, text in texts.items():
        found = found.replace(f"{{{name}}}", text)
    return found


def words(arguments: Iterable[str]) -> str:
    """The arguments of the kernel as GRUB reads them: variables of ours count, all other signs stand for themselves.

    >>> words(["ocb.root=${image}/${build}/root", "a='b;$c'"])
    '"ocb.root=${image}/${build}/root" \\'a=\\'\\\\\\'\\'b;$c\\'\\\\\\'\\'\\''
    """
    return " ".join(f'"{word}"' if "${" in word else "'" + word.replace("'", "'\\''") + "'" for word in arguments)
