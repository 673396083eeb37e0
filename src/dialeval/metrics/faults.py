"""Faults by name: what is wrong with a reply, which turn or passage proves it, and how sure that is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dialeval.dialogues import Dialogue
from dialeval.errors import DialevalError
from dialeval.metrics.explanation import ExplainedTurn, Explanation, Piece, Side
from dialeval.metrics.registry import Better, Rows, encoded_chunks, metric
from dialeval.metrics.rules import RULES, Reply, replies
from dialeval.models import reactions
from dialeval.models.fault_features import Proof, ReplyFeatures, reply_features
from dialeval.models.fault_reader import FaultReader
from dialeval.models.fault_weights import FAULTS
from dialeval.models.needs import Need, spoken_turns
from dialeval.models.reactions import Reactions
from dialeval.scores import Scores

DEFAULT = "dialeval-fault-reader"
FAULTLESS, COUNT = "faultless", "faults"
RULED = ("empty", "cut-off", "refusal", "leak", "wrong-language", "loop")
"""Faults that need no model: 1 where the rule of that name finds something, else 0."""
_PROOFS = {"contradicts-itself": "own-contradicts", "contradicts-user": "user-contradicts"}
_EMPTY, _FOREIGN, _NO_EVIDENCE, _CUT = "empty reply", "not English", "no evidence", "truncated"
_SUPPORT = "unsupported"


class JudgedReply(NamedTuple):
    """The probabilities of one reply's faults, what proves them, and why some could not be read."""

    turn: int
    values: Mapping[str, float]
    proofs: Mapping[str, Proof]
    note: str | None
    features: Mapping[str, float] = {}

    @property
    def sound(self) -> float | None:
        """The probability of no fault at all; None where nothing but rules could be read, and none broke."""
        found = faultless(self.values)
        return None if found and not any(fault in self.values for fault in FAULTS) else found


@metric("faults.v5")
@dataclass(frozen=True)
class Faults:
    """Probability of each named fault of a reply, with the turn that proves it.

    `faultless` is the probability that a reply has none of them. A fault counts from a probability that the
    model has for it, or from `threshold`; at dialogue level stand faults per hundred replies. What rules find
    (`empty`, `cut-off`, …) is 0 or 1. Without evidence (passages, tool results) `unsupported` is unscored.
    `reactions` names the model that reads what the user says next.

    >>> from dialeval.dialogues import dialogue
    >>> chat = [("user", "I have a cat."), ("assistant", "Lovely, cats are great."), ("user", "She is ill.")]
    >>> chats = [dialogue([*chat, ("assistant", reply)], reply)
    ...     for reply in ("Oh no, what is wrong with your cat?", "You said that you have no pets.")]
    >>> rows = [row for row in Faults().score(chats) if row.turn == 3]
    >>> good, bad = (row.value for row in rows if row.dimension == "contradicts-user")
    >>> good < bad
    True
    """

    model: str = DEFAULT
    reactions: str = reactions.DEFAULT
    threshold: float | None = None
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = (*FAULTS, *RULED, FAULTLESS, COUNT)
    better: ClassVar[Mapping[str, Better]] = dict.fromkeys((*FAULTS, *RULED, COUNT), "lower")

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Give each reply's probabilities, and each dialogue's faults per hundred replies."""
        rows = Rows(self)
        for dialogue, found in self.replies(dialogues):
            for reply in found:
                for fault in (*FAULTS, *RULED):
                    value = reply.values.get(fault)
                    lacking = _NO_EVIDENCE if fault == _SUPPORT and reply.note in (None, _CUT) else reply.note
                    rows.add(dialogue, reply.turn, fault, value, reply.note if value is not None else lacking)
                rows.add(dialogue, reply.turn, FAULTLESS, reply.sound, reply.note)
                count = None if reply.sound is None else float(len(self._faults(reply)))
                rows.add(dialogue, reply.turn, COUNT, count, reply.note)
            self._sum_up(rows, dialogue, found)
        return rows.scores()

    def _sum_up(self, rows: Rows, dialogue: Dialogue, found: Sequence[JudgedReply]) -> None:
        """Add faults per hundred replies, each by itself and all together, and the mean of `faultless`."""
        counted = [(self._faults(reply), reply) for reply in found]
        for fault in (*FAULTS, *RULED):
            judged = [fault in some for some, reply in counted if fault in reply.values]
            note = None if judged else "no reply to score"
            if not judged and fault == _SUPPORT and any(reply.sound is not None for reply in found):
                note = _NO_EVIDENCE
            rows.add(dialogue, None, fault, 100.0 * sum(judged) / len(judged) if judged else None, note)
        each = [reply.sound for reply in found if reply.sound is not None]
        none = None if each else "no reply to score"
        rows.add(dialogue, None, FAULTLESS, sum(each) / len(each) if each else None, none)
        count = 100.0 * sum(len(some) for some, _ in counted) / len(counted) if each else None
        rows.add(dialogue, None, COUNT, count, none)

    def _faults(self, reply: JudgedReply) -> list[str]:
        limits = self._thresholds()
        return [fault for fault, value in reply.values.items() if value >= limits.get(fault, 1.0)]

    def _thresholds(self) -> dict[str, float]:
        if self.threshold is not None:
            return dict.fromkeys(FAULTS, self.threshold)
        return {fault: found.threshold for fault, found in FaultReader.load(self.model).weights.items()}

    def replies(
        self, dialogues: Iterable[Dialogue], prove: bool = False
    ) -> Iterator[tuple[Dialogue, list[JudgedReply]]]:
        """Read dialogues; with `prove` also which earlier turn proves a contradiction."""
        reader, heard = FaultReader.load(self.model), Reactions.load(self.reactions)
        for some in encoded_chunks(self, dialogues):
            for dialogue, found in reply_features(reader, some, self.speaker, prove, heard):
                known = {one.turn: one for one in found}
                yield (
                    dialogue,
                    [
                        _judge(reader, reply, turn, known.get(turn))
                        for turn, reply in replies(dialogue, self.speaker)
                    ],
                )

    def explain(self, dialogues: Sequence[Dialogue]) -> list[Explanation]:
        """Return the faulty replies of each dialogue, beside the turn or passage that proves each fault."""
        explained = []
        for dialogue, found in self.replies(dialogues, prove=True):
            own, proofs = list[ExplainedTurn](), list[ExplainedTurn]()
            for reply in found:
                for fault in self._faults(reply):
                    label = f"{fault} {reply.values[fault]:.2f}"
                    said = dialogue.turns[reply.turn]
                    own.append(ExplainedTurn(said.speaker, (Piece(said.text, label),), reply.turn))
                    proofs.append(_proof(dialogue, reply.proofs.get(_PROOFS.get(fault, fault))))
            each = [reply.sound for reply in found if reply.sound is not None]
            if each:
                explained.append(
                    Explanation(
                        dialogue.id,
                        COUNT,
                        sum(each) / len(each),
                        {"faults per hundred replies": 100.0 * len(own) / len(found)},
                        Side(dialogue.id, tuple(own)),
                        Side("what proves it", tuple(proofs)) if own else None,
                        tuple((place, place) for place in range(len(own))),
                        "replies with a fault, beside what proves it" if own else "no fault was found",
                        FAULTLESS,
                    )
                )
        return explained

    def needs(self) -> list[Need]:
        """Open the reader; return what it reads of an encoder."""
        reader = FaultReader.load(self.model)
        heard = Reactions.load(self.reactions).needs()
        return [Need(reader.encoder, spoken_turns, reader.readings()), *heard]

    def provenance(self) -> dict[str, object]:
        """Name the model by its content, not by where it lies, and from where on each fault counts."""
        try:
            heard, model = Reactions.load(self.reactions).sha[:12], FaultReader.load(self.model).sha[:12]
            return {"model": model, "reactions": heard, "threshold": self._thresholds()}
        except DialevalError:  # what is not there keeps its name: nothing is scored
            return {}


def faultless(values: Mapping[str, float]) -> float:
    """Return the probability of no fault at all, taking the faults for independent.

    >>> round(faultless({"ignores": 0.5, "unkind": 0.1}), 2)
    0.45
    """
    sound = 1.0
    for value in values.values():
        sound *= 1.0 - value
    return sound


def _judge(reader: FaultReader, reply: Reply, turn: int, found: ReplyFeatures | None) -> JudgedReply:
    ruled = {name: RULES[name](reply) for name in RULED}
    values = {name: float(told is not None) for name, told in ruled.items()}
    proofs = {name: Proof(None, told) for name, told in ruled.items() if told}
    if found is None:
        return JudgedReply(turn, values, proofs, _EMPTY)
    if not _is_english(reply.turn.text):
        return JudgedReply(turn, values, proofs, _FOREIGN)
    read = {
        fault: reader.weights[fault].probability(found.values)
        for fault, features in FAULTS.items()
        if fault != _SUPPORT or features[0] in found.values
    }
    return JudgedReply(turn, read | values, found.proofs | proofs, _CUT if found.cut else None, found.values)


def _is_english(text: str) -> bool:
    """Whether letters of a text are mostly those of English; the words are not looked at."""
    letters = [one for one in text[:2000] if one.isalpha()]
    return not letters or sum(one.isascii() for one in letters) >= 0.7 * len(letters)


def _proof(dialogue: Dialogue, proof: Proof | None) -> ExplainedTurn:
    if proof is None or (proof.turn is None and not proof.text):
        return ExplainedTurn("", (Piece("(the reply itself)"),))
    if proof.turn is None:
        return ExplainedTurn("evidence", (Piece(proof.text),))
    said = dialogue.turns[proof.turn]
    return ExplainedTurn(said.speaker, (Piece(said.text),), proof.turn)
