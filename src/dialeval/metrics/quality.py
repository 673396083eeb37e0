"""How good replies and dialogues are, by all that ships: the metric `quality`, for when none is named."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.errors import DialevalError
from dialeval.metrics.dialoguescore import CHAT, OpenCoherence
from dialeval.metrics.explanation import ExplainedTurn, Explanation, Piece, Side
from dialeval.metrics.followup import Followup
from dialeval.metrics.quality_parts import DialogueParts, PartReader
from dialeval.metrics.registry import Language, Rows, known_language, metric
from dialeval.metrics.turn_quality import DEFAULT as TURN_QUALITY
from dialeval.metrics.turn_quality import FOLLOWUP, Student, TurnQuality
from dialeval.metrics.user_reaction import UserReaction
from dialeval.models import reactions
from dialeval.models.blend import Blend
from dialeval.models.language_model import DEFAULT as LANGUAGE_MODEL
from dialeval.models.language_model import MISSING, is_here
from dialeval.models.needs import Need
from dialeval.scores import Scores

DEFAULT = "dialeval-quality"
QUALITY, EMPTY = "quality", "empty reply"


@metric("quality.v2")
@dataclass(frozen=True)
class Quality:
    """How good a reply and a dialogue are: a sum of a few parts, weighed by what people said of other chats.

    0 is what is usual in the sets it was weighed on; 1 is a rating that is a standard deviation higher. A
    reply is judged without what comes after it, a dialogue by all that was said. A reply that says nothing
    and calls no tool has failed: it gets the lowest value there is. `--explain` says what each part adds.
    `blend` names the weights; the others name the models that the parts come from. `teachers` asks a language
    model in place of its student, seconds for each dialogue.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you like jazz?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, I love jazz, do you play?", "I do not understand the question.")]
    >>> good, bad = (row.value for row in Quality().score(chats) if row.turn)
    >>> good > bad
    True
    """

    blend: str = DEFAULT
    turn_quality: str = TURN_QUALITY
    coherence: str = CHAT
    reactions: str = reactions.DEFAULT
    followup: str = FOLLOWUP
    teachers: bool = False
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = (QUALITY,)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each reply by what came before, and each dialogue by the whole of it."""
        rows, blend = Rows(self), Blend.load(self.blend)
        if self.teachers and not is_here(LANGUAGE_MODEL):
            return self._silent(rows, dialogues)
        for found in self._parts(dialogues, blend):
            dialogue = found.dialogue
            for turn in scored_turns(dialogue, self.speaker):
                if turn not in found.turns:
                    rows.add(dialogue, turn, QUALITY, None, "no text")
                    continue
                value = sum(blend.adds("turn", found.turns[turn]).values())
                note = EMPTY if turn in found.empty else "truncated" if turn in found.cut else None
                rows.add(dialogue, turn, QUALITY, value, note)
            if found.turns:
                rows.add(dialogue, None, QUALITY, sum(blend.adds("dialogue", found.whole).values()))
            else:
                rows.add(dialogue, None, QUALITY, None, "no reply to score")
        return rows.scores()

    def _silent(self, rows: Rows, dialogues: Iterable[Dialogue]) -> Scores:
        for dialogue in dialogues:
            for turn in (*scored_turns(dialogue, self.speaker), None):
                rows.add(dialogue, turn, QUALITY, None, MISSING)
        return rows.scores()

    def explain(self, dialogues: Sequence[Dialogue]) -> list[Explanation]:
        """Return what each part adds to a dialogue's score, and which moves each reply's most."""
        blend, explained = Blend.load(self.blend), []
        for found in self._parts(dialogues, blend):
            if found.turns:
                adds = blend.adds("dialogue", found.whole)
                own = Side(found.dialogue.id, tuple(_labelled(found, blend)))
                told = "what each part adds; a reply has its score and the part that moves it most"
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
                "followup": self._expectation(),
            }
        except (DialevalError, KeyError):  # what is not there keeps its name: nothing is scored
            return {}

    def _expectation(self) -> str:
        if self.teachers:
            return ";".join(Followup().provenance().values())
        return Student(self.followup).provenance()["model"]

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
            self.turn_quality, self.coherence, self.reactions, self.followup, self.teachers, self.speaker
        )


def _labelled(found: DialogueParts, blend: Blend) -> Iterator[ExplainedTurn]:
    for turn in Side.of(found.dialogue).turns:
        parts = None if turn.number is None else found.turns.get(turn.number)
        if parts is None:
            yield turn
            continue
        adds = blend.adds("turn", parts)
        most = max(adds, key=lambda name: abs(adds[name]), default="")
        text = "".join(piece.text for piece in turn.pieces)
        label = f"{sum(adds.values()):+.2f}, {most} {adds[most]:+.2f}" if most else None
        yield ExplainedTurn(turn.speaker, (Piece(text, label),), turn.number)
