"""The equations of FlowEval's paper in a plain loop, to compare with."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from dialeval.dialogues import Dialogue, takes_part
from dialeval.models.act_flows import ActBert, Flow
from dialeval.models.encoder import Encoder
from dialeval.models.index.ragged import bucket
from dialeval.models.segment_acts import SegmentActs


class Plain:
    """The equations of section 4 as they stand, one dialogue after the other, in double precision."""

    def __init__(self, dialogues: Sequence[Dialogue], h: int = 1, l: int = 6) -> None:  # noqa: E741
        self.h, self.l = h, l
        self.dialogues = SegmentActs.load().label(dialogues)
        self.flows = [self.flow(one) for one in self.dialogues]
        self.acts = ActBert.load().vectors([Flow(*one) for one in self.flows], h).astype(np.float64)
        self.turns = [
            [turn.text.strip() for turn in one.turns if takes_part(turn) and turn.text.strip()]
            for one in dialogues
        ]
        self.words = [
            Counter(map(numbered, re.findall(r"\w+", " ".join(texts).lower()))) for texts in self.turns
        ]
        raw = [self.states(texts) for texts in self.turns]
        self.content = np.stack([states.max(axis=0) for _, states in raw])
        self.tokens = [(ids, states / np.linalg.norm(states, axis=1, keepdims=True)) for ids, states in raw]

    def flow(self, labelled: Dialogue) -> tuple[tuple[str, ...], tuple[int, ...]]:
        found = [
            (one["act"], turn.speaker) for turn in labelled.turns for one in turn.meta.get("segments", ())
        ]
        return tuple(act for act, _ in found), tuple(int(who != found[0][1]) for _, who in found)

    def states(self, texts: Sequence[str]) -> tuple[list[int], Any]:
        """Give number and state of each token, turn by turn, without marks."""
        encoder = Encoder.load()
        padded = [f" {text}" for text in texts]
        numbers = [number for one in encoder.tokenizer.encode(padded) for number in one.ids[1:-1]]
        states = np.concatenate([one[1:-1] for one in encoder.tokens(padded, layer=self.l)]).astype(
            np.float64
        )
        return numbers, states

    @cached_property
    def rarity(self) -> dict[int, float]:
        having = Counter(word for one in self.words for word in one)
        return {word: math.log((1 + len(self.words)) / (1 + count)) + 1 for word, count in having.items()}

    @cached_property
    def token_rarity(self) -> Counter[int]:
        return Counter(token for numbers, _ in self.tokens for token in set(numbers))

    def weigh(self, numbers: Sequence[int], idf: bool) -> Any:
        seen = np.array([self.token_rarity[one] for one in numbers])
        weights = np.log((len(self.tokens) + 1) / (seen + 1)) if idf else np.ones(len(numbers))
        return weights / weights.sum()

    def topic(self, one: Counter[int], other: Counter[int]) -> float:
        mine, theirs = (
            {word: count * self.rarity[word] for word, count in words.items() if word in self.rarity}
            for words in (one, other)
        )
        product = sum(weight * theirs.get(word, 0.0) for word, weight in mine.items())
        lengths = [math.sqrt(sum(weight**2 for weight in some.values())) for some in (mine, theirs)]
        return product / (lengths[0] * lengths[1]) if all(lengths) else 0.0

    def match(self, one: tuple[list[int], Any], other: tuple[list[int], Any], idf: bool) -> float:
        table = one[1] @ other[1].T
        precision = float(self.weigh(one[0], idf) @ np.maximum(table.max(axis=1), 0))
        recall = float(self.weigh(other[0], idf) @ np.maximum(table.max(axis=0), 0))
        return 2 * precision * recall / (precision + recall)

    def score(
        self, asked: "Plain", number: int, ka: int, kc: int, w: float, idf: bool, smoothing: str
    ) -> tuple[float, str]:
        """Return the score of a dialogue, and the id of the reference that gives it."""
        topics = np.array([self.topic(asked.words[number], other) for other in self.words])
        alike = (1 + cosines(asked.acts[number], self.acts)) * (1 + topics)
        content = cosines(asked.content[number], self.content)
        rows = {*np.argsort(-alike, kind="stable")[:ka], *np.argsort(-content, kind="stable")[:kc]}
        smooth, best = getattr(SmoothingFunction(), smoothing), (-1.0, "")
        for row in rows:
            bleu = sentence_bleu([self.flows[row][0]], asked.flows[number][0], smoothing_function=smooth)
            likeness = self.match(asked.tokens[number], self.tokens[row], idf)
            best = max(best, (w * alike[row] * float(bleu) + (1 - w) * likeness, self.dialogues[row].id))
        return best


def numbered(word: str) -> int:
    """Name a word as an index does, which takes a few for the same: "down" and "by", for one."""
    return bucket(word, 1 << 20)


def cosines(one: Any, others: Any) -> Any:
    return others @ one / (np.linalg.norm(others, axis=1) * np.linalg.norm(one))
