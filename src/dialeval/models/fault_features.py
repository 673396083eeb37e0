"""Features of a reply for finding its faults, computed from the reply and earlier turns or passages.

A reply is read with the turn it answers, with the two most similar earlier turns of its own speaker, and with
two of the other speaker: the last and the most similar one. Similarity is by turn vectors, among the last
hundred turns, so that time is linear. A long reply is read in parts of whole sentences: for contradictions
the worst part counts, for an answer the best. A part is read with the two windows of the evidence that share
most words with it, weighted by the share of the evidence that they are; the longer the evidence, the more
words count that neither evidence nor dialogue has. How grounded a reply is, is known where evidence came in
for this reply or holds for the whole dialogue, and has half as many words as the reply at least: a long
answer after a short tool result, or a farewell after an answer, is no worse for its own words.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.dialogue import evidence_before, fresh_evidence
from dialeval.dialogues.segments import split
from dialeval.models.encoder import Encoder
from dialeval.models.evidence_windows import WindowChooser, content_words
from dialeval.models.fault_reader import LONGEST_REPLY, FaultReader, Memory, Part, Question
from dialeval.models.reactions import REACTIONS, Reactions, exchanges
from dialeval.models.turn_vectors import TurnVectors, turn_vectors

FEATURES = (
    "own-contradicts",
    "user-contradicts",
    "repeats",
    "alike",
    "overlap",
    "ignores",
    "off-topic",
    "misfit",
    "nonsense",
    "unkind",
    "unknown",
    "new-words",
    "new-numbers",
    "grounded",
    "denied",
    "displeased",
)
_OWN, _OTHERS = 2, 1  # earlier turns that a reply is read with
_LOOK_BACK = 100
_LONGEST_PASSAGE = 200_000  # characters
_PART_TOKENS = 48
_FEW_WORDS = 8  # in a shorter reply, words of its own count as in one of this length
_WORD = re.compile(r"\w+")


class Proof(NamedTuple):
    """The evidence of a fault: the number of a turn or a passage, and the part of the reply at fault."""

    turn: int | None
    text: str


@dataclass
class ReplyFeatures:
    """The features of a reply by name, and the proofs of some of them."""

    turn: int
    values: dict[str, float] = field(default_factory=dict)
    proofs: dict[str, Proof] = field(default_factory=dict)
    cut: bool = False


class _Asked(NamedTuple):
    reply: int
    kind: str
    part: int
    proof: Proof


def reply_features(
    reader: FaultReader,
    dialogues: Sequence[Dialogue],
    speaker: str | None = None,
    prove: bool = False,
    reactions: Reactions | None = None,
) -> Iterator[tuple[Dialogue, list[ReplyFeatures]]]:
    """Yield the features of the scored replies of dialogues; replies without text are left out.

    With `prove`, earlier turns are also read one by one, to find the one that proves a fault.
    """
    plans = [_Plan(reader, encoded, speaker, prove) for encoded in turn_vectors(reader.encoder, dialogues)]
    _listen(plans, reactions or Reactions.load())
    questions = [question for plan in plans for question in plan.questions]
    answers = reader.read(questions)
    start = 0
    for plan in plans:
        end = start + len(plan.questions)
        plan.answer({name: values[start:end] for name, values in answers.items()})
        start = end
        yield plan.dialogue, plan.replies


def _listen(plans: "Sequence[_Plan]", reactions: Reactions) -> None:
    """Add the probability that the user's next turn is displeased, if there is one."""
    answered = [(plan, exchanges(plan.dialogue, [reply.turn for reply in plan.replies])) for plan in plans]
    shares = iter(reactions.shares([exchange for _, by_turn in answered for exchange in by_turn.values()]))
    for plan, by_turn in answered:
        displeased = {turn: float(next(shares)[REACTIONS.index("displeased")]) for turn in by_turn}
        for reply in plan.replies:
            if reply.turn in displeased:
                reply.values["displeased"] = displeased[reply.turn]


class _Plan:
    """The questions about the replies of one dialogue."""

    def __init__(self, reader: FaultReader, encoded: TurnVectors, speaker: str | None, prove: bool) -> None:
        self.dialogue, self._encoded, self._reader, self._prove = encoded.dialogue, encoded, reader, prove
        self.questions: list[Question] = []
        self._asked: list[_Asked] = []
        self._bags: dict[str, frozenset[str]] = {}
        self._covered: dict[int, float] = {}
        turns = [turn for turn in scored_turns(encoded.dialogue, speaker) if encoded.spoken[turn]]
        self.replies = [ReplyFeatures(turn, cut=encoded.cut[turn]) for turn in turns]
        self._texts = [turn.text for turn in encoded.dialogue.turns]
        for number, turn in enumerate(turns):
            self._plan(number, turn)

    def _plan(self, number: int, turn: int) -> None:
        turns, spoken = self.dialogue.turns, self._encoded.spoken
        earlier = [n for n in range(max(0, turn - _LOOK_BACK), turn) if spoken[n]]
        own = [n for n in earlier if turns[n].speaker == turns[turn].speaker]
        others = [n for n in earlier if turns[n].speaker != turns[turn].speaker]
        cut = reply_parts(self._texts[turn], self._reader.encoder)
        parts = [part for part, _ in cut]
        last = others[-1] if others else None
        context = []
        if last is not None:
            before = [n for n in own if n < last][-1:]
            context = [Memory("before", self._texts[n]) for n in before] + [Memory("last", self._texts[last])]
            self._compare(number, turn, last)
        rest = [n for n in others if n != last]
        user_turns = self._like(rest, turn, _OTHERS) + ([last] if last is not None else [])
        for place, part in enumerate(parts):
            self._ask(number, "context", place, Proof(last, ""), Question(part, tuple(context)))
            for kind, chosen in (("own", self._like(own, turn, _OWN)), ("user", user_turns)):
                if chosen:
                    memory = tuple(Memory(kind, self._texts[n]) for n in chosen)
                    self._ask(number, kind, place, Proof(chosen[-1], ""), Question(part, memory))
                for n in chosen if self._prove and len(chosen) > 1 else ():
                    question = Question(part, (Memory(kind, self._texts[n]),))
                    self._ask(number, f"{kind}-proof", place, Proof(n, ""), question)
        self._repeat(number, turn, own)
        if passages := evidence_before(self.dialogue, turn):
            texts = [passage.text for passage in passages[-_LOOK_BACK:]]
            chooser = WindowChooser(texts)
            self._look_up(number, turn, texts, [self._texts[n] for n in earlier])
            values = self.replies[number].values
            self._covered[number] = chooser.covered
            values["unknown"] = values["new-words"] * (1.0 - chooser.covered)
            for place, (part, words) in enumerate(cut):
                memory = tuple(Memory("evidence", window) for window in chooser.nearest(words))
                proof = Proof(None, next(iter(chooser.nearest(words, 1)), ""))
                self._ask(number, "evidence", place, proof, Question(part, memory))

    def _ask(self, reply: int, kind: str, part: int, proof: Proof, question: Question) -> None:
        self.questions.append(question)
        self._asked.append(_Asked(reply, kind, part, proof))

    def _like(self, places: Sequence[int], turn: int, most: int) -> list[int]:
        if len(places) <= most:
            return list(places)
        alike = self._encoded.vectors[list(places)] @ self._encoded.vectors[turn]
        return [places[place] for place in sorted(np.argsort(-alike, kind="stable")[:most])]

    def _compare(self, number: int, turn: int, last: int) -> None:
        vectors = self._encoded.vectors
        self.replies[number].values["misfit"] = 1.0 - float(vectors[turn] @ vectors[last])

    def _repeat(self, number: int, turn: int, own: Sequence[int]) -> None:
        values, vectors = self.replies[number].values, self._encoded.vectors
        values["alike"] = values["overlap"] = 0.0
        if own:
            values["alike"] = max(0.0, float((vectors[list(own)] @ vectors[turn]).max()))
            like = self._like(own, turn, _OWN)
            values["overlap"] = max(_overlap(self._texts[n], self._texts[turn]) for n in like)

    def _look_up(self, number: int, turn: int, evidence: Sequence[str], earlier: Sequence[str]) -> None:
        """Count the words and numbers of a reply that neither the evidence nor the dialogue has."""
        passages = set[str]().union(*map(self._bag, evidence))
        known = passages.union(*map(self._bag, earlier))
        words = content_words(self._texts[turn])
        fresh = [word for word in words if word not in known]
        values = self.replies[number].values
        values["new-words"] = len(fresh) / max(1, len(words))
        values["new-numbers"] = min(1.0, 0.5 * sum(word[0].isdigit() for word in fresh))
        if fresh_evidence(self.dialogue, turn) and 2 * len(passages) >= len(set(words)):
            values["grounded"] = 1.0 - len(fresh) / max(_FEW_WORDS, len(words))

    def _bag(self, text: str) -> frozenset[str]:
        """Return the distinct words of a text, cached."""
        if text not in self._bags:
            self._bags[text] = frozenset(content_words(text[:_LONGEST_PASSAGE]))
        return self._bags[text]

    def answer(self, answers: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]) -> None:
        """Convert the logits of all questions to features."""
        shown: dict[tuple[int, str], float] = {}
        for place, asked in enumerate(self._asked):
            values, proofs = self.replies[asked.reply].values, self.replies[asked.reply].proofs
            prefix, dash, _ = asked.kind.partition("-")
            heads = {"own": ("contradicts", "repeats")}.get(prefix, ("contradicts",))
            if prefix == "context":
                for name in ("nonsense", "unkind"):
                    _most(values, name, answers[name][place])
                if asked.proof.turn is not None:
                    for name in ("ignores", "off-topic"):
                        _least(values, name, answers[name][place])
                        proofs[name] = asked.proof
                continue
            if prefix == "evidence":
                if _most(values, "denied", -answers["supported"][place] * self._covered[asked.reply]):
                    proofs["unsupported"] = asked.proof
                continue
            for head in heads:
                name = head if head == "repeats" else f"{prefix}-contradicts"
                logit = float(answers[head][place])
                if not dash:
                    _most(values, name, logit)
                if logit > shown.get((asked.reply, name), -np.inf) and (dash or name not in proofs):
                    proofs[name] = asked.proof
                    shown[asked.reply, name] = logit if dash else -np.inf


def _most(values: dict[str, float], name: str, value: float) -> bool:
    if name in values and values[name] >= value:
        return False
    values[name] = float(value)
    return True


def _least(values: dict[str, float], name: str, value: float) -> None:
    values[name] = min(values.get(name, np.inf), float(value))


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, a line being one at least."""
    return [sentence for line in text.splitlines() for sentence in split(line, "punkt")]


def reply_parts(text: str, encoder: Encoder) -> list[tuple[Part, str]]:
    """Divide a reply into parts of whole sentences, each with its text; a short one is one part."""
    if len(text) <= 2 * LONGEST_REPLY:  # a token has more than two letters, but for odd texts, which are cut
        return [(Part(text, 0, LONGEST_REPLY), text)]
    sentences = sentences_of(text)
    counts = [len(ids) for ids in encoder.tokenizer.bare(sentences)]
    if sum(counts) + 2 <= LONGEST_REPLY:
        return [(Part(text, 0, LONGEST_REPLY), text)]
    parts: list[tuple[Part, str]] = []
    start, held, size = 1, list[str](), 0
    for sentence, count in zip([*sentences, ""], [*counts, 0], strict=True):
        if held and (size + count > _PART_TOKENS or not sentence):
            if start < encoder.limit - 1:
                part = Part(text, start, min(start + size, start + LONGEST_REPLY))
                parts.append((part, " ".join(held)))
            start, held, size = start + size, [], 0
        held.append(sentence)
        size += count
    return parts or [(Part(text, 0, LONGEST_REPLY), text)]


def _overlap(earlier: str, reply: str) -> float:
    """Return the share of pairs of neighbouring words that two texts have in common."""
    counts = []
    for text in (earlier, reply):
        words = _WORD.findall(text.lower())
        counts.append(Counter(pairwise(words)) or Counter(words))
    common, size = sum((counts[0] & counts[1]).values()), sum(counts[1].values())
    return common / size if size else 0.0
