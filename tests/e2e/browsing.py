"""A window of the browser, and everything that happened in it that should not."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SCREENS = [(1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")]


class Visit:
    """A window on a page of a server, or on a file; `events` are dialogs, console lines, errors, requests."""

    def __init__(
        self,
        browser: Any,
        place: str | Path | None = None,
        width: int = 1280,
        scheme: str = "light",
        *,
        script: bool = True,
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        self.page = self.context.new_page()
        self.home = self.address = ""
        self.events: list[str] = []
        self.page.on("dialog", self._dialog)
        self.page.on("console", lambda message: self.events.append(f"console {message.text}"))
        self.page.on("pageerror", lambda error: self.events.append(f"error {error}"))
        self.page.on("request", self._request)
        if place is not None:
            self.open(place)

    def _dialog(self, dialog: Any) -> None:
        self.events.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        own = self.home and request.url.startswith(f"{self.home}/")
        if not own and request.url != self.address:
            self.events.append(f"request {request.url}")

    def open(self, place: str | Path) -> None:
        """Go there; a server may be asked for more than that page, a file for nothing else."""
        if isinstance(place, Path):
            self.address, self.home = place.as_uri(), ""
        else:
            parts = urlsplit(place)
            self.address, self.home = place, f"{parts.scheme}://{parts.netloc}"
        self.page.goto(self.address)

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def texts(self, selector: str) -> set[str]:
        return set(self.page.eval_on_selector_all(selector, "all => all.map(one => one.textContent)"))

    def all_texts(self, *selectors: str) -> list[set[str]]:
        """Return the texts of several selectors in one call."""
        script = "all => all.map(one => [...document.querySelectorAll(one)].map(found => found.textContent))"
        return [set(found) for found in self.page.evaluate(script, list(selectors))]

    def press(self, *keys: str) -> None:
        """Press keys once the page listens: its script runs between the first paint and `load`."""
        self.page.wait_for_load_state("load")
        for key in keys:
            self.page.keyboard.press(key)

    def send(self, *keys: str) -> None:
        """Press keys of which the last one leads to another page."""
        with self.page.expect_navigation():
            self.press(*keys)

    def click(self, selector: str) -> None:
        """Click what leads to another page."""
        with self.page.expect_navigation():
            self.page.click(selector)

    def serious(self, part: str | None = None) -> list[Any]:
        """Return what axe finds; its script is put in from here, which the policy forbids from within."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page, part).response["violations"]
        return [
            (one["id"], one["nodes"][0]["html"][:200], one["nodes"][0].get("failureSummary", "")[:300])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
