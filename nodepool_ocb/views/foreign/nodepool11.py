"""The rows of Nodepool's pages: the keys, headers and values of Nodepool 11's web application. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.pool.views import PoolNodeView, PoolView

NODE_ID: Final = "node_id"
REDACTED: Final = "redacted"  # in place of a port that is no number: some drivers keep credentials there

#: States of ours that Nodepool has under another name.
BUILD_STATES: Final = {"delete": "deleting", "aborted": "failed"}
UPLOAD_STATES: Final = {"delete": "deleting"}

Row: TypeAlias = Mapping[str, Any]


class PageTable(msgspec.Struct, frozen=True):
    """A page: its headers by key, and its rows."""

    headers: Mapping[str, str]
    rows: Sequence[Row]


NODES: Final = {
    "id": "ID",
    "provider": "Provider",
    "label": "Label",
    "server_id": "Server ID",
    "public_ipv4": "Public IPv4",
    "ipv6": "IPv6",
    "state": "State",
    "age": "Age",
    "locked": "Locked",
    "pool": "Pool",
    "hostname": "Hostname",
    "private_ipv4": "Private IPv4",
    "AZ": "AZ",
    "username": "Username",
    "connection_port": "Port",
    "launcher": "Launcher",
    "allocated_to": "Allocated To",
    "hold_job": "Hold Job",
    "comment": "Comment",
    "user_data": "User Data",
    "driver_data": "Driver Data",
}
REQUESTS: Final = {
    "id": "Request ID",
    "relative_priority": "Priority",
    "state": "State",
    "requestor": "Requestor",
    "node_types": "Node Types",
    "nodes": "Nodes",
    "declined_by": "Declined By",
    "event_id": "Event ID",
}
BUILDS: Final = {
    "id": "ID",
    "image": "Image",
    "builder": "Builder",
    "formats": "Formats",
    "state": "State",
    "age": "Age",
}
UPLOADS: Final = {
    "id": "Build ID",
    "upload_id": "Upload ID",
    "provider": "Provider",
    "image": "Image",
    "external_name": "Provider Image Name",
    "external_id": "Provider Image ID",
    "state": "State",
    "age": "Age",
}
IMAGES: Final = {
    "image": "Image",
    "paused": "Paused",
    "build_request": "Build Request",
    "build_request_age": "Build Request Age",
}
LABELS: Final = {"label": "Label"}


def age(seconds: float) -> str:
    """A time as days, hours, minutes and seconds.

    >>> age(100_000.5)
    '01:03:46:40'
    """
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{int(days):02}:{int(hours):02}:{int(minutes):02}:{int(rest):02}"


def node_rows(found: PoolView, now: float) -> PageTable:
    """``node-list``: the nodes of pools."""
    return PageTable(NODES, [_node(each, now) for each in found.nodes.values()])


def _node(view: PoolNodeView, now: float) -> Row:
    node = view.record
    port = node.connection_port
    values = (
        view.id, node.provider, list(view.labels), node.external_id, node.public_ipv4, node.public_ipv6, str(node.state),
        age(max(0.0, now - node.state_time)), "locked" if view.locked else "unlocked", node.pool, node.hostname,
        node.private_ipv4, node.az, node.username, REDACTED if port is None else port, node.launcher, node.allocated_to,
        node.hold_job, node.comment, node.user_data, node.driver_data,
    )  # fmt: skip
    return dict(zip(NODES, values, strict=True))


def request_rows(found: PoolView, _: float) -> PageTable:
    """``request-list``: the requests for nodes."""
    rows = []
    for each in found.requests.values():
        asked = each.record
        values = (
            each.id, asked.relative_priority, str(asked.state), asked.requestor, list(asked.node_types), list(asked.nodes),
            list(asked.declined_by), asked.event_id,
        )  # fmt: skip
        rows.append(dict(zip(REQUESTS, values, strict=True)))
    return PageTable(REQUESTS, rows)


def label_rows(found: PoolView, _: float) -> PageTable:
    """``label-list``: the labels that pools of running launchers offer."""
    labels = {label for each in found.members for label in each.record.supported_labels}
    return PageTable(LABELS, [{"label": each} for each in sorted(labels)])


def build_rows(found: Mapping[str, ImageView], now: float) -> PageTable:
    """``dib-image-list``: the builds of images; a build of a paused image shows the pause."""
    rows = []
    for image in found.values():
        for build in image.builds:
            record = build.record
            state = "paused" if _paused(image, now) else BUILD_STATES.get(record.state, str(record.state))
            values = (
                f"{image.name}-{build.id}", image.name, record.builder, list(record.formats), state, int(record.state_time)
            )  # fmt: skip
            rows.append(dict(zip(BUILDS, values, strict=True)))
    return PageTable(BUILDS, rows)


def upload_rows(found: Mapping[str, ImageView], _: float) -> PageTable:
    """``image-list``: the uploads of images."""
    return PageTable(UPLOADS, [row for image in found.values() for row in _uploads(image)])


def _uploads(image: ImageView) -> Iterator[Row]:
    for build in image.builds:
        for upload in build.uploads:
            record = upload.record
            values = (
                build.id, upload.id, upload.provider, image.name, record.external_name, record.external_id,
                UPLOAD_STATES.get(record.state, str(record.state)), int(record.state_time),
            )  # fmt: skip
            yield dict(zip(UPLOADS, values, strict=True))


def image_rows(found: Mapping[str, ImageView], now: float) -> PageTable:
    """``image-status``: pauses, and requests for builds."""
    rows = []
    for image in found.values():
        asked, working = image.request, image.holder is not None
        state = None if asked is None else "building" if working else "pending"
        values = (image.name, _paused(image, now), state, None if asked is None else int(asked.record.at))
        rows.append(dict(zip(IMAGES, values, strict=True)))
    return PageTable(IMAGES, rows)


def _paused(image: ImageView, now: float) -> bool:
    return image.pause is not None and image.pause.on(now)


# -- as text --


def table(page: PageTable, fields: Sequence[str], now: float, shown: Callable[[str], tuple[str, int]]) -> str:
    """The page as a table in ASCII; ``fields`` without one: all. ``shown`` gives a text to show, and its width in cells."""
    keys = [key for key in page.headers if not fields or key in fields]
    if not keys:
        return ""
    cells = [[[page.headers[key]] for key in keys]]
    cells += [[_text(key, row[key], now).split("\n") for key in keys] for row in page.rows]
    drawn = [[[shown(line) for line in cell] for cell in row] for row in cells]
    widths = [max(width for row in drawn for _, width in row[column]) for column in range(len(keys))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [rule, *_lines(drawn[0], widths), rule]
    for row in drawn[1:]:
        lines += _lines(row, widths)
    return "\n".join([*lines, rule])


def _lines(row: Sequence[Sequence[tuple[str, int]]], widths: Sequence[int]) -> Iterable[str]:
    for number in range(max(len(cell) for cell in row)):
        parts = [cell[number] if number < len(cell) else ("", 0) for cell in row]
        padded = [f" {text}{' ' * (most - width)} " for (text, width), most in zip(parts, widths, strict=True)]
        yield f"|{'|'.join(padded)}|"


def _text(key: str, value: Any, now: float) -> str:
    """A value as Nodepool writes it; a number under ``age`` is a time."""
    if value is None:
        return ""
    if key == "age" or key.endswith("_age"):
        return age(max(0.0, now - value)) if isinstance(value, int | float) else str(value)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
