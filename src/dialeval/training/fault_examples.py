"""Examples for the reader of faults: from labelled pairs, from marked dialogues, and made of good dialogues.

A reading is what came before a reply, each text with what it is to the reply (`KINDS`), and the reply. Four
kinds of dialogues are told apart by their `meta`: a pair of texts with `targets` (the set `fault-pairs`), a
dialogue of our own with a marked `fault`, one whose replies people rated (`label` of a turn), and any other,
which is taken for good: into some of its replies faults are put by program.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dialeval.dialogues import Dialogue, takes_part
from dialeval.models.fault_reader import Memory
from dialeval.training.examples import Targets, digest_of, labels_of
from dialeval.training.fault_injections import (
    COLD,
    PLEASANTRIES,
    Chance,
    change_value,
    insult,
    negate,
    paraphrase,
    salad,
    to_you,
    told_and_forgotten,
    values,
)

_KEPT = {
    "fault-pairs-anli": 0.04,
    "fault-pairs-begin": 0.15,
    "fault-pairs-chatprotect": 0.15,
    "fault-pairs-ci_tod": 0.25,
    "fault-pairs-comve": 0.03,
    "fault-pairs-decode": 0.12,
    "fault-pairs-faithdial_audit": 0.2,
    "fault-pairs-gu_dnli": 0.003,
    "fault-pairs-prosecco": 0.3,
    "fault-pairs-rte": 0.03,
    "fault-pairs-sick": 0.02,
    "fault-pairs-snli": 0.02,
    "blended-skill-talk": 0.1,
    "dailydialog": 0.006,
    "dbdc3": 0.4,
    "diasafety": 0.04,
    "empathetic": 0.01,
    "multiwoz": 0.004,
    "sgd": 0.01,
    "topicalchat": 0.05,
}
"""How much of a large source is taken, by how its ids begin, so that none drowns the others."""
_REPLIES = 3  # of a dialogue that examples are made of
_FINE: Targets = {"ignores": 0.0, "off-topic": 0.0, "nonsense": 0.0, "unkind": 0.0}
_UNKIND = ("Offending User", "Toxicity Agreement", "Biased Opinion")
_MARKED = {
    "contradicts-itself": ("own", {"contradicts": 1.0}),
    "contradicts-user": ("user", {"contradicts": 1.0}),
    "repeats": ("own", {"repeats": 1.0, "contradicts": 0.0}),
    "unsupported": ("evidence", {"supported": 0.0}),
    "ignores": ("", {"ignores": 1.0}),
    "off-topic": ("", {"ignores": 1.0, "off-topic": 1.0}),
    "nonsense": ("", {"nonsense": 1.0}),
    "unkind": ("", {"unkind": 1.0}),
}
_TIMES = 4
_WEIGHT = 3.0  # of what was written or rated by hand in dialogues, which is scarce


@dataclass(frozen=True)
class FaultExample:
    """A reply, what is read with it, and what is known of the two."""

    memory: tuple[Memory, ...]
    reply: str
    targets: Targets
    weight: float = 1.0

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""
        texts = [part for one in self.memory for part in one]
        return digest_of(
            [*(text.encode("utf-8", "surrogatepass") for text in (*texts, self.reply)), labels_of(self)]
        )


def fault_examples(dialogues: Iterable[Dialogue]) -> Iterator[FaultExample]:
    """Make examples of dialogues; the same dialogues give the same examples.

    Half of those with one earlier turn get another one beside it, of the same kind and of another dialogue:
    replies are read with two at a time.
    """
    chance, earlier = random.Random(0), deque[Memory](maxlen=400)  # noqa: S311
    for one in _examples(dialogues):
        if len(one.memory) == 1 and one.memory[0].kind in ("own", "user"):
            same = [other for other in list(earlier)[-40:] if other.kind == one.memory[0].kind]
            earlier.append(one.memory[0])
            if same and chance.random() < 0.5:
                both = [one.memory[0], chance.choice(same)]
                chance.shuffle(both)
                yield replace(one, memory=tuple(both))
                continue
        yield one


def _examples(dialogues: Iterable[Dialogue]) -> Iterator[FaultExample]:
    others: deque[str] = deque(["I'd rather have the window seat.", "The museum closes at five."], maxlen=400)
    for dialogue in dialogues:
        chance = random.Random(dialogue.id)  # noqa: S311
        if chance.random() > next(
            (share for name, share in _KEPT.items() if dialogue.id.startswith(name)), 1.0
        ):
            continue
        if "pair" in dialogue.meta:
            yield from _pair(dialogue, chance)
        elif "fault" in dialogue.meta:
            yield from _marked(dialogue)
            if dialogue.meta["fault"] is None:
                yield from _varied(dialogue, chance, others)
        elif "category" in dialogue.meta:
            yield from _safety(dialogue)
        else:
            said = [turn for turn in dialogue.turns if takes_part(turn) and turn.text.strip()]
            rated = any("label" in turn.meta for turn in said) and dialogue.id.startswith("dbdc3")
            if rated:
                yield from _rated(dialogue)
            elif len(said) > 1:
                yield from _good([turn.text.strip() for turn in said], chance, others)
                others.append(chance.choice(said).text.strip())


def _pair(dialogue: Dialogue, chance: Chance) -> Iterator[FaultExample]:
    kind, targets = dialogue.meta["pair"], dict(dialogue.meta["targets"])
    earlier, reply = (turn.text for turn in dialogue.turns)
    if kind == "evidence" and "contradicts" in targets and chance.random() < 0.5:
        kind = chance.choice(["own", "user"])  # what denies a text denies it whoever said it
        targets.pop("supported", None)
    elif kind == "own" and "contradicts" in targets and (turned := to_you(reply)) and chance.random() < 0.5:
        # what contradicts me when I say it of myself contradicts you when I say it of you, and only then
        of_you = chance.random() < 0.75
        kind, reply = "user", turned if of_you else reply
        targets = {"contradicts": targets["contradicts"] if of_you else 0.0}
        told, asked, fault = told_and_forgotten(chance)
        yield FaultExample((Memory("user", told),), asked, {"contradicts": fault})
    yield FaultExample((Memory(kind, earlier),) if earlier else (), reply, targets)


def context(said: Sequence[str], place: int) -> tuple[Memory, ...]:
    """Return what a reply answers, and what was said before that."""
    before = (Memory("before", said[place - 2]),) if place > 1 else ()
    return (*before, Memory("last", said[place - 1]))


def _marked(dialogue: Dialogue) -> Iterator[FaultExample]:
    fault = dialogue.meta["fault"] or {}
    texts = [turn.text for turn in dialogue.turns]
    for place, turn in enumerate(dialogue.turns):
        if turn.speaker != "assistant" or not place:
            continue
        said = [one for one in range(place) if takes_part(dialogue.turns[one])]
        wrong = fault if fault.get("turn") == place else {}
        kind, known = _MARKED[wrong["name"]] if wrong else ("", {})
        yield FaultExample(
            context([*(texts[one] for one in said), texts[place]], len(said)),
            turn.text,
            known if wrong and not kind else {**_FINE, "ignores": 0.0} if not wrong else {"unkind": 0.0},
            _WEIGHT,
        )
        for one in range(place):
            earlier = {"assistant": "own", "user": "user", "tool": "evidence"}.get(
                dialogue.turns[one].speaker
            )
            if earlier is None or not texts[one].strip():
                continue
            if wrong and earlier == kind:
                if one == wrong.get("evidence", one):
                    yield FaultExample((Memory(earlier, texts[one]),), turn.text, known, _WEIGHT)
            elif earlier == "evidence":
                fine = {"supported": 1.0, "contradicts": 0.0}
                if not wrong and one == place - 1:
                    yield FaultExample((Memory(earlier, texts[one]),), turn.text, fine, _WEIGHT)
            elif not wrong:
                fine = {"contradicts": 0.0, **({"repeats": 0.0} if earlier == "own" else {})}
                yield FaultExample((Memory(earlier, texts[one]),), turn.text, fine)


def _varied(dialogue: Dialogue, chance: Chance, others: deque[str]) -> Iterator[FaultExample]:
    """Put faults into a good dialogue of our own several times over; such dialogues are scarce."""
    said = [turn.text for turn in dialogue.turns if takes_part(turn)]
    for _ in range(_TIMES):
        yield from _good(said, chance, others)
    others.extend(said[1::2])
    for place, turn in enumerate(dialogue.turns[:-1]):
        reply = dialogue.turns[place + 1].text
        shared = values(turn.text) & values(reply)
        if turn.speaker == "tool":
            for _ in range(_TIMES if shared else 0):
                made = change_value(reply, chance, shared)
                if made:
                    memory = (Memory("evidence", turn.text),)
                    yield FaultExample(memory, made, {"supported": 0.0, "contradicts": 1.0}, _WEIGHT)
            yield FaultExample((Memory("evidence", turn.text),), chance.choice(others), {"supported": 0.0})


def _safety(dialogue: Dialogue) -> Iterator[FaultExample]:
    reply = dialogue.turns[-1]
    if dialogue.meta["category"] in _UNKIND:
        unkind = {"unkind": 1.0 - float(reply.meta.get("label", 1.0))}
        yield FaultExample(context([dialogue.turns[0].text, reply.text], 1), reply.text, unkind)


def _rated(dialogue: Dialogue) -> Iterator[FaultExample]:
    said = [turn for turn in dialogue.turns if turn.text.strip()]
    for place, turn in enumerate(said):
        if place and "label" in turn.meta:
            bad = 1.0 - float(turn.meta["label"])
            texts = [one.text for one in said[: place + 1]]
            yield FaultExample(context(texts, place), turn.text, {"ignores": bad, "off-topic": bad}, _WEIGHT)


def _good(said: list[str], chance: Chance, others: Sequence[str]) -> Iterator[FaultExample]:
    places = chance.sample(range(1, len(said)), min(_REPLIES, len(said) - 1))
    for place in places:
        yield FaultExample(context(said, place), said[place], _FINE)
        yield from _in_context(said, place, chance, others)
        earlier = [one for one in range(place) if (place - one) % 2 == 0]
        heard = [one for one in range(place) if (place - one) % 2]
        if earlier:
            yield from _after_own(said[_nearest(said, earlier, place, chance)], said[place], chance)
        yield from _after_user(said[_nearest(said, heard, place, chance)], said[place], chance)
    told, reply, fault = told_and_forgotten(chance)
    yield FaultExample((Memory("user", told),), reply, {"contradicts": fault})


def _nearest(said: Sequence[str], places: Sequence[int], place: int, chance: Chance) -> int:
    """Choose an earlier turn: mostly the one that shares most words with the reply, else any."""
    if chance.random() < 0.35:
        return chance.choice(places)
    words = set(said[place].lower().split())
    return max(
        places, key=lambda one: len(words & set(said[one].lower().split())) / (3 + len(said[one].split()))
    )


def _in_context(said: list[str], place: int, chance: Chance, others: Sequence[str]) -> Iterator[FaultExample]:
    """Put something in the place of a reply that does not answer, makes no sense or is rude."""
    how, before = chance.random(), context(said, place)
    far = [one for one in range(len(said)) if abs(one - place) > 2 and (one - place) % 2 == 0]
    asked = said[place - 1].rstrip().endswith("?")
    if how < 0.28:
        yield FaultExample(before, chance.choice(others), {"ignores": 1.0, "off-topic": 1.0, "nonsense": 0.0})
    elif how < 0.48 and far:
        yield FaultExample(before, said[chance.choice(far)], {"ignores": 0.9})
    elif how < 0.62 and asked:
        yield FaultExample(
            before, chance.choice(PLEASANTRIES), {"ignores": 1.0, "unkind": 0.0, "nonsense": 0.0}
        )
    elif how < 0.78 and (mixed := salad(said[place], chance)):
        yield FaultExample(before, mixed, {"nonsense": 1.0, "unkind": 0.0})
    elif how < 0.92:
        yield FaultExample(before, insult(said[place], chance), {"unkind": 1.0, "nonsense": 0.0})
    else:
        yield FaultExample(before, chance.choice(COLD), {"unkind": 1.0})


def _after_own(earlier: str, reply: str, chance: Chance) -> Iterator[FaultExample]:
    """Let a reply repeat or contradict what its speaker said, or leave it as it is."""
    memory, how = (Memory("own", earlier),), chance.random()
    if how < 0.4 and earlier.lower() != reply.lower():
        yield FaultExample(memory, reply, {"contradicts": 0.0, "repeats": 0.0})
    elif how < 0.65:
        same = paraphrase(earlier, chance)
        yield FaultExample(memory, same, {"contradicts": 0.0, "repeats": 1.0})
    else:
        made = change_value(earlier, chance) if chance.random() < 0.5 else negate(earlier, chance)
        if made:
            made = paraphrase(made, chance) if chance.random() < 0.5 else made
            yield FaultExample(memory, made, {"contradicts": 1.0})


def _after_user(told: str, reply: str, chance: Chance) -> Iterator[FaultExample]:
    """Let a reply take up what the user said with another value, or leave it as it is."""
    memory = (Memory("user", told),)
    shared = values(told) & values(reply)
    made = change_value(reply, chance, shared) if shared and chance.random() < 0.6 else None
    if made:
        yield FaultExample(memory, made, {"contradicts": 1.0})
    else:
        yield FaultExample(memory, reply, {"contradicts": 0.0})
