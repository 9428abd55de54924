"""The addresses of a machine, for connections to it."""

from __future__ import annotations

from nodepool_ocb.engine.addressing import PORT as PORT
from nodepool_ocb.engine.addressing import parse as parse
