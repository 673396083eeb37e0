"""A conversation held and rated in Chromium: by keyboard, and once more with script off on a phone."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "annotation"))
sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))
from chatting import chatting
from payloads import PAYLOADS
from serving import Server, serving

from dialeval.dialogues import formats
from dialeval.dialogues.dialogue import clean_text
from dialeval.dialogues.visibility import visible
from dialeval.scores import Scores

pytestmark = pytest.mark.browser
pytest.importorskip("uvicorn")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202e\x00 'quote\" {{7*7}}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as one:
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


def watched(context: Any, host: str) -> tuple[Any, list[str]]:
    page, events = context.new_page(), list[str]()
    page.on("dialog", lambda one: (events.append(f"dialog {one.message}"), one.dismiss()))
    page.on("console", lambda one: one.type == "error" and events.append(f"console {one.text}"))
    page.on("pageerror", lambda one: events.append(f"error {one}"))
    page.on("request", lambda one: None if one.url.startswith(host) else events.append(f"request {one.url}"))
    return page, events


def serious(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [one["id"] for one in found if one["impact"] in ("serious", "critical")]


def test_a_conversation_by_keyboard(browser: Any, server: Server, tmp_path: Path) -> None:
    with chatting(tmp_path / "talks", server.at("echo")) as links:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page, events = watched(context, links["ann"].partition("/in/")[0])
        page.goto(links["ann"])
        assert serious(page) == []
        page.keyboard.type("Hello there")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=1 user Hello there")
        page.keyboard.type("One line")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("and another")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=3 user One line")
        page.locator("#text").fill(HOSTILE)
        page.keyboard.press("Enter")
        page.wait_for_selector("text=5 user <script>")
        assert serious(page) == []
        page.screenshot(path=tmp_path / "chat.png", full_page=True)
        page.get_by_role("button", name="End and rate").press("Enter")
        page.wait_for_selector("text=How was it?")
        assert serious(page) == []
        page.keyboard.press("4")
        page.keyboard.press("1")
        page.screenshot(path=tmp_path / "judge.png", full_page=True)
        page.keyboard.press("Enter")
        page.wait_for_selector("text=1 conversation rated")
        assert events == []
        context.close()
    talk = next(formats.read(tmp_path / "talks" / "dialogues.jsonl"))
    assert talk.turns[2].text == "One line\nand another"
    assert talk.turns[4].text.startswith("<script>alert(1)</script><img src=x")
    rated = {row.dimension: row.value for row in Scores.read(tmp_path / "talks" / "ratings.csv")}
    assert rated == {"overall": 4.0, "again": 1.0}
    connected = set((tmp_path / "connected.txt").read_text().splitlines())
    assert connected == {f"('127.0.0.1', {server.port})"}, "the server connected elsewhere"


def test_hostile_text_stays_text(browser: Any, server: Server, tmp_path: Path) -> None:
    """Of a person, and of a system, which says it again; in names and in what is asked."""
    scheme = tmp_path / "scheme.toml"
    texts = [json.dumps(text) for text in PAYLOADS if text.isprintable()]
    asked = "".join(
        f"[[questions]]\nname = 'q{place}'\ntype = 'text'\ntext = {text}\nhelp = {text}\nrequired = false\n"
        for place, text in enumerate(texts)
    )
    head = f"name = 'hostile'\ntitle = {texts[0]}\nunit = 'dialogue'\ninstructions = {texts[1]}\n"
    scheme.write_text(head + asked, encoding="utf-8")
    who = "<img src=x onerror=alert(9)>"
    with chatting(tmp_path / "talks", server.at("echo"), "--scheme", str(scheme), people=who) as links:
        context = browser.new_context()
        page, events = watched(context, links[who].partition("/in/")[0])
        page.goto(links[who])
        for text in PAYLOADS:
            page.locator("#text").fill(f"[{text}]")
            sent = clean_text(page.locator("#text").input_value())[0]
            count = page.locator(".line").count()
            page.get_by_role("button", name="Send").click()
            page.wait_for_function("n => document.querySelectorAll('.line').length === n", arg=count + 2)
            said = page.locator(".said").all_text_contents()[-2:]
            assert said[0] == visible(sent)
            assert said[1].endswith(visible(sent))
        assert who in page.locator(".me").inner_text()
        page.get_by_role("button", name="End and rate").click()
        page.wait_for_selector("text=How was it?")
        page.get_by_role("button", name="Save").click()
        page.wait_for_selector("text=1 conversation rated")
        assert events == []
        context.close()


def test_a_conversation_with_script_off_on_a_phone(browser: Any, server: Server, tmp_path: Path) -> None:
    with chatting(tmp_path / "talks", server.at("echo")) as links:
        context = browser.new_context(
            viewport={"width": 390, "height": 800}, java_script_enabled=False, color_scheme="dark"
        )
        page, events = watched(context, links["bob"].partition("/in/")[0])
        page.goto(links["bob"])
        page.locator("#text").fill("Without script")
        page.get_by_role("button", name="Send").click()
        page.wait_for_selector("text=1 user Without script")
        page.screenshot(path=tmp_path / "phone.png", full_page=True)
        page.get_by_role("button", name="End and rate").click()
        page.locator("input[name=q0]").nth(1).check()
        page.locator("input[name=q1]").nth(0).check()
        page.get_by_role("button", name="Save").click()
        page.wait_for_selector("text=1 conversation rated")
        assert events == []
        context.close()
    rated = {row.dimension: row.value for row in Scores.read(tmp_path / "talks" / "ratings.csv")}
    assert rated == {"overall": 2.0, "again": 0.0}
