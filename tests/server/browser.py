"""Chromium without a window, for tests of the page."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
PATIENCE = 30.0
SHOWN = "const e = document.querySelector(arguments[0]); return e?.checkVisibility() ? e.innerText : ''"

T = TypeVar("T")


def programs() -> tuple[str | None, str | None]:
    """Where browser and driver are, if they are there."""
    return shutil.which("chromium"), shutil.which("chromedriver")


@contextmanager
def browsing(profile: Path) -> Iterator["Browser"]:
    """Start a browser with an empty profile."""
    chromium, driver = programs()
    options = ChromeOptions()
    options.binary_location = chromium or ""
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=Service(driver))
    try:
        yield Browser(chrome)
    finally:
        chrome.quit()


class Browser:
    """What a user does and sees."""

    def __init__(self, chrome: Chrome) -> None:
        self.chrome = chrome

    def open(self, address: str) -> None:
        """Load a page, and forget what was complained about before."""
        self.chrome.get(address)
        self.complaints()

    def find(self, selector: str) -> WebElement:
        return self.chrome.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.chrome.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.chrome.execute_script(script, *arguments)

    def type(self, text: str) -> None:
        """Replace the text in the box."""
        self.find("#text").clear()
        self.find("#text").send_keys(text)

    def set(self, selector: str, value: str) -> None:
        """Give a field a value at once."""
        self.run(
            "const [field, value] = arguments; field.value = value; field.dispatchEvent(new Event('input'))",
            self.find(selector),
            value,
        )

    def choose(self, name: str, value: str, panel: int = 0) -> None:
        """Choose from a list."""
        self.all(f"select[name={name}]")[panel].find_element(
            By.CSS_SELECTOR, f"option[value='{value}']"
        ).click()

    def shown(self, selector: str) -> str:
        """Text of an element, empty if it is not to be seen."""
        return str(self.run(SHOWN, selector)).strip()

    def until(self, condition: Callable[[], T]) -> T:
        """Wait for something to be true."""
        return WebDriverWait(self.chrome, PATIENCE, poll_frequency=0.05).until(lambda _: condition())

    def until_shown(self, selector: str, text: str) -> None:
        """Wait for an element to have a text."""
        self.until(lambda: self.shown(selector) == text)

    def cdp(self, command: str, **arguments: Any) -> None:
        """Ask the browser itself for something."""
        self.chrome.execute_cdp_cmd(command, arguments)

    def size(self, width: int, height: int) -> None:
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def complaints(self) -> list[str]:
        """What the browser's console says, and then forgets."""
        return [entry["message"] for entry in self.chrome.get_log("browser")]  # type: ignore[no-untyped-call]
