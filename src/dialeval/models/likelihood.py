"""How likely a language model finds continuations of a dialogue, after any of its turns.

The dialogue is read once; what is asked after each turn shares what was read up to there. A dialogue longer
than the window is read in stretches that overlap by half a window, cut between turns where possible: then
the beginning is forgotten, and the answer says so (`cut`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.models.cache import Layered, key
from dialeval.models.continuations import Place, Tree
from dialeval.models.gguf import Floats
from dialeval.models.templates import Side, Spoken, Template, spoken


@dataclass(frozen=True, slots=True)
class Question:
    """After which turn (its number; None is after all of them), and who would go on."""

    turn: int | None
    side: Side


@dataclass(frozen=True, slots=True)
class Answer:
    """The log-likelihood of each continuation, how many tokens it has, and whether context was cut off."""

    totals: Floats
    counts: tuple[int, ...]
    cut: bool = False

    @property
    def means(self) -> list[float]:
        """The log-likelihood of each continuation per token: long ones are not punished for their length."""
        return [float(total) / max(1, count) for total, count in zip(self.totals, self.counts, strict=True)]


class LanguageModel(Protocol):
    """What says how likely continuations are."""

    def answer(
        self,
        dialogue: Dialogue,
        questions: Sequence[Question],
        continuations: Sequence[str],
        template: Template,
        window: int,
    ) -> list[Answer]:
        """Answer every question; a dialogue in which nobody speaks may be asked about as well."""
        ...


class Tokenizing(Protocol):
    """What turns text into tokens: `marks` for what a template says, `words` for what people say."""

    def first(self) -> list[int]: ...  # noqa: D102
    def marks(self, text: str) -> list[int]: ...  # noqa: D102
    def words(self, texts: Sequence[str]) -> list[list[int]]: ...  # noqa: D102


Compute = Callable[[Sequence[int], Sequence[Place]], list[list[Floats]]]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A stretch of a dialogue that is read at once: tokens, and where its new turns end."""

    tokens: list[int]
    ends: dict[int, int]  # index among spoken turns -> tokens up to its end
    cut: bool


class TokenModel:
    """A language model that is asked in tokens: the one way to write down dialogues for all that run here."""

    def __init__(self, sha: str, limit: int, tokenizer: Tokenizing, compute: Compute, cache: Layered) -> None:
        self.sha, self.limit = sha, limit
        self._tokenizer, self._compute, self._cache = tokenizer, compute, cache

    def answer(
        self,
        dialogue: Dialogue,
        questions: Sequence[Question],
        continuations: Sequence[str],
        template: Template,
        window: int,
    ) -> list[Answer]:
        """Read the dialogue once and answer every question about it."""
        turns = spoken(dialogue)
        trees = {side: self._tree(side, continuations, template) for side in {q.side for q in questions}}
        deepest = max((max(map(len, tree.continuations)) for tree, _ in trees.values()), default=0)
        room = max(8, min(window, self.limit - deepest))
        ends = {one.number: index for index, one in enumerate(turns)}
        places = [len(turns) - 1 if q.turn is None else ends.get(q.turn, -1) for q in questions]
        found: dict[int, Answer] = {}
        for stretch in self._stretches(turns, template, room):
            asked = [number for number, place in enumerate(places) if place in stretch.ends]
            hung = [(stretch.ends[places[number]], *trees[questions[number].side]) for number in asked]
            found |= zip(asked, self._ask(stretch, hung), strict=True)
        return [found[number] for number in range(len(questions))]

    def _tree(self, side: Side, continuations: Sequence[str], template: Template) -> tuple[Tree, int]:
        """Grow a tree of what a side might say, and count the tokens that open its turn."""
        opening = self._tokenizer.marks(template.opening(side))
        said = self._tokenizer.words([template.lead + one for one in continuations])
        return Tree.of([opening + one for one in said]), len(opening)

    def _stretches(self, turns: Sequence[Spoken], template: Template, room: int) -> list[_Stretch]:
        begin = self._tokenizer.first() + self._tokenizer.marks(template.begin)
        begin = begin or self._tokenizer.marks(template.close)[:1]  # something must come before
        marks = {side: self._tokenizer.marks(template.opening(side)) for side in ("user", "assistant")}
        close, room = self._tokenizer.marks(template.close), max(8, room - len(begin))
        words = self._tokenizer.words([template.lead + one.text for one in turns])
        each = [marks[one.side] + said + close for one, said in zip(turns, words, strict=True)]
        found = [_Stretch(list(begin), {-1: len(begin)}, False)]
        held = 0  # turns of the last stretch that are not forgotten
        for index, tokens in enumerate(each):
            if len(found[-1].tokens) - len(begin) + len(tokens) > room:
                kept = _newest(each[index - held : index], room // 2, room - len(tokens))
                found.append(_Stretch([*begin, *(token for one in kept for token in one)], {}, True))
                held = len(kept)
            found[-1].tokens.extend(tokens[-room:])
            found[-1].ends[index] = len(found[-1].tokens)
            held += 1
        return found

    def _ask(self, stretch: _Stretch, hung: Sequence[tuple[int, Tree, int]]) -> list[Answer]:
        """Answer from the cache, and read the stretch for the rest."""
        names = [
            key(f"{self.sha}|likelihood|{opening}", repr((stretch.tokens[:end], tree.continuations)))
            for end, tree, opening in hung
        ]
        known = dict(zip(names, self._cache.fetch(names), strict=True))
        missing = {name: hung[number] for number, name in enumerate(names) if known[name] is None}
        if missing:
            last = max(end for end, _, _ in missing.values())
            asked = [(end, tree) for end, tree, _ in missing.values()]
            for name, each in zip(missing, self._compute(stretch.tokens[:last], asked), strict=True):
                opening = missing[name][2]
                totals = np.array([one[opening:].sum(dtype=np.float64) for one in each], np.float32)
                self._cache.store([name], [totals])
                known[name] = totals
        return [
            Answer(
                np.asarray(known[name], np.float32),
                tuple(len(one) - opening for one in tree.continuations),
                stretch.cut,
            )
            for name, (_, tree, opening) in zip(names, hung, strict=True)
        ]


def _newest(turns: Sequence[list[int]], wanted: int, most: int) -> list[list[int]]:
    """Keep the last turns that fit."""
    kept: list[list[int]] = []
    for tokens in reversed(turns):
        if sum(map(len, kept)) + len(tokens) > min(wanted, most):
            break
        kept.insert(0, tokens)
    return kept
