"""`dialeval annotate` as a user meets it: made, resumed, exported, refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "annotation"))
from annotation_server import Server, talks
from commands import here as run

from dialeval.dialogues import formats
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
    assert "1 answer taken, 0 were there already" in other.stderr
    assert Scores.read(folder / "other.csv").sources == ["human:ann"]


def test_a_wizard_who_judges_is_named(folder: Path) -> None:
    (folder / "votes.jsonl").write_text(
        '{"dialogue_id": "secret-id-1", "turn": 1, "rater": "ann", "utterance": "x"}\n', encoding="utf-8"
    )
    made = run(*MAKE, "--raters", "ann,bob", "--earlier", "votes.jsonl", "--links", cwd=folder)
    assert "warning: ann was a wizard on 1 of the same item (votes.jsonl)" in made.stderr


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
