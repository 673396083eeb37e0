"""Potato: a study's items as its data file, its configuration, and answers both ways.

The configuration is JSON, which is YAML as well. Answers are one line for each rater and item, as in Potato's
`annotated_instances.jsonl`: `label_annotations` has for each question the labels chosen, or a `text_box`.
"""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import msgspec

from dialeval.annotation.exchange import Foreign, key_of, text_of
from dialeval.annotation.scheme import Question
from dialeval.annotation.snapshot import Snapshot
from dialeval.annotation.transcript import flat

_TEXT = "text_box"
_TYPES = {
    "choice": "radio",
    "scale": "radio",
    "several": "multiselect",
    "mark": "multiselect",
    "text": "text",
}


def config(seen: Snapshot) -> bytes:
    """Return the configuration of a task with the same questions."""
    scheme = seen.study.scheme
    made = {
        "annotation_task_name": scheme.title,
        "data_files": ["potato-items.jsonl"],
        "item_properties": {"id_key": "id", "text_key": "text"},
        "output_annotation_dir": "annotation_output/",
        "output_annotation_format": "jsonl",
        "annotation_schemes": [_scheme(question, seen) for question in scheme.questions],
    }
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"


def _scheme(question: Question, seen: Snapshot) -> dict[str, Any]:
    made = {"annotation_type": _TYPES[question.type], "name": question.name, "description": question.text}
    if question.type == "text":
        return made
    labels = seen.study.candidates if question.type == "mark" else [str(o.value) for o in question.options]
    return {**made, "labels": labels}


def data(seen: Snapshot) -> bytes:
    """Return the items, one a line; Potato shows their text as HTML, so it is escaped here."""
    rows = []
    for number, item in enumerate(seen.items):
        shown = flat(seen.study, item)
        said = "<br/>".join(
            f"<b>{one.who}:</b> {escape(one.before)}{_marked(one.meant)}{escape(one.after)}" for one in shown
        )
        rows.append(msgspec.json.encode({"id": key_of(number), "text": said}))
    return b"".join(row + b"\n" for row in rows)


def _marked(text: str) -> str:
    return f"<u>{escape(text)}</u>" if text else ""


def instances(seen: Snapshot) -> bytes:
    """Return the answers that count, one line for each rater and item."""
    rows = []
    for one in seen.answered():
        labels: dict[str, dict[str, str]] = {}
        for question in seen.study.scheme.questions:
            if question.name in one.answers:
                texts = text_of(question, one.answers[question.name], seen.study.candidates)
                is_text = question.type == "text"
                labels[question.name] = {_TEXT: texts[0]} if is_text else dict.fromkeys(texts, "true")
        record = {
            "user_id": one.rater,
            "instance_id": key_of(one.item),
            "label_annotations": labels,
            "span_annotations": {},
            "behavioral_data": {"time": one.seconds},
        }
        rows.append(msgspec.json.encode(record))
    return b"".join(row + b"\n" for row in rows)


def read(records: Iterable[Any], rater: str | None = None) -> Iterator[Foreign]:
    """Read annotated instances; `rater` is for files that name none, as each has a folder of its own."""
    for record in records:
        given = {}
        for question, labels in record["label_annotations"].items():
            given[str(question)] = [
                str(chosen) if label == _TEXT else str(label) for label, chosen in labels.items() if chosen
            ]
        key = record.get("instance_id", record.get("id"))
        yield Foreign(str(key), str(record.get("user_id", rater or "unknown")), given, None)
