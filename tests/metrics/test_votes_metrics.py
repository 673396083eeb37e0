"""Weak Agreement and Voted Appropriateness: what is counted, what is unscored, and when to beware."""

import json
from pathlib import Path

import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.contexts import Context, answered
from dialeval.dialogues.votes import Vote, read_votes, write_votes
from dialeval.errors import DataError, UsageError
from dialeval.jobs.scoring import score_to
from dialeval.metrics import build, signature_of
from dialeval.metrics.votes import VotedAppropriateness, WeakAgreement
from dialeval.systems import build as system


@pytest.fixture
def votes(tmp_path: Path) -> str:
    chosen = [
        ("ann", "Down the road."),
        ("bob", "down the road"),
        ("bob", "Take the bus."),
        ("cy", "Who knows?"),
    ]
    path = tmp_path / "votes.jsonl"
    write_votes([Vote("d", 1, rater, text) for rater, text in chosen], path)
    return str(path)


def reply(text: str, name: str = "d") -> Dialogue:
    return dialogue([("user", "Where is the station?"), ("assistant", text)], name, system="bot")


def counted(votes: str, text: str, **fields: object) -> float | None:
    made = VotedAppropriateness(votes, **fields)  # type: ignore[arg-type]
    return next(row.value for row in made.score([reply(text)]) if row.dimension == "votes")


def test_equation_1_and_2(votes: str) -> None:
    for text, number in (("Down the road!", 2), ("Take the bus.", 1), ("No idea.", 0)):
        weak = next(iter(WeakAgreement(votes).score([reply(text)])))
        assert (weak.value, weak.dimension) == (5.0 if number else 1.0, "agreement")
        rows = {row.dimension: row.value for row in VotedAppropriateness(votes).score([reply(text)])}
        assert rows == {"votes": number, "appropriateness": pytest.approx(3.549 + 0.449 * number)}
    own = WeakAgreement(votes, low=0.0, high=1.0).score([reply("No idea."), reply("Who knows")])
    assert [row.value for row in own] == [0.0, 1.0]
    line = VotedAppropriateness(votes, intercept=1.0, slope=2.0).score([reply("Down the road.")])
    assert [row.value for row in line] == [2.0, 5.0]


def test_a_wizard_counts_once_however_many_choices_match(votes: str) -> None:
    path = Path(votes)
    path.write_text(
        path.read_text()
        + json.dumps({"dialogue_id": "d", "turn": 1, "rater": "bob", "utterance": "DOWN THE ROAD"})
        + "\n"
    )
    assert counted(votes, "Down the road") == 2


def test_the_four_ways_to_match(votes: str) -> None:
    assert counted(votes, "Down the road.", match="exact") == 1
    assert counted(votes, " Down the road. ", match="exact") == 1
    assert counted(votes, "DOWN  the road", match="normalised") == 2
    assert counted(votes, "Just down the road.", match="normalised") == 0
    assert counted(votes, "Just down the road.", match="encoder", threshold=0.6) == 2
    assert counted(votes, "Just down the road.", match="encoder", threshold=0.999) == 0
    assert counted(votes, "Down the road.", match="encoder", threshold=1.0) in (1, 2), "equal text is equal"
    assert counted(votes, "Do you have a map?", match="act") == 1, "another question was chosen"
    assert counted(votes, "It is behind the church.", match="act") == 2


def test_a_reply_of_blanks_is_like_nothing_that_was_chosen(votes: str) -> None:
    for match in ("exact", "normalised", "encoder", "act"):
        assert counted(votes, " ", match=match) == 0


def test_what_is_unscored_and_why(votes: str, tmp_path: Path) -> None:
    def note(made: WeakAgreement, one: Dialogue) -> tuple[float | None, str | None]:
        row = next(iter(made.score([one])))
        return row.value, row.note

    assert note(WeakAgreement(), reply("Yes.")) == (None, "no votes: name a file, votes=votes.jsonl")
    assert note(WeakAgreement(votes), reply("Yes.", "other")) == (None, "no votes for this turn")
    assert note(WeakAgreement(votes), reply("Yes.")) == (1.0, "no wizard chose anything near it")
    context = Context((Turn("user", "Where is the station?"),), "assistant", "d", 1)
    assert note(WeakAgreement(votes), answered(context, "Take the bus", "bot", {})) == (5.0, None)
    failed = answered(context, None, "bot", {}, "timed out")
    assert note(WeakAgreement(votes), failed) == (None, "the system failed: timed out")
    with pytest.raises(DataError, match=r"gone\.jsonl: no such file"):
        WeakAgreement(str(tmp_path / "gone.jsonl")).score([reply("Yes.")])
    with pytest.raises(UsageError, match="threshold 0"):
        WeakAgreement(votes, threshold=0).score([])


def test_the_signature_names_the_votes_by_their_content(votes: str) -> None:
    before = str(signature_of(build(f"weak-agreement:votes={votes}")))
    assert "|votes:votes@" in before
    assert "|match:normalised|threshold:0.8|" in before
    Path(votes).write_text(Path(votes).read_text() * 2)
    after = str(signature_of(build(f"weak-agreement:votes={votes}")))
    assert before != after


def test_a_warning_where_no_wizard_chose_anything_near_most_replies(votes: str) -> None:
    replies = [reply("No idea."), reply("Down the road."), reply("Hm.")]
    summary = score_to(replies, [f"voted-appropriateness:votes={votes}"])
    assert summary.warnings() == ["voted-appropriateness: 2 of 3 scores: no wizard chose anything near it"]
    assert score_to(replies[1:2], [f"voted-appropriateness:votes={votes}"]).warnings() == []


def test_nothing_fits_is_a_vote(tmp_path: Path) -> None:
    """Equation 1 gives 1 and equation 2 V = 0 where every wizard said that nothing fits."""
    cast = [
        Vote("d", 1, "ann", None),
        Vote("d", 1, "bob", None),
        Vote("e", 1, "ann", None),
        Vote("e", 1, "bob", "Hi"),
    ]
    write_votes(cast, tmp_path / "votes.jsonl")
    assert read_votes(tmp_path / "votes.jsonl") == cast
    chats = [dialogue([("user", "Hello"), ("assistant", "Hi")], name) for name in ("d", "e", "unseen")]
    weak = build(f"weak-agreement:votes={tmp_path}/votes.jsonl").score(chats)
    voted = build(f"voted-appropriateness:votes={tmp_path}/votes.jsonl").score(chats).where(dimension="votes")
    assert [row.value for row in weak] == [1.0, 5.0, None]
    assert [row.value for row in voted] == [0.0, 1.0, None]


def test_wizards_who_choose_acts(tmp_path: Path) -> None:
    """A wizard chose a reply if all that it does is among the wizard's acts (DeVault's measure)."""
    cast = [("ann", "inform"), ("ann", "question"), ("bob", "Question"), ("cy", None)]
    path = str(tmp_path / "votes.jsonl")
    write_votes([Vote("d", 1, rater, act=act) for rater, act in cast], path)
    for text, number in (
        ("Do you have a map?", 2),
        ("It is behind the church.", 1),
        ("It is behind the church. Do you have a map?", 1),
        ("Goodbye!", 0),
        (" ", 0),
    ):
        assert counted(path, text, match="act") == number, text
        weak = WeakAgreement(path, match="act").score([reply(text)])
        assert [row.value for row in weak] == [5.0 if number else 1.0]
    with pytest.raises(UsageError, match=r"wizards chose acts here, not utterances: match=act"):
        counted(path, "Hm.")
    with pytest.raises(DataError, match="these votes are for acts, not for utterances"):
        system(f"wizard-max-voted:votes={path}")


def test_acts_of_another_inventory_are_named_by_the_reply(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    chosen = [("ann", "request_place"), ("ann", "confirm"), ("bob", "confirm")]
    write_votes([Vote("d", 1, rater, act=act) for rater, act in chosen], path)

    def rated(**meta: object) -> tuple[float | None, str | None]:
        turns = (Turn("user", "Where is the station?"), Turn("assistant", "Which one?", meta))
        row = next(iter(VotedAppropriateness(str(path), match="act").score([Dialogue("d", turns)])))
        return row.value, row.note

    assert rated(acts=["Confirm"]) == (2.0, None)
    assert rated(acts=["Request-Place", "confirm"]) == (1.0, None)
    assert rated(acts=["refuse"]) == (0.0, "no wizard chose anything near it")
    assert rated() == (
        None,
        "wizards chose other acts than segment acts, and the reply does not name its own",
    )


def test_utterances_and_acts_in_one_file_count_together(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    write_votes([Vote("d", 1, "ann", "Who knows?"), Vote("d", 1, "bob", act="question")], path)
    assert counted(str(path), "Do you have a map?", match="act") == 2
