"""Label the segments of dialogues with their acts, write them, and count how often each act occurs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dialeval.dialogues import Dialogue, Turn, datasets, formats, in_blocks, takes_part
from dialeval.dialogues.act_statistics import (
    ActAgreement,
    ActStatistics,
    Voted,
    accuracies,
    accuracy,
    agreement,
    count_acts,
    settle,
    voted,
)
from dialeval.dialogues.acts import Annotation, annotations, canonical
from dialeval.dialogues.datasets.publicset import MissingPartError
from dialeval.dialogues.formats import actdial
from dialeval.dialogues.formats.opening import is_one_of, read_public, source_files
from dialeval.dialogues.formats.writing import ENDINGS
from dialeval.dialogues.segments import DEFAULT_SPLITTER, SPLITTERS, Splitter
from dialeval.errors import DataError, UsageError
from dialeval.statistics import Estimate

_BLOCK = 256  # dialogues that a classifier sees at once
Parts = Iterator[tuple[str, Dialogue]]


@dataclass
class ActReport:
    """The result: statistics by part, votes and agreement, accuracy by an expert's sample, the model."""

    parts: dict[str, ActStatistics] = field(default_factory=dict)
    votes: list[Voted] = field(default_factory=list)
    agreement: ActAgreement | None = None
    expert: dict[str, Estimate] = field(default_factory=dict)
    model: str | None = None
    by_model: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def whole(self) -> ActStatistics:
        """The statistics of all parts together."""
        return sum(self.parts.values(), ActStatistics())

    @property
    def undecided(self) -> list[str]:
        """The indices of the segments that need another round."""
        return [vote.index for vote in self.votes if vote.decided is None]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        votes = None
        if self.agreement is not None:
            decided = len(self.votes) - len(self.undecided)
            votes = {**asdict(self.agreement), "decided": decided, "needs_another_round": self.undecided}
        return {
            **self.whole.to_dict(),
            "parts": {name: statistics.to_dict() for name, statistics in self.parts.items()},
            "votes": votes,
            "expert": {name: asdict(estimate) for name, estimate in self.expert.items()} or None,
            "model": self.model,
            "labelled_by_model": self.by_model,
            "notes": self.notes,
        }


def annotate_acts(
    chats: Sequence[str],
    out: str | None = None,
    *,
    format: str | None = None,
    columns: str | None = None,
    part: str | None = None,
    splitter: Splitter = DEFAULT_SPLITTER,
    model: str | None = None,
    expert: Path | None = None,
    watch: Callable[[int], None] | None = None,
) -> ActReport:
    """Label what has no act yet, write the dialogues if asked to, and count; in one pass.

    Acts that are there are kept. Where raters voted, their majority decides and no model is asked: a segment
    without a majority stays open.

    Args:
        chats: Whatever `formats.read` takes, each.
        out: `.json` for a list of segments (ActDial), or what `formats.write` takes; None writes nothing.
        format: How to read; `actdial` for a list of segments.
        part: Part of a public set; by default all.
        splitter: How turns are cut that come without segments.
        model: Classifier of segments; by default the shipped one.
        expert: Segments with an expert's acts, to compare with.
    """
    if splitter not in SPLITTERS:
        raise UsageError(f"no splitter {splitter!r}; known: {', '.join(SPLITTERS)}")
    _check_out(chats, out)
    report, labeller = ActReport(), _Labeller(model, splitter)
    sample = _Sample(expert) if expert else None

    def stream() -> Iterator[Dialogue]:
        for block in in_blocks(_read(chats, format, columns, part), _BLOCK):
            labelled = labeller.label([dialogue for _, dialogue in block])
            for (name, _), dialogue in zip(block, labelled, strict=True):
                report.parts[name] = report.parts.get(name, ActStatistics()) + count_acts([dialogue])
                report.votes.extend(voted([dialogue]))
                if sample:
                    sample.look_at(dialogue)
                yield dialogue
            if watch:
                watch(len(block))

    try:
        report.notes += _write(stream(), out)
    except DataError as error:
        raise error if error.file is not None else DataError(str(error), file=", ".join(chats)) from None
    report.model, report.by_model = labeller.name, labeller.count
    if report.votes:
        report.agreement = agreement(report.votes)
        differing = sum(v.act is not None and v.decided not in (None, v.act) for v in report.votes)
        report.notes += [f"segments with another act than their majority: {differing}"] if differing else []
    if sample:
        report.expert, missing = sample.compare(report.votes)
        report.notes += [f"segments of the expert that are not among these: {missing}"] if missing else []
    return report


def _check_out(chats: Sequence[str], out: str | None) -> None:
    if out is None or out == "-":
        return
    if Path(out).suffix.lower() not in (".json", *ENDINGS):
        raise UsageError(f"cannot write {out}: use one of .json (segments), {', '.join(ENDINGS)}")
    if is_one_of(out, chats):
        raise UsageError(f"{out} is also the input: choose another output")


def _read(chats: Sequence[str], format: str | None, columns: str | None, part: str | None) -> Parts:
    """Yield dialogues with the part they belong to: of a public set, or of ActDial by their names."""
    public = {source: named for source in chats if (named := formats.public_part(source))}
    if part and not public:
        raise UsageError("--part needs a public set")
    for name, own in public.values():
        yield from _read_public(name, own or part or "all")
    paths = [source for source in chats if source not in public]
    segments = format == "actdial" or (
        format is None and "-" not in paths and all(map(actdial.holds_segments, source_files(paths)))
    )
    for dialogue in formats.read(paths, format, columns):
        yield (actdial.part_of(dialogue.id) if segments else None) or "all", dialogue


def _read_public(name: str, part: str) -> Parts:
    if part != "all":
        yield from ((part, dialogue) for dialogue in read_public(name, part))
        return
    chosen = datasets.public_set(name)
    missing: MissingPartError | None = None
    empty = True
    for part_name in chosen.parts:
        try:
            for dialogue in chosen.dialogues(part_name):
                empty = False
                yield part_name, dialogue
        except MissingPartError as error:
            missing = error
    if empty and missing:
        raise missing


def _write(dialogues: Iterator[Dialogue], out: str | None) -> list[str]:
    if out is None:
        for _ in dialogues:
            pass
        return []
    if Path(out).suffix.lower() != ".json":
        formats.write(dialogues, out)
        return []
    done = actdial.write_segments(out, dialogues)
    counts = {
        "dialogues in which somebody has two turns in a row, so that a number is skipped": done.skipping,
        "turns left out, system prompts or tools' answers": done.left_out,
    }
    return [f"{message}: {count}" for message, count in counts.items() if count]


class _Labeller:
    """Asks people's votes first, then a classifier, which is loaded when something is left for it."""

    def __init__(self, model: str | None, splitter: Splitter) -> None:
        self.model, self.splitter = model, splitter
        self.name: str | None = None
        self.count = 0

    def label(self, dialogues: Sequence[Dialogue]) -> list[Dialogue]:
        settled = [settle(dialogue) for dialogue in dialogues]
        places = [place for place, dialogue in enumerate(settled) if any(map(_is_open, dialogue.turns))]
        if not places:
            return settled
        from dialeval.models.segment_acts import SegmentActs

        classifier = SegmentActs.load(*([self.model] if self.model else []))
        self.name = f"{classifier.name} {classifier.sha[:12]}"
        answers = classifier.label([settled[place] for place in places], self.splitter)
        for place, answer in zip(places, answers, strict=True):
            settled[place] = self._filled(settled[place], answer)
        return settled

    def _filled(self, dialogue: Dialogue, answer: Dialogue) -> Dialogue:
        """Take the classifier's acts where there are none, and nothing else: votes and blanks stay."""
        turns = []
        for turn, labelled in zip(dialogue.turns, answer.turns, strict=True):
            segments, acts = turn.meta.get("segments"), labelled.meta.get("segments")
            if acts is not None and segments is None:
                self.count += len(acts)
            elif segments is not None:
                rest = iter(acts or ())
                acts = [self._answered(raw, rest) for raw in segments]
            changed = {} if acts is None else {"segments": acts}
            turns.append(msgspec.structs.replace(turn, meta={**turn.meta, **changed}))
        return msgspec.structs.replace(dialogue, turns=tuple(turns))

    def _answered(self, raw: dict[str, Any], rest: Iterator[dict[str, Any]]) -> dict[str, Any]:
        act = next(rest)["act"] if raw["text"].strip() else None
        if not _wants_act(Annotation(raw["text"], raw.get("act"), raw.get("votes"))):
            return raw
        self.count += 1
        return {**raw, "act": act}


def _is_open(turn: Turn) -> bool:
    if not takes_part(turn):
        return False
    segments = annotations(turn)
    return bool(turn.text.strip()) if segments is None else any(map(_wants_act, segments))


def _wants_act(segment: Annotation) -> bool:
    return segment.act is None and not segment.votes and bool(segment.text.strip())


class _Sample:
    """An expert's acts for a sample of segments, to compare with those in the dialogues."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.acts: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.said: dict[str, str | None] = {}
        for index, text, act in _expert_rows(path):
            if act is not None:
                try:
                    self.acts[index] = canonical(act)
                except DataError as error:
                    raise DataError(f"{index}: {error}", file=path) from None
                self.texts[index] = text
        if not self.acts:
            raise DataError("no segment with an act in it", file=path)

    def look_at(self, dialogue: Dialogue) -> None:
        for index, segment in actdial.indexed(dialogue):
            if index in self.acts:
                if segment.text.strip() != self.texts[index].strip():
                    raise DataError(
                        f"{index} is {self.texts[index][:60]!r} here and {segment.text[:60]!r} there",
                        file=self.path,
                        fix="the expert's segments must be cut from the same dialogues in the same way",
                    )
                self.said[index] = segment.act

    def compare(self, votes: Sequence[Voted]) -> tuple[dict[str, Estimate], int]:
        estimates = {
            "acts": accuracy(self.said, self.acts),
            **(accuracies(votes, self.acts) if votes else {}),
        }
        return estimates, len(self.acts) - len(self.said)


def _expert_rows(path: Path) -> Iterator[tuple[str, str, str | None]]:
    if actdial.holds_segments(path):
        for utterances in actdial.read_segments(path).values():
            for segments in utterances.values():
                for segment in segments:
                    yield segment.index, segment.fs_text or "", segment.annotation
        return
    for dialogue in formats.read(path):
        for index, annotation in actdial.indexed(dialogue):
            yield index, annotation.text, annotation.act
