"""Coherence of a reply with its context from turn vectors: ten figures from one encoding per turn.

Each reply is scored in two directions. `ur`: does it fit the user's turn and N exchanges before that? `ru`:
does the user's *next* turn fit the reply, what it answered, and N exchanges before that? Each is a `Window`:
the scored turn and those before it, newest first. One head covers both directions and all N, which are part
of its input.

Sentence vectors carry little about exact words, numbers, length and question type. A misplaced reply often
names what was not mentioned yet, or was settled long ago. So each turn also has a *sketch*: a few binary and
count features, and its words hashed into a unit vector, whose dot product with another turn's measures the
overlap of words.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.signals import next_turns
from dialeval.models.artefact import Artefact
from dialeval.models.cache import Cache, key
from dialeval.models.heads import EncoderHead, Head, SharedRows
from dialeval.models.needs import Need
from dialeval.models.network import Floats
from dialeval.models.turn_vectors import TurnVectors, turn_vectors, vector_needs

Direction: TypeAlias = Literal["ur", "ru"]
DIRECTIONS: tuple[Direction, ...] = ("ur", "ru")
MOST = 4  # exchanges of history
HISTORIES = range(MOST + 1)
PLACES = 1 + 2 + 2 * MOST  # turns of a window: the one that follows, and the most that may come before it
KIND = "coherence.v2"
Places: TypeAlias = npt.NDArray[np.int64]
HEAD = Head("coherent", "binary")
FIGURES = tuple(f"{direction}{history}" for direction in DIRECTIONS for history in HISTORIES)
_BEFORE = {"ur": 1, "ru": 2}  # turns that are not history: the answered turn; that and the reply
_FIGURES = (len(DIRECTIONS), len(HISTORIES))
_CACHE = 16 << 20  # bytes of cached figures, shared by the metrics of a run
_REPLIES = 64  # described at a time
WORDS = 256  # buckets that words are hashed into
_TOKENS = re.compile(r"\[value\]|\d+(?:[:.]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)?")
_COMMON = frozenset(
    re.findall(
        r"\S+",
        """
a about all also am an and any anything are as at be been book booked booking but by can could did
do does else find for from get give go good great had has have help hello hi how i i'd i'll i'm if
in is it it's its just know let like looking me my need no not of ok okay on one or our out please
sure thank thanks that that's the their them then there they this to today up us want was we welcome
well what when where which will with would yes you your you're
""",
    )
)
_CUES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\?",
        r"\?\s*$",
        r"^\W*(yes|yeah|yep|sure|ok(ay)?|certainly|of course|absolutely)\b",
        r"^\W*(no|nope|not)\b",
        r"\b(thanks?|thank you|cheers)\b",
        r"\b(bye|goodbye|good day|great day|nice day|enjoy|welcome)\b",
        r"\b(sorry|unfortunately|unable|cannot|can't|no \w+ (available|match))",
        r"\b(anything else|assist you further|what else)\b",
        r"\b(booked|reserved|reference|confirmation|successful(ly)?|confirmed)\b",
        r"\b(would you like|do you (want|need|have)|shall i|should i|can you (tell|please))\b",
        r"\b(confirm|correct|right\?)",
        r"\b(there (are|is)|i (have|found)|how about)\b",
        r"\b(i need|i want|i'd like|i would like|looking for|can you|could you|please)\b",
        r"^\W*(what|when|where|which|who|how|why)\b",
    )
)
FACTS = len(_CUES) + 3
SKETCH = FACTS + WORDS


@dataclass(frozen=True)
class Window:
    """A turn, `turns[0]`, and those before it, newest first, as turn numbers."""

    direction: Direction
    turns: tuple[int, ...]

    @property
    def histories(self) -> int:
        """The number of exchanges of history."""
        return min(MOST, (len(self.turns) - 1 - _BEFORE[self.direction]) // 2)

    def cut(self, history: int) -> tuple[int, ...]:
        """Return the turns of the window with this many exchanges of history."""
        return self.turns[: 1 + _BEFORE[self.direction] + 2 * history]


def windows(
    dialogue: Dialogue, spoken: Sequence[bool], turns: Sequence[int]
) -> list[dict[Direction, Window]]:
    """Return the windows of each reply: `ur` if a turn precedes it, `ru` if a turn answers it.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi"), ("assistant", "Hello"), ("user", "A taxi?"), ("assistant", "Sure.")])
    >>> first, last = windows(chat, [True] * 4, [1, 3])
    >>> first["ru"].turns, last
    ((2, 1, 0), {'ur': Window(direction='ur', turns=(3, 2, 1, 0))})
    """
    following = next_turns(dialogue)
    numbers = [number for number, is_spoken in enumerate(spoken) if is_spoken]
    order = {number: place for place, number in enumerate(numbers)}
    by_turn = []
    for turn in turns:
        by_direction: dict[Direction, Window] = {}
        if place := order.get(turn):
            before = numbers[max(0, place - PLACES + 1) : place][::-1]
            by_direction["ur"] = Window("ur", (turn, *before))
            after = following[turn].turn
            if after is not None:
                by_direction["ru"] = Window("ru", (after, turn, *before)[:PLACES])
        by_turn.append(by_direction)
    return by_turn


@dataclass(frozen=True)
class Coherence:
    """The coherence probabilities of one reply, by direction and exchanges of history."""

    turn: int
    values: dict[Direction, dict[int, float]]
    """By direction, then by exchanges of history, of the requested ones that the dialogue has."""
    there: dict[Direction, int]
    """The available exchanges of history, by available direction."""
    cut: bool
    """True if a turn of its windows was too long for the encoder."""


class CoherenceScorer(EncoderHead):
    """A head over windows of turn vectors, and the encoder it was trained on."""

    kinds: ClassVar[tuple[str, ...]] = (KIND,)
    head: ClassVar[Head] = HEAD
    figures = FIGURES

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        self._cache = Cache(_CACHE)

    def needs(self) -> list[Need]:
        """Return what it reads of an encoder."""
        return vector_needs(self.encoder)

    def score(
        self,
        dialogues: Sequence[Dialogue],
        speaker: str | None = None,
        asked: Sequence[tuple[Direction, int]] | None = None,
    ) -> list[list[Coherence]]:
        """Score the turns of each dialogue in the directions and histories of `asked`, None for all."""
        selected = set(asked or ((direction, history) for direction in DIRECTIONS for history in HISTORIES))
        dialogue_vectors = turn_vectors(self.encoder, dialogues)
        return [
            self._dialogue(encoded, scored_turns(encoded.dialogue, speaker), selected)
            for encoded in dialogue_vectors
        ]

    def _dialogue(
        self, encoded: TurnVectors, turns: list[int], selected: set[tuple[Direction, int]]
    ) -> list[Coherence]:
        turn_windows = windows(encoded.dialogue, encoded.spoken, turns)
        texts = [turn.text for turn in encoded.dialogue.turns]
        keys = [_window_key(self.sha, by_direction, texts) for by_direction in turn_windows]
        cached = self._cache.fetch(keys)
        open_ones = [asked for asked, table in zip(turn_windows, cached, strict=True) if table is None]
        fresh = iter(self._tables(described(encoded.vectors, texts), open_ones) if open_ones else ())
        tables = [next(fresh) if table is None else table for table in cached]
        self._cache.store(keys, tables)
        return [
            Coherence(
                turn,
                {
                    window.direction: _selected_values(table, window, selected)
                    for window in by_direction.values()
                },
                {window.direction: window.histories for window in by_direction.values()},
                any(encoded.cut[number] for window in by_direction.values() for number in window.turns),
            )
            for turn, by_direction, table in zip(turns, turn_windows, tables, strict=True)
        ]

    def _tables(self, vectors: Floats, asked: Sequence[dict[Direction, Window]]) -> list[Floats]:
        """Return all figures of replies, (directions, histories) each; of no use where no window is."""
        tables = list[Floats]()
        for start in range(0, len(asked), _REPLIES):
            slots = _slots(asked[start : start + _REPLIES])
            answers = self._head.answers(shared_window_features(vectors, slots))[HEAD.name]
            tables += list(answers.reshape(len(slots), *_FIGURES).astype(np.float32))
        return tables


def _slots(asked: Sequence[dict[Direction, Window]]) -> Places:
    """Return the turn after each reply, the reply and those before it, newest first; -1 for none."""
    slots = np.full((len(asked), PLACES), -1, np.int64)
    for row, by_direction in zip(slots, asked, strict=True):
        if "ur" in by_direction:
            turns = by_direction["ur"].turns[: PLACES - 1]
            row[1 : 1 + len(turns)] = turns
        if "ru" in by_direction:
            row[0] = by_direction["ru"].turns[0]
    return slots


def _window_key(sha: str, by_direction: dict[Direction, Window], texts: Sequence[str]) -> bytes:
    """Return the cache key of a reply from the texts of its windows."""
    read = [
        f"{window.direction}\x1d" + "\x1e".join(texts[turn] for turn in window.turns)
        for window in by_direction.values()
    ]
    return key(f"{sha}|windows", "\x1f".join(read))


def _selected_values(table: Floats, window: Window, selected: set[tuple[Direction, int]]) -> dict[int, float]:
    row = table[DIRECTIONS.index(window.direction)]
    there = range(window.histories + 1)
    return {history: float(row[history]) for history in there if (window.direction, history) in selected}


def sketches(texts: Sequence[str]) -> Floats:
    """Return the sketch of each text, a row each: facts, then hashed words as a unit vector.

    >>> a, b, c = sketches(["A room for 3 nights?", "3 nights, of course.", "Goodbye."])[:, FACTS:]
    >>> round(float(a @ b), 2), float(a @ c)
    (0.9, 0.0)
    """
    rows = np.zeros((len(texts), SKETCH), np.float32)
    for row, text in zip(rows, texts, strict=True):
        words = _TOKENS.findall(text.lower())
        numbers = sum(word[0].isdigit() or word[0] == "[" for word in words)
        row[: len(_CUES)] = [cue.search(text) is not None for cue in _CUES]
        row[len(_CUES) : FACTS] = np.log1p([len(words), numbers, len(set(words) - _COMMON)])
        for word in words:
            if word not in _COMMON and word[0] != "[":
                row[FACTS + zlib.crc32(word.encode("utf-8", "replace")) % WORDS] += (
                    2.0 if word[0].isdigit() else 1.0
                )
        row[FACTS:] /= max(float(np.linalg.norm(row[FACTS:])), 1e-12)
    return rows


def window_features(vectors: Floats, places: Places, direction: Places, history: Places) -> Floats:
    """Return the features of windows, a row each.

    The reply has the same columns in both directions; those of the turn after it are zero for `ur`. So both
    directions share what is learned about a reply.

    Args:
        vectors: Of turns with their sketches, see `described`.
        places: Rows of `vectors`, (windows, PLACES): the turn, then those before it, padded with -1.
        direction: The index in `DIRECTIONS` of each window.
        history: The exchanges of history of each window.
    """
    ahead = np.concatenate([np.full_like(places[:, :1], -1), places[:, :-1]], axis=1)
    slots = np.where(direction[:, None] == DIRECTIONS.index("ru"), places, ahead)
    there = (slots >= 0).astype(np.float32)
    gathered = vectors[np.maximum(slots, 0)]
    gathered *= there[:, :, None]
    seen, facts, words = np.split(gathered, [-SKETCH, -WORDS], axis=2)
    after, reply, last, second = (seen[:, slot] for slot in range(4))
    earlier = seen[:, 3:].sum(axis=1) / np.maximum(there[:, 3:].sum(axis=1, keepdims=True), 1.0)
    blocks = [
        *(after, reply, last, second, earlier),
        *(reply * last, reply * second, reply * earlier, after * reply, after * last),
        *(*_alike(seen), *_alike(words), *(facts[:, slot] for slot in range(4))),
        *(there[:, 3:], _one_hot_questions(direction, history)),
    ]
    return np.concatenate(blocks, axis=1, dtype=np.float32)


def shared_window_features(vectors: Floats, slots: Places) -> list[SharedRows]:
    """Return the features of all questions about replies, as `window_features` has them for one.

    Rows are replies by direction by history. What a question sees of a reply and its context is the same for
    most of them, so a block of columns is computed once for all that share it.

    Args:
        vectors: Of turns with their sketches, see `described`.
        slots: Rows of `vectors`, (replies, PLACES), see `_slots`.
    """
    seen_slots = vectors[np.maximum(slots, 0)] * (slots >= 0)[:, :, None]
    seen, facts, words = np.split(seen_slots, [-SKETCH, -WORDS], axis=2)
    after, reply, last, second = (seen[:, slot] for slot in range(4))
    pairs = np.cumsum(seen[:, 3:], axis=1)[:, 1::2]
    earlier = (pairs / np.arange(2, 2 * MOST + 1, 2, dtype=np.float32)[:, None]).reshape(-1, seen.shape[2])
    number, direction, history = np.indices((len(slots), *_FIGURES)).reshape(3, -1)
    ahead, before = np.where(direction == 1, number, -1), np.where(history > 0, number, -1)
    mean = np.where(history > 0, MOST * number + history - 1, -1)
    replies = np.repeat(reply, MOST, axis=0)
    there = (slots >= 0)[number] & (np.arange(PLACES) < 3 + 2 * history[:, None])
    there[:, 0] &= direction == 1
    alike = [column for part in (seen, words) for column in _alike_where(part, there, number)]
    few = [*alike, (facts[number, :4] * there[:, :4, None]).reshape(len(number), -1), there[:, 3:]]
    few.append(_one_hot_questions(direction, history))
    return [
        *(SharedRows(after, ahead), SharedRows(reply, number), SharedRows(last, number)),
        *(SharedRows(second, before), SharedRows(earlier, mean), SharedRows(reply * last, number)),
        *(SharedRows(reply * second, before), SharedRows(replies * earlier, mean)),
        *(SharedRows(after * reply, ahead), SharedRows(after * last, ahead)),
        SharedRows(np.concatenate(few, axis=1, dtype=np.float32), np.arange(len(number))),
    ]


def _alike_where(seen: Floats, there: npt.NDArray[np.bool_], number: Places) -> Iterator[Floats]:
    """Yield what `_alike` does for questions that see some of the turns of reply `number`."""
    cosines = np.matmul(seen[:, :3], seen.transpose(0, 2, 1))[number]
    yield from _compared(cosines * (there[:, :3, None] & there[:, None]))


def _alike(seen: Floats) -> Iterator[Floats]:
    """Yield dot products of the newest three turns with those before them, and their maxima over history."""
    yield from _compared(np.matmul(seen[:, :3], seen.transpose(0, 2, 1)))


def _compared(cosines: Floats) -> Iterator[Floats]:
    yield from (cosines[:, slot, slot + 1 :] for slot in range(3))
    yield from (cosines[:, slot, 3:].max(axis=1, keepdims=True) for slot in range(2))


def _one_hot_questions(direction: Places, history: Places) -> Floats:
    """Return direction and one-hot history, a row each."""
    one_hot = np.zeros((len(history), 1 + len(HISTORIES)), np.float32)
    one_hot[:, 0] = direction
    one_hot[np.arange(len(history)), 1 + history] = 1.0
    return one_hot


def described(vectors: Floats, texts: Sequence[str]) -> Floats:
    """Return the vectors of turns with their sketches appended."""
    return np.concatenate([vectors, sketches(texts)], axis=1)


def window_arrays(questions: Sequence[tuple[Sequence[int], Direction, int]]) -> tuple[Places, Places, Places]:
    """Return windows (turns, direction, history) as the arrays that `window_features` takes."""
    places = np.full((len(questions), PLACES), -1, np.int64)
    for row, (turns, _, _) in zip(places, questions, strict=True):
        row[: len(turns)] = turns
    pairs = np.array(
        [(DIRECTIONS.index(direction), history) for _, direction, history in questions], np.int64
    )
    direction, history = pairs.reshape(-1, 2).T
    return places, direction, history
