"""From answers to scores, votes and labelled dialogues: what a study gives away, at any moment.

One row for each rater, item and question. Raters are `human:<rater>`, experts `expert:<name>`, and what the
coordinator decided is `adjudicated`, so that a study of raters is not mixed with those who check them. An
answer that the rater could not give is a null with the note `skipped`; a text is a null whose note is the
text.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from dialeval import files
from dialeval.annotation import label_studio, potato
from dialeval.annotation.agreement import majority
from dialeval.annotation.items import Place
from dialeval.annotation.scheme import Question
from dialeval.annotation.snapshot import Given, Snapshot
from dialeval.dialogues import Dialogue
from dialeval.dialogues.formats.writing import to_json
from dialeval.dialogues.segments import segments_of, with_acts
from dialeval.dialogues.votes import Vote
from dialeval.errors import UsageError
from dialeval.scores import Score, Scores
from dialeval.scores.signature import ANNOTATION

_PREFERENCE = {"first": (1.0, 0.0), "second": (0.0, 1.0), "tie": (0.5, 0.5)}
_PREFIX = {"rater": "human", "expert": "expert"}


def scores_of(seen: Snapshot) -> Scores:
    """Return everything that was answered as one table of scores."""
    rows: list[Score] = []
    met = Counter(place for item in seen.items if item.other for place in (item.place, item.other))
    for one in seen.given:
        if one.state in ("done", "skipped"):
            rows += _rows(seen, one, f"{_PREFIX[one.role]}:{one.rater}", met)
    for item, answers in seen.verdicts.items():
        verdict = Given(item, "", "adjudicated", "done", 1, answers, None, None, None)
        rows += _rows(seen, verdict, "adjudicated", met)
    made = seen.study.schema.sign(ANNOTATION, seen.study.scheme.name)
    return Scores.of(rows, dict.fromkeys((row.source for row in rows), made))


def _rows(seen: Snapshot, one: Given, source: str, met: Mapping[Place, int]) -> Iterator[Score]:
    item = seen.items[one.item]
    for number, question in enumerate(seen.study.scheme.questions):
        if one.state == "skipped":
            if number == 0:
                yield from (
                    _score(seen, place, source, question.name, None, "skipped") for place in item.places
                )
        elif question.name in one.answers:
            answer = one.answers[question.name]
            if item.other is not None and number == 0:
                yield from _preferences(seen, one, source, question, met)
                continue
            for place in item.places:
                for dimension, value, note in values_of(question, answer):
                    yield _score(seen, place, source, dimension, value, note)


def values_of(question: Question, answer: Any) -> list[tuple[str, float | None, str | None]]:
    """Return what an answer says: dimension, number and note of each row."""
    if question.type == "text":
        return [(question.name, None, str(answer))]
    if question.type == "mark":
        return [(question.name, float(len(answer)), None)]
    if question.type == "several":
        return [(f"{question.name}.{c.value}", float(c.value in answer), None) for c in question.choices]
    return [(question.name, question.score(answer), None)]


def _score(
    seen: Snapshot, place: Place, source: str, dimension: str, value: float | None, note: str | None
) -> Score:
    number, turn, segment = place
    name, system = seen.study.names[number]
    dimension = dimension if segment is None else f"{dimension}.{segment}"
    return Score(name, turn, system, source, dimension, value, note)


def _preferences(
    seen: Snapshot, one: Given, source: str, question: Question, met: Mapping[Place, int]
) -> Iterator[Score]:
    """Each side of a pair gets 1, 0 or a half; the name of the other one where a side met several."""
    item = seen.items[one.item]
    sides = [item.place, item.other or item.place]
    for value, place, other in zip(
        _PREFERENCE[one.answers[question.name]], sides, reversed(sides), strict=True
    ):
        name, system = seen.study.names[other[0]]
        dimension = question.name if met[place] == 1 else f"{question.name}.{system or name}"
        yield _score(seen, place, source, dimension, value, None)


def votes_of(seen: Snapshot) -> list[Vote]:
    """Return what wizards marked."""
    question = seen.study.scheme.marks
    if question is None:
        raise UsageError("votes come from a scheme with a question of type mark, such as wizard")
    return [
        Vote(seen.study.names[number][0], turn or 0, one.rater, seen.study.candidates[candidate])
        for one in seen.answered()
        for number, turn, _ in seen.items[one.item].places
        for candidate in one.answers.get(question.name, ())
    ]


def dialogues_of(seen: Snapshot) -> list[Dialogue]:
    """Return the dialogues with votes on each segment, and the act of the majority where there is one."""
    study = seen.study
    if study.scheme.unit != "segment":
        raise UsageError("dialogues with votes come from a scheme whose unit is a segment")
    by_item, name = seen.by_item(), study.scheme.questions[0].name
    votes: dict[Place, tuple[list[Any], str | None]] = {}
    for number, item in enumerate(seen.items):
        found = by_item.get(number, [])
        act = seen.verdicts.get(number, {}).get(name) or majority(seen, found)
        votes[item.place] = ([one.answers.get(name) for one in found], act)
    return [_with_votes(study.dialogue(n), n, votes, study.scheme.splitter) for n in range(len(study.names))]


def _with_votes(dialogue: Dialogue, number: int, votes: dict[Place, Any], splitter: Any) -> Dialogue:
    made = with_acts(dialogue, segments_of(dialogue, splitter))
    turns = []
    for place, turn in enumerate(made.turns):
        pieces = [
            {**piece, "act": act, "votes": given}
            for segment, piece in enumerate(turn.meta.get("segments", ()))
            for given, act in [votes.get((number, place, segment), ([], None))]
        ]
        changed = {**turn.meta, "segments": pieces} if pieces else dict(turn.meta)
        turns.append(msgspec.structs.replace(turn, meta=changed))
    return msgspec.structs.replace(made, turns=tuple(turns))


def _parquet(seen: Snapshot) -> bytes:
    out = io.BytesIO()
    scores_of(seen).write_parquet(out)
    return out.getvalue()


def _scores_text(seen: Snapshot, how: str) -> bytes:
    from dialeval.scores import text

    return (text.to_csv if how == "csv" else text.to_jsonl)(scores_of(seen)).encode()


def _votes_text(seen: Snapshot) -> bytes:
    return b"".join(msgspec.json.encode(asdict(vote)) + b"\n" for vote in votes_of(seen))


def _dialogues_text(seen: Snapshot) -> bytes:
    return b"".join(to_json(one) + b"\n" for one in dialogues_of(seen))


_WRITERS: dict[str, Callable[[Snapshot], bytes]] = {
    "scores.parquet": _parquet,
    "scores.jsonl": lambda seen: _scores_text(seen, "jsonl"),
    "scores.csv": lambda seen: _scores_text(seen, "csv"),
    "votes.jsonl": _votes_text,
    "acts.jsonl": _dialogues_text,
    "label-studio.json": label_studio.tasks,
    "label-studio.xml": label_studio.config,
    "potato.jsonl": potato.instances,
    "potato-items.jsonl": potato.data,
    "potato-config.json": potato.config,
}


def names_for(seen: Snapshot) -> list[str]:
    """Return the files that this study can be exported as."""
    scheme = seen.study.scheme
    left_out = set() if scheme.marks else {"votes.jsonl"}
    left_out |= set() if scheme.unit == "segment" else {"acts.jsonl"}
    return [name for name in _WRITERS if name not in left_out]


def rendered(seen: Snapshot, name: str) -> bytes:
    """Return the bytes of one export, by its name."""
    return _WRITERS[name](seen)


def write(seen: Snapshot, path: str | Path, kind: str | None = None) -> None:
    """Write an export; what it is goes by `kind`, by the file's name, or else by its ending: scores."""
    given = Path(path)
    name = kind or (given.name if given.name in _WRITERS else f"scores{given.suffix.lower()}")
    if name not in names_for(seen):
        raise UsageError(f"cannot export {name!r}; there are: {', '.join(names_for(seen))}")
    with files.replacing(path) as file:
        file.write(rendered(seen, name))
