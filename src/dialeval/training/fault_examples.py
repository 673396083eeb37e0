"""Examples for the reader of faults: from labelled pairs, from marked dialogues, and made of good dialogues.

A reading is what came before a reply, each text with what it is to the reply (`KINDS`), and the reply. Four
kinds of dialogues are told apart by their `meta`: a pair of texts with `targets` (the set `fault-pairs`), a
good dialogue with `faults`, each a reply that could stand in it and has one, a dialogue whose replies people
rated (`label` of a turn), and any other, which is taken for good: into some of its replies faults are put by
program.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import as_file, files
from typing import Annotated, Literal, NamedTuple

import msgspec

from dialeval.dialogues import Dialogue, Turn, formats, takes_part
from dialeval.dialogues.splits import DEV_BUCKET, bucket
from dialeval.errors import DataError
from dialeval.models.evidence_windows import content_words, nearest_windows
from dialeval.models.fault_features import sentences_of
from dialeval.models.fault_reader import Memory
from dialeval.training.examples import FaultExample, Targets
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
from dialeval.training.slot_examples import SlotExamples

_KEPT = {
    "fault-pairs-comve": 0.3,
    "fault-pairs-decode": 0.6,
    "fault-pairs-gu_dnli": 0.5,
    "fault-pairs-snli": 0.4,
    "blended-skill-talk": 0.8,
    "dailydialog": 0.03,
    "diasafety": 0.4,
    "empathetic": 0.05,
    "multiwoz": 0.06,
    "sgd": 0.12,
    "topicalchat": 0.6,
}
"""How much of a large source is taken, by how its ids begin, so that none drowns the others."""
_SLOTS_KEPT = 0.5  # of the annotated dialogues that examples of wrong values are made of
_REPLIES = 3  # of a dialogue that examples are made of
_FINE: Targets = {"ignores": 0.0, "off-topic": 0.0, "nonsense": 0.0, "unkind": 0.0}
_UNKIND = ("Offending User", "Toxicity Agreement", "Biased Opinion")
_MARKED = {
    "contradicts-itself": ("own", {"contradicts": 1.0}),
    "contradicts-user": ("user", {"contradicts": 1.0}),
    "repeats": ("own", {"repeats": 1.0, "contradicts": 0.0}),
    "unsupported": ("evidence", {}),
    "ignores": ("", {"ignores": 1.0}),
    "off-topic": ("", {"ignores": 1.0, "off-topic": 1.0}),
    "nonsense": ("", {"nonsense": 1.0}),
    "unkind": ("", {"unkind": 1.0}),
}
FaultName = Literal[
    "contradicts-itself",
    "contradicts-user",
    "ignores",
    "off-topic",
    "repeats",
    "unsupported",
    "nonsense",
    "unkind",
]
_SOUND: Mapping[str, Targets] = {
    "own": {"contradicts": 0.0, "repeats": 0.0},
    "user": {"contradicts": 0.0},
    "evidence": {"supported": 1.0, "contradicts": 0.0},
}
"""What holds for a good reply that is read with an earlier turn of that kind."""
_TIMES = 2  # that examples are made of a written scenario, each time with other earlier turns
_WEIGHT = 3.0  # of what was written by hand, which is scarce
_RATED_WEIGHT = 16.0  # of bots' replies that people rated, which are scarcer


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
    slots = SlotExamples()
    for dialogue in dialogues:
        chance = random.Random(dialogue.id)  # noqa: S311
        if dialogue.id.startswith("sgd") and chance.random() < _SLOTS_KEPT:
            yield from slots.examples(dialogue, chance)
        if chance.random() > next(
            (share for name, share in _KEPT.items() if dialogue.id.startswith(name)), 1.0
        ):
            continue
        if "pair" in dialogue.meta:
            yield from _pair(dialogue, chance)
        elif "faults" in dialogue.meta:
            for _ in range(_TIMES):
                yield from _marked(dialogue, chance)
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


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reply with one marked fault that could stand at `turn` of a good dialogue.

    `evidence` is the turn that proves it, `next` what the user might say to it.
    """

    turn: Annotated[int, msgspec.Meta(ge=1)]
    name: FaultName
    reply: Annotated[str, msgspec.Meta(min_length=1)]
    evidence: Annotated[int, msgspec.Meta(ge=0)] | None = None
    next: str | None = None


def held_out_scenarios() -> list[Dialogue]:
    """Return the scenarios that come with dialeval and that the shipped reader was not trained on."""
    with as_file(files("dialeval.training") / "faults.jsonl") as path:
        return [one for one in formats.read(path) if bucket(one.id) == DEV_BUCKET]


class Marked(NamedTuple):
    """A dialogue whose replies are all good (`fault` is None), or one that ends with a marked fault."""

    dialogue: Dialogue
    fault: Fault | None


def marked(scenario: Dialogue) -> Iterator[Marked]:
    """Return a good dialogue, and for each of its `faults` the dialogue up to the reply that has it.

    >>> from dialeval.dialogues import dialogue
    >>> fault = {"turn": 1, "name": "contradicts-user", "evidence": 0, "reply": "Who are you?"}
    >>> chat = dialogue([("user", "I'm Lee."), ("assistant", "Hi Lee!")], "d", meta={"faults": [fault]})
    >>> [[turn.text for turn in one.dialogue.turns] for one in marked(chat)]
    [["I'm Lee.", 'Hi Lee!'], ["I'm Lee.", 'Who are you?']]
    """
    yield Marked(scenario, None)
    for number, given in enumerate(scenario.meta["faults"]):
        try:
            fault = msgspec.convert(given, Fault)
        except msgspec.ValidationError as error:
            raise DataError(
                f"dialogue {scenario.id}, fault {number}: {error}", fix="see docs/metrics/faults.md"
            ) from None
        if fault.turn >= len(scenario.turns) or (fault.evidence or 0) >= fault.turn:
            raise DataError(f"dialogue {scenario.id}, fault {number}: no such turn, or evidence after it")
        said = scenario.turns[fault.turn]
        turns = (*scenario.turns[: fault.turn], msgspec.structs.replace(said, text=fault.reply))
        turns += (Turn("user", fault.next),) if fault.next else ()
        yield Marked(
            msgspec.structs.replace(scenario, id=f"{scenario.id}-{number}", turns=turns, meta={}), fault
        )


def _marked(scenario: Dialogue, chance: Chance) -> Iterator[FaultExample]:
    for dialogue, fault in marked(scenario):
        last = len(dialogue.turns)
        replies = [
            place
            for place, turn in enumerate(dialogue.turns)
            if place and turn.speaker == "assistant" and turn.text.strip()
        ]
        for place in replies if fault is None else [fault.turn]:
            good = scenario.turns[place].text
            yield from _of_reply(dialogue, min(place, last), fault, good, chance)


def _of_reply(
    dialogue: Dialogue, place: int, fault: Fault | None, good: str, chance: Chance
) -> Iterator[FaultExample]:
    """Read a reply with what it answers, and with earlier turns: of a fault with the one that proves it."""
    texts, reply = [turn.text for turn in dialogue.turns], dialogue.turns[place].text
    said = [texts[one] for one in range(place) if takes_part(dialogue.turns[one]) and texts[one].strip()]
    kind, known = _MARKED[fault.name] if fault else ("", _FINE)
    proved = texts[fault.evidence] if fault and fault.evidence is not None else ""
    focus = _wrong(reply, good, proved) if fault else chance.choice(sentences_of(reply) or [""])

    def example(memory: Sequence[Memory], targets: Targets, about: str = focus) -> FaultExample:
        return FaultExample(tuple(memory), reply, targets, _WEIGHT, about)

    if said:
        whole = not fault or fault.name in ("ignores", "off-topic")
        in_context = {"unkind": 0.0} if kind else known
        yield example(context([*said, reply], len(said)), in_context, "" if whole else focus)
    if passages := _passages(dialogue, place, fault):
        memory = [Memory("evidence", one) for one in nearest_windows(passages, focus or reply)]
        yield example(memory, {"supported": 0.0} if fault else _SOUND["evidence"])
    for who, what in (("assistant", "own"), ("user", "user")):
        turns = [one for one in range(place) if dialogue.turns[one].speaker == who and texts[one].strip()]
        if fault and kind == what and fault.evidence in turns:
            proof = fault.evidence
            yield example([Memory(what, texts[proof])], known)
            others = [one for one in turns if one != proof]
            if others:
                both = sorted([proof, chance.choice(others)])
                yield example([Memory(what, texts[one]) for one in both], known)
        elif not fault and turns:
            some = chance.sample(turns, min(2, len(turns)))
            yield example([Memory(what, texts[some[0]])], _SOUND[what])
            yield example([Memory(what, texts[one]) for one in sorted(some)], _SOUND[what])


def _wrong(reply: str, good: str, proof: str) -> str:
    """Return the sentence of a faulty reply that is at fault.

    One that the good reply has not; of several the one that shares most words with what proves the fault.
    """
    right = set(sentences_of(good))
    new = [one for one in sentences_of(reply) if one not in right] or [reply]
    wanted = set(content_words(proof))
    return max(new, key=lambda one: len(wanted & set(content_words(one))))


def _passages(dialogue: Dialogue, place: int, fault: Fault | None) -> list[str]:
    """Return the tool results before a reply that was made of them, or is marked as not supported."""
    found = [turn.text for turn in dialogue.turns[:place] if turn.speaker == "tool" and turn.text.strip()]
    if fault:
        return found if fault.name == "unsupported" else []
    shared = found and set(content_words(dialogue.turns[place].text)) & set(content_words(found[-1]))
    return found if shared or (found and dialogue.turns[place - 1].speaker == "tool") else []


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
            yield FaultExample(
                context(texts, place), turn.text, {"ignores": bad, "off-topic": bad}, _RATED_WEIGHT
            )


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
