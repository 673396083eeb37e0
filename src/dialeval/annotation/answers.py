"""Answers: parsed from the fields of a form, validated, compared, and shown as text.

Answers are a mapping from question to value: a choice's value, a number, a text, or a list (several choices,
numbers of marked candidates). Questions whose condition does not hold are left out. Form fields are named by
the index of the question, `q0`, and choices by their index, so that no text of a scheme becomes a name in a
page.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from dialeval.annotation.scheme import Scheme, SchemeQuestion, Value
from dialeval.dialogues.dialogue import clean_text
from dialeval.dialogues.visibility import visible
from dialeval.dialogues.votes import majority_of

Answer = Value | list[Value] | list[int]
Answers = dict[str, Any]
Fields = Mapping[str, Sequence[str]]
NONE = "none"
_LONGEST = 10_000


def is_asked(question: SchemeQuestion, answers: Mapping[str, Any], meta: Collection[str]) -> bool:
    """Return whether a question is asked, given the answers so far and the meta fields of the dialogue."""
    when = question.when
    if when is None:
        return True
    if when.question is not None and answers.get(when.question) not in when.one_of:
        return False
    return when.meta is None or (when.meta in meta) == when.present


def parse(
    scheme: Scheme, fields: Fields, meta: Collection[str] = (), candidates: int = 0
) -> tuple[Answers, dict[int, str]]:
    """Return the answers of a form, and messages for missing ones by the index of the question.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> parse(read_scheme("appropriateness"), {"q0": ["3"]})
    ({'appropriateness': 4}, {})
    >>> parse(read_scheme("appropriateness"), {})
    ({}, {0: 'Choose one.'})
    """
    answers: Answers = {}
    missing: dict[int, str] = {}
    for place, question in enumerate(scheme.questions):
        if not is_asked(question, answers, meta):
            continue
        values = fields.get(f"q{place}", ())
        answer = _read(question, values, candidates)
        empty = answer is None or answer in ("", [])
        if empty and question.type == "mark" and fields.get(f"q{place}.{NONE}"):
            answer, empty = [], False
        if not empty:
            answers[question.name] = answer
        elif question.required:
            missing[place] = _MISSING[question.type]
        elif question.type == "several":
            answers[question.name] = []
    return answers, missing


_MISSING = {
    "choice": "Choose one.",
    "several": "Choose at least one.",
    "scale": "Choose one.",
    "text": "Write something.",
    "mark": "Mark at least one, or choose that none fits.",
}


def _read(question: SchemeQuestion, values: Sequence[str], candidates: int) -> Any:
    if question.type == "text":
        return clean_words("".join(values))
    limit = candidates if question.type == "mark" else len(question.options)
    digits = (value for value in values if value.isascii() and value.isdigit() and len(value) < 10)
    numbers = sorted({number for number in map(int, digits) if number < limit})
    if question.type == "mark":
        return numbers
    chosen = [question.options[number].value for number in numbers]
    if question.type == "several":
        return chosen
    return chosen[0] if len(chosen) == 1 else None


def clean_words(text: str) -> str:
    r"""Return a text with normal line breaks and without NUL; empty if it is blank.

    >>> clean_words("one\r\ntwo\rthree \x1b\x00 "), clean_words(" \n")
    ('one\ntwo\nthree \x1b␀ ', '')
    """
    text = clean_text(text)[0].replace("\r\n", "\n").replace("\r", "\n")
    text = text.replace("\0", visible("\0"))[:_LONGEST]
    return text if text.strip() else ""


def fields_of(scheme: Scheme, answers: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the fields of a form that hold these answers: the inverse of `parse`.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> fields_of(read_scheme("appropriateness"), {"appropriateness": 4})
    {'q0': ['3']}
    """
    fields: dict[str, list[str]] = {}
    for place, question in enumerate(scheme.questions):
        answer = answers.get(question.name)
        if answer is None:
            continue
        if question.type == "text":
            fields[f"q{place}"] = [str(answer)]
        elif question.type == "mark":
            fields[f"q{place}"] = [str(number) for number in answer]
            if not answer:
                fields[f"q{place}.{NONE}"] = ["1"]
        else:
            values = [option.value for option in question.options]
            chosen = answer if question.type == "several" else [answer]
            fields[f"q{place}"] = [str(values.index(value)) for value in chosen if value in values]
    return fields


def swap_sides(scheme: Scheme, answers: Mapping[str, Any]) -> Answers:
    """Swap first and second in a preference, for a rater who saw the pair in reverse order.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> swap_sides(read_scheme("pairwise"), {"preference": "first", "reason": "x"})
    {'preference': 'second', 'reason': 'x'}
    """
    name = scheme.questions[0].name
    opposite = {"first": "second", "second": "first"}.get(answers.get(name, ""))
    return {**answers, name: opposite} if opposite else dict(answers)


def is_valid(scheme: Scheme, answers: Mapping[str, Any], meta: Collection[str], candidates: int) -> bool:
    """Return whether imported answers are valid and complete."""
    parsed, missing = parse(scheme, fields_of(scheme, answers), meta, candidates)
    return not missing and parsed == {name: answer for name, answer in answers.items() if name in parsed}


def agrees(scheme: Scheme, first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two people gave the same answers, ignoring free text.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> scheme = read_scheme("pairwise")
    >>> agrees(scheme, {"preference": "first", "reason": "funny"}, {"preference": "first"})
    True
    """
    names = [question.name for question in scheme.questions if question.type != "text"]
    return all(_plain(first.get(name)) == _plain(second.get(name)) for name in names)


def _plain(answer: Any) -> Any:
    return sorted(map(str, answer)) if isinstance(answer, list) else answer


def majority(scheme: Scheme, rounds_and_answers: Iterable[tuple[int, Mapping[str, Any]]]) -> str | None:
    """Return the majority answer to the first question, as text, from rounds and answers.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> answers = [(1, {"act": "inform"}), (1, {"act": "question"}), (2, {"act": "inform"})]
    >>> majority(read_scheme("segment-acts"), answers)
    'inform'
    """
    name = scheme.questions[0].name
    rounds: dict[int, list[str | None]] = {}
    for number, answers in rounds_and_answers:
        value = answers.get(name)
        if not isinstance(value, list):
            rounds.setdefault(number, []).append(None if value is None else str(value))
    return majority_of(list(rounds.values()))


def is_accepted(gold: Mapping[str, Collection[Value]], answers: Mapping[str, Any]) -> bool:
    """Return whether answers to a gold item are accepted."""
    return all(answers.get(name) in accepted for name, accepted in gold.items())


def answer_text(question: SchemeQuestion, answer: Any, candidates: Sequence[str] = ()) -> str:
    """Return an answer as text for a person to read.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> answer_text(read_scheme("turn-quality").questions[0], 2)
    '2 · I like it'
    """
    if answer is None:
        return "–"  # noqa: RUF001
    if question.type == "mark":
        return " | ".join(question.choice(candidates[number]).label for number in answer) or "none fits"
    if question.type == "several":
        return ", ".join(choice.label for choice in question.choices if choice.value in answer) or "none"
    if question.type == "text":
        return str(answer)
    label = question.choice(answer).label
    return label if isinstance(answer, str) or label == str(answer) else f"{answer} · {label}"
