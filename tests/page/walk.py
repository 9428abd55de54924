"""A person who looks for the cause of a failure on the page: few clicks, and little time."""

from __future__ import annotations

import time
from typing import Final

from tests.api.served import ServedApi
from tests.page.browser import Browser

FEW_CLICKS: Final = 3
FEW_SECONDS: Final = 30.0


class Walk:
    """One person at the page, with a count of clicks. It begins at the overview."""

    def __init__(self, browser: Browser, api: ServedApi) -> None:
        self.page, self.clicks = browser, 0
        browser.enter(api.address, api.token)
        self.began = time.monotonic()

    def click(self, css: str, text: str = "") -> None:
        self.clicks += 1
        self.page.click(css, text)

    def ends(self, name: str) -> None:
        """Fail if it took too many clicks, or too long."""
        seconds = time.monotonic() - self.began
        print(f"{name}: {self.clicks} clicks, {seconds:.1f} s")
        assert self.clicks <= FEW_CLICKS, name
        assert seconds < FEW_SECONDS, name
