"""The stamp of an external object: the attempt and the upload that made it. Pure.

Names of clusters, providers, images, builds and uploads may occur twice: ids begin anew with each image, and a tree can
be made anew. The ``key`` is random and drawn for each attempt. So two stamps are equal only if all their parts are
equal. Decisions about an object compare whole stamps with ``==``, never parts of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from nodepool_ocb.images.rules import UploadView

STAMP: Final = "nodepool_ocb_"  # the prefix of the labels: nodepool_ocb_cluster, _provider, ...
NODEPOOL: Final = "nodepool_"  # the prefix of Nodepool's labels: nodepool_provider_name, _build_id, _upload_id
UNKNOWN_KEY: Final = "nodepool"  # of an attempt of Nodepool, or one with a key that Nodepool dropped from the record
READABLE_CHARACTERS: Final = 180  # of a name, before its key: file systems and clouds take 255 bytes

_ODD: Final = re.compile(r"[^A-Za-z0-9_.+~@-]")


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of an external object, on labels, properties, or in a file beside it."""

    cluster: str  # the id of the cluster with the record that names it
    provider: str  # as the configuration calls it
    image: str
    build: str
    upload: str
    key: str  # of the attempt

    @staticmethod
    def of(labels: Mapping[str, object]) -> Stamp | None:
        """The stamp among an object's labels; None where it has none, or not a whole one: then it is not ours."""
        found = {field: labels.get(STAMP + field) for field in Stamp.__struct_fields__}
        if not all(isinstance(value, str) and value for value in found.values()):
            return None
        return msgspec.convert(found, Stamp)

    @property
    def labels(self) -> dict[str, str]:
        """The stamp as labels, as it is written on the object."""
        return {STAMP + field: getattr(self, field) for field in self.__struct_fields__}

    @property
    def nodepools(self) -> dict[str, str]:
        """The labels by which Nodepool knows the object of an upload in its tree."""
        names = {"provider_name": self.provider, "build_id": self.build, "upload_id": self.upload}
        return {NODEPOOL + name: value for name, value in names.items()}

    def fits(self, labels: Mapping[str, object]) -> bool:
        """Whether an object with these labels is of this upload; of this attempt, too, if the stamp has its key.

        >>> stamp = Stamp(cluster="c", provider="west", image="jammy", build="5f", upload="0000000000", key=UNKNOWN_KEY)
        >>> stamp.fits(stamp.nodepools), stamp.fits({**stamp.nodepools, "nodepool_build_id": "60"}), stamp.fits({})
        (True, False, False)
        """
        found = Stamp.of(labels)
        if self.key != UNKNOWN_KEY:
            return found == self
        if found is not None:
            return msgspec.structs.replace(found, key=UNKNOWN_KEY) == self
        return all(labels.get(name) == value for name, value in self.nodepools.items())

    def belongs_to(self, cluster: str, provider: str) -> bool:
        """Whether it is for this cluster and this provider to look after the object."""
        return (self.cluster, self.provider) == (cluster, provider)

    @property
    def external_name(self) -> str:
        """The name that this project gives to the object: readable, cut if it is long, and unique by its key.

        >>> Stamp(cluster="c", provider="west", image="jammy", build="0000000001", upload="0000000000", key="5f0c").external_name
        'jammy-0000000001-0000000000-west-5f0c'
        """
        readable = _ODD.sub("_", f"{self.image}-{self.build}-{self.upload}-{self.provider}")
        return f"{readable[:READABLE_CHARACTERS]}-{self.key}"


def stamp_of(image: str, upload: UploadView) -> Stamp:
    """The stamp on the object of the newest attempt. The cluster is the record's: records may have come from another
    one.
    """
    record = upload.record
    return Stamp(
        cluster=record.cluster,
        provider=upload.provider,
        image=image,
        build=upload.build,
        upload=upload.id,
        key=record.key,
    )
