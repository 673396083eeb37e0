"""Answers from elsewhere: what other annotation tools exported, checked and put into a study.

Items are known by `item-<number>`, which goes out with the tasks and comes back with the answers.
"""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.annotation.answers import clean_words, is_valid
from dialeval.annotation.scheme import Question
from dialeval.annotation.study import Study, checked
from dialeval.errors import DataError, UsageError

_KEY = re.compile(r"item-(\d+)")


@dataclass(frozen=True, slots=True)
class Foreign:
    """One rater's answers to one item, in words; each question has a list of them."""

    key: str
    rater: str
    given: dict[str, list[str]]
    seconds: float | None


def key_of(item: int) -> str:
    """Return what other tools call an item.

    >>> key_of(12)
    'item-12'
    """
    return f"item-{item}"


def text_of(question: Question, answer: Any, candidates: Sequence[str]) -> list[str]:
    """Write an answer in words that `understood` reads back."""
    if question.type == "mark":
        return [candidates[number] for number in answer]
    return [str(one) for one in answer] if isinstance(answer, list) else [str(answer)]


def understood(question: Question, texts: Sequence[str], candidates: Sequence[str]) -> Any:
    """Read an answer from words; a word that is no answer raises ValueError."""
    if question.type == "text":
        return clean_words("\n".join(texts))
    if question.type == "mark":
        return sorted({candidates.index(text) for text in texts})
    values = {str(one.value): one.value for one in question.options}
    values |= {one.label: one.value for one in question.choices if one.label not in values}
    found = [values[text] if text in values else _unknown(text) for text in texts]
    if question.type == "several":
        return found
    if len(found) != 1:
        raise ValueError(f"{len(found)} answers where one is needed")
    return found[0]


def _unknown(text: str) -> Any:
    raise ValueError(f"{text[:60]!r} is no answer")


def load(study: Study, path: str | Path) -> tuple[int, int]:
    """Put the answers of a Label Studio or Potato file into a study; what it is goes by its first record.

    People who are new to the study become raters of it. An answer that is there already is kept.

    Returns:
        How many were taken, and how many were there already.
    """
    from dialeval.annotation import label_studio, potato

    records = _records(path)
    is_potato = bool(records) and isinstance(records[0], dict) and "label_annotations" in records[0]
    taken = there = 0
    try:
        found = list(
            potato.read(records, Path(path).parent.name) if is_potato else label_studio.read(records)
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"neither Label Studio's tasks nor Potato's instances: {error!r}", file=path
        ) from None
    ready = [(_item(study, one, path), _rater(one, path), _answers(study, one, path), one) for one in found]
    with study.store.writing() as db:
        _people(db, {rater for _, rater, _, _ in ready})
        for item, rater, answers, one in ready:
            kept = db.execute("SELECT 1 FROM answers WHERE item = ? AND rater = ?", (item, rater)).fetchone()
            if kept:
                there += 1
                continue
            _seat(db, item, rater)
            body = json.dumps(answers, ensure_ascii=False)
            db.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?)", (item, rater, body, time.time(), one.seconds)
            )
            taken += 1
    return taken, there


def _people(db: Any, names: set[str]) -> None:
    from dialeval.annotation.study import add_people

    there = {row[0] for row in db.execute("SELECT name FROM people")}
    add_people(db, dict.fromkeys(sorted(names - there), "rater"))


def _seat(db: Any, item: int, rater: str) -> None:
    last = db.execute("SELECT coalesce(max(place), 0) FROM seats WHERE rater = ?", (rater,)).fetchone()[0]
    db.execute(
        "INSERT INTO seats (item, rater, place, round, state) VALUES (?, ?, ?, 1, 'done') "
        "ON CONFLICT (item, rater) DO UPDATE SET state = 'done'",
        (item, rater, last + 1),
    )


def _records(path: str | Path) -> list[Any]:
    with files.open_binary(path) as file:
        try:
            text = file.read().decode("utf-8-sig")
            whole = json.loads(text) if text.lstrip().startswith("[") else None
            return (
                whole if isinstance(whole, list) else [json.loads(x) for x in text.splitlines() if x.strip()]
            )
        except (ValueError, RecursionError) as error:
            raise DataError(f"not JSON: {error}", file=path) from None


def _item(study: Study, one: Foreign, path: str | Path) -> int:
    match = _KEY.fullmatch(one.key)
    if match is None or int(match[1]) >= len(study.items):
        raise DataError(f"no item {one.key[:40]!r} in this study", file=path, fix="export the items from it")
    return int(match[1])


def _rater(one: Foreign, path: str | Path) -> str:
    try:
        return checked(one.rater)
    except UsageError as error:
        raise DataError(f"{one.key}: {error}", file=path) from None


def _answers(study: Study, one: Foreign, path: str | Path) -> dict[str, Any]:
    answers = {}
    for question in study.scheme.questions:
        if question.name in one.given:
            try:
                answers[question.name] = understood(question, one.given[question.name], study.candidates)
            except ValueError as error:
                raise DataError(f"{one.key}, {one.rater}: {error}", file=path, field=question.name) from None
    item = study.items[_item(study, one, path)]
    meta = [name for name, value in study.dialogue(item.place[0]).meta.items() if value]
    if not is_valid(study.scheme, answers, meta, len(study.candidates)):
        raise DataError(f"{one.key}, {one.rater}: not a whole answer", file=path)
    return answers
