"""Out to Label Studio and Potato and back: nothing is lost on the way."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from annotation_server import answer_all, make_study, talks

from dialeval.annotation import AnnotationProject, scheme_names
from dialeval.annotation.answers import parse
from dialeval.annotation.assignment import Assignment
from dialeval.annotation.export import exports_of, rendered, scores_of, write
from dialeval.annotation.interchange import load_answers
from dialeval.annotation.project import snapshot
from dialeval.dialogues import dialogue
from dialeval.errors import DataError, UsageError
from dialeval.scores import Scores

HOSTILE = "<b>&\"' ]]> {{ 7*7 }} </Choice>"


def filled(folder: Path, scheme: str) -> AnnotationProject:
    """A study in which everybody has answered everything, differently."""
    chats = talks(3)
    chats.append(dialogue([("user", HOSTILE), ("assistant", HOSTILE)], "hostile", system="x"))
    if scheme.startswith("pairwise"):
        chats += [dialogue([(t.speaker, t.text + "!") for t in c.turns], c.id, system="y") for c in chats]
        chats += [
            dialogue([("user", "Hi."), ("assistant", text)], "same", system=name)
            for name, text in (("x", "One."), ("y", "Two."))
        ]
    study = AnnotationProject(make_study(folder, scheme, chats))
    for shift, rater in enumerate(("ann", "bob", "cem")):

        def answers(seat: Assignment, shift: int = shift) -> dict[str, Any]:
            fields = {f"q{number}": [str((seat.item + shift) % 2)] for number in range(6)}
            meta = study.dialogue(study.items[seat.item].place[0]).meta
            made, missing = parse(study.scheme, fields, list(meta), len(study.candidates))
            assert not missing
            return made

        answer_all(study, rater, answers)
    return study


@pytest.mark.parametrize("scheme", scheme_names())
@pytest.mark.parametrize("tool", ["label-studio.json", "potato.jsonl"])
def test_there_and_back(tmp_path: Path, scheme: str, tool: str) -> None:
    study = filled(tmp_path / "study", scheme)
    seen = snapshot(study)
    (tmp_path / tool).write_bytes(rendered(seen, tool))
    empty = AnnotationProject(
        make_study(tmp_path / "empty", study.scheme, [study.dialogue(n) for n in range(len(study.names))])
    )
    taken, there = load_answers(empty, tmp_path / tool)
    assert (taken, there) == (sum(1 for _ in seen.answered()), 0)
    assert load_answers(empty, tmp_path / tool) == (0, taken)
    one, other = (sorted(map(repr, scores_of(snapshot(each)))) for each in (study, empty))
    assert one == other and one
    study.close()
    empty.close()


@pytest.mark.parametrize("scheme", scheme_names())
def test_every_export_can_be_read(tmp_path: Path, scheme: str) -> None:
    study = filled(tmp_path / "study", scheme)
    seen = snapshot(study)
    for name in exports_of(study.scheme):
        write(seen, tmp_path / name)
        body = (tmp_path / name).read_bytes()
        assert body
        if name.endswith(".json"):
            assert json.loads(body)
        elif name.endswith(".jsonl"):
            assert [json.loads(line) for line in body.splitlines()]
        elif name.endswith(".xml"):
            config = ET.fromstring(body)
            named = {one.get("name") for one in config.iter() if one.tag in ("Choices", "TextArea")}
            assert named == {question.name for question in study.scheme.questions}
    tables = [Scores.read(tmp_path / f"scores.{ending}") for ending in ("parquet", "jsonl", "csv")]
    assert tables[0].table.equals(tables[1].table) and tables[0].table.equals(tables[2].table)
    assert not tables[0].duplicates()
    write(seen, tmp_path / "mine.parquet")
    assert len(Scores.read(tmp_path / "mine.parquet")) == len(tables[0])
    with pytest.raises(UsageError, match="cannot export"):
        write(seen, tmp_path / "x.docx")
    study.close()


def test_what_label_studio_makes_itself(tmp_path: Path) -> None:
    study = AnnotationProject(make_study(tmp_path / "s", "appropriateness"))
    result = [
        {"from_name": "appropriateness", "to_name": "dialogue", "type": "rating", "value": {"rating": 4}}
    ]
    annotations = [
        {"completed_by": 7, "result": result, "was_cancelled": False, "lead_time": 3.5},
        {"completed_by": {"id": 8, "email": "dora@example.org"}, "result": result},
        {"completed_by": 9, "result": [], "was_cancelled": True},
    ]
    tasks = [{"id": 1, "data": {"item": "item-0", "dialogue": []}, "annotations": annotations}]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
    assert load_answers(study, tmp_path / "tasks.json") == (2, 0)
    found = {row.source: row.value for row in scores_of(snapshot(study))}
    assert found == {"human:7": 4.0, "human:dora@example.org": 4.0}
    study.close()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "not JSON"),
        ("[1]", "neither"),
        ('[{"data": {}, "annotations": [{"result": []}]}]', "neither"),
        ('[{"data": {"item": "item-99"}, "annotations": [{"completed_by": 1, "result": []}]}]', "no item"),
        (
            '[{"data": {"item": "item-0"}, "annotations": [{"completed_by": 1, "result": []}]}]',
            "not a complete",
        ),
        (
            '{"user_id": "a", "instance_id": "item-0", "label_annotations": {"turn-quality": {"x": "1"}}}',
            "is not an answer",
        ),
    ],
)
def test_bad_files_change_nothing(tmp_path: Path, text: str, what: str) -> None:
    study = AnnotationProject(make_study(tmp_path / "s"))
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=what):
        load_answers(study, tmp_path / "x.json")
    assert set(study.people()) == {"ann", "bob", "cem", "coordinator"}
    assert not list(snapshot(study).answered())
    study.close()


def task(rater: str, words: str) -> str:
    result = [
        {"from_name": "preference", "value": {"choices": ["first"]}},
        {"from_name": "reason", "value": {"text": [words]}},
    ]
    return json.dumps(
        [{"data": {"item": "item-0"}, "annotations": [{"completed_by": rater, "result": result}]}]
    )


def test_words_with_other_line_breaks_are_taken(tmp_path: Path) -> None:
    chats = [*talks(1, "x"), *talks(1, "y")]
    study = AnnotationProject(make_study(tmp_path / "study", "pairwise", chats))
    (tmp_path / "tasks.json").write_text(task("dora", "one\r\ntwo\rthree  "), encoding="utf-8")
    assert load_answers(study, tmp_path / "tasks.json") == (1, 0)
    (one,) = snapshot(study).answered()
    assert (one.rater, one.answers["reason"]) == ("dora", "one\ntwo\nthree  ")
    study.close()


def test_a_name_that_cannot_be_one_is_named_with_its_file(tmp_path: Path) -> None:
    study = AnnotationProject(make_study(tmp_path / "study", "pairwise", [*talks(1, "x"), *talks(1, "y")]))
    (tmp_path / "tasks.json").write_text(task("a,b", "so"), encoding="utf-8")
    with pytest.raises(DataError, match=r"tasks\.json: item-0: not a name for a rater: 'a,b'"):
        load_answers(study, tmp_path / "tasks.json")
    study.close()
