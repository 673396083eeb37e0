"""`dialeval annotate` as a user meets it: made, resumed, exported, refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from annotation_server import Server, talks
from commands import here as run
from msgspec.structs import replace

from dialeval.dialogues import formats
from dialeval.dialogues.votes import read_votes
from dialeval.scores import Scores

MAKE = ("annotate", "chats.jsonl", "--scheme", "turn-quality", "-o", "study")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    formats.write(talks(4), tmp_path / "chats.jsonl")
    return tmp_path


def links(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return {row["name"]: row["link"] for row in json.loads(done.stdout)}


def test_made_resumed_and_grown(folder: Path) -> None:
    first = links(run(*MAKE, "--raters", "ann,bob", "--links", "--json", cwd=folder))
    assert list(first) == ["ann", "bob", "coordinator"]
    assert all(link.startswith("http://127.0.0.1:8750/in/") for link in first.values())
    again = run(*MAKE, "--raters", "ann,bob", "--links", "--json", cwd=folder)
    assert links(again) == first
    assert links(run("annotate", "study", "--links", "--json", cwd=folder)) == first
    grown = run("annotate", "study", "--raters", "cem", "--experts", "eve", "--links", "--json", cwd=folder)
    assert "added: cem, eve" in grown.stderr
    assert first.items() < links(grown).items()
    assert (folder / "study" / "scheme.toml").read_text().startswith("# Third-party turn quality")


def test_served_answered_exported(folder: Path) -> None:
    run(*MAKE, "--raters", "ann", "--links", cwd=folder)
    with Server(folder / "study") as server:
        assert server.client("ann").answer_next(q0="2").status == 303
        done = run("annotate", "study", "--export", "out.csv", "--export", "scores.parquet", cwd=folder)
        assert "written: out.csv" in done.stderr
        (row,) = Scores.read(folder / "scores.parquet")
        assert (row.source, row.dimension, row.value, row.system) == (
            "human:ann",
            "turn-quality",
            2.0,
            "secret-bot",
        )
        taken = run("annotate", "study", "--port", server.port, cwd=folder, code=2)
        assert "try --port" in taken.stderr
    run("annotate", "study", "--export", "label-studio.json", cwd=folder)
    other = run(
        "annotate", "chats.jsonl", "--scheme", "turn-quality", "-o", "other", "--raters", "bob",
        "--answers", "label-studio.json", "--export", "other.csv", cwd=folder,
    )  # fmt: skip
    assert "1 answer imported, 0 already present" in other.stderr
    assert Scores.read(folder / "other.csv").sources == ["human:ann"]


def test_a_wizard_who_judges_is_named(folder: Path) -> None:
    (folder / "votes.jsonl").write_text(
        '{"dialogue_id": "secret-id-1", "turn": 1, "rater": "ann", "utterance": "x"}\n', encoding="utf-8"
    )
    made = run(*MAKE, "--raters", "ann,bob", "--earlier", "votes.jsonl", "--links", cwd=folder)
    assert "warning: ann was a wizard on 1 of the same item (votes.jsonl)" in made.stderr


def test_a_wizard_who_judges_replies_to_the_same_contexts_is_named(folder: Path) -> None:
    """What `respond` writes is called `d@turn-1`; votes were cast at turn 1 of `d`."""
    (folder / "bot.py").write_text("def answer(messages):\n    return 'Hm.'\n", encoding="utf-8")
    run("respond", "chats.jsonl", "--system", "bot:answer", "-o", "replies.jsonl", cwd=folder)
    (folder / "votes.jsonl").write_text(
        '{"dialogue_id": "secret-id-1", "turn": 3, "rater": "ann", "utterance": "x"}\n', encoding="utf-8"
    )
    make = ("annotate", "replies.jsonl", "--scheme", "appropriateness", "--raters", "ann,bob", "--overlap", 2)
    made = run(*make, "-o", "study", "--earlier", "votes.jsonl", "--links", cwd=folder)
    assert "warning: ann was a wizard on 1 of the same item (votes.jsonl)" in made.stderr
    other = ("annotate", "replies.jsonl", "--scheme", "wizard", "--raters", "bob", "--overlap", 1)
    run(*other, "-o", "wizards", "--links", cwd=folder)
    with Server(folder / "wizards") as server:
        assert server.client("bob").answer_next(q0="0").status == 303
    again = run("annotate", "study", "--earlier", "wizards", "--links", cwd=folder)
    assert "warning: bob was a wizard on 1 of the same item (wizards, last 0 days ago)" in again.stderr


def marked(folder: Path, scheme: str = "wizard") -> None:
    """A study called `w` with one answer."""
    run("annotate", "chats.jsonl", "--scheme", scheme, "-o", "w", "--raters", "ann", "--links", cwd=folder)
    with Server(folder / "w") as server:
        assert server.client("ann").answer_next(q0="0").status == 303


def test_what_is_exported_is_chosen_by_a_rule_and_never_silently(folder: Path) -> None:
    marked(folder)
    done = run("annotate", "w", "--export", "myvotes.jsonl", "--export", "My-Scores.jsonl", cwd=folder)
    assert "written: myvotes.jsonl (votes)" in done.stderr
    assert [vote.rater for vote in read_votes(folder / "myvotes.jsonl")] == ["ann"]
    assert Scores.read(folder / "My-Scores.jsonl").sources == ["human:ann"]
    run("annotate", "w", "--export", "any.jsonl", "--as", "votes", cwd=folder)
    assert read_votes(folder / "any.jsonl") == read_votes(folder / "myvotes.jsonl")
    run("annotate", "w", "--export", "plain.csv", cwd=folder)
    assert Scores.read(folder / "plain.csv").sources == ["human:ann"]
    for arguments, message in (
        (("--export", "out.jsonl"), "scores or votes: --as scores or --as votes"),
        (("--export", "scores-and-votes.jsonl"), "scores or votes: --as scores or --as votes"),
        (("--export", "votes.csv"), "votes are written as .jsonl"),
        (("--export", "out.csv", "--as", "votes"), "votes are written as .jsonl"),
        (("--export", "acts.jsonl"), "cannot export acts"),
        (("--export", "out.json"), "cannot export"),
        (("--export", "new.csv", "--export", "out.jsonl"), "scores or votes"),
        (("--links", "--as", "votes"), "--as needs --export"),
    ):
        assert message in run("annotate", "w", *arguments, cwd=folder, code=2).stderr
    left = {path.name for path in folder.iterdir()} - {"chats.jsonl", "w"}
    assert left == {"myvotes.jsonl", "My-Scores.jsonl", "any.jsonl", "plain.csv"}, "all or nothing"


def test_a_study_without_votes_exports_scores_under_any_name(folder: Path) -> None:
    marked(folder, "turn-quality")
    run("annotate", "w", "--export", "contacts.jsonl", "--export", "facts.csv", cwd=folder)
    assert Scores.read(folder / "contacts.jsonl").sources == ["human:ann"]
    assert "cannot export votes" in run("annotate", "w", "--export", "votes.jsonl", cwd=folder, code=2).stderr


def test_without_its_extra_nothing_is_left_behind(folder: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; sys.argv[0] = 'dialeval'\n"
        "from dialeval.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *MAKE, "--raters", "ann"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "uvicorn is missing: pip install 'dialeval[serve]'" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["chats.jsonl"]


def test_dialogues_of_one_id_and_no_system_are_pointed_out(folder: Path) -> None:
    """Their scores carry a number and join with no other scores; with systems, the id stays as it is."""
    pair = (
        "annotate",
        "chats.jsonl",
        "other.jsonl",
        "--scheme",
        "pairwise",
        "--raters",
        "ann",
        "--overlap",
        1,
    )
    for system, other, message in ((None, None, "8 dialogues share id and system"), ("a", "b", "")):
        formats.write([replace(one, system=system) for one in talks(4)], folder / "chats.jsonl")
        formats.write([replace(one, system=other) for one in talks(4)], folder / "other.jsonl")
        made = run(*pair, "-o", f"study-{system}", "--links", cwd=folder)
        assert message in made.stderr and bool(message) == ("share id" in made.stderr)
        with Server(folder / f"study-{system}") as server:
            server.client("ann").answer_next(q0="0")
        run("annotate", f"study-{system}", "--export", f"{system}.csv", cwd=folder)
        named = {
            (row.dialogue_id.partition("@")[0], row.system) for row in Scores.read(folder / f"{system}.csv")
        }
        kept = {row.dialogue_id for row in Scores.read(folder / f"{system}.csv")}
        assert len(kept) == (2 if system is None else 1) and len(named) == (1 if system is None else 2)


def test_candidates_from_a_file(folder: Path) -> None:
    (folder / "lines.txt").write_text("One.\n\nTwo.\nOne.\n", encoding="utf-8")
    make = ("annotate", "chats.jsonl", "--scheme", "wizard", "-o", "w", "--raters", "ann", "--candidates")
    run(*make, "lines.txt", "--links", cwd=folder)
    with Server(folder / "w") as server:
        assert "Search the 2 utterances" in server.client("ann").item()[1].text
    (folder / "lines.txt").write_text("One.\n", encoding="utf-8")
    assert "other dialogues" in run(*make, "lines.txt", "--links", cwd=folder, code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("annotate", "chats.jsonl"), 2, "--scheme"),
        ((*MAKE,), 2, "--raters"),
        ((*MAKE, "--raters", "ann,ann"), 2, "same name"),
        (("annotate", "chats.jsonl", "--scheme", "nonsense", "-o", "s", "--raters", "a"), 2, "ready ones"),
        (("annotate", "missing.jsonl", "--scheme", "wizard", "-o", "s", "--raters", "a"), 1, "no such file"),
        (("annotate", "-", "--scheme", "wizard", "-o", "s", "--raters", "a"), 2, "standard input"),
        (
            ("annotate", "chats.jsonl", "--scheme", "pairwise", "-o", "s", "--raters", "a"),
            1,
            "no two dialogues",
        ),
        ((*MAKE[:-1], "chats.jsonl", "--raters", "a"), 2, "choose another name"),
        ((*MAKE, "--raters", "a", "--host", "0.0.0.0"), 2, "--allow-host"),
        ((*MAKE, "--raters", "a", "--export", "x.docx"), 2, "cannot export"),
        ((*MAKE, "--raters", "a", "--host", "192.0.2.1"), 2, "192.0.2.1"),
    ],
)
def test_refused_with_a_reason(folder: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    assert message in run(*arguments, cwd=folder, code=code).stderr


def test_schemes_are_listed(folder: Path) -> None:
    rows = json.loads(run("list", "schemes", "--json", cwd=folder).stdout)
    assert {"name", "unit", "raters", "questions", "title"} == set(rows[0])
    assert "wizard" in [row["name"] for row in rows]


def test_wizards_choose_for_the_speaker_that_is_asked_for(folder: Path) -> None:
    make = ("annotate", "chats.jsonl", "--scheme", "wizard", "--speaker", "user", "-o", "wizards")
    run(*make, "--candidates", "chats.jsonl", "--raters", "ann", "--links", cwd=folder)
    with Server(folder / "wizards") as server:
        assert server.client("ann").answer_next(q0=["0"]).status == 303
    run("annotate", "wizards", "--export", "votes.jsonl", cwd=folder)
    (vote,) = read_votes(folder / "votes.jsonl")
    turns = {one.id: one.turns for one in formats.read(folder / "chats.jsonl")}
    assert turns[vote.dialogue_id][vote.turn].speaker == "user"
    assert vote.utterance in {turn.text for one in turns.values() for turn in one if turn.speaker == "user"}


def test_wizards_choose_acts_and_replies_are_scored_by_them(folder: Path) -> None:
    make = ("annotate", "chats.jsonl", "--scheme", "wizard-acts", "-o", "wizards", "--raters", "ann,bob")
    run(*make, "--links", cwd=folder)
    with Server(folder / "wizards") as server:
        place, page = server.client("ann").item()
        assert "Search the 11 acts" in page.text
        assert "Takes on something to be done by the speaker" in page.text
        ann, bob = server.client("ann"), server.client("bob")
        assert ann.answer(place, page).status == 422
        for _ in range(8):
            assert ann.answer_next(q0=["0", "2"]).status == 303
            assert bob.answer_next(**{"q0.none": "1"}).status == 303
    run("annotate", "wizards", "--export", "votes.jsonl", cwd=folder)
    votes = read_votes(folder / "votes.jsonl")
    assert {(vote.rater, vote.act) for vote in votes} == {
        ("ann", "inform"),
        ("ann", "directive"),
        ("bob", None),
    }
    assert all(vote.utterance is None for vote in votes)
    metric = "voted-appropriateness:votes=votes.jsonl,match=act"
    run("score", "chats.jsonl", "-m", metric, "-o", "scores.parquet", cwd=folder)
    found = Scores.read(folder / "scores.parquet").where(dimension="votes")
    assert len(found) == 8
    assert {row.value for row in found} <= {0.0, 1.0} and 1.0 in {row.value for row in found}
    wrong = run("score", "chats.jsonl", "-m", "weak-agreement:votes=votes.jsonl", cwd=folder, code=2)
    assert "wizards chose acts here, not utterances: match=act" in wrong.stderr
    other = run(*make[:-3], "other", "--raters", "ann", "--candidates", "chats.jsonl", cwd=folder, code=2)
    assert "lists what wizards choose from" in other.stderr


def test_ratings_of_another_study_are_not_replaced(folder: Path) -> None:
    run(*MAKE, "--raters", "ann", "--links", cwd=folder)
    run("annotate", "study", "--export", "mine.csv", cwd=folder)
    run("annotate", "study", "--export", "mine.csv", cwd=folder)  # its own again
    for name, source in (("d1", "human:bob"), ("other", "human:ann")):
        row = {"dialogue_id": name, "turn": 1, "source": source, "dimension": "x", "value": 1}
        (folder / "ratings.jsonl").write_text(json.dumps(row) + "\n")
        refused = run("annotate", "study", "--export", "ratings.jsonl", "--as", "scores", cwd=folder, code=2)
        assert "ratings.jsonl holds other ratings than this project's" in refused.stderr
        assert json.loads((folder / "ratings.jsonl").read_text()) == row
