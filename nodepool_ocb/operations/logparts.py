"""Pieces of the logs that daemons serve, as an API server and its clients read them. It loads the HTTP client of Python."""

from __future__ import annotations

from nodepool_ocb.http.following import Found as Found
from nodepool_ocb.http.following import LogPlaces as LogPlaces
from nodepool_ocb.http.logs import LogPart as LogPart
from nodepool_ocb.http.logs import MissingLog as MissingLog
from nodepool_ocb.http.logs import Shorter as Shorter
from nodepool_ocb.http.logs import Unreached as Unreached
