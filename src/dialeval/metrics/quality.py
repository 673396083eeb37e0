"""How good replies and dialogues are, by all that ships: the metric `quality`, for when none is named."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.errors import DialevalError
from dialeval.metrics.dialoguescore import OpenCoherence
from dialeval.metrics.explanation import ExplainedTurn, Explanation, Piece, Side
from dialeval.metrics.faults import DEFAULT as READER
from dialeval.metrics.followup import Followup
from dialeval.metrics.quality_parts import COHERENCE, DialogueParts, PartReader
from dialeval.metrics.registry import Better, Language, Rows, known_language, metric
from dialeval.metrics.turn_quality import DEFAULT as TURN_QUALITY
from dialeval.metrics.turn_quality import Student, TurnQuality
from dialeval.metrics.user_reaction import UserReaction
from dialeval.models import reactions
from dialeval.models.blend import Blend, Level, Parts
from dialeval.models.fault_reader import FaultReader
from dialeval.models.kinds import Kind
from dialeval.models.language_model import DEFAULT as LANGUAGE_MODEL
from dialeval.models.language_model import MISSING, is_here
from dialeval.models.needs import Need
from dialeval.scores import Scores

DEFAULT = "dialeval-quality"
QUALITY, PERCENTILE, STANDING = "quality", "percentile", "standing"
EMPTY, UNHEARD = "empty reply", "the user has not answered yet"
UNANSWERED = "nobody answered the user"


@metric("quality.v6")
@dataclass(frozen=True)
class Quality:
    """Overall quality of replies and dialogues: a weighted sum of other metrics.

    The weights are fitted to human ratings of other dialogues.

    0 is what is usual in the sets it was weighed on; 1 is a rating that is a standard deviation higher. A
    reply is judged by itself and by what the user said to it, a dialogue by all that was said; what counts
    how much depends on the kind of dialogue (small talk, information, support, task, recommendation,
    tutoring). `percentile` is the share of rated replies or dialogues of that kind that score lower,
    `standing` how the dialogue stands with its user before each reply and at the end. A reply that says
    nothing and calls no tool has failed: it scores as low as the worst rated replies. `--explain` says what
    each part adds.

    `blend` names the weights; the others name the models that the parts come from. `faults=false` leaves out
    what reads a reply together with earlier turns, for speed. `kind` says what all dialogues are. `followup`
    names a student of a language model, for one more part; `teachers` asks the language model itself, seconds
    for each dialogue.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you like jazz?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, I love jazz, do you play?", "I do not understand the question.")]
    >>> good, bad = (row.value for row in Quality().score(chats) if row.turn and row.dimension == "quality")
    >>> good > bad
    True
    """

    blend: str = DEFAULT
    turn_quality: str = TURN_QUALITY
    coherence: str = COHERENCE
    reactions: str = reactions.DEFAULT
    followup: str | None = None
    reader: str = READER
    faults: bool = True
    kind: Kind | None = None
    teachers: bool = False
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = (QUALITY, PERCENTILE, STANDING)
    better: ClassVar[Mapping[str, Better]] = {PERCENTILE: "neither", STANDING: "neither"}

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each reply by itself, and each dialogue by the whole of it."""
        rows, blend = Rows(self), Blend.load(self.blend)
        if self.teachers and not is_here(LANGUAGE_MODEL):
            return self._silent(rows, dialogues)
        for found in self._parts(dialogues, blend):
            for turn in () if found.unanswered else scored_turns(found.dialogue, self.speaker):
                if turn in found.turns:
                    note = EMPTY if turn in found.empty else "truncated" if turn in found.cut else None
                    self._add(rows, blend, found, turn, note)
                else:
                    self._add_none(rows, found.dialogue, turn, "no text")
            if found.turns:
                self._add(rows, blend, found, None, UNANSWERED if found.unanswered else None)
            else:
                self._add_none(rows, found.dialogue, None, "no reply to score")
        return rows.scores()

    def _add(
        self, rows: Rows, blend: Blend, found: DialogueParts, turn: int | None, note: str | None = None
    ) -> None:
        level: Level = "dialogue" if turn is None else "turn"
        parts = found.whole if turn is None else found.turns[turn]
        value = blend.score(level, parts, found.shares)
        kind = max(found.shares, key=lambda one: found.shares[one])
        if note is None and not blend.is_validated(level, kind):
            note = f"not validated on {kind}"
        rows.add(found.dialogue, turn, QUALITY, value, note)
        place = blend.percentile(level, parts, found.shares)
        rows.add(
            found.dialogue, turn, PERCENTILE, place, note if place is not None else "no ratings to compare"
        )
        standing = _standing(blend, found.standing[turn])
        rows.add(found.dialogue, turn, STANDING, standing, None if standing is not None else UNHEARD)

    def _add_none(self, rows: Rows, dialogue: Dialogue, turn: int | None, note: str) -> None:
        for name in self.dimensions:
            rows.add(dialogue, turn, name, None, note)

    def _silent(self, rows: Rows, dialogues: Iterable[Dialogue]) -> Scores:
        for dialogue in dialogues:
            for turn in (*scored_turns(dialogue, self.speaker), None):
                self._add_none(rows, dialogue, turn, MISSING)
        return rows.scores()

    def explain(self, dialogues: Sequence[Dialogue]) -> list[Explanation]:
        """Return what each part adds to a dialogue's score, and which moves each reply's most."""
        blend, explained = Blend.load(self.blend), []
        for found in self._parts(dialogues, blend):
            if found.turns:
                adds = blend.adds("dialogue", found.whole, found.shares)
                own = Side(found.dialogue.id, tuple(_labelled(found, blend)))
                kind, share = max(found.shares.items(), key=lambda one: one[1])
                told = f"judged as {kind} ({share:.0%}); a reply has its score and the part that moves it"
                value = sum(adds.values())
                explained.append(Explanation(found.dialogue.id, "quality", value, adds, own, note=told))
        return explained

    def provenance(self) -> dict[str, str]:
        """Name weights and models by their contents, not by where they lie."""
        try:
            return {
                "blend": Blend.load(self.blend).sha[:12],
                "turn_quality": TurnQuality(self.turn_quality).provenance()["model"],
                "coherence": OpenCoherence(self.coherence).provenance()["model"],
                "reactions": UserReaction(model=self.reactions).provenance()["model"],
                **self._expectation(),
                **({"reader": FaultReader.load(self.reader).sha[:12]} if self.faults else {}),
            }
        except (DialevalError, KeyError):  # what is not there keeps its name: nothing is scored
            return {}

    def _expectation(self) -> dict[str, str]:
        if self.teachers:
            return {"followup": ";".join(Followup().provenance().values())}
        return {"followup": Student(self.followup).provenance()["model"]} if self.followup else {}

    def needs(self) -> list[Need]:
        """Open the weights and the models of all parts; return what they read of encoders."""
        Blend.load(self.blend)
        return self._reader.needs()

    def _parts(self, dialogues: Iterable[Dialogue], blend: Blend) -> Iterator[DialogueParts]:
        lowest = blend.lowest("turn")
        return (found.counting_empty(lowest) for found in self._reader.read(dialogues))

    @property
    def _reader(self) -> PartReader:
        return PartReader(
            self.turn_quality,
            self.coherence,
            self.reactions,
            self.followup,
            self.reader if self.faults else None,
            self.kind,
            self.teachers,
            self.speaker,
        )


def _standing(blend: Blend, known: Parts) -> float | None:
    """Return the mean of mood and uptake so far, each on the scale of rated dialogues."""
    terms = {term.part: term for term in blend.terms["dialogue"]}
    found = [terms[name].standard(value) for name, value in known.items() if name in terms]
    some = [value for value in found if value is not None]
    return sum(some) / len(some) if some else None


def _labelled(found: DialogueParts, blend: Blend) -> Iterator[ExplainedTurn]:
    for turn in Side.of(found.dialogue).turns:
        parts = None if turn.number is None else found.turns.get(turn.number)
        if parts is None:
            yield turn
            continue
        adds = blend.adds("turn", parts, found.shares)
        most = max(adds, key=lambda name: abs(adds[name]), default="")
        text = "".join(piece.text for piece in turn.pieces)
        label = f"{sum(adds.values()):+.2f}, {most} {adds[most]:+.2f}" if most else None
        yield ExplainedTurn(turn.speaker, (Piece(text, label),), turn.number)
