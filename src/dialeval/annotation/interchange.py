"""Label Studio and Potato: export of a project's items, configuration and answers, and import of answers.

Items have the key `item-<number>` in tasks and answers.

In Label Studio a question becomes `Choices` (one or several; marks choose among the candidates) or a
`TextArea`. The values of choices are those of the scheme. `Rating` and `Number` can be imported too.

Potato's configuration is JSON, which is YAML as well. Answers are one line for each rater and item, as in its
`annotated_instances.jsonl`: `label_annotations` has for each question the labels chosen, or a `text_box`.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import msgspec

from dialeval import files
from dialeval.annotation.answers import clean_words, is_valid
from dialeval.annotation.assignment import insert_done
from dialeval.annotation.items import as_conversation, filled_meta
from dialeval.annotation.project import AnnotationProject, RaterAnswer, Snapshot, add_people, checked
from dialeval.annotation.scheme import SchemeQuestion
from dialeval.dialogues.visibility import visible
from dialeval.errors import DataError, UsageError

_KEY = re.compile(r"item-(\d+)")
_DIALOGUE = "dialogue"  # Label Studio's name for what is shown
_TEXT = "text_box"  # Potato's label for free text
_POTATO_TYPES = {
    "choice": "radio",
    "scale": "radio",
    "several": "multiselect",
    "mark": "multiselect",
    "text": "text",
}


@dataclass(frozen=True, slots=True)
class ExternalAnswer:
    """One rater's answers to one item, as lists of texts by question."""

    key: str
    rater: str
    answers: dict[str, list[str]]
    seconds: float | None


def label_studio_config(seen: Snapshot) -> bytes:
    """Return the labelling configuration of a project, in Label Studio's XML."""
    scheme = seen.project.scheme
    rows = ["<View>", f"  <Header value={_quoted(scheme.title)}/>"]
    paragraphs = 'layout="dialogue" nameKey="author" textKey="text"'
    rows.append(f'  <Paragraphs name="{_DIALOGUE}" value="${_DIALOGUE}" {paragraphs}/>')
    for question in scheme.questions:
        required = "true" if question.required and question.when is None else "false"
        rows.append(f"  <Header value={_quoted(question.text)}/>")
        named = f'name={_quoted(question.name)} toName="{_DIALOGUE}" required="{required}"'
        if question.type == "text":
            rows.append(f'  <TextArea {named} maxSubmissions="1"/>')
            continue
        selection = "single" if question.type in ("choice", "scale") else "multiple"
        rows.append(f'  <Choices {named} choice="{selection}">')
        for value, label in _options(question, seen):
            html = label.replace("&", "&amp;").replace("<", "&lt;")
            rows.append(f"    <Choice value={_quoted(value)} html={_quoted(html)}/>")
        rows.append("  </Choices>")
    return "\n".join([*rows, "</View>", ""]).encode()


def _quoted(text: str) -> str:
    return quoteattr(visible(text))


def _options(question: SchemeQuestion, seen: Snapshot) -> list[tuple[str, str]]:
    """Return value and label of each possible answer; of marks, the candidates."""
    if question.type == "mark":
        return [(text, question.choice(text).label) for text in seen.project.candidates]
    return [(str(option.value), option.label) for option in question.options]


def label_studio_tasks(seen: Snapshot) -> bytes:
    """Return the items as Label Studio's tasks, with the valid answers as annotations."""
    by_item, tasks = seen.by_item(), []
    for number, item in enumerate(seen.items):
        shown = as_conversation(seen.project, item)
        turns = [{"author": turn.name, "text": f"{turn.before}{turn.meant}{turn.after}"} for turn in shown]
        meant = " ".join(turn.meant for turn in shown if turn.is_meant)
        data = {"item": f"item-{number}", _DIALOGUE: turns, "meant": meant}
        annotations = [_annotation(seen, answer) for answer in by_item.get(number, [])]
        tasks.append({"id": number + 1, "data": data, "annotations": annotations})
    return msgspec.json.format(msgspec.json.encode(tasks), indent=1) + b"\n"


def _annotation(seen: Snapshot, answer: RaterAnswer) -> dict[str, Any]:
    result = []
    for question, texts in _texts_of(seen, answer):
        kind = "textarea" if question.type == "text" else "choices"
        value = {"text" if kind == "textarea" else "choices": texts}
        result.append({"from_name": question.name, "to_name": _DIALOGUE, "type": kind, "value": value})
    return {"completed_by": {"email": answer.rater}, "lead_time": answer.seconds, "result": result}


def _texts_of(seen: Snapshot, answer: RaterAnswer) -> Iterator[tuple[SchemeQuestion, list[str]]]:
    """Yield each answered question with its answer as texts, the inverse of `_parse_texts`."""
    for question in seen.project.scheme.questions:
        if question.name in answer.answers:
            value = answer.answers[question.name]
            if question.type == "mark":
                value = [seen.project.candidates[number] for number in value]
            yield question, [str(part) for part in value] if isinstance(value, list) else [str(value)]


def potato_config(seen: Snapshot) -> bytes:
    """Return the configuration of a Potato task with the same questions."""
    schemes: list[dict[str, Any]] = []
    for question in seen.project.scheme.questions:
        kind = _POTATO_TYPES[question.type]
        schemes.append({"annotation_type": kind, "name": question.name, "description": question.text})
        if question.type != "text":
            schemes[-1]["labels"] = [value for value, _ in _options(question, seen)]
    config = {
        "annotation_task_name": seen.project.scheme.title,
        "data_files": ["potato-items.jsonl"],
        "item_properties": {"id_key": "id", "text_key": "text"},
        "output_annotation_dir": "annotation_output/",
        "output_annotation_format": "jsonl",
        "annotation_schemes": schemes,
    }
    return msgspec.json.format(msgspec.json.encode(config), indent=1) + b"\n"


def potato_items(seen: Snapshot) -> bytes:
    """Return the items, one per line; Potato shows their text as HTML, so it is escaped."""
    rows = []
    for number, item in enumerate(seen.items):
        lines = []
        for turn in as_conversation(seen.project, item):
            marked = f"<u>{escape(turn.meant)}</u>" if turn.meant else ""
            lines.append(f"<b>{turn.name}:</b> {escape(turn.before)}{marked}{escape(turn.after)}")
        rows.append(msgspec.json.encode({"id": f"item-{number}", "text": "<br/>".join(lines)}))
    return b"".join(row + b"\n" for row in rows)


def potato_answers(seen: Snapshot) -> bytes:
    """Return the valid answers, one line for each rater and item."""
    rows = []
    for answer in seen.answered():
        labels: dict[str, dict[str, str]] = {}
        for question, texts in _texts_of(seen, answer):
            is_text = question.type == "text"
            labels[question.name] = {_TEXT: texts[0]} if is_text else dict.fromkeys(texts, "true")
        record = {
            "user_id": answer.rater,
            "instance_id": f"item-{answer.item}",
            "label_annotations": labels,
            "span_annotations": {},
            "behavioral_data": {"time": answer.seconds},
        }
        rows.append(msgspec.json.encode(record))
    return b"".join(row + b"\n" for row in rows)


def load_answers(project: AnnotationProject, path: str | Path) -> tuple[int, int]:
    """Import the answers of a Label Studio or Potato file, detected by its first record.

    New people become raters of the project. Existing answers are kept.

    Returns:
        The numbers of imported and of existing answers.
    """
    records = _records(path)
    is_potato = bool(records) and isinstance(records[0], dict) and "label_annotations" in records[0]
    taken = existing = 0
    try:
        external = list(
            _from_potato(records, Path(path).parent.name) if is_potato else _from_label_studio(records)
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"neither Label Studio's tasks nor Potato's instances: {error!r}", file=path
        ) from None
    ready = [(_item(project, answer, path), _rater(answer, path), answer) for answer in external]
    answers = [_answers(project, item, answer, path) for item, _, answer in ready]
    with project.store.writing() as db:
        there_already = {row[0] for row in db.execute("SELECT name FROM people")}
        add_people(db, dict.fromkeys(sorted({rater for _, rater, _ in ready} - there_already), "rater"))
        for (item, rater, answer), parsed in zip(ready, answers, strict=True):
            stored = db.execute(
                "SELECT 1 FROM answers WHERE item = ? AND rater = ?", (item, rater)
            ).fetchone()
            if stored:
                existing += 1
                continue
            insert_done(db, item, rater)
            row = (item, rater, json.dumps(parsed, ensure_ascii=False), time.time(), answer.seconds)
            db.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", row)
            taken += 1
    return taken, existing


def _records(path: str | Path) -> list[Any]:
    with files.open_binary(path) as file:
        try:
            text = file.read().decode("utf-8-sig")
            array = json.loads(text) if text.lstrip().startswith("[") else None
            return (
                array if isinstance(array, list) else [json.loads(x) for x in text.splitlines() if x.strip()]
            )
        except (ValueError, RecursionError) as error:
            raise DataError(f"not JSON: {error}", file=path) from None


def _item(project: AnnotationProject, answer: ExternalAnswer, path: str | Path) -> int:
    match = _KEY.fullmatch(answer.key)
    if match is None or int(match[1]) >= len(project.items):
        raise DataError(
            f"no item {answer.key[:40]!r} in this project", file=path, fix="export the items from it"
        )
    return int(match[1])


def _rater(answer: ExternalAnswer, path: str | Path) -> str:
    try:
        return checked(answer.rater)
    except UsageError as error:
        raise DataError(f"{answer.key}: {error}", file=path) from None


def _answers(
    project: AnnotationProject, item: int, answer: ExternalAnswer, path: str | Path
) -> dict[str, Any]:
    answers = {}
    for question in project.scheme.questions:
        if question.name in answer.answers:
            try:
                answers[question.name] = _parse_texts(
                    question, answer.answers[question.name], project.candidates
                )
            except ValueError as error:
                raise DataError(
                    f"{answer.key}, {answer.rater}: {error}", file=path, field=question.name
                ) from None
    meta = filled_meta(project.dialogue(project.items[item].place[0]))
    if not is_valid(project.scheme, answers, meta, len(project.candidates)):
        raise DataError(f"{answer.key}, {answer.rater}: not a complete answer", file=path)
    return answers


def _parse_texts(question: SchemeQuestion, texts: Sequence[str], candidates: Sequence[str]) -> Any:
    """Return an answer from its texts; raise ValueError for an unknown text."""
    if question.type == "text":
        return clean_words("\n".join(texts))
    if question.type == "mark":
        return sorted({candidates.index(text) for text in texts})
    values = {str(option.value): option.value for option in question.options}
    values |= {choice.label: choice.value for choice in question.choices if choice.label not in values}
    if unknown := [text for text in texts if text not in values]:
        raise ValueError(f"{unknown[0][:60]!r} is not an answer")
    chosen = [values[text] for text in texts]
    if question.type == "several":
        return chosen
    if len(chosen) != 1:
        raise ValueError(f"{len(chosen)} answers, expected one")
    return chosen[0]


def _from_label_studio(records: Iterable[Any]) -> Iterator[ExternalAnswer]:
    """Read exported tasks: one set of answers for each annotation that was not cancelled."""
    for record in records:
        for annotation in record.get("annotations") or record.get("completions") or ():
            if annotation.get("was_cancelled"):
                continue
            author = annotation.get("completed_by")
            rater = author.get("email") or author.get("id") if isinstance(author, dict) else author
            answers = {part["from_name"]: _texts(part["value"]) for part in annotation.get("result", ())}
            yield ExternalAnswer(
                str(record["data"]["item"]), str(rater), answers, annotation.get("lead_time")
            )


def _texts(value: dict[str, Any]) -> list[str]:
    texts: Any = next((value[key] for key in ("choices", "text", "rating", "number") if key in value), [])
    return [str(text) for text in texts] if isinstance(texts, list) else [str(texts)]


def _from_potato(records: Iterable[Any], rater: str | None = None) -> Iterator[ExternalAnswer]:
    """Read annotated instances; `rater` is for files that name none, as each has a folder of its own."""
    for record in records:
        answers = {}
        for question, labels in record["label_annotations"].items():
            answers[str(question)] = [
                str(chosen) if label == _TEXT else str(label) for label, chosen in labels.items() if chosen
            ]
        key = record.get("instance_id", record.get("id"))
        yield ExternalAnswer(str(key), str(record.get("user_id", rater or "unknown")), answers, None)
