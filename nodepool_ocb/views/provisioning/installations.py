"""The installation of a machine, for people and for its installer."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.model.installation import DiskWipe, Installation, InstallStep
from nodepool_ocb.model.records import Json
from nodepool_ocb.views.view import View


class InstallationDocument(View, frozen=True, kw_only=True):
    """The progress of the newest installation of a machine."""

    node: str
    noderole: str
    purpose: str
    step: str
    under_way: bool
    reboot: bool  # the machine may boot from its disk now; one that is decommissioned may switch itself off
    epoch: int  # of the claim: the runner on the new disk refuses lower ones
    since: float
    deadline: float
    percent: int
    image: str
    build: str
    checksum: str
    disk: str
    wiped: tuple[str, ...]  # a sentence for each disk that lost its data, or did not
    host_key: str
    waits: str | None
    reason: str | None


class InstallerOrder(View, frozen=True, kw_only=True):
    """The answer to an installer that showed the token of its boot. It is shown one time."""

    token: str  # of the machine itself, for its reports
    order: Mapping[str, Json]


def document(node: str, record: Installation, *, under_way: bool) -> InstallationDocument:
    """The progress."""
    return InstallationDocument(
        node=node,
        noderole=record.noderole,
        purpose=str(record.purpose),
        step=str(record.step),
        under_way=under_way,
        reboot=(under_way and record.step is InstallStep.PUBLISHED_LOCAL) or record.step is InstallStep.RETIRED,
        epoch=record.epoch,
        since=record.since,
        deadline=record.deadline,
        percent=record.percent,
        image=record.image,
        build=record.build,
        checksum=record.checksum,
        disk=record.disk,
        wiped=tuple(_wiped(each) for each in record.wiped),
        host_key=record.host_key,
        waits=record.waits,
        reason=record.reason,
    )


def _wiped(wipe: DiskWipe) -> str:
    return (
        f"{wipe.disk}: erased ({wipe.method})"
        if wipe.done
        else f"{wipe.disk}: NOT erased ({wipe.method}): {wipe.reason}"
    )
