"""Label Studio: a study's items and answers as its tasks, a labelling configuration, and the way back.

A question becomes `Choices` (one or several; marks choose among the candidates) or a `TextArea`. Values of
choices are the words stored here, so nothing has to be looked up. Coming back, a `Rating` or a `Number` is
understood too.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from xml.sax.saxutils import quoteattr

import msgspec

from dialeval.annotation.exchange import Foreign, key_of, text_of
from dialeval.annotation.scheme import Question
from dialeval.annotation.snapshot import Given, Snapshot
from dialeval.annotation.transcript import flat
from dialeval.dialogues.visibility import visible

_DIALOGUE = "dialogue"


def config(seen: Snapshot) -> bytes:
    """Return the labelling configuration of a study, in Label Studio's XML."""
    scheme = seen.study.scheme
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
        how = "single" if question.type in ("choice", "scale") else "multiple"
        rows.append(f'  <Choices {named} choice="{how}">')
        for value, label in _options(question, seen):
            rows.append(f"    <Choice value={_quoted(value)} html={_quoted(_escaped(label))}/>")
        rows.append("  </Choices>")
    return "\n".join([*rows, "</View>", ""]).encode()


def _quoted(text: str) -> str:
    return quoteattr(visible(text))


def _escaped(label: str) -> str:
    return label.replace("&", "&amp;").replace("<", "&lt;")


def _options(question: Question, seen: Snapshot) -> list[tuple[str, str]]:
    if question.type == "mark":
        return [(text, text) for text in seen.study.candidates]
    return [(str(one.value), one.label) for one in question.options]


def tasks(seen: Snapshot) -> bytes:
    """Return the items as tasks, with the answers that count as annotations."""
    by_item, made = seen.by_item(), []
    for number, item in enumerate(seen.items):
        shown = flat(seen.study, item)
        said = [{"author": one.who, "text": f"{one.before}{one.meant}{one.after}"} for one in shown]
        meant = " ".join(one.meant for one in shown if one.is_meant)
        data = {"item": key_of(number), _DIALOGUE: said, "meant": meant}
        annotations = [_annotation(seen, one) for one in by_item.get(number, [])]
        made.append({"id": number + 1, "data": data, "annotations": annotations})
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"


def _annotation(seen: Snapshot, one: Given) -> dict[str, Any]:
    result = []
    for question in seen.study.scheme.questions:
        if question.name not in one.answers:
            continue
        texts = text_of(question, one.answers[question.name], seen.study.candidates)
        kind = "textarea" if question.type == "text" else "choices"
        value = {"text" if kind == "textarea" else "choices": texts}
        result.append({"from_name": question.name, "to_name": _DIALOGUE, "type": kind, "value": value})
    return {"completed_by": {"email": one.rater}, "lead_time": one.seconds, "result": result}


def read(records: Iterable[Any]) -> Iterator[Foreign]:
    """Read exported tasks: one set of answers for each annotation that was not cancelled."""
    for record in records:
        for one in record.get("annotations") or record.get("completions") or ():
            if one.get("was_cancelled"):
                continue
            who = one.get("completed_by")
            rater = who.get("email") or who.get("id") if isinstance(who, dict) else who
            given = {part["from_name"]: _texts(part["value"]) for part in one.get("result", ())}
            yield Foreign(str(record["data"]["item"]), str(rater), given, one.get("lead_time"))


def _texts(value: dict[str, Any]) -> list[str]:
    found: Any = next((value[key] for key in ("choices", "text", "rating", "number") if key in value), [])
    return [str(one) for one in found] if isinstance(found, list) else [str(found)]
