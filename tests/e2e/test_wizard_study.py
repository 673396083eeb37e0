"""A wizard study as a team runs it: every step by its command, every number again from the raw votes.

Four scripted wizards mark candidates in the pages of `annotate`, for 26 contexts; three systems answer them
(one selects from the wizards' own candidates, one retrieves, one is dull); four scripted judges rate the
replies; `score`, `study` and `report` do the rest. What they find is computed once more in plain numpy.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from annotation_server import Server
from commands import here as run

from dialeval.annotation import AnnotationProject
from dialeval.dialogues.contexts import place_of
from dialeval.jobs.wizard_study import JUDGES, WIZARDS, answers_of, study_material

pytest.importorskip("uvicorn")

SYSTEMS = {
    "selecting": "retrieval:corpus=chats.jsonl,candidates=pool.jsonl",
    "retrieval": "retrieval:corpus=pool.jsonl",
    "weak": "dull:answer",
}
METRICS = ("-m", "weak-agreement:votes=votes.jsonl", "-m", "voted-appropriateness:votes=votes.jsonl")
Reply = tuple[str, str]  # context and text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole study, done."""
    place = tmp_path_factory.mktemp("study")
    _, people = study_material(place)
    (place / "dull.py").write_text('def answer(messages):\n    return "Tell me more!"\n')
    make = ("annotate", "contexts.jsonl", "--scheme", "wizard", "--candidates", "pool.jsonl", "-o", "wizards")
    run(*make, "--raters", ",".join(WIZARDS), "--links", cwd=place)
    project = AnnotationProject(place / "wizards")
    with Server(place / "wizards") as server:
        clients = {name: server.client(name) for name in WIZARDS}
        for name, client in clients.items():
            for _ in range(26):
                at, page = client.item()
                seat = int(at.rpartition("/")[2])
                with project.store.reading() as db:
                    query = "SELECT item FROM seats WHERE rater = ? AND place = ?"
                    item = project.items[db.execute(query, (name, seat)).fetchone()[0]]
                told = place_of(project.dialogue(item.place[0]), item.place[1] or 0)
                chosen = people.choose(name, told, project.candidates)
                numbers = [str(project.candidates.index(text)) for text in chosen]
                fields: dict[str, Any] = {"q0": numbers} if numbers else {"q0.none": "1"}
                assert client.answer(at, page, **fields).status == 303
            assert "All done" in client.item()[1].text
    project.close()
    run("annotate", "wizards", "--export", "votes.jsonl", cwd=place)
    for name, spec in SYSTEMS.items():
        run("respond", "contexts.jsonl", "--system", spec, "--name", name, "-o", f"{name}.jsonl", cwd=place)
        run("score", f"{name}.jsonl", *METRICS, "-o", f"run-{name}", cwd=place)
    files = [f"{name}.jsonl" for name in SYSTEMS]
    judge = ("annotate", *files, "--scheme", "appropriateness", "-o", "judges", "--raters", ",".join(JUDGES))
    run(*judge, "--earlier", "wizards", "--links", cwd=place)
    judges = AnnotationProject(place / "judges")
    (place / "answers.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in answers_of(judges, people)), encoding="utf-8"
    )
    judges.close()
    run("annotate", "judges", "--answers", "answers.jsonl", "--export", "judged.csv", cwd=place)
    study = ("study", *(f"run-{name}" for name in SYSTEMS), "judged.csv", "--resamples", "200")
    line = ("--combine", "voted=line:voted-appropriateness/votes")
    for level in ("system", "turn"):
        run(*study, *line, "--level", level, "-o", f"{level}.json", cwd=place)
    run("report", "run-selecting", "-o", "report.html", cwd=place)
    return place


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


class Raw:
    """Votes, replies and ratings from their files, in arrays: one row for each system and context."""

    def __init__(self, folder: Path) -> None:
        chosen: dict[tuple[str, int], dict[str, set[str]]] = defaultdict(dict)
        for vote in rows(folder / "votes.jsonl"):
            mine = chosen[vote["dialogue_id"], vote["turn"]].setdefault(vote["rater"], set())
            if vote["utterance"] is not None:
                mine.add(letters(vote["utterance"]))
        self.chosen = chosen
        rated: dict[tuple[str, str], list[float]] = defaultdict(list)
        head, *lines = (folder / "judged.csv").read_text(encoding="utf-8").splitlines()
        columns = head.split(",")
        for text in lines:
            row = dict(zip(columns, text.split(","), strict=False))
            rated[row["dialogue_id"], row["system"]].append(float(row["value"]))
        self.system, self.talk, self.pair, votes, ratings = [], [], list[Reply](), [], []
        for system in SYSTEMS:
            for one in rows(folder / f"{system}.jsonl"):
                at = one["meta"]["context"]["dialogue"], one["meta"]["context"]["turn"]
                said = one["messages"][-1]["content"]
                votes.append(sum(letters(said) in mine for mine in chosen[at].values()))
                ratings.append(np.mean(rated[one["id"], system]))
                assert len(rated[one["id"], system]) == 4
                self.system.append(system)
                self.talk.append(at[0])
                self.pair.append((one["id"], said))
        self.votes, self.ratings = np.array(votes, float), np.array(ratings)
        self.first = np.array([self.pair.index(pair) for pair in self.pair])

    def means(self, values: np.ndarray) -> dict[str, float]:
        return {name: float(values[np.array(self.system) == name].mean()) for name in SYSTEMS}

    def predicted(self) -> np.ndarray:
        """Equation 2, each conversation by a line through the distinct pairs of all others."""
        distinct, talks = self.first == np.arange(len(self.first)), np.array(self.talk)
        found = np.empty(len(talks))
        for talk in set(self.talk):
            fit = distinct & (talks != talk)
            slope, intercept = np.polyfit(self.votes[fit], self.ratings[fit], 1)
            found[talks == talk] = intercept + slope * self.votes[talks == talk]
        return found


@pytest.fixture(scope="module")
def raw(folder: Path) -> Raw:
    return Raw(folder)


def test_votes_of_four_wizards_at_26_contexts(raw: Raw) -> None:
    assert len(raw.chosen) == 26
    assert all(set(mine) == set(WIZARDS) for mine in raw.chosen.values())
    nothing = [at for at, mine in raw.chosen.items() if not any(mine.values())]
    assert 0 < len(nothing) < 26, "where nobody chose anything there are votes all the same"
    unloved = [n for n, one in enumerate(raw.pair) if one[0] in {f"{name}@turn-{at}" for name, at in nothing}]
    assert len(unloved) == 3 * len(nothing)
    assert not raw.votes[unloved].any()


def test_every_system_in_both_measures(folder: Path, raw: Raw) -> None:
    found = json.loads((folder / "system.json").read_text())
    means: dict[str, dict[str, float]] = defaultdict(dict)
    for row in found["systems"]:
        means[f"{row['source']}/{row['dimension']}"][row["system"]] = row["mean"]["value"]
        assert row["mean"]["n"] == 26
    weak = np.where(raw.votes > 0, 5.0, 1.0)
    assert means["weak-agreement/agreement"] == pytest.approx(raw.means(weak))
    assert means["voted-appropriateness/votes"] == pytest.approx(raw.means(raw.votes))
    published = 3.549 + 0.449 * raw.votes
    assert means["voted-appropriateness/appropriateness"] == pytest.approx(raw.means(published))
    assert means["voted/combined"] == pytest.approx(raw.means(raw.predicted()))
    assert means["human/appropriateness"] == pytest.approx(raw.means(raw.ratings))
    assert means["weak-agreement/agreement"]["weak"] == 1.0
    assert means["voted/combined"]["selecting"] > means["voted/combined"]["weak"]
    r = {row["label"]: row["pearson"] for row in found["correlations"]}
    people = list(raw.means(raw.ratings).values())
    for label, values in (("weak-agreement", weak), ("voted", raw.predicted())):
        assert r[label]["n"] == 3
        assert r[label]["value"] == pytest.approx(np.corrcoef(list(raw.means(values).values()), people)[0, 1])


def test_every_reply_and_the_line(folder: Path, raw: Raw) -> None:
    found = json.loads((folder / "turn.json").read_text())
    r = {row["label"]: row["pearson"] for row in found["correlations"]}
    weak = np.where(raw.votes > 0, 5.0, 1.0)
    for label, values in (("weak-agreement", weak), ("voted", raw.predicted())):
        assert r[label]["n"] == 78
        assert r[label]["value"] == pytest.approx(np.corrcoef(values, raw.ratings)[0, 1])
    (line,) = found["lines"]
    distinct = np.unique(raw.first)
    x, y = raw.votes[distinct], raw.ratings[distinct]
    slope, intercept = np.polyfit(x, y, 1)
    rest = y - intercept - slope * x
    assert line["n"] == len(distinct) == len(set(raw.pair))
    assert line["slope"]["value"] == pytest.approx(slope)
    assert line["intercept"]["value"] == pytest.approx(intercept)
    assert line["r_squared"] == pytest.approx(1 - rest @ rest / ((y - y.mean()) @ (y - y.mean())))
    error = np.sqrt(rest @ rest / (len(x) - 2) / ((x - x.mean()) @ (x - x.mean())))
    width = line["slope"]["high"] - line["slope"]["low"]
    assert width == pytest.approx(2 * 1.99 * error, rel=0.02), "Student's t with n - 2 degrees"
    assert line["lowest"] == 0.0
    assert line["at_lowest"] == pytest.approx(np.mean(x == 0))


def test_one_report_over_all_systems_with_both_figures(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    for system in SYSTEMS:
        assert system in page
    for piece in (
        "Lines fitted to the ratings",
        "Equal scores are jittered",  # figure 3
        "Systems by weak-agreement and rating",  # figure 4
        "Systems by voted and rating",
    ):
        assert piece in page
    assert "static" in page.partition("Kind of evaluation")[2][:2000]
