"""Export of a project's answers as scores, votes and labelled dialogues.

One row for each rater, item and question. Raters are `human:<rater>`, experts `expert:<name>`, and the
coordinator's decisions `adjudicated`, to keep them apart. A skipped item is a null with the note `skipped`; a
text is a null with the text as its note.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dialeval import files
from dialeval.annotation import interchange
from dialeval.annotation.items import Place
from dialeval.annotation.monitoring import majority_answer
from dialeval.annotation.project import RaterAnswer, Snapshot
from dialeval.annotation.scheme import Scheme, SchemeQuestion
from dialeval.dialogues import Dialogue
from dialeval.dialogues.formats.writing import to_json
from dialeval.dialogues.segments import segments_of, with_acts
from dialeval.dialogues.votes import Vote
from dialeval.errors import UsageError
from dialeval.scores import Score, Scores, columns
from dialeval.scores.signature import ANNOTATION

_PREFERENCE = {"first": (1.0, 0.0), "second": (0.0, 1.0), "tie": (0.5, 0.5)}
_PREFIX = {"rater": "human", "expert": "expert"}


def scores_of(seen: Snapshot) -> Scores:
    """Return all answers as one table of scores."""
    rows: list[Score] = []
    met = Counter(place for item in seen.items if item.other for place in (item.place, item.other))
    for answer in seen.rater_answers:
        if answer.state in ("done", "skipped"):
            rows += _rows(seen, answer, f"{_PREFIX[answer.role]}:{answer.rater}", met)
    for item, answers in seen.verdicts.items():
        verdict = RaterAnswer(item, "", "adjudicated", "done", 1, answers, None, None, None)
        rows += _rows(seen, verdict, "adjudicated", met)
    signature = seen.project.schema.sign(ANNOTATION, seen.project.scheme.name)
    return Scores.of(rows, dict.fromkeys((row.source for row in rows), signature))


def _rows(seen: Snapshot, answer: RaterAnswer, source: str, met: Mapping[Place, int]) -> Iterator[Score]:
    item = seen.items[answer.item]
    for number, question in enumerate(seen.project.scheme.questions):
        if answer.state == "skipped":
            if number == 0:
                yield from (
                    _score(seen, place, source, question.name, None, "skipped") for place in item.places
                )
        elif question.name in answer.answers:
            if item.other is not None and number == 0:
                yield from _preferences(seen, answer, source, question, met)
                continue
            for place in item.places:
                for dimension, value, note in values_of(question, answer.answers[question.name]):
                    yield _score(seen, place, source, dimension, value, note)


def values_of(question: SchemeQuestion, answer: Any) -> list[tuple[str, float | None, str | None]]:
    """Return dimension, value and note of each row for an answer."""
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
    name, system = seen.project.names[number]
    dimension = dimension if segment is None else f"{dimension}.{segment}"
    return Score(name, turn, system, source, dimension, value, note)


def _preferences(
    seen: Snapshot, answer: RaterAnswer, source: str, question: SchemeQuestion, met: Mapping[Place, int]
) -> Iterator[Score]:
    """Yield 1, 0 or .5 for each side of a pair; if a side was in several pairs, with the opponent's name."""
    item = seen.items[answer.item]
    sides = [item.place, item.other or item.place]
    for value, place, opponent in zip(
        _PREFERENCE[answer.answers[question.name]], sides, reversed(sides), strict=True
    ):
        name, system = seen.project.names[opponent[0]]
        dimension = question.name if met[place] == 1 else f"{question.name}.{system or name}"
        yield _score(seen, place, source, dimension, value, None)


def votes_of(seen: Snapshot) -> list[Vote]:
    """Return the wizards' marks as votes; "none fits" is a vote without an utterance."""
    question = seen.project.scheme.marks
    if question is None:
        raise UsageError("votes come from a scheme with a question of type mark, such as wizard")
    candidates, field = seen.project.candidates, "act" if question.choices else "utterance"
    return [
        Vote(seen.project.names[number][0], turn or 0, answer.rater, **{field: marked})
        for answer in seen.answered()
        for number, turn, _ in seen.items[answer.item].places
        for marked in [candidates[chosen] for chosen in answer.answers.get(question.name, ())] or [None]
    ]


def dialogues_of(seen: Snapshot) -> list[Dialogue]:
    """Return the dialogues with votes on each segment, and the majority act if there is one."""
    project = seen.project
    if project.scheme.unit != "segment":
        raise UsageError("dialogues with votes come from a scheme whose unit is a segment")
    by_item, name = seen.by_item(), project.scheme.questions[0].name
    votes: dict[Place, tuple[list[Any], str | None]] = {}
    for number, item in enumerate(seen.items):
        answers = by_item.get(number, [])
        act = seen.verdicts.get(number, {}).get(name) or majority_answer(seen, answers)
        votes[item.place] = ([answer.answers.get(name) for answer in answers], act)
    return [
        _with_votes(project.dialogue(n), n, votes, project.scheme.splitter) for n in range(len(project.names))
    ]


def _with_votes(dialogue: Dialogue, number: int, votes: dict[Place, Any], splitter: Any) -> Dialogue:
    labelled = with_acts(dialogue, segments_of(dialogue, splitter))
    turns = []
    for place, turn in enumerate(labelled.turns):
        pieces = [
            {**piece, "act": act, "votes": voted}
            for segment, piece in enumerate(turn.meta.get("segments", ()))
            for voted, act in [votes.get((number, place, segment), ([], None))]
        ]
        changed = {**turn.meta, "segments": pieces} if pieces else dict(turn.meta)
        turns.append(msgspec.structs.replace(turn, meta=changed))
    return msgspec.structs.replace(labelled, turns=tuple(turns))


_WRITERS: dict[str, Callable[[Snapshot], bytes]] = {
    "scores.parquet": lambda seen: scores_of(seen).to_parquet(),
    "scores.jsonl": lambda seen: columns.to_jsonl(scores_of(seen)).encode(),
    "scores.csv": lambda seen: columns.to_csv(scores_of(seen)).encode(),
    "votes.jsonl": lambda seen: b"".join(
        msgspec.json.encode(vote.record()) + b"\n" for vote in votes_of(seen)
    ),
    "acts.jsonl": lambda seen: b"".join(to_json(dialogue) + b"\n" for dialogue in dialogues_of(seen)),
    "label-studio.json": interchange.label_studio_tasks,
    "label-studio.xml": interchange.label_studio_config,
    "potato.jsonl": interchange.potato_answers,
    "potato-items.jsonl": interchange.potato_items,
    "potato-config.json": interchange.potato_config,
}


def exports_of(scheme: Scheme) -> list[str]:
    """Return the names of the exports that projects of a scheme have.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> exports_of(read_scheme("wizard"))[:4]
    ['scores.parquet', 'scores.jsonl', 'scores.csv', 'votes.jsonl']
    """
    left_out = set() if scheme.marks else {"votes.jsonl"}
    left_out |= set() if scheme.unit == "segment" else {"acts.jsonl"}
    return [name for name in _WRITERS if name not in left_out]


def export_of(scheme: Scheme, path: str | Path, kind: str | None = None) -> str:
    """Return the export for a file: by `kind`, else by a kind in its name, else scores.

    A name that fits several exports, or one that cannot be written in its format, is refused.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> scheme = read_scheme("wizard")
    >>> export_of(scheme, "myvotes.jsonl"), export_of(scheme, "x.csv"), export_of(scheme, "x.jsonl", "votes")
    ('votes.jsonl', 'scores.csv', 'votes.jsonl')
    """
    stem, ending = Path(path).stem.lower(), Path(path).suffix.lower()
    possible = exports_of(scheme)
    if kind is None:
        named = [
            name
            for name in _kinds(_WRITERS)
            if name in stem and (name in _kinds(possible) or _is_word(name, stem))
        ]
        named = [name for name in named if not any(name != longer and name in longer for longer in named)]
        if not named and f"scores{ending}" in possible:
            named = [name for name in ("scores", "votes", "acts") if f"{name}{ending}" in possible]
        if len(named) > 1:
            options = " or ".join(f"--as {name}" for name in named)
            raise UsageError(f"{path} could hold {' or '.join(named)}: {options}")
        kind = next(iter(named), "")
    name = f"{kind}{ending}"
    if name in possible:
        return name
    if kind in _kinds(possible):
        endings = " or ".join(Path(name).suffix for name in possible if Path(name).stem == kind)
        raise UsageError(f"cannot export {path}: {kind} are written as {endings}")
    raise UsageError(f"cannot export {kind or path}; there are: {', '.join(possible)}")


def _kinds(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(Path(name).stem for name in names))


def _is_word(word: str, text: str) -> bool:
    return re.search(rf"(?<![a-z]){word}(?![a-z])", text) is not None


def rendered(seen: Snapshot, name: str) -> bytes:
    """Return the bytes of one export, by its name."""
    return _WRITERS[name](seen)


def write(seen: Snapshot, path: str | Path, kind: str | None = None) -> str:
    """Write an export and return its name; which one it is: see `export_of`."""
    name = export_of(seen.project.scheme, path, kind)
    if name.startswith("scores.") and Path(path).is_file():
        _refuse_other_ratings(seen, Path(path))
    with files.replacing(path) as file:
        file.write(rendered(seen, name))
    return name


def _refuse_other_ratings(seen: Snapshot, path: Path) -> None:
    """Refuse to replace ratings by people, or of dialogues, that this project does not have."""
    there = Scores.read(path).table
    sources, ids = (set(there[name].unique().to_pylist()) for name in ("source", "dialogue_id"))
    ours = {f"{_PREFIX[role]}:{name}" for name, role in seen.people.items() if role in _PREFIX}
    others = {source for source in sources - ours if source.partition(":")[0] in _PREFIX.values()}
    if others or not ids <= {name for name, _ in seen.project.names}:
        raise UsageError(
            f"{path} holds other ratings than this project's: choose another name for the output"
        )
