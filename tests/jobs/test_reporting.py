"""A report on a run folder: all folders that its study was made of, and what it says when one has gone."""

import json
import re
import shutil
from pathlib import Path

import pytest
from commands import here

from dialeval.dialogues import Dialogue, Turn
from dialeval.dialogues.formats import write
from dialeval.errors import DataError
from dialeval.jobs.reporting import report_run
from dialeval.jobs.runs import Run, study_input
from dialeval.jobs.scoring import score_to
from dialeval.manifests import write_listed
from dialeval.scores import Score, Scores
from dialeval.studies import Study

QUICK = ("--resamples", 100, "--level", "dialogue")
REPLIES = {
    "a": ("The museum opens at nine.", "Take the tram to the harbour."),
    "b": ("It opens at nine every day.", "The tram is best, line four."),
    "c": ("I like turtles very much indeed.", "I like turtles very much indeed."),
}


def replies(system: str) -> list[Dialogue]:
    """What one system answers to ten contexts that are the same for all."""
    first, second = REPLIES[system]
    return [
        Dialogue(
            f"c{number}",
            (
                Turn("user", f"When does museum {number} open?"),
                Turn("assistant", first),
                Turn("user", "And how do I get there?"),
                Turn("assistant", second),
            ),
            system,
        )
        for number in range(10)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for system in REPLIES:
        write(replies(system), tmp_path / f"{system}.jsonl")
        score_to(replies(system), ["repetition", "length"], tmp_path / f"run-{system}", name=system)
    ratings = [
        Score(f"c{number}", None, system, "human:r", "overall", float(good + number % 2))
        for good, system in enumerate("cab", 1)
        for number in range(10)
    ]
    Scores.of(ratings).write(tmp_path / "ratings.csv")
    return tmp_path


def test_several_run_folders_are_one_study_and_one_report(folder: Path) -> None:
    here("study", "run-a", "run-b", "run-c", "ratings.csv", *QUICK, cwd=folder)
    found = Run(folder / "run-a").study()
    assert found is not None
    assert found.runs == (".", "../run-b", "../run-c")
    assert (found.n_units, {row.system for row in found.systems}) == (30, {"a", "b", "c"})
    here("report", "run-a", "-o", "out.html", "-o", "out.md", cwd=folder)
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert "60 replies scored, 0 unscored" in page
    triage = page.partition('id="triage"')[2].partition('id="dialogues"')[0]
    assert set(re.findall(r'<span class="of"><bdi>(\w)</bdi>', triage)) >= {"c"}
    assert "I like turtles very much indeed." in triage, "the worst turns are those of the third folder"
    shown = page.partition('id="dialogues"')[2]
    assert set(re.findall(r'<span class="of"><bdi>(\w)</bdi>', shown)) == {"a", "b", "c"}
    failures = (folder / "out.md").read_text(encoding="utf-8").partition("Recurring failures")[2]
    assert re.search(r"\*\*repeats\*\*[^|]*\| 10 \| 16.7 % of 60", failures)


def test_the_folders_may_move_together_and_one_may_go(folder: Path) -> None:
    here("study", "run-a", "run-b", "run-c", "ratings.csv", *QUICK, cwd=folder)
    moved = folder / "elsewhere"
    moved.mkdir()
    for name in ("run-a", "run-b", "run-c"):
        (folder / name).rename(moved / name)
    assert here("report", "run-a", cwd=moved).stderr == "written: run-a/report.html\n"
    shutil.rmtree(moved / "run-c")
    told = here("report", "run-a", cwd=moved).stderr
    assert told.startswith("the run folder run-c is missing: its dialogues are not shown\n")
    page = (moved / "run-a" / "report.html").read_text(encoding="utf-8")
    assert "the run folder run-c is missing" in page
    assert set(re.findall(r'<span class="of"><bdi>(\w)</bdi>', page)) == {"a", "b"}


def test_folders_are_remembered_until_others_are_given(folder: Path) -> None:
    here("study", "run-a", "run-b", "ratings.csv", *QUICK, cwd=folder)
    assert study_input([folder / "run-a", folder / "ratings.csv"]).runs == (".", "../run-b")
    assert study_input([folder / "run-a", folder / "run-c"]).runs == (".", "../run-c")
    assert study_input([folder / "run-a", folder / "ratings.csv"], fresh=True).runs == (".",)
    write_listed(folder / "run-a", {"study.json": b"{"})
    assert study_input([folder / "run-a", folder / "ratings.csv"]).runs == (".",)


def test_a_study_of_another_version_is_made_again(folder: Path) -> None:
    here("study", "run-a", "ratings.csv", *QUICK, cwd=folder)
    path = folder / "run-a" / "study.json"
    older = {**json.loads(path.read_text()), "version": "study.v1"}
    write_listed(path.parent, {path.name: json.dumps(older).encode()})
    with pytest.raises(
        DataError, match=r"study.json: version: written by another version.*run dialeval study again"
    ):
        report_run(folder / "run-a")
    assert "run dialeval study again" in here("report", "run-a", cwd=folder, code=1).stderr
    here("study", "run-a", "ratings.csv", *QUICK, cwd=folder)
    assert report_run(folder / "run-a") == [folder / "run-a" / "report.html"]
    assert isinstance(Run(folder / "run-a").study(), Study)


def test_languages_are_counted_where_not_everything_is_english(tmp_path: Path) -> None:
    """In the study, its JSON, on the terminal and on the page; with what metrics left unscored for them."""
    german = "Wo ist mein Paket? Es sollte gestern schon ankommen, und niemand antwortet mir."
    english = "Where is my parcel? It should have come yesterday, and nobody answers me."
    talked = [
        Dialogue(f"d{n}", (Turn("user", text), Turn("assistant", f"{text} {n}")), "bot")
        for n, text in enumerate([german] * 4 + [english] * 8)
    ]
    score_to(talked, ["turn-quality"], tmp_path / "run", name="two languages")
    told = here("study", "run", *QUICK, "--json", cwd=tmp_path)
    languages = json.loads(told.stdout)["languages"]
    assert languages == [
        {"language": "en", "n": 8, "n_unscored": 0},
        {"language": "de", "n": 4, "n_unscored": 4},
    ]
    assert "Left unscored because of it" in " ".join(
        here("study", "run", *QUICK, cwd=tmp_path).stdout.split()
    )
    here("report", "run", "-o", "out.md", cwd=tmp_path)
    assert "**de** | 4 | 4" in (tmp_path / "out.md").read_text(encoding="utf-8")
    score_to(talked[4:], ["length"], tmp_path / "plain", name="one language")
    here("report", "plain", "-o", "plain.md", cwd=tmp_path)
    assert "Languages" not in (tmp_path / "plain.md").read_text(encoding="utf-8")
