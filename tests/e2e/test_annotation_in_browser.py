"""Annotation as raters meet it: Chromium, keys only, one with script off; hostile text; a phone; axe."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))
sys.path.insert(0, str(Path(__file__).parents[1] / "annotation"))
from annotation_server import LocalServer, Server, make_study, talks
from payloads import PAYLOADS

from dialeval.annotation import Study, read_scheme
from dialeval.annotation import submission as act
from dialeval.annotation.scheme import Choice, Condition, Question, Scheme
from dialeval.annotation.snapshot import snapshot
from dialeval.dialogues import dialogue
from dialeval.dialogues.visibility import visible

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENS = [(1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


class Visit:
    """A browser window, and everything that happened in it that should not."""

    def __init__(
        self, browser: Any, link: str, *, width: int = 1280, scheme: str = "light", script: bool = True
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        self.page = self.context.new_page()
        self.home = link.partition("/in/")[0]
        self.events: list[str] = []
        self.page.on("dialog", self._dialog)
        self.page.on("console", lambda message: self.events.append(f"console {message.text}"))
        self.page.on("pageerror", lambda error: self.events.append(f"error {error}"))
        self.page.on("request", self._request)
        self.page.goto(link)

    def _dialog(self, dialog: Any) -> None:
        self.events.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith(self.home + "/"):
            self.events.append(f"request {request.url}")

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def texts(self, selector: str) -> set[str]:
        return set(self.page.eval_on_selector_all(selector, "all => all.map(one => one.textContent)"))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def send(self, *keys: str) -> None:
        """Press keys of which the last one leads to another page."""
        with self.page.expect_navigation():
            self.press(*keys)


def values_of(folder: Path, rater: str, question: str) -> dict[int, object]:
    study = Study(folder)
    found = {one.item: one.answers.get(question) for one in snapshot(study).answered() if one.rater == rater}
    study.close()
    return found


def test_three_raters_answer_twenty_items_by_keys_alone(browser: Any, tmp_path: Path) -> None:
    folder = make_study(tmp_path / "study", "turn-quality", talks(10))
    with Server(folder) as server:
        for name in ("ann", "bob"):
            with Visit(browser, server.links[name]) as visit:
                for number in range(20):
                    visit.send(str(number % 3), "Enter")
                    if number == 4:  # a slip: back, another answer
                        visit.send("u")
                        assert visit.page.is_checked(f"input[value='{number % 3}']")
                        visit.send("2", "Enter")
                    if number == 9:
                        visit.page.reload()
                        assert "10 of 20 done" in visit.page.inner_text(".progress")
                assert "All done" in visit.page.inner_text("h1")
                assert visit.events == []
        with Visit(browser, server.links["cem"], script=False) as visit:
            for number in range(20):
                visit.page.focus("body")
                while visit.page.evaluate_handle("document.activeElement").get_attribute("name") != "q0":
                    visit.press("Tab")
                visit.press("Space", *["ArrowDown"] * (number % 3))
                visit.send("Enter")
            assert "All done" in visit.page.inner_text("h1")
            assert visit.events == []
    for name in ("ann", "bob", "cem"):
        found = values_of(folder, name, "turn-quality")
        assert len(found) == 20
        expected = [number % 3 for number in range(20)]
        expected[4] = 1 if name == "cem" else 2
        assert sorted(map(str, found.values())) == sorted(map(str, expected))


def test_six_questions_by_keys(browser: Any, tmp_path: Path) -> None:
    folder = make_study(tmp_path / "study", "dialogue", talks(2), raters=["ann"])
    with Server(folder) as server, Visit(browser, server.links["ann"]) as visit:
        visit.press("0", "1", "0", "1")
        visit.page.keyboard.press("Enter")  # the last question has no answer yet
        visit.page.wait_for_selector(".missing")
        visit.send("5", "Enter")
        assert "1 of 2 done" in visit.page.inner_text(".progress")
        assert [event for event in visit.events if "422" not in event] == []
    study = Study(folder)
    (one,) = snapshot(study).answered()
    study.close()
    assert list(one.answers.values()) == [0, 1, 0, 1, 5]


def test_search_and_mark_by_keys(browser: Any, tmp_path: Path) -> None:
    folder = make_study(tmp_path / "study", "wizard", talks(6), raters=["ann"])
    with Server(folder) as server, Visit(browser, server.links["ann"]) as visit:
        visit.press("/")
        visit.page.keyboard.type("place 3")
        assert visit.page.locator(".candidates li:visible").count() == 1
        visit.press("ArrowDown", "Space", "/", "Control+a")
        visit.page.keyboard.type("home")
        assert visit.page.locator(".candidates li:visible").count() == 7  # six, and the one that is marked
        visit.press("Enter", "ArrowDown", "Space")
        visit.press("Escape")
        visit.send("Enter")
        assert visit.events == []
    (marked,) = values_of(folder, "ann", "replies").values()
    assert isinstance(marked, list) and len(marked) == 2


def test_a_question_appears_with_the_answer_it_depends_on(browser: Any, tmp_path: Path) -> None:
    question = Question(
        name="why",
        type="several",
        text="Why?",
        when=Condition(question="turn-quality", one_of=(0,)),
        choices=(Choice(value="rude", label="Rude"), Choice(value="dull", label="Dull")),
    )
    ready = read_scheme("turn-quality")
    scheme = msgspec.structs.replace(ready, questions=(*ready.questions, question))
    with Server(make_study(tmp_path / "s", scheme, raters=["ann"])) as server:
        with Visit(browser, server.links["ann"]) as visit:
            assert not visit.page.is_visible("#q1-box")
            visit.press("0")
            assert visit.page.is_visible("#q1-box")
            visit.press("2")
            visit.send("Enter")
            assert "1 of 10 done" in visit.page.inner_text(".progress")
        with Visit(browser, server.links["ann"], script=False) as visit:
            assert "Only if" in visit.page.inner_text("#q1-box")


def hostile(payload: str) -> Scheme:
    ready = read_scheme("turn-quality")
    choices = (Choice(value=payload, label=payload, help=payload), Choice(value="b", label="b"))
    questions = (
        Question(name="a", type="choice", text=payload, help=payload, choices=choices),
        Question(name="b", type="text", text=payload, required=False),
        Question(name="c", type="scale", text=payload, low_label=payload, high_label=payload, required=False),
        Question(name="d", type="mark", text=payload, required=False),
    )
    return msgspec.structs.replace(
        ready,
        name=payload,
        title=payload,
        instructions=payload,
        questions=questions,
        show=(payload,),
        raters_per_item=2,
    )


@pytest.mark.parametrize("number", range(40))
def test_hostile_text_stays_text(browser: Any, tmp_path: Path, number: int) -> None:
    payload = PAYLOADS[number]
    said = [("user", payload), (payload, payload), ("assistant", payload)]
    chats = [dialogue(said, payload, system=payload, meta={payload: [payload]})]  # type: ignore[arg-type]
    rater = payload.replace(",", ";")[:60].strip()
    folder = make_study(tmp_path / "study", hostile(payload), chats, raters=[rater, "bob"])
    given = visible(chats[0].turns[0].text)
    with LocalServer(folder) as server:
        with Visit(browser, server.links[rater]) as visit:
            assert given in visit.texts(".said bdi")
            assert visible(payload) in visit.texts("legend bdi")
            assert visible(payload) in visit.texts(".option .label > bdi")
            assert visible(payload) in visit.texts("h1 bdi")
            assert given in visit.texts(".candidate bdi")
            assert visible(payload) in visit.texts(".facts li bdi")
            assert visit.texts(".me bdi") == {visible(rater)}
            visit.page.fill("textarea", payload.replace("\x00", ""))
            visit.page.fill("input[type=search]", payload)
            visit.page.check("input[name=q0][value='0']")
            with visit.page.expect_navigation():
                visit.page.click("button.first")
            assert visit.events == []
        number_of = next(one.item for one in snapshot(server.study).answered())
        with Visit(browser, server.links["coordinator"]) as visit:
            assert visible(rater) in visit.texts("tbody th bdi")
            visit.page.goto(f"{visit.home}/study/item/{number_of}")
            words = visit.texts("td.wide bdi")
            assert visible(payload) in words  # the label that was chosen
            assert visit.texts("td.wide div bdi") >= {visible(payload)}
            assert any(visible(payload) in text for text in visit.texts("h1 bdi"))
            for place in ("/study?show=settled", "/study?show=open", f"/study?show={number}&from=x"):
                visit.page.goto(visit.home + place)
            visit.page.mouse.move(400, 400)
            assert visit.events == []


def filled(folder: Path, scheme: str) -> Path:
    """A study in the middle: some answers, a disagreement."""
    meta = {"persona": ["I like dogs.", "I live by the sea."]}
    chats = [dialogue(list(one.turns), one.id, system="x", meta=meta) for one in talks(6)]
    if scheme == "pairwise":
        chats += [dialogue([(t.speaker, t.text + "!") for t in c.turns], c.id, system="y") for c in chats]
    study = Study(make_study(folder, scheme, chats, experts=["eve"]))
    for shift, rater in enumerate(("ann", "bob", "cem")):
        for _ in range(4 + shift):
            place = act.current(study, rater)
            seat = act.look(study, rater, place or 0)
            assert seat is not None
            question = study.scheme.questions[0]
            value: Any = [shift] if question.type == "mark" else question.options[shift % 2].value
            answers = {question.name: value}
            answers |= {
                one.name: one.options[0].value for one in study.scheme.questions[1:] if one.type != "text"
            }
            act.answer(study, rater, seat, answers, f"t{place}", 0.0)
    study.close()
    return folder


@pytest.mark.parametrize(
    "scheme", ["turn-quality", "dialogue", "wizard", "pairwise", "segment-acts", "appropriateness"]
)
def test_accessible_and_nothing_overflows(browser: Any, tmp_path: Path, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    pictures = Path(tmp_path)
    with Server(filled(tmp_path / "study", scheme)) as server:
        for width, colours in SCREENS if scheme == "turn-quality" else SCREENS[:2]:
            for name, paths in {
                "ann": ["/rate"],
                "eve": ["/rate"],
                "coordinator": ["/study", "/study/item/0"],
            }.items():
                with Visit(browser, server.links[name], width=width, scheme=colours) as visit:
                    for path in paths:
                        visit.page.goto(visit.home + path)
                        found = axe_of(Axe(), visit.page)
                        assert not found, (scheme, path, width, colours, found)
                        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width, path
                        shot = pictures / f"{scheme}-{name}{path.replace('/', '-')}-{width}-{colours}.png"
                        visit.page.screenshot(path=shot, full_page=True)
                    assert visit.events == []


def axe_of(axe: Any, page: Any) -> list[Any]:
    """Axe needs to put its own script into the page, which the policy forbids from within, not from here."""
    found = axe.run(page).response["violations"]
    return [
        (one["id"], one["nodes"][0]["html"][:200], one["nodes"][0].get("failureSummary", "")[:300])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def test_refusals_are_pages_too(browser: Any, tmp_path: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with Server(make_study(tmp_path / "s")) as server, Visit(browser, server.links["ann"]) as visit:
        for path, title in (("/study", "Not for you"), ("/nowhere", "There is no such page")):
            visit.page.goto(visit.home + path)
            assert visit.page.inner_text("h1") == title
            assert not axe_of(Axe(), visit.page)


def test_the_policy_stops_what_would_run(browser: Any, tmp_path: Path) -> None:
    with Server(make_study(tmp_path / "s")) as server, Visit(browser, server.links["ann"]) as visit:
        visit.page.evaluate(
            """() => { const one = document.createElement("script"); one.textContent = "alert(1)";
            document.body.append(one); const other = document.createElement("img");
            other.src = "https://evil.invalid/x.png"; document.body.append(other); }"""
        )
        visit.page.wait_for_timeout(300)
        told = [event for event in visit.events if not event.startswith("request")]
        assert len(told) == 2
        assert all("Content Security Policy" in event for event in told), told
