"""Items: a reply, a context, a segment, a dialogue, or a pair of them, and how they are shown to raters.

An item refers to a place in the project's dialogues. Its twins are places that look exactly the same to a
rater (the same reply to the same context by several systems): they are judged once, for all.

Rating is blind: raters see no ids, no system's name, and no meta that the scheme does not show; speakers are
User, Assistant or a letter, because a log may contain the system's name. System prompts and tools' answers
are left out.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dialeval.annotation.scheme import Scheme, Value
from dialeval.dialogues import Dialogue, evidence_before, instructions_of, scored_turns
from dialeval.dialogues.dialogue import context_of, takes_part
from dialeval.dialogues.segments import segments_of
from dialeval.errors import DataError

if TYPE_CHECKING:
    from dialeval.annotation.project import AnnotationProject

_KNOWN = {"user": "User", "assistant": "Assistant"}
Place = tuple[int, int | None, int | None]  # number of the dialogue, turn, segment


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to judge: its place, that of its opponent in a pair, its twins, and gold answers."""

    place: Place
    other: Place | None = None
    twins: tuple[Place, ...] = ()
    gold: dict[str, tuple[Value, ...]] | None = None

    @property
    def places(self) -> tuple[Place, ...]:
        """The place and its twins."""
        return (self.place, *self.twins)

    @property
    def sides(self) -> list[Place]:
        """The place, and that of its opponent in a pair."""
        return [self.place] if self.other is None else [self.place, self.other]


def make_items(scheme: Scheme, dialogues: Sequence[Dialogue], seed: int = 0) -> list[Item]:
    """Return the items of dialogues, sampled if the scheme limits their number; gold items always included.

    >>> from dialeval.annotation.scheme import read_scheme
    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "Hi!"), ("assistant", "Hello!"), ("user", "Bye!"), ("assistant", "Bye!")]
    >>> [item.place for item in make_items(read_scheme("turn-quality"), [dialogue(turns)])]
    [(0, 1, None), (0, 3, None)]
    """
    units: dict[str, Callable[[Scheme, Sequence[Dialogue]], list[Item]]] = {
        "context": _replies,
        "turn": _replies,
        "segment": _segments,
        "dialogue": lambda _, chats: [Item((number, None, None)) for number in range(len(chats))],
        "pair": _pairs,
    }
    items = _with_gold(units[scheme.unit](scheme, dialogues), scheme, dialogues)
    if not items:
        raise DataError(f"nothing to judge: no {scheme.unit} in these dialogues", fix="see docs/annotate.md")
    if scheme.items is None or len(items) <= scheme.items:
        return items
    plain = [number for number, item in enumerate(items) if item.gold is None]
    rest = max(0, scheme.items - (len(items) - len(plain)))
    sampled = set(random.Random(seed).sample(plain, min(rest, len(plain))))  # noqa: S311
    return [item for number, item in enumerate(items) if item.gold is not None or number in sampled]


def _replies(scheme: Scheme, dialogues: Sequence[Dialogue]) -> list[Item]:
    items: dict[Any, Item] = {}
    for number, dialogue in enumerate(dialogues):
        for turn in scored_turns(dialogue, scheme.speaker):
            place = (number, turn, None)
            key: Any = place
            if scheme.merge:
                key = _said(dialogue, turn, with_reply=scheme.unit == "turn", following=scheme.following)
            earlier = items.get(key)
            items[key] = Item(place) if earlier is None else replace(earlier, twins=(*earlier.twins, place))
    return list(items.values())


def _said(dialogue: Dialogue, turn: int, *, with_reply: bool, following: int = 0) -> tuple[Any, ...]:
    """Return all texts that a rater sees at a place, as a key for equal pages."""
    end = turn + 1 + following if with_reply else turn
    shown = [*context_of(dialogue, turn), *dialogue.turns[turn:end]]
    return tuple((shown_turn.speaker, shown_turn.text) for shown_turn in shown)


def _segments(scheme: Scheme, dialogues: Sequence[Dialogue]) -> list[Item]:
    items = []
    for number, dialogue in enumerate(dialogues):
        for turn, group in itertools.groupby(
            segments_of(dialogue, scheme.splitter), lambda segment: segment.turn
        ):
            items += [Item((number, turn, place)) for place, _ in enumerate(group)]
    return items


def _pairs(scheme: Scheme, dialogues: Sequence[Dialogue]) -> list[Item]:
    groups: dict[str, list[int]] = {}
    for number, dialogue in enumerate(dialogues):
        groups.setdefault(str(dialogue.meta.get("pair") or dialogue.id), []).append(number)
    items = []
    for group in groups.values():
        for first, second in itertools.combinations(group, 2):
            if scheme.of == "dialogue":
                items.append(Item((first, None, None), (second, None, None)))
            else:
                turns = _same_contexts(dialogues[first], dialogues[second], scheme.speaker)
                items += [Item((first, turn, None), (second, turn, None)) for turn in turns]
    if not items:
        raise DataError(
            "no two dialogues to compare",
            fix="give two files whose dialogues have the same ids, or a meta field `pair` that two share",
        )
    return items


def _same_contexts(first: Dialogue, second: Dialogue, speaker: str | None) -> list[int]:
    """Return the turns at which both dialogues answer the same context differently."""
    shared = sorted({*scored_turns(first, speaker)} & {*scored_turns(second, speaker)})
    return [
        turn
        for turn in shared
        if _said(first, turn, with_reply=False) == _said(second, turn, with_reply=False)
        and first.turns[turn].text != second.turns[turn].text
    ]


def _with_gold(items: list[Item], scheme: Scheme, dialogues: Sequence[Dialogue]) -> list[Item]:
    numbers = {dialogue.id: number for number, dialogue in enumerate(dialogues)}
    at = {place: number for number, item in enumerate(items) for place in item.places}
    with_gold = list(items)
    for count, gold in enumerate(scheme.gold):
        number = at.get((numbers.get(gold.dialogue, -1), gold.turn, gold.segment))
        if number is None:
            raise DataError(
                f"no such item: dialogue {gold.dialogue!r}, turn {gold.turn}, segment {gold.segment}",
                field=f"gold[{count}]",
                fix="gold items must be among the dialogues of the project",
            )
        with_gold[number] = replace(with_gold[number], gold=gold.answers)
    return with_gold


@dataclass(frozen=True, slots=True)
class DisplayedTurn:
    """One turn on a page: speaker, side, and the text before, in and after the part to judge."""

    name: str
    side: int
    before: str
    meant: str = ""
    after: str = ""
    is_meant: bool = False
    is_after: bool = False


@dataclass(frozen=True, slots=True)
class DisplayedDialogue:
    """A dialogue on a page, or one of the two of a pair."""

    turns: list[DisplayedTurn]
    title: str = ""


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item as a page shows it."""

    dialogues: list[DisplayedDialogue]
    facts: list[tuple[str, list[str]]] = field(default_factory=list)
    meta: frozenset[str] = frozenset()


def item_view(project: "AnnotationProject", item: Item, number: int, rater: str) -> ItemView:
    """Return an item as a rater sees it; the order of a pair depends on the rater."""
    scheme = project.scheme
    dialogue = project.dialogue(item.place[0])
    facts = [(name, texts) for name in scheme.show if (texts := _fact(dialogue, name, item.place[1]))]
    sides = item.sides
    if item.other and is_swapped(rater, number, project.seed):
        sides.reverse()
    dialogues = side_by_side(project, sides)
    if item.other and scheme.of == "turn":
        context = shown_turns(project.dialogue(sides[0][0]), sides[0], scheme, with_reply=False)
        replies = [DisplayedDialogue(dialogue_.turns[-1:], dialogue_.title) for dialogue_ in dialogues]
        dialogues = [DisplayedDialogue(context), *replies]
    return ItemView(dialogues, facts, filled_meta(dialogue))


def side_by_side(project: "AnnotationProject", sides: Sequence[Place]) -> list[DisplayedDialogue]:
    """Return the dialogue of an item as it is shown, or the two of a pair with their titles."""
    titles = ("First", "Second") if len(sides) == 2 else ("",)
    return [
        DisplayedDialogue(shown_turns(project.dialogue(place[0]), place, project.scheme), title)
        for place, title in zip(sides, titles, strict=True)
    ]


def filled_meta(dialogue: Dialogue) -> frozenset[str]:
    """Return the names of a dialogue's non-empty meta fields, instructions and evidence, for conditions."""
    filled = frozenset(name for name, value in dialogue.meta.items() if value)
    brought = ("instructions", "evidence")
    return filled | {name for name in brought if _fact(dialogue, name, len(dialogue.turns) - 1)}


def _fact(dialogue: Dialogue, name: str, turn: int | None) -> list[str]:
    """Return the texts to show beside an item: the prompt, evidence of a reply, or a meta field."""
    if name == "instructions" and name not in dialogue.meta:
        return _texts(instructions_of(dialogue) or [])
    if name == "evidence" and name not in dialogue.meta:
        last = len(dialogue.turns) - 1 if turn is None else turn
        return [passage.text for passage in evidence_before(dialogue, last)]
    return _texts(dialogue.meta[name]) if dialogue.meta.get(name) else []


def as_conversation(project: "AnnotationProject", item: Item) -> list[DisplayedTurn]:
    """Return an item as one conversation, for other tools: the two of a pair one after the other."""
    turns = shown_turns(project.dialogue(item.place[0]), item.place, project.scheme)
    if item.other is None:
        return turns
    second = shown_turns(project.dialogue(item.other[0]), item.other, project.scheme)
    if project.scheme.of == "turn":
        second = second[-1:]
    first = len(turns) - 1 if project.scheme.of == "turn" else 0
    titled = [replace(turn, name=f"First, {turn.name}") for turn in turns[first:]]
    return [*turns[:first], *titled, *(replace(turn, name=f"Second, {turn.name}") for turn in second)]


def shown_turns(
    dialogue: Dialogue, place: Place, scheme: Scheme, *, with_reply: bool = True
) -> list[DisplayedTurn]:
    """Return the turns to show: all, or the context with the reply and the turns that follow."""
    _, turn, segment = place
    parts = [number for number, message in enumerate(dialogue.turns) if takes_part(message)]
    if turn is not None:
        before = [number for number in parts if number < turn]
        if scheme.history is not None:
            before = before[len(before) - min(scheme.history, len(before)) :]
        reply = [turn] if with_reply and scheme.unit != "context" else []
        after = [number for number in parts if number > turn][: scheme.following] if reply else []
        parts = [*before, *reply, *after]
    names = _speakers(dialogue)
    return [_line(dialogue, number, names, turn, segment, scheme) for number in parts]


def _line(
    dialogue: Dialogue,
    number: int,
    names: dict[str, tuple[str, int]],
    turn: int | None,
    segment: int | None,
    scheme: Scheme,
) -> DisplayedTurn:
    message = dialogue.turns[number]
    name, side = names[message.speaker]
    if number != turn:
        return DisplayedTurn(name, side, message.text, is_after=turn is not None and number > turn)
    if segment is None:
        return DisplayedTurn(name, side, "", message.text, is_meant=True)
    pieces = [piece.text for piece in segments_of(dialogue, scheme.splitter) if piece.turn == number]
    start = 0
    for piece in pieces[:segment]:
        start = max(start, message.text.find(piece, start) + len(piece))
    at = message.text.find(pieces[segment], start)
    if at < 0:  # segments that somebody cut by hand may not be in the text to the letter
        return DisplayedTurn(name, side, "", pieces[segment], is_meant=True)
    end = at + len(pieces[segment])
    return DisplayedTurn(
        name, side, message.text[:at], message.text[at:end], message.text[end:], is_meant=True
    )


def _speakers(dialogue: Dialogue) -> dict[str, tuple[str, int]]:
    names: dict[str, tuple[str, int]] = {}
    unnamed = 0
    for turn in dialogue.turns:
        if turn.speaker in names or not takes_part(turn):
            continue
        if turn.speaker in _KNOWN:
            names[turn.speaker] = (_KNOWN[turn.speaker], int(turn.speaker == "assistant"))
        else:
            names[turn.speaker] = (f"Speaker {chr(ord('A') + unnamed % 26)}", unnamed % 2)
            unnamed += 1
    return names


def _texts(value: Any) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list | tuple) else [str(value)]


def is_swapped(rater: str, item: int, seed: int = 0) -> bool:
    """Return whether a rater sees a pair in reverse order, as half of them do, to balance order effects."""
    return random.Random(f"swap {seed} {item} {rater}").random() < 0.5  # noqa: S311
