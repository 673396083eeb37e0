"""Quality: what it may see, that it is the sum of its parts, and weights that come from anywhere."""

import json
from pathlib import Path

import pytest

from dialeval.dialogues import Dialogue, ToolCall, Turn, dialogue
from dialeval.errors import DataError
from dialeval.metrics.quality import Quality
from dialeval.metrics.quality_parts import NAMES, WHAT, PartReader
from dialeval.models import artefact
from dialeval.models.blend import LEVELS, Blend, Term
from dialeval.models.card import Card
from dialeval.models.kinds import KINDS
from dialeval.scores import Score

CHAT = [
    ("user", "Do you like jazz?"),
    ("assistant", "I do, above all the piano players. And you?"),
    ("user", "Me too! That is great."),
    ("assistant", "The bus leaves at nine."),
    ("user", "What are you talking about? That makes no sense."),
    ("assistant", "The bus leaves at nine."),
]


def scores(*chats: Dialogue, made: Quality | None = None) -> dict[tuple[str, int | None], float | None]:
    rows = (made or Quality()).score(chats).where(dimension="quality")
    return {(row.dialogue_id, row.turn): row.value for row in rows}


def rows_of(dimension: str, chat: Dialogue, made: Quality | None = None) -> dict[int | None, Score]:
    return {row.turn: row for row in (made or Quality()).score([chat]).where(dimension=dimension)}


def written(folder: Path, terms: dict[str, list[Term]]) -> Path:
    fields = Blend({level: tuple(terms.get(level, [])) for level in LEVELS}).fields()
    artefact.save(folder, "blend.v2", fields, {}, Card("mine", "Mine.", licence="mit", command="-"))
    return folder


def test_a_reply_that_fits_is_better_and_a_repeated_one_worse() -> None:
    bad, repeated = scores(dialogue(CHAT[:4], "d"))["d", 3], scores(dialogue(CHAT, "d"))["d", 5]
    fitting = scores(dialogue([*CHAT[:3], ("assistant", "Great! Which jazz pianist do you like best?")], "d"))
    assert fitting["d", 3] > bad > repeated


def test_a_reply_is_judged_by_the_answer_to_it_and_by_nothing_later() -> None:
    made = Quality(kind="chat")  # which is otherwise told by all that the user says
    whole = scores(dialogue(CHAT, "d"), made=made)
    later = [*CHAT[:5], ("assistant", "Sorry!"), ("user", "I hate you. Stop!")]
    other = scores(dialogue(later, "d"), made=made)
    assert [other["d", turn] for turn in (1, 3)] == pytest.approx(
        [whole["d", turn] for turn in (1, 3)], abs=1e-6
    )
    thanked = scores(dialogue([*CHAT[:4], ("user", "Thank you, that is great!")], "d"), made=made)
    assert thanked["d", 3] > whole["d", 3]


def test_what_came_before_is_neither_credit_nor_blame() -> None:
    """The same exchange after a pleased and after an angry user; how it stood is a figure of its own."""
    asked = [("user", "Which pianist do you like best?"), ("assistant", "Bill Evans, he is so calm.")]
    chats = [
        dialogue([("user", "Hi, are you there?"), ("assistant", "I am here."), ("user", said), *asked], "d")
        for said in ("Wonderful, thank you so much!", "You are useless and stupid, this is terrible.")
    ]
    pleased, angry = (scores(chat, made=Quality(kind="chat"))["d", 4] for chat in chats)
    assert pleased == pytest.approx(angry, abs=0.3)
    stood = [rows_of("standing", chat)[4].value for chat in chats]
    assert stood[0] > stood[1] + 1


def test_the_perfect_answer_after_a_bad_one_is_the_better_one() -> None:
    chat = dialogue(
        [
            ("user", "How long is the warranty on the kettle?"),
            ("assistant", "Our kettles are loved by thousands of customers all over the world!"),
            ("user", "That's not what I asked. How long is the warranty?"),
            ("assistant", "You're right, sorry. The warranty on the kettle is two years."),
            ("user", "Perfect, thank you!"),
        ],
        "d",
    )
    found = scores(chat)
    assert found["d", 3] > found["d", 1]


def test_percentiles_rise_with_the_score_and_stay_within_bounds() -> None:
    chat = dialogue(CHAT, "d")
    values, places = rows_of("quality", chat), rows_of("percentile", chat)
    turns = sorted((turn for turn in values if turn is not None), key=lambda turn: values[turn].value)
    assert [places[turn].value for turn in turns] == sorted(places[turn].value for turn in turns)
    assert all(0 <= row.value <= 100 for row in places.values())


def test_a_kind_can_be_given_and_one_that_nobody_rated_is_noted() -> None:
    chat = dialogue(CHAT, "d")
    assert (
        Quality(kind="support").score([chat]).signatures["quality"]
        != Quality().score([chat]).signatures["quality"]
    )
    blend = Blend.load("dialeval-quality")
    unseen = [kind for kind in KINDS if not blend.is_validated("dialogue", kind)]
    assert unseen
    row = rows_of("quality", chat, Quality(kind=unseen[0]))[None]
    assert row.note == f"not validated on {unseen[0]}"
    assert rows_of("quality", chat)[None].note is None


def test_without_faults_the_parts_that_need_them_count_nothing() -> None:
    (why,) = Quality(faults=False).explain([dialogue(CHAT, "d")])
    assert {why.parts[name] for name in ("answers", "civility", "consistency", "grounding")} == {0.0}


def test_length_beyond_a_few_words_is_not_counted() -> None:
    found = [
        next(PartReader(reader=None).read([dialogue([("user", "Hi"), ("assistant", text)], "d")])).whole
        for text in ("one two three four five six seven eight", " ".join(["word"] * 80))
    ]
    assert found[0]["substance"] == found[1]["substance"]


def test_a_dialogue_is_judged_by_what_its_user_says() -> None:
    chats = [
        dialogue([*CHAT[:2], ("user", said), *CHAT[3:4]], said) for said in ("I love it!", "You are useless.")
    ]
    found = scores(*chats)
    assert found["I love it!", None] > found["You are useless.", None]


def test_a_user_whom_nobody_answers_was_failed() -> None:
    waiting = dialogue([("user", "Hello?"), ("user", "Is anybody there?")], "waiting")
    prompt = dialogue([("user", "Hello?")], "prompt")
    found = list(Quality().score([waiting, prompt, dialogue(CHAT, "chat")]))
    whole = {row.dialogue_id: row for row in found if row.turn is None and row.dimension == "quality"}
    assert whole["waiting"].value < whole["chat"].value
    assert whole["waiting"].note == "nobody answered the user"
    assert (whole["prompt"].value, whole["prompt"].note) == (None, "no reply to score")
    assert {row.turn for row in found if row.dialogue_id == "waiting"} == {None}
    (why,) = Quality().explain([waiting])
    assert why.value == pytest.approx(whole["waiting"].value)


def booking(*ends: Turn) -> Dialogue:
    call = Turn("assistant", "", tool_calls=(ToolCall("book_table", {"people": 4}, "c1"),))
    return dialogue([Turn("user", "Book a table for four."), call, *ends], "d")


def test_an_agent_that_gets_done_is_better_than_one_that_fails_and_hands_over() -> None:
    done = booking(
        Turn("tool", '{"status": "booked"}'),
        Turn("assistant", "Your table for four is booked. Anything else?"),
        Turn("user", "No, that is all. Thanks, bye!"),
    )
    call = Turn("assistant", "", tool_calls=(ToolCall("transfer_to_human_agents", {}, "c2"),))
    failed = booking(
        Turn("tool", "Error: no such restaurant"),
        call,
        Turn("tool", "Transfer successful"),
        Turn("assistant", "I am handing you over to a colleague."),
        Turn("user", "Oh no, that does not help me."),
    )
    good, bad = (next(PartReader(reader=None).read([chat])).whole["completion"] for chat in (done, failed))
    assert good > 0.5 > bad
    assert scores(done)["d", None] > scores(failed)["d", None]
    assert next(PartReader(reader=None).read([dialogue(CHAT, "d")])).whole["completion"] is None


def test_a_score_is_the_sum_of_what_its_explanation_says() -> None:
    chat = dialogue(CHAT, "d")
    (why,) = Quality().explain([chat])
    assert set(why.parts) == set(NAMES["dialogue"])
    assert why.value == pytest.approx(sum(why.parts.values())) == pytest.approx(scores(chat)["d", None])
    labels = [piece.label for turn in why.own.turns for piece in turn.pieces]
    assert [label is None for label in labels] == [True, False] * 3
    assert labels[5].startswith(f"{scores(chat)['d', 5]:+.2f}, ")


def test_every_part_is_explained_and_every_shipped_weight_is_a_part() -> None:
    assert {name for some in NAMES.values() for name in some} == set(WHAT)
    shipped = Blend.load("dialeval-quality")
    for level in LEVELS:
        assert tuple(term.part for term in shipped.terms[level]) == NAMES[level]
        assert all(max(term.weights.values()) > 0 for term in shipped.terms[level])


def test_more_of_a_part_is_never_worse(tmp_path: Path) -> None:
    term = Term("novelty", 0.5, 0.25, dict.fromkeys(KINDS, 0.2))
    added = [term.adds(value, {"chat": 1.0}) for value in (0.0, 0.5, 1.0, 1e9)]
    assert added == pytest.approx([-0.4, 0.0, 0.4, 1.0])
    made = Quality(blend=str(written(tmp_path / "mine", {"turn": [term]})))
    found = scores(dialogue(CHAT, "d"), made=made)
    assert found["d", 3] == pytest.approx(0.4)
    assert found["d", 5] == pytest.approx(-0.4)
    assert found["d", None] == 0.0


def test_what_is_not_known_is_taken_to_be_average() -> None:
    found = next(PartReader().read([dialogue(CHAT[:2], "d")]))
    assert found.turns[1]["reaction"] is None
    assert found.turns[1]["uptake"] is None
    assert Blend.load("dialeval-quality").adds("turn", found.turns[1], found.shares)["reaction"] == 0.0


def test_of_the_moods_so_far_the_latest_counts_most() -> None:
    fine, bad = "Great, thank you so much!", "No, that is wrong, you are useless."
    moods = {}
    for name, said in (("late", [fine, bad]), ("early", [bad, fine])):
        turns = [("user", "Hi, I need help."), ("assistant", "Sure, here is what you need.")]
        for one in said:
            turns += [("user", one), ("assistant", "Sure, here is what you need.")]
        found = next(PartReader().read([dialogue(turns, name)]))
        moods[name] = found.standing[5]["mood"], found.whole["mood"]
    assert moods["late"][0] < moods["early"][0]
    assert moods["late"][1] == pytest.approx(moods["early"][1], abs=0.3)  # a dialogue counts all alike


def test_dialogues_without_replies_are_unscored() -> None:
    calls = Turn("assistant", "", tool_calls=(ToolCall("look", {}, "1"),))
    given = [Dialogue("step", (Turn("user", "Hi"), calls)), Dialogue("none", (Turn("user", "Hi"),))]
    rows = Quality().score(given).where(dimension="quality")
    assert [(row.dialogue_id, row.turn, row.value, row.note) for row in rows] == [
        ("step", None, None, "no reply to score"),
        ("none", None, None, "no reply to score"),
    ]


def test_the_signature_names_weights_and_models() -> None:
    fields = str(Quality().score([]).signatures.get("quality") or "")
    from dialeval.metrics.registry import signature_of

    fields = str(signature_of(Quality()))
    assert all(f"|{name}:" in fields for name in ("blend", "turn_quality", "coherence", "reactions"))
    assert "dialeval-" not in fields.replace("|dialeval:", "|")


@pytest.mark.parametrize(
    ("levels", "field"),
    [
        ({"turn": []}, "levels"),
        ({"turn": {}, "dialogue": []}, "levels.turn"),
        (
            {"turn": [], "dialogue": [{"part": "mood", "mean": 0, "scale": 0, "weights": {}}]},
            "levels.dialogue",
        ),
        (
            {"turn": [], "dialogue": [{"part": "mood", "mean": 0, "scale": 1, "weights": {"chat": -1}}]},
            "levels.dialogue",
        ),
        ({"turn": [{"part": 3, "mean": 0, "scale": 1, "weights": {}}], "dialogue": []}, "levels.turn"),
        ({"turn": [{"part": "mood", "mean": "0", "scale": 1, "weights": {}}], "dialogue": []}, "levels.turn"),
    ],
)
def test_weights_that_make_no_sense_are_refused(tmp_path: Path, levels: object, field: str) -> None:
    card = Card("mine", "Mine.", licence="mit", command="-")
    artefact.save(
        tmp_path / "mine", "blend.v2", {"levels": json.loads(json.dumps(levels)), "rated_kinds": {}}, {}, card
    )
    with pytest.raises(DataError) as caught:
        Blend.load(tmp_path / "mine")
    assert str(caught.value.field).startswith(field)


def test_teachers_that_are_not_here_leave_nothing_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path))
    rows = list(Quality(teachers=True).score([dialogue(CHAT, "d")]))
    assert [row.turn for row in rows if row.dimension == "quality"] == [1, 3, 5, None]
    assert all(row.value is None and "dialeval models pull" in str(row.note) for row in rows)


def test_an_empty_reply_is_a_failed_reply() -> None:
    said: list[Turn] = [
        Turn("user", "Do you like jazz?"),
        Turn("assistant", " "),
        Turn("user", "Hello? Are you there?"),
        Turn("assistant", "I do not understand the question."),
        Turn("user", "Never mind."),
        Turn("assistant", "", tool_calls=(ToolCall("look", {}, "1"),)),
    ]
    rows = rows_of("quality", dialogue(said, "d1"))
    assert list(rows) == [1, 3, None]  # what only calls a tool is no reply
    empty, bad = rows[1], rows[3]
    assert empty.note == "empty reply"
    assert empty.value is not None and bad.value is not None
    assert empty.value < bad.value - 1
    silent = rows_of("quality", dialogue(said[:2], "d2"))[None]
    assert silent.value is not None and silent.value < 0
