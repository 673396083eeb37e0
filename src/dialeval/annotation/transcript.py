"""What a rater sees of an item: who said what, and which part is meant. Nothing else of the data gets out.

Blind: no ids, no system's name, no meta that the scheme does not show; speakers are User, Assistant or a
letter, because a log may call them by the system's name. System prompts and tools' answers are left out.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from dialeval.annotation.assignment import is_swapped
from dialeval.annotation.items import Item, Place
from dialeval.annotation.scheme import Scheme
from dialeval.annotation.study import Study
from dialeval.dialogues import Dialogue
from dialeval.dialogues.dialogue import takes_part
from dialeval.dialogues.segments import segments_of

_KNOWN = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True)
class Line:
    """One turn: the speaker, the side it stands on, its text in three parts of which the middle is meant."""

    who: str
    side: int
    before: str
    meant: str = ""
    after: str = ""
    is_meant: bool = False
    is_after: bool = False


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation, or one of the two of a pair."""

    lines: list[Line]
    title: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """Everything a page shows of an item."""

    talks: list[Talk]
    facts: list[tuple[str, list[str]]] = field(default_factory=list)
    meta: frozenset[str] = frozenset()


def view(study: Study, item: Item, number: int, rater: str) -> View:
    """Return what this rater sees of an item; the two of a pair in an order of the rater's own."""
    scheme = study.scheme
    dialogue = study.dialogue(item.place[0])
    facts = [(name, _texts(dialogue.meta[name])) for name in scheme.show if dialogue.meta.get(name)]
    meta = frozenset(name for name, value in dialogue.meta.items() if value)
    if item.other is None:
        return View([Talk(lines_of(dialogue, item.place, scheme))], facts, meta)
    sides = [item.place, item.other]
    if is_swapped(rater, number, study.seed):
        sides.reverse()
    chats = [study.dialogue(place[0]) for place in sides]
    if scheme.of == "dialogue":
        talks = [lines_of(chat, place, scheme) for chat, place in zip(chats, sides, strict=True)]
        return View([Talk(talks[0], "First"), Talk(talks[1], "Second")], facts, meta)
    context = lines_of(chats[0], sides[0], scheme, with_reply=False)
    two = [lines_of(chat, place, scheme)[-1:] for chat, place in zip(chats, sides, strict=True)]
    return View([Talk(context), Talk(two[0], "First"), Talk(two[1], "Second")], facts, meta)


def flat(study: Study, item: Item) -> list[Line]:
    """Return an item as one conversation, for tools that show one: the two of a pair after each other."""
    lines = lines_of(study.dialogue(item.place[0]), item.place, study.scheme)
    if item.other is None:
        return lines
    others = lines_of(study.dialogue(item.other[0]), item.other, study.scheme)
    if study.scheme.of == "turn":
        others = others[-1:]
    first = len(lines) - 1 if study.scheme.of == "turn" else 0
    titled = [replace(one, who=f"First, {one.who}") for one in lines[first:]]
    return [*lines[:first], *titled, *(replace(one, who=f"Second, {one.who}") for one in others)]


def lines_of(dialogue: Dialogue, place: Place, scheme: Scheme, *, with_reply: bool = True) -> list[Line]:
    """Return the turns that are shown: all, or the context with the reply and what may follow it."""
    _, turn, segment = place
    parts = [number for number, one in enumerate(dialogue.turns) if takes_part(one)]
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
) -> Line:
    said = dialogue.turns[number]
    who, side = names[said.speaker]
    if number != turn:
        return Line(who, side, said.text, is_after=turn is not None and number > turn)
    if segment is None:
        return Line(who, side, "", said.text, is_meant=True)
    pieces = [one.text for one in segments_of(dialogue, scheme.splitter) if one.turn == number]
    start = 0
    for piece in pieces[:segment]:
        start = max(start, said.text.find(piece, start) + len(piece))
    at = said.text.find(pieces[segment], start)
    if at < 0:  # segments that somebody cut by hand may not be in the text to the letter
        return Line(who, side, "", pieces[segment], is_meant=True)
    end = at + len(pieces[segment])
    return Line(who, side, said.text[:at], said.text[at:end], said.text[end:], is_meant=True)


def _speakers(dialogue: Dialogue) -> dict[str, tuple[str, int]]:
    names: dict[str, tuple[str, int]] = {}
    others = 0
    for one in dialogue.turns:
        if one.speaker in names or not takes_part(one):
            continue
        if one.speaker in _KNOWN:
            names[one.speaker] = (_KNOWN[one.speaker], int(one.speaker == "assistant"))
        else:
            names[one.speaker] = (f"Speaker {chr(ord('A') + others % 26)}", others % 2)
            others += 1
    return names


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]
