"""A conversation held and rated in Chromium: by keyboard, and once more with script off on a phone."""

import json
from pathlib import Path
from typing import Any

import pytest
from browsing import Visit
from chatting import chatting
from payloads import PAYLOADS
from serving import Server

from dialeval.dialogues import formats
from dialeval.dialogues.dialogue import clean_text
from dialeval.dialogues.visibility import visible
from dialeval.scores import Scores

pytestmark = pytest.mark.browser
pytest.importorskip("uvicorn")

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202e\x00 'quote\" {{7*7}}"


def ready(visit: Visit) -> None:
    """Wait until the page is there and what is typed goes into the box."""
    visit.page.wait_for_selector("#text:focus")


def test_a_conversation_by_keyboard(browser: Any, server: Server, tmp_path: Path) -> None:
    with (
        chatting(tmp_path / "talks", server.at("echo")) as links,
        Visit(browser, links["ann"]) as visit,
    ):
        page = visit.page
        ready(visit)
        assert visit.serious() == []
        page.keyboard.type("Hello there")
        visit.send("Enter")
        page.wait_for_selector("text=1 user Hello there")
        ready(visit)
        page.keyboard.type("One line")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("and another")
        visit.send("Enter")
        page.wait_for_selector("text=3 user One line")
        ready(visit)
        page.locator("#text").fill(HOSTILE)
        visit.send("Enter")
        page.wait_for_selector("text=5 user <script>")
        ready(visit)
        assert visit.serious() == []
        page.get_by_role("button", name="End and rate").focus()
        visit.send("Enter")
        page.wait_for_selector("text=How was it?")
        assert visit.serious() == []
        visit.press("4", "1")
        visit.send("Enter")
        page.wait_for_selector("text=1 conversation rated")
        assert visit.events == []
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
    with (
        chatting(tmp_path / "talks", server.at("echo"), "--scheme", str(scheme), people=who) as links,
        Visit(browser, links[who]) as visit,
    ):
        page = visit.page
        for text in PAYLOADS:
            ready(visit)
            page.locator("#text").fill(f"[{text}]")
            sent = clean_text(page.locator("#text").input_value())[0]
            count = page.locator(".line").count()
            page.get_by_role("button", name="Send").click()
            page.wait_for_function("n => document.querySelectorAll('.line').length === n", arg=count + 2)
            said = page.locator(".said").all_text_contents()[-2:]
            assert said[0] == visible(sent)
            assert said[1].endswith(visible(sent))
        ready(visit)
        assert who in page.locator(".me").inner_text()
        page.get_by_role("button", name="End and rate").click()
        page.wait_for_selector("text=How was it?")
        page.get_by_role("button", name="Save").click()
        page.wait_for_selector("text=1 conversation rated")
        assert visit.events == []


def test_a_conversation_with_script_off_on_a_phone(browser: Any, server: Server, tmp_path: Path) -> None:
    with (
        chatting(tmp_path / "talks", server.at("echo")) as links,
        Visit(browser, links["bob"], 390, "dark", script=False) as visit,
    ):
        page = visit.page
        page.locator("#text").fill("Without script")
        page.get_by_role("button", name="Send").click()
        page.wait_for_selector("text=1 user Without script")
        page.get_by_role("button", name="End and rate").click()
        page.locator("input[name=q0]").nth(1).check()
        page.locator("input[name=q1]").nth(0).check()
        page.get_by_role("button", name="Save").click()
        page.wait_for_selector("text=1 conversation rated")
        assert visit.events == []
    rated = {row.dimension: row.value for row in Scores.read(tmp_path / "talks" / "ratings.csv")}
    assert rated == {"overall": 2.0, "again": 0.0}


def test_replies_are_rated_by_keyboard(browser: Any, server: Server, tmp_path: Path) -> None:
    with (
        chatting(tmp_path / "talks", server.at("echo"), "--reply-scheme", "turn-quality") as links,
        Visit(browser, links["ann"]) as visit,
    ):
        page = visit.page
        ready(visit)
        page.keyboard.type("Hello")
        visit.send("Enter")
        page.wait_for_selector(".line.meant >> text=1 user Hello")
        ready(visit)
        assert visit.serious() == []
        page.keyboard.type("I have 2 cats")
        visit.send("Enter")
        page.wait_for_selector("text=Choose one.")
        assert page.locator("#text").input_value() == "I have 2 cats", "digits in the box are text"
        ready(visit)
        visit.press("Escape", "2")
        ready(visit)  # the key that rates leads back to the box
        visit.send("Enter")
        page.wait_for_selector(".line.meant >> text=3 user I have 2 cats")
        ready(visit)
        visit.press("Shift+Tab", "ArrowDown", "0")
        ready(visit)
        page.get_by_role("button", name="End and rate").focus()
        visit.send("Enter")
        page.wait_for_selector("text=How was it?")
        visit.press("5", "0")
        visit.send("Enter")
        page.wait_for_selector("text=1 conversation rated")
        assert [event for event in visit.events if "status of 422" not in event] == []
    found = Scores.read(tmp_path / "talks" / "ratings.csv")
    assert [(row.turn, row.value) for row in found.where(dimension="turn-quality")] == [(1, 2.0), (3, 0.0)]
    assert {row.value for row in found.where(dimension="overall")} == {5.0}


def test_replies_are_rated_with_script_off_on_a_phone(browser: Any, server: Server, tmp_path: Path) -> None:
    with (
        chatting(tmp_path / "talks", server.at("echo"), "--reply-scheme", "appropriateness") as links,
        Visit(browser, links["bob"], 390, "dark", script=False) as visit,
    ):
        page = visit.page
        page.locator("#text").fill("Without script")
        page.get_by_role("button", name="Send").click()
        page.wait_for_selector("text=1 user Without script")
        page.get_by_role("button", name="End and rate").click()
        page.wait_for_selector("text=Choose one.")
        page.locator("input[name=q0]").nth(3).check()
        page.get_by_role("button", name="End and rate").click()
        page.locator("input[name=q0]").nth(1).check()
        page.locator("input[name=q1]").nth(0).check()
        page.get_by_role("button", name="Save").click()
        page.wait_for_selector("text=1 conversation rated")
        assert [event for event in visit.events if "status of 422" not in event] == []
    found = Scores.read(tmp_path / "talks" / "ratings.csv")
    assert [(row.turn, row.value) for row in found.where(dimension="appropriateness")] == [(1, 4.0)]
