"""The verbs trust, plan, pairs and repeats, from files to words."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import here

from dialeval.dialogues import dialogue, formats
from dialeval.studies.trust_findings import Trust


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 120 chats of two bots, a judge's table, and labels of 60 of them by three people."""
    home, rng = tmp_path_factory.mktemp("trust"), np.random.default_rng(0)
    chats, judge, labels = [], ["chat,score"], ["dialogue_id,source,dimension,value"]
    for i in range(120):
        quality = 3 + 0.4 * (i % 2) + rng.normal(0, 0.9)
        words = " ".join(["well"] * int(3 + 4 * rng.random()))
        turns = [
            ("user", "Can you help me?"),
            ("assistant", f"Yes, {words}. It is done."),
            ("user", "Thanks"),
        ]
        meta = {"kind": "booking" if i % 3 else "chat", "task": f"t{i // 4}"}
        chats.append(dialogue(turns, f"d{i}", system="ab"[i % 2], meta=meta))
        judge.append(f"d{i},{np.clip(quality + 0.5 + rng.normal(0, 0.5), 1, 5):.1f}")
        given = [np.clip(round(quality + rng.normal(0, 0.5)), 1, 5) for _ in range(3 if i < 60 else 0)]
        labels += [f"d{i},human:r{place},overall,{value:g}" for place, value in enumerate(given)]
    formats.write(chats, home / "chats.jsonl")
    (home / "judge.csv").write_text("\n".join(judge))
    (home / "labels.csv").write_text("\n".join(labels))
    here("score", "chats.jsonl", "-m", "length", "-o", "run", cwd=home)
    return home


JUDGE = ("--map", "judge.csv:id=chat,value=score,source=judge")


def test_trust_in_words_in_json_and_in_the_report(folder: Path) -> None:
    said = here("trust", "run", "labels.csv", *JUDGE, "--kind", "kind", cwd=folder).stdout
    assert said.startswith("judge helps") or said.startswith("judge may stand in")
    assert "worth" in said and "# Is one system better?" in said and "kind booking" in said
    found = json.loads(here("trust", "run", "labels.csv", *JUDGE, "--json", cwd=folder).stdout)
    assert found["version"] == "trust.v1" and found["sources"][0]["n_labels"] == 60
    kept = Trust.load(folder / "run" / "trust.json")
    assert json.loads(json.dumps(kept.to_dict())) == found
    here("report", "run", "-o", "r.html", "-o", "r.md", "-o", "r.tex", cwd=folder)
    for name in ("r.html", "r.md", "r.tex"):
        assert "May it replace a rater?" in (folder / name).read_text()


def test_intervals_are_scores_that_a_study_reads(folder: Path) -> None:
    here("trust", "run", "labels.csv", *JUDGE, "--intervals", "predicted.parquet", cwd=folder)
    said = here("study", "predicted.parquet", "labels.csv", "--resamples", "100", cwd=folder)
    assert "judge:calibrated" in said.stdout + said.stderr


def test_stress_drift_and_repeats_need_no_labels(folder: Path) -> None:
    said = here("trust", "run", "--stress", "-m", "length", "--most", "20", cwd=folder).stdout
    rows = {line.split("\t")[1]: line.split("\t") for line in said.splitlines() if line.startswith("length")}
    assert rows["scored again"][6] == rows["opposite order"][6] == rows["blanks"][6] == "1.00"
    assert float(rows["a polite filler"][7]) == 20
    here("score", "chats.jsonl", "-m", "length", "-o", "later", cwd=folder)
    assert "another date" in here("trust", "later", "--against", "run", cwd=folder).stdout
    twice = [f"judge.csv:id=chat,value=score,source=j{i}" for i in (1, 2)]
    said = here("trust", "run", "--map", twice[0], "--map", twice[1], "--repeats", "j1,j2", cwd=folder).stdout
    assert "run again: j2" in said
    here("trust", "run", "--stress", cwd=folder, code=2)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ("d1,human:x,overall,3", "only 1 label of 'overall': nothing can be estimated"),
        ("\n".join(f"d{i},human:x,overall,3" for i in range(30)), "all 30 labels of 'overall' are 3"),
        ("\n".join(f"x{i},human:x,overall,{i % 5}" for i in range(30)), "none of the 30 labelled units"),
        (
            "\n".join(f"d{i},human:x,overall,good" for i in range(30)),
            "is a number: 30, with the note good (30)",
        ),
    ],
    ids=["one", "constant", "other dialogues", "words"],
)
def test_bad_labels_are_a_sentence(folder: Path, labels: str, said: str) -> None:
    (folder / "bad.csv").write_text(f"dialogue_id,source,dimension,value\n{labels}")
    done = here("trust", "run", "bad.csv", *JUDGE, cwd=folder, code=1)
    assert said in done.stderr and done.stdout == ""


def test_a_judge_of_nan_is_a_sentence(folder: Path) -> None:
    (folder / "nan.csv").write_text("chat,score\n" + "\n".join(f"d{i},nan" for i in range(120)))
    done = here(
        "trust", "run", "labels.csv", "--map", "nan.csv:id=chat,value=score,source=j", cwd=folder, code=1
    )
    assert "no number in this column" in done.stderr and done.stdout == ""


def test_plan_with_a_pilot_and_without(folder: Path) -> None:
    said = here(
        "plan", "run", "labels.csv", *JUDGE, "--difference", "0.3", "--gate", "--splits", "20", cwd=folder
    )
    assert "With judge (r = " in said.stdout and "false-positive rate" in said.stdout
    found = json.loads(here("plan", "--sd", "1", "--correlation", "0.6", "--json", cwd=folder).stdout)
    assert [need["labels"] for need in found["needs"]] == [394, 253]
    assert "give a run folder" in here("plan", cwd=folder, code=2).stderr
    assert "no pilot labels" in here("plan", "run", cwd=folder, code=1).stderr


def test_what_to_label_next_is_a_project_that_annotate_opens(folder: Path) -> None:
    here(
        "plan", "run", "labels.csv", *JUDGE, "--label", "20", "-o", "next", "--raters", "ann,bob", cwd=folder
    )
    assert "ann" in here("annotate", "next", "--links", cwd=folder).stdout
    from dialeval.annotation import AnnotationProject

    project = AnnotationProject(folder / "next")
    names = list(project.names)
    project.close()
    assert len(names) == 20 and [system for _, system in names].count("a") == 10
    assert all(int(name[1:]) >= 60 for name, _ in names), "what is labelled already is not asked again"


def test_pairs_from_arena_votes(folder: Path) -> None:
    rng, votes = np.random.default_rng(1), []
    for item in range(80):
        first, second = rng.permutation(["alpha", "beta"])
        better = {"alpha": 0.7, "beta": 0.3}[first]
        winner = "model_a" if rng.random() < better else "model_b"
        said = [{"role": "assistant", "content": "**Yes**\n- one" * int(rng.integers(1, 4))}]
        row = {"question_id": item, "model_a": first, "model_b": second, "winner": winner}
        votes.append(row | {"conversation_a": said, "conversation_b": said[:1] * int(rng.integers(1, 3))})
        votes.append(row | {"model_a": second, "model_b": first, "winner": "tie"})
        votes[-1] |= {"conversation_a": said, "conversation_b": said}
    (folder / "votes.jsonl").write_text(
        "\n".join(json.dumps(one) for one in [*votes, {**votes[0], "winner": "?"}])
    )
    done = here("pairs", "votes.jsonl", "--style", "--position", "--resamples", "100", cwd=folder)
    assert done.stdout.splitlines()[1].startswith("alpha")
    assert "words" in done.stdout and "standing first" in done.stdout
    assert "1 rows without a vote" in done.stderr and "80 pairs were seen in both orders" in done.stderr
    found = json.loads(here("pairs", "votes.jsonl", "--resamples", "100", "--json", cwd=folder).stdout)
    assert found["n"] == 160 and found["standings"][0]["ties"] == 80


def test_pairs_from_a_pairwise_scheme(folder: Path) -> None:
    lines = ["dialogue_id,system,source,dimension,value"]
    for item in range(30):
        won = float(item % 3 > 0)
        lines += [f"q{item},alpha,human:x,preference,{won}", f"q{item},beta,human:x,preference,{1 - won}"]
    (folder / "preferences.csv").write_text("\n".join(lines))
    found = json.loads(here("pairs", "preferences.csv", "--resamples", "100", "--json", cwd=folder).stdout)
    assert found["standings"][0]["system"] == "alpha"
    assert found["standings"][0]["strength"]["value"] == pytest.approx(np.log(2) / 2, abs=1e-6)


def test_pairs_that_cannot_be_read(folder: Path) -> None:
    (folder / "odd.csv").write_text("left,right,said\na,b,left")
    assert "the file has: left, right, said" in here("pairs", "odd.csv", cwd=folder, code=1).stderr
    (folder / "all.csv").write_text("first,second,winner\n" + "a,b,first\n" * 5)
    assert "unbounded" in here("pairs", "all.csv", cwd=folder, code=2).stderr


def test_repeats_by_meta_field_and_by_id(folder: Path) -> None:
    (folder / "reward.csv").write_text(
        "dialogue_id,source,dimension,value\n"
        + "\n".join(f"d{i},reward,success,{i % 4 == 0:d}" for i in range(120))
    )
    words = ("repeats", "run", "reward.csv", "--source", "reward", "-k", "1,2", "--task", "task", "--json")
    found = json.loads(here(*words, cwd=folder).stdout)
    assert found["a"][1]["any"]["value"] == 1 and found["a"][1]["all"]["value"] == 0
    assert found["b"][0]["any"]["value"] == 0
    (folder / "runs.csv").write_text(
        "dialogue_id,source,dimension,value\nt1#1,reward,success,1\nt1#2,reward,success,0\nt2#1,reward,success,1\n"
    )
    said = here("repeats", "runs.csv", "-k", "1,2", cwd=folder).stdout.splitlines()
    assert said[1].split("\t")[:3] == ["all", "1", ".750 [.000, 1.000]"] and said[2].endswith("1\t1")
    assert "-k takes numbers" in here("repeats", "runs.csv", "-k", "x", cwd=folder, code=2).stderr
