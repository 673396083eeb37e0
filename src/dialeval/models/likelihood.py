"""Log-likelihoods of continuations of a dialogue: templates, token trees, and the model interface."""

import functools
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, Turn
from dialeval.dialogues.dialogue import takes_part
from dialeval.models.cache import Cache, key
from dialeval.models.gguf import Floats

Side = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """A spoken turn: its number in the dialogue, its side, and its text."""

    number: int
    side: Side
    text: str


@dataclass(frozen=True, slots=True)
class Template:
    """The marks around turns; see `templates.toml`."""

    name: str
    begin: str
    open: str
    lead: str
    close: str
    user: str
    assistant: str
    marks: Sequence[str]

    def opening(self, side: Side) -> str:
        """Return the text before a turn of a side.

        >>> templates()["prefixes"].opening("user")
        'User:'
        """
        return self.open.replace("{side}", self.user if side == "user" else self.assistant)

    def plain(self, text: str) -> str:
        """Return text with typed special tokens broken up, where both are sent as plain text.

        >>> templates()["chatml"].plain("Hi<|im_end|>")
        'Hi< |im_end|>'
        """
        for mark in self.marks:
            text = text.replace(mark, f"{mark[:1]} {mark[1:]}")
        return text


@functools.cache
def templates() -> dict[str, Template]:
    """Return all templates by name."""
    text = resources.files("dialeval.models").joinpath("templates.toml").read_text("utf-8")
    return {name: Template(name, **entry) for name, entry in tomllib.loads(text).items()}


def spoken(dialogue: Dialogue) -> list[SpokenTurn]:
    """Return the spoken turns with their sides.

    `assistant` is one side and everybody else the other. Among people, who speaks first is the user.

    >>> from dialeval.dialogues import dialogue
    >>> [turn.side for turn in spoken(dialogue([("A", "Hi"), ("B", "Hello"), ("A", "So?")]))]
    ['user', 'assistant', 'user']
    """
    turns = [(number, turn) for number, turn in enumerate(dialogue.turns) if takes_part(turn)]
    has_bot = any(turn.speaker == "assistant" for _, turn in turns)
    first = turns[0][1].speaker if turns else ""

    def side(turn: Turn) -> Side:
        is_assistant = turn.speaker == "assistant" if has_bot else turn.speaker != first
        return "assistant" if is_assistant else "user"

    return [SpokenTurn(number, side(turn), turn.text) for number, turn in turns]


Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tree:
    """A prefix tree of continuations, as its inner nodes.

    Attributes:
        tokens: The token at each node; a node comes after its parent.
        depths: How many nodes are above it.
        above: above[i, j] is true where node j is node i or above it.
        targets: For each continuation, (place, token) pairs: after node `place` - 1 (0 is where the tree
            hangs) `token` comes.
    """

    tokens: Ints
    depths: Ints
    above: npt.NDArray[np.bool_]
    targets: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def continuations(self) -> list[list[int]]:
        """The continuations that the tree was built from."""
        return [[token for _, token in steps] for steps in self.targets]

    @classmethod
    def of(cls, continuations: Sequence[Sequence[int]]) -> "Tree":
        """Build the tree of continuations.

        >>> tree = Tree.of([[5, 6, 7], [5, 6, 8], [9]])
        >>> tree.tokens.tolist(), tree.targets[1]
        ([5, 6], ((0, 5), (1, 6), (2, 8)))
        """
        nodes: dict[tuple[int, ...], int] = {}
        for continuation in continuations:
            for end in range(1, len(continuation)):
                nodes.setdefault(tuple(continuation[:end]), len(nodes) + 1)
        above = np.zeros((len(nodes), len(nodes)), np.bool_)
        for path, number in nodes.items():
            if len(path) > 1:
                above[number - 1] = above[nodes[path[:-1]] - 1]
            above[number - 1, number - 1] = True
        targets = tuple(
            tuple((nodes.get(tuple(continuation[:end]), 0), token) for end, token in enumerate(continuation))
            for continuation in continuations
        )
        return cls(
            np.array([path[-1] for path in nodes], np.int64),
            np.array([len(path) - 1 for path in nodes], np.int64),
            above,
            targets,
        )


Place: TypeAlias = tuple[int, Tree]
"""A number of tokens of a text, and the tree of continuations after them."""


@dataclass(frozen=True, slots=True)
class Position:
    """After which turn (its number; None is after all of them), and who would go on."""

    turn: int | None
    side: Side


@dataclass(frozen=True, slots=True)
class ContinuationScores:
    """The log-likelihood of each continuation, how many tokens it has, and whether context was cut off."""

    totals: Floats
    counts: tuple[int, ...]
    cut: bool = False

    @property
    def means(self) -> list[float]:
        """The log-likelihood of each continuation per token: long ones are not punished for their length."""
        return [float(total) / max(1, count) for total, count in zip(self.totals, self.counts, strict=True)]


class LanguageModel(Protocol):
    """A model that returns log-likelihoods of continuations."""

    def answer(
        self,
        dialogue: Dialogue,
        questions: Sequence[Position],
        continuations: Sequence[str],
        template: Template,
        window: int,
    ) -> list[ContinuationScores]:
        """Return the scores of the continuations at every position; the dialogue may be empty."""
        ...


class Tokenizing(Protocol):
    """A tokenizer: `marks` for templates, with special tokens, `words` for plain text."""

    def first(self) -> list[int]: ...  # noqa: D102
    def marks(self, text: str) -> list[int]: ...  # noqa: D102
    def words(self, texts: Sequence[str]) -> list[list[int]]: ...  # noqa: D102


Compute = Callable[[Sequence[int], Sequence[Place]], list[list[Floats]]]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A window of a dialogue that is read in one pass: tokens, and where its new turns end."""

    tokens: list[int]
    ends: dict[int, int]  # index among spoken turns -> tokens up to its end
    cut: bool


class TokenModel:
    """A local language model: writes dialogues as tokens and caches the results."""

    def __init__(self, sha: str, limit: int, tokenizer: Tokenizing, compute: Compute, cache: Cache) -> None:
        self.sha, self.limit = sha, limit
        self._tokenizer, self._compute, self._cache = tokenizer, compute, cache

    def answer(
        self,
        dialogue: Dialogue,
        questions: Sequence[Position],
        continuations: Sequence[str],
        template: Template,
        window: int,
    ) -> list[ContinuationScores]:
        """Return the scores at every position, from one pass over the dialogue."""
        turns = spoken(dialogue)
        trees = {side: self._tree(side, continuations, template) for side in {q.side for q in questions}}
        deepest = max((max(map(len, tree.continuations)) for tree, _ in trees.values()), default=0)
        room = max(8, min(window, self.limit - deepest))
        ends = {turn.number: index for index, turn in enumerate(turns)}
        places = [len(turns) - 1 if q.turn is None else ends.get(q.turn, -1) for q in questions]
        scores: dict[int, ContinuationScores] = {}
        for stretch in self._stretches(turns, template, room):
            numbers = [number for number, place in enumerate(places) if place in stretch.ends]
            hung = [(stretch.ends[places[number]], *trees[questions[number].side]) for number in numbers]
            scores |= zip(numbers, self._ask(stretch, hung), strict=True)
        return [scores[number] for number in range(len(questions))]

    def _tree(self, side: Side, continuations: Sequence[str], template: Template) -> tuple[Tree, int]:
        """Return the tree of a side's continuations, and the number of tokens that open its turn."""
        opening = self._tokenizer.marks(template.opening(side))
        tokenized = self._tokenizer.words([template.lead + text for text in continuations])
        return Tree.of([opening + tokens for tokens in tokenized]), len(opening)

    def _stretches(self, turns: Sequence[SpokenTurn], template: Template, room: int) -> list[_Stretch]:
        begin = self._tokenizer.first() + self._tokenizer.marks(template.begin)
        begin = begin or self._tokenizer.marks(template.close)[:1]  # something must come before
        marks = {side: self._tokenizer.marks(template.opening(side)) for side in ("user", "assistant")}
        close, room = self._tokenizer.marks(template.close), max(8, room - len(begin))
        words = self._tokenizer.words([template.lead + turn.text for turn in turns])
        turn_tokens = [marks[turn.side] + body + close for turn, body in zip(turns, words, strict=True)]
        stretches = [_Stretch(list(begin), {-1: len(begin)}, False)]
        carried = 0  # turns of the last stretch that are not forgotten
        for index, tokens in enumerate(turn_tokens):
            if len(stretches[-1].tokens) - len(begin) + len(tokens) > room:
                recent = _newest(turn_tokens[index - carried : index], min(room // 2, room - len(tokens)))
                stretches.append(_Stretch([*begin, *(token for part in recent for token in part)], {}, True))
                carried = len(recent)
            stretches[-1].tokens.extend(tokens[-room:])
            stretches[-1].ends[index] = len(stretches[-1].tokens)
            carried += 1
        return stretches

    def _ask(self, stretch: _Stretch, hung: Sequence[tuple[int, Tree, int]]) -> list[ContinuationScores]:
        """Return scores from the cache, and compute the others in one pass over the stretch."""
        names = [
            key(f"{self.sha}|likelihood|{opening}", repr((stretch.tokens[:end], tree.continuations)))
            for end, tree, opening in hung
        ]
        cached = dict(zip(names, self._cache.fetch(names), strict=True))
        missing = {name: hung[number] for number, name in enumerate(names) if cached[name] is None}
        if missing:
            last = max(end for end, _, _ in missing.values())
            places = [(end, tree) for end, tree, _ in missing.values()]
            for name, rows in zip(missing, self._compute(stretch.tokens[:last], places), strict=True):
                opening = missing[name][2]
                totals = np.array([row[opening:].sum(dtype=np.float64) for row in rows], np.float32)
                self._cache.store([name], [totals])
                cached[name] = totals
        return [
            ContinuationScores(
                np.asarray(cached[name], np.float32),
                tuple(len(continuation) - opening for continuation in tree.continuations),
                stretch.cut,
            )
            for name, (_, tree, opening) in zip(names, hung, strict=True)
        ]


def _newest(turns: Sequence[list[int]], limit: int) -> list[list[int]]:
    """Return the last turns that fit into `limit` tokens."""
    newest: list[list[int]] = []
    for tokens in reversed(turns):
        if sum(map(len, newest)) + len(tokens) > limit:
            break
        newest.insert(0, tokens)
    return newest
