"""Annotation as raters meet it: Chromium, keys only, one with script off; hostile text; a phone; axe."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from annotation_server import LocalServer, Server, make_study, talks
from browsing import SCREENS, Visit
from payloads import PAYLOADS

from dialeval.annotation import AnnotationProject, read_scheme
from dialeval.annotation import assignment as act
from dialeval.annotation.answers import clean_words
from dialeval.annotation.monitoring import overlaps, record
from dialeval.annotation.project import checked, snapshot
from dialeval.annotation.scheme import Choice, Condition, Scheme, SchemeQuestion
from dialeval.dialogues import dialogue
from dialeval.dialogues.dialogue import clean_text
from dialeval.dialogues.visibility import visible
from dialeval.dialogues.votes import Vote, write_votes

pytestmark = pytest.mark.browser


def values_of(folder: Path, rater: str, question: str) -> dict[int, object]:
    study = AnnotationProject(folder)
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
    with LocalServer(folder) as server, Visit(browser, server.links["ann"]) as visit:
        visit.press("0", "1", "0", "1")
        visit.press("Enter")  # the last question has no answer yet
        visit.page.wait_for_selector(".missing")
        visit.send("5", "Enter")
        assert "1 of 2 done" in visit.page.inner_text(".progress")
        assert [event for event in visit.events if "422" not in event] == []
    study = AnnotationProject(folder)
    (one,) = snapshot(study).answered()
    study.close()
    assert list(one.answers.values()) == [0, 1, 0, 1, 5]


def test_search_and_mark_by_keys(browser: Any, tmp_path: Path) -> None:
    folder = make_study(tmp_path / "study", "wizard", talks(6), raters=["ann"])
    with LocalServer(folder) as server, Visit(browser, server.links["ann"]) as visit:
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
    question = SchemeQuestion(
        name="why",
        type="several",
        text="Why?",
        when=Condition(question="turn-quality", one_of=(0,)),
        choices=(Choice(value="rude", label="Rude"), Choice(value="dull", label="Dull")),
    )
    ready = read_scheme("turn-quality")
    scheme = msgspec.structs.replace(ready, questions=(*ready.questions, question))
    with LocalServer(make_study(tmp_path / "s", scheme, raters=["ann"])) as server:
        with Visit(browser, server.links["ann"]) as visit:
            assert not visit.page.is_visible("#q1-box")
            visit.press("0")
            assert visit.page.is_visible("#q1-box")
            visit.press("2")
            visit.send("Enter")
            assert "1 of 10 done" in visit.page.inner_text(".progress")
        with Visit(browser, server.links["ann"], script=False) as visit:
            assert "Only if" in visit.page.inner_text("#q1-box")


def hostile(payloads: list[str]) -> Scheme:
    """Every payload as a choice, as a question and in between; where there is room for one text only, all."""
    every = " ".join(payloads)
    choices = tuple(Choice(value=one, label=one, help=one) for one in payloads)
    ends = {"low_label": every, "high_label": every}
    questions = (
        SchemeQuestion(name="a", type="choice", text="a", choices=choices),
        SchemeQuestion(name="b", type="text", text="b", required=False),
        SchemeQuestion(name="c", type="scale", text="c", required=False, **ends),
        SchemeQuestion(name="d", type="mark", text="d", required=False),
        *(
            SchemeQuestion(name=f"e{place}", type="text", text=one, help=one, required=False)
            for place, one in enumerate(payloads)
        ),
    )
    return msgspec.structs.replace(
        read_scheme("turn-quality"),
        name=every,
        title=every,
        instructions="\n\n".join(payloads),
        questions=questions,
        show=tuple(payloads),
        raters_per_item=1,
    )


@pytest.mark.parametrize("start", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_hostile_text_stays_text(browser: Any, tmp_path: Path, start: int) -> None:
    """In every field: of dialogues, schemes, raters, answers, decisions, reasons, and of an earlier study."""
    payloads = [clean_text(one)[0] for one in PAYLOADS[start:40:2]]
    chats = [
        dialogue([("user", one), (one, one), ("assistant", one)], one, system=one, meta={one: [one]})  # type: ignore[arg-type]
        for one in payloads
    ]
    raters = [checked(one.replace(",", ";")[:60]) for one in payloads]
    folder = make_study(tmp_path / "study", hostile(payloads), chats, raters=raters)
    with LocalServer(folder) as server, Visit(browser) as visit:
        for rater, payload in zip(raters, payloads, strict=True):
            rate(visit, server, payloads, rater, payload)
        answers = {one.item: one.rater for one in snapshot(server.study).answered()}
        assert sorted(answers) == list(range(20)), "everybody has answered one"
        earlier = [tmp_path / f"{one.replace('/', '|').replace(chr(0), '')}.jsonl" for one in payloads]
        for (item, rater), path in zip(answers.items(), earlier, strict=True):
            write_votes([Vote(payloads[server.study.items[item].place[0]], 2, rater, rater)], path)
        record(server.study, earlier)
        visit.open(server.links["coordinator"])
        assert {visible(one) for one in raters} <= visit.texts("tbody th bdi")
        found = overlaps(server.study)
        assert {one.where for one in found} == {path.name for path in earlier}
        assert {one.rater for one in found} == set(raters)
        assert visit.texts(".alert bdi") == {visible(str(one)) for one in found}
        for item, rater in answers.items():
            look(visit, server, item, payloads[raters.index(rater)])
        for place in ("settled", "lacks a rater", "?x=<script>"):
            visit.page.goto(f"{visit.home}/study?show={quote(place)}&from=x")
        visit.page.mouse.move(400, 400)
        assert visit.events == []
        assert list(snapshot(server.study).answered()) == [], "all are rejected"


def rate(visit: Visit, server: LocalServer, payloads: list[str], rater: str, payload: str) -> None:
    """As a rater of such a name, who writes such a text."""
    every = {visible(one) for one in payloads}
    visit.open(server.links[rater])
    several = ("legend", ".help", ".option .label >", ".option small", ".candidate", ".instructions")
    for place, found in zip(several, visit.all_texts(*(f"{one} bdi" for one in several)), strict=True):
        assert every <= found, place
    title, ends, me, said, facts = visit.all_texts(
        "h1 bdi", ".ends bdi", ".me bdi", ".said bdi", ".facts bdi"
    )
    assert title == ends == {visible(" ".join(payloads))}
    assert me == {visible(rater)}
    assert said == facts and said < every
    visit.page.fill("[name=q1]", payload.replace("\0", ""))
    sent = visit.page.input_value("[name=q1]")
    visit.page.fill("input[type=search]", payload)
    visit.page.check(f"input[name=q0][value='{payloads.index(payload)}']")
    visit.click("button.first")
    assert visit.events == []
    (one,) = (one for one in snapshot(server.study).answered() if one.rater == rater)
    assert (one.answers["a"], one.answers["b"]) == (payload, clean_words(sent))


def look(visit: Visit, server: LocalServer, item: int, payload: str) -> None:
    """As the coordinator, who sees it, decides in such words, and rejects for such a reason."""
    visit.page.goto(f"{visit.home}/study/item/{item}")
    assert visible(payload) in visit.texts("td.wide bdi")
    place = server.study.items[item].place[0]
    assert visit.texts("main > header h1 bdi") == {visible(f"{server.study.names[place][0]}, turn 2")}
    visit.page.fill("[name=q1]", payload.replace("\0", ""))
    sent = visit.page.input_value("[name=q1]")
    chosen = server.study.scheme.questions[0].options[item].value
    visit.page.check(f"input[name=q0][value='{item}']")
    visit.click("#answer button.first")
    assert visit.texts("section b bdi") == {visible(str(chosen))}, "as it stands"
    assert snapshot(server.study).verdicts[item] == {"a": chosen, "b": clean_words(sent)}
    assert visit.page.input_value("[name=q1]") == clean_words(sent)
    visit.page.fill("input[name=reason]", payload.replace("\0", ""))
    reason = clean_words(visit.page.input_value("input[name=reason]"))
    visit.click("td form button")
    assert visit.texts("tr.out td .soft bdi") >= {visible(reason)}


def filled(folder: Path, scheme: str) -> Path:
    """A study in the middle: some answers, a disagreement."""
    meta = {"persona": ["I like dogs.", "I live by the sea."]}
    chats = [dialogue(list(one.turns), one.id, system="x", meta=meta) for one in talks(6)]
    if scheme == "pairwise":
        chats += [dialogue([(t.speaker, t.text + "!") for t in c.turns], c.id, system="y") for c in chats]
    study = AnnotationProject(make_study(folder, scheme, chats, experts=["eve"]))
    for shift, rater in enumerate(("ann", "bob", "cem")):
        for _ in range(4 + shift):
            place = act.current(study, rater)
            seat = act.assignment_at(study, rater, place or 0)
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
    people = {"ann": ["/rate"], "eve": ["/rate"], "coordinator": ["/study", "/study/item/0"]}
    with LocalServer(filled(tmp_path / "study", scheme)) as server:
        for width, colours in SCREENS if scheme == "turn-quality" else SCREENS[:2]:
            for name, paths in people.items():
                with Visit(browser, server.links[name], width=width, scheme=colours) as visit:
                    for path in paths:
                        visit.page.goto(visit.home + path)
                        found = visit.serious()
                        assert not found, (scheme, path, width, colours, found)
                        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width, path
                    assert visit.events == []


def test_refusals_are_pages_too(browser: Any, tmp_path: Path) -> None:
    with LocalServer(make_study(tmp_path / "s")) as server, Visit(browser, server.links["ann"]) as visit:
        for path, title in (("/study", "Not for you"), ("/nowhere", "There is no such page")):
            visit.page.goto(visit.home + path)
            assert visit.page.inner_text("h1") == title
            assert not visit.serious()


def test_the_policy_stops_what_would_run(browser: Any, tmp_path: Path) -> None:
    with LocalServer(make_study(tmp_path / "s")) as server, Visit(browser, server.links["ann"]) as visit:
        visit.page.evaluate(
            """() => { const one = document.createElement("script"); one.textContent = "alert(1)";
            document.body.append(one); const other = document.createElement("img");
            other.src = "https://evil.invalid/x.png"; document.body.append(other); }"""
        )
        told: list[str] = []
        for _ in range(100):  # until both are told, 10 s at most
            visit.page.wait_for_timeout(100)
            told = [event for event in visit.events if not event.startswith("request")]
            if len(told) == 2:
                break
        assert len(told) == 2
        assert all("Content Security Policy" in event for event in told), told
