"""The coordinator's side: agreement, rounds, rejections, adjudication, gold, experts, earlier roles."""

import itertools
import re
import unicodedata
from html import unescape
from pathlib import Path

import msgspec
import pytest
from annotation_server import LocalServer, answer_all, make_study, talks

from dialeval.annotation import AnnotationProject, create, read_scheme
from dialeval.annotation import assignment as act
from dialeval.annotation.export import dialogues_of, scores_of, votes_of
from dialeval.annotation.monitoring import (
    agreements,
    expert_accuracy,
    gold_accuracy,
    item_rows,
    overlaps,
    rater_rows,
    record,
)
from dialeval.annotation.project import snapshot
from dialeval.annotation.scheme import GoldItem, SchemeQuestion
from dialeval.dialogues import dialogue
from dialeval.dialogues.act_statistics import voted
from dialeval.dialogues.votes import read_votes, write_votes
from dialeval.statistics import krippendorff_alpha
from dialeval.studies import study as study_scores

tickets = itertools.count()


def give(study: AnnotationProject, rater: str, item: int, **answers: object) -> None:
    query = "SELECT place FROM seats WHERE item = ? AND rater = ?"
    with study.store.reading() as db:
        (place,) = db.execute(query, (item, rater)).fetchone()
    seat = act.assignment_at(study, rater, place)
    assert seat is not None
    given = {name.replace("_", "-"): value for name, value in answers.items()}
    act.answer(study, rater, seat, given or None, f"ticket {next(tickets)}", 0.0)


@pytest.fixture
def study(tmp_path: Path) -> AnnotationProject:
    return AnnotationProject(make_study(tmp_path / "study"))


def test_agreement_is_that_of_the_statistics_room(study: AnnotationProject) -> None:
    values = {"ann": [0, 1, 2, 2, 0, 1], "bob": [0, 1, 2, 1, 0, 1], "cem": [0, 2, 2, 2, 1, 1]}
    for rater, given in values.items():
        for item, value in enumerate(given):
            give(study, rater, item, turn_quality=value)
    (found,) = agreements(snapshot(study))
    expected = krippendorff_alpha(list(zip(*values.values(), strict=True)), "ordinal")
    assert found.level == "ordinal"
    assert found.alpha is not None and found.alpha.value == pytest.approx(expected.value)
    assert found.alpha.low is not None and found.kappa is not None and found.kappa.n == 6


def test_states_of_items(study: AnnotationProject) -> None:
    for item, given in enumerate([(2, 2, 2), (0, 1, 2), (0, 0, 2), (1,)]):
        for rater, value in zip(("ann", "bob", "cem"), given, strict=False):
            give(study, rater, item, turn_quality=value)
    give(study, "ann", 4)  # cannot judge, and nobody else is left
    states = [row.state for row in item_rows(snapshot(study))]
    assert states[:6] == ["settled", "to adjudicate", "settled", "open", "lacks a rater", "open"]
    assert [row.is_unanimous for row in item_rows(snapshot(study))][:3] == [True, False, False]
    assert next(row for row in rater_rows(snapshot(study)) if row.name == "ann").skipped == 1


def test_reject_hands_the_item_to_somebody_else(tmp_path: Path) -> None:
    scheme = msgspec.structs.replace(read_scheme("turn-quality"), raters_per_item=1)
    folder = make_study(tmp_path / "s", scheme, raters=["ann", "bob"])
    with LocalServer(folder) as server:
        ann, head = server.client("ann"), server.client("coordinator")
        place, page = ann.item()
        ann.answer(place, page, q0="0")
        item = int(re.findall(r"secret-id-(\d)", head.get("/study/export/scores.csv").text)[0])
        study = AnnotationProject(folder)
        number = next(one.item for one in snapshot(study).answered())
        assert study.items[number].place[0] == item
        had = act.progress(study, "bob").all
        form = head.get(f"/study/item/{number}")
        given = {name: form.hidden(name) for name in ("code", "rater")}
        sent = head.post(f"/study/item/{number}/reject", {**given, "reason": "careless"})
        assert sent.status == 303
        assert ann.get(place).status == 404  # it is no longer hers
        assert ann.answer(place, page, q0="2").status == 404
        assert act.progress(study, "bob").all == had + 1
        assert "human:ann" not in head.get("/study/export/scores.csv").text
        assert "<bdi>careless</bdi>" in head.get(f"/study/item/{number}").text
        again = head.post(f"/study/item/{number}/reject", given)
        assert again.status == 409
        with study.store.reading() as db:
            log = db.execute("SELECT body FROM log WHERE action = 'reject'").fetchone()[0]
            assert "careless" in log
            assert db.execute("SELECT count(*) FROM answers WHERE rater = 'ann'").fetchone()[0] == 1
        study.close()


NAMES = [
    "tab\tand\nline\r\nbreak",
    "nul\x00 esc\x1b[31m c1\x9b",
    " blanks  ",
    "cafe\u0301",
    "\"q' &amp; <b>\\",
]


def test_an_answer_is_rejected_whatever_its_rater_is_called(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "s", raters=NAMES)
    with LocalServer(folder) as server:
        study = server.study
        for name in study.people():
            answer_all(study, name, {"turn-quality": 1}, 1)
        head = server.client("coordinator")
        given = list(snapshot(study).answered())
        assert {one.rater for one in given} == {unicodedata.normalize("NFC", name.strip()) for name in NAMES}
        for number in {one.item for one in given}:
            while found := re.search(
                r'name="rater" value="([^"]*)"', (page := head.get(f"/study/item/{number}")).text
            ):
                fields = {"code": page.hidden("code"), "rater": found[1]}
                assert head.post(f"/study/item/{number}/reject", fields).status == 303
        assert list(snapshot(study).answered()) == []


def test_a_decision_in_words_comes_back_as_it_was_sent(tmp_path: Path) -> None:
    ready = read_scheme("turn-quality")
    why = SchemeQuestion(name="why", type="text", text="Why?")
    scheme = msgspec.structs.replace(ready, questions=(*ready.questions, why))
    with LocalServer(make_study(tmp_path / "s", scheme)) as server:
        head = server.client("coordinator")
        words = "\n first\r\nsecond\rthird\t esc\x1b &lt;b> </textarea> end  "
        for _ in range(2):
            form = head.get("/study/item/0")
            sent = {"code": form.hidden("code"), "q0": "1", "q1": words}
            assert head.post("/study/item/0/adjudicate", sent).status == 303
            kept = snapshot(server.study).verdicts[0]["why"]
            assert kept == words.replace("\r\n", "\n").replace("\r", "\n")
            page = head.get("/study/item/0").text
            words = unescape(page.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0])
            assert words == kept


def test_a_decision_stands_beside_the_answers(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "s")
    with LocalServer(folder) as server:
        study = AnnotationProject(folder)
        for rater, value in (("ann", 0), ("bob", 1), ("cem", 2)):
            give(study, rater, 0, turn_quality=value)
        head = server.client("coordinator")
        page = head.get("/study")
        assert 'aria-current="page">to adjudicate <span class="n">1</span>' in page.text
        code = head.get("/study/item/0").hidden("code")
        assert head.post("/study/item/0/adjudicate", {"code": code}).status == 422
        assert head.post("/study/item/0/adjudicate", {"code": code, "q0": "1"}).status == 303
        assert "adjudicated" in head.get("/study/item/0").text
        csv = head.get("/study/export/scores.csv").text
        assert "adjudicated,turn-quality,1.0" in csv and csv.count("human:") == 3
        gold = study_scores(scores_of(snapshot(study)), consensus="majority", resamples=10).gold
        assert gold is not None
        assert (gold.n, gold.decided) == (1, 1), "the decision is the gold where three raters disagree"
        study.close()


def test_gold_catches_the_careless(tmp_path: Path) -> None:
    gold = tuple(
        GoldItem(dialogue=f"secret-id-{number}", turn=1, answers={"turn-quality": (2,)})
        for number in range(3)
    )
    scheme = msgspec.structs.replace(read_scheme("turn-quality"), gold=gold)
    study = create(tmp_path / "s", scheme, talks(5), ["ann", "bob", "cem"])
    golden = [number for number, item in enumerate(study.items) if item.gold]
    for item in golden:
        give(study, "ann", item, turn_quality=2)
        give(study, "bob", item, turn_quality=0)
    seen = snapshot(study)
    found = gold_accuracy(seen)
    assert (found["ann"].value, found["bob"].value, found["cem"].n) == (1.0, 0.0, 0)
    assert [row.is_careless for row in rater_rows(seen)] == [False, True, False]
    assert all(agreement.alpha is not None and agreement.alpha.n == 0 for agreement in agreements(seen))
    study.close()


def test_an_experts_daily_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = msgspec.structs.replace(read_scheme("turn-quality"), expert_per_day=4)
    study = create(tmp_path / "s", scheme, talks(5), ["ann", "bob", "cem"], experts=["eve"])
    act.top_up(study, "eve")
    assert act.progress(study, "eve").all == 0  # nobody has answered yet
    for item in range(8):
        give(study, "ann", item, turn_quality=2)
        give(study, "bob", item, turn_quality=2 if item % 2 else 0)
        give(study, "cem", item, turn_quality=2)
    act.top_up(study, "eve")
    act.top_up(study, "eve")
    assert act.progress(study, "eve").all == 4
    answer_all(study, "eve", {"turn-quality": 2})
    act.top_up(study, "eve")
    assert act.current(study, "eve") is None  # four a day

    class Tomorrow:
        @staticmethod
        def now(_: object) -> object:
            import datetime

            return datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)

    monkeypatch.setattr(act, "datetime", Tomorrow)
    act.top_up(study, "eve")
    assert act.progress(study, "eve").all == 8
    seen = snapshot(study)
    found = expert_accuracy(seen)
    assert found["ann"].value == found["majority"].value == 1.0
    assert found["bob"].value is not None and found["bob"].value < 1.0 and found["bob"].n == 4
    sources = scores_of(seen).sources
    assert set(sources) == {"human:ann", "human:bob", "human:cem", "expert:eve"}
    study.close()


def test_judges_who_were_wizards_are_named(tmp_path: Path) -> None:
    wizards = create(tmp_path / "wizards", read_scheme("wizard"), talks(3), ["ann", "dan"])
    for item in range(3):
        give(wizards, "ann", item, replies=[0])
    write_votes(votes_of(snapshot(wizards)), tmp_path / "votes.jsonl")
    wizards.close()
    assert {vote.rater for vote in read_votes(tmp_path / "votes.jsonl")} == {"ann"}
    judges = create(tmp_path / "judges", read_scheme("appropriateness"), talks(3), ["ann", "bob"])
    assert overlaps(judges) == []
    record(judges, [tmp_path / "wizards"])
    (found,) = overlaps(judges)
    assert (found.rater, found.where, found.items, found.days) == ("ann", "wizards", 3, 0)
    record(judges, [tmp_path / "wizards", tmp_path / "votes.jsonl"])
    assert [one.where for one in overlaps(judges)] == ["votes.jsonl", "wizards"]
    assert "was a wizard on 3 of the same items" in str(found)
    judges.close()


def test_acts_go_on_to_the_acts_room(tmp_path: Path) -> None:
    chats = [dialogue([("user", "Hey, how are you?"), ("assistant", "Fine.")], "d1")]
    study = create(tmp_path / "s", read_scheme("segment-acts"), chats, ["ann", "bob", "cem"])
    for rater, acts in {
        "ann": ("greeting", "question", "inform"),
        "bob": ("greeting", "greeting", "inform"),
        "cem": ("greeting", "question", "apology"),
    }.items():
        for item, label in enumerate(acts):
            give(study, rater, item, act=label)
    found = list(voted(dialogues_of(snapshot(study))))
    assert [(one.index, one.decided, len(one.votes)) for one in found] == [
        ("d1_0_0", "greeting", 3),
        ("d1_0_1", "question", 3),
        ("d1_1_0", "inform", 3),
    ]
    rows = [row for row in scores_of(snapshot(study)) if row.source == "human:ann"]
    assert [(row.turn, row.dimension, row.value) for row in rows] == [
        (0, "act.0", 4.0),
        (0, "act.1", 1.0),
        (1, "act.0", 0.0),
    ]
    study.close()


def test_preferences_count_for_the_system_whatever_side_it_was_on(tmp_path: Path) -> None:
    def half(system: str) -> list[object]:
        texts = "Lovely!" if system == "good" else "Hm."
        return [
            dialogue([("user", f"Hi {n}!"), ("assistant", texts)], f"d{n}", system=system) for n in range(12)
        ]

    folder = make_study(tmp_path / "s", "pairwise", [*half("good"), *half("bad")], raters=["ann", "bob"])  # type: ignore[list-item]
    with LocalServer(folder) as server:
        sides = set()
        for name in ("ann", "bob"):
            client = server.client(name)
            while "All done" not in (found := client.item())[1].text:
                place, page = found
                is_first = page.text.index("Lovely!") < page.text.index("Hm.")
                sides.add(is_first)
                client.answer(place, page, q0="0" if is_first else "1")
        assert sides == {True, False}
        study = AnnotationProject(folder)
        scores = scores_of(snapshot(study))
        means = {row["system"]: row["mean"] for row in scores.summary() if row["dimension"] == "preference"}
        assert means == {"good": 1.0, "bad": 0.0}
        assert not scores.duplicates()
        assert all(
            found.kappa is not None and found.kappa.reason == "constant"
            for found in agreements(snapshot(study))
        )
        study.close()


def test_a_decision_about_marks_chooses_among_what_was_marked(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "s", "wizard", talks(3), raters=["ann", "bob"])
    with LocalServer(folder) as server:
        study = AnnotationProject(folder)
        give(study, "ann", 0, replies=[1, 4])
        give(study, "bob", 0, replies=[2])
        head = server.client("coordinator")
        page = head.get("/study/item/0")
        assert re.findall(r'name="q0" value="(\d)"', page.text) == ["1", "2", "4"]
        sent = head.post("/study/item/0/adjudicate", {"code": page.hidden("code"), "q0": ["1", "2"]})
        assert sent.status == 303
        assert snapshot(study).verdicts == {0: {"replies": [1, 2]}}
        study.close()
