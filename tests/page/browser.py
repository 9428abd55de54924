"""Debian's chromium without a screen, driven by its chromedriver over the loopback."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from nodepool_ocb.api import logins
from nodepool_ocb.testing.looks import rest

T = TypeVar("T")

PROGRAMS: Final = ("chromium", "chromedriver")
PATIENCE_SECONDS: Final = 60.0
QUIET: Final = (
    "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-default-apps", "--disable-extensions",
)  # fmt: skip


def why_not() -> str | None:
    """The reason why there is no browser; None if there is one."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not installed (Debian: chromium, chromium-driver)" if lacking else None


class Browser:
    """One window of a browser with its own profile. Close it with ``close``."""

    def __init__(self, folder: Path) -> None:
        options = Options()
        options.binary_location = str(shutil.which("chromium"))
        for each in (*QUIET, f"--user-data-dir={folder}", *(["--no-sandbox"] if os.getuid() == 0 else [])):
            options.add_argument(each)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
        self.driver.set_page_load_timeout(PATIENCE_SECONDS)
        self.driver.set_script_timeout(PATIENCE_SECONDS)
        self._entered = 0
        self.look(1280, 900)

    def close(self) -> None:
        self.driver.quit()

    def look(self, width: int, height: int, scheme: str = "light") -> None:
        """Set the size of the window in pixels, and dark or light."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def enter(self, address: str, token: str, view: str = "#/overview") -> None:
        """Show a view with the session of a token, without the form; the messages and requests of before are forgotten."""
        cookie = {"name": logins.COOKIE, "value": token, "url": address, "httpOnly": True, "sameSite": "Strict"}
        self.driver.execute_cdp_cmd("Network.setCookie", cookie)
        self._entered += 1
        self.driver.get(f"{address}/?{self._entered}{view}")  # another address, so that it is loaded anew
        self.one("nav a", "Overview")
        self.console(), self.hosts()

    # -- looking --

    def script(self, text: str, *values: Any) -> Any:
        """The result of a script, which returns it."""
        return self.driver.execute_script(text, *values)

    def until(self, found: Callable[[], T], subject: str) -> T:
        """The first true value; fails with the text of the page."""
        looked = time.monotonic()
        deadline = looked + PATIENCE_SECONDS
        while not (value := found()):
            assert time.monotonic() < deadline, f"{subject} did not come; the page has:\n{self.text}\n{self.console()}"
            looked = rest(looked)
        return value

    @property
    def text(self) -> str:
        """The text of the page, as people see it."""
        return str(self.script("return document.body.innerText"))

    def shows(self, text: str) -> None:
        """Wait until the page has it."""
        self.until(lambda: text in self.text, repr(text))

    def one(self, css: str, text: str = "") -> WebElement:
        """Wait for the first visible element with this text."""

        def find() -> WebElement | None:
            found = self.script(
                "return [...document.querySelectorAll(arguments[0])].find(each => each.checkVisibility()"
                " && each.textContent.includes(arguments[1])) ?? null",
                css,
                text,
            )
            return found if isinstance(found, WebElement) else None

        return self.until(find, f"{css} {text!r}")

    def click(self, css: str, text: str = "") -> None:
        """Click on that element; the page may draw it anew meanwhile."""

        def clicked() -> bool:
            try:
                self.one(css, text).click()
            except StaleElementReferenceException:
                return False
            return True

        self.until(clicked, f"a click on {css} {text!r}")

    def press(self, *keys: str) -> None:
        """Type into the element that has the focus."""
        for each in keys:
            self.driver.switch_to.active_element.send_keys(each)

    def go(self, address: str) -> None:
        """Show a view of the page: ``#/matrix/lab``."""
        self.script("location.hash = arguments[0]", address)

    # -- judging --

    def console(self) -> list[str]:
        """The messages of the console since the last call."""
        return [str(each["message"]) for each in self.driver.get_log("browser")]

    def hosts(self) -> set[str]:
        """HOST:PORT of each request since the last call; the browser's own addresses, as of its settings, are left out."""
        found = set()
        for each in self.driver.get_log("performance"):
            message = json.loads(each["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                scheme, _, rest_of = message["params"]["request"]["url"].partition("://")
                if scheme in ("http", "https", "ws", "wss"):
                    found.add(rest_of.partition("/")[0])
        return found


def sign_in(browser: Browser, address: str, token: str) -> None:
    """Through the form, as a person does."""
    browser.driver.get(f"{address}/")
    browser.one("#token").send_keys(token, Keys.ENTER)
    browser.one("nav a", "Overview")


__all__ = ["Browser", "Keys", "sign_in", "why_not"]
