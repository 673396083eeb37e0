"""The recipe `segment-act`: a classifier that says what each segment of a dialogue does.

It learns from annotated segments (ActDial, Controllable Dialogue, a log somebody has labelled) and from other
corpora by the table in `dialogues/act_mapping.toml`. Common acts are sampled, rare ones count more, and what
people annotated with these very acts counts more than what was mapped to them.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dialeval.dialogues import Dialogue
from dialeval.dialogues.act_mapping import mapped
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segments import Segment, segments_of
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.segment_acts import HEAD, segment_features, segment_pair
from dialeval.models.training import PairExample, PairRecipe, Recipe, Settings, VectorExample, VectorRecipe

MOST_MAPPED = {"inform": 6000, "question": 6000}  # segments of an act that are learned from, per corpus
MOST_OF_OTHERS = 3000
MOST_ANNOTATED = 40_000
ANNOTATED = "annotated"
ANNOTATED_WEIGHT = 10.0
SHARES = 0.5  # 1: the acts of a mapped corpus weigh what they do there; 0: all weigh the same
Chosen = tuple[Sequence[Segment], int, str, float]  # segments of a dialogue, a place, its act, its weight
_ABOUT = "Says which of FlowEval's eleven acts a segment of a dialogue performs."


def recipe(encoder: str | None = None) -> Recipe[Any, Any]:
    """Classifier of segment acts: a head on the shipped encoder, or any encoder fine-tuned as in the paper.

    Args:
        encoder: None: a small head on the frozen shipped encoder. A folder or Hub id, such as
            `roberta-large`, is fine-tuned as a whole.
    """
    if encoder is not None:
        return PairRecipe(
            name="segment-act",
            heads=(HEAD,),
            examples=_pair_examples,
            dev_figure="accuracy",
            settings=Settings(batch=32, learning_rate=1e-5, epochs=3, warmup=0.1, max_length=128),
            encoder=encoder,
            about=_ABOUT,
        )
    frozen = Encoder.load(DEFAULT)
    return VectorRecipe(
        name="segment-act",
        heads=(HEAD,),
        examples=_vector_examples,
        dev_figure="macro_f1",
        settings=Settings(
            batch=128, learning_rate=1e-3, epochs=12, warmup=0.1, weight_decay=0.01, dropout=0.2
        ),
        hidden=(128,),
        activation="gelu",
        about=_ABOUT,
        fields={"encoder": {"name": frozen.name, "sha": frozen.sha}},
        kind="segment-acts.v1",
    )


def _vector_examples(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
    chosen = choose(dialogues)
    rows = segment_features([(segments, number) for segments, number, _, _ in chosen], Encoder.load(DEFAULT))
    for row, (_, _, act, weight) in zip(rows, chosen, strict=True):
        yield VectorExample(row, {HEAD.name: ACTS.index(act)}, weight)


def _pair_examples(dialogues: Iterable[Dialogue]) -> Iterator[PairExample]:
    for segments, number, act, weight in choose(dialogues):
        before, text = segment_pair(segments, number)
        yield PairExample(before, text, {HEAD.name: ACTS.index(act)}, weight)


def choose(dialogues: Iterable[Dialogue]) -> list[Chosen]:
    """Choose what to learn from: for each corpus and act a fixed sample, weighted.

    What was mapped weighs such that the acts of a corpus have nearly the shares there that they have in the
    corpus, rare ones somewhat more (their counts to the power of `SHARES`), on average 1. What was annotated
    with our acts keeps its own shares, and weighs as much as ten mapped segments each.
    """
    found: dict[tuple[str, str], list[tuple[bytes, Sequence[Segment], int]]] = defaultdict(list)
    for dialogue in dialogues:
        corpus = _corpus(dialogue)
        segments: Sequence[Segment] = segments_of(mapped(dialogue))
        for number, one in enumerate(segments):
            if one.act is not None:
                key = hashlib.blake2b(f"{dialogue.id}|{number}|{one.text}".encode(), digest_size=8).digest()
                found[corpus, one.act].append((key, segments, number))
    chosen: dict[tuple[str, str], list[tuple[Sequence[Segment], int]]] = {}
    for (corpus, act), places in found.items():
        most = MOST_ANNOTATED if corpus == ANNOTATED else MOST_MAPPED.get(act, MOST_OF_OTHERS)
        chosen[corpus, act] = [place[1:] for place in sorted(places, key=lambda place: place[0])[:most]]
    counted = {key: len(places) for key, places in found.items() if key[0] != ANNOTATED}
    factor = sum(len(chosen[key]) for key in counted) / max(1.0, sum(n**SHARES for n in counted.values()))
    return [
        (segments, number, act, factor * counted[corpus, act] ** SHARES / len(places))
        if corpus != ANNOTATED
        else (segments, number, act, ANNOTATED_WEIGHT)
        for (corpus, act), places in chosen.items()
        for segments, number in places
    ]


def _corpus(dialogue: Dialogue) -> str:
    """Tell corpora apart by what their turns carry."""
    for turn in dialogue.turns:
        for field, name in (("segments", ANNOTATED), ("tag", "swda"), ("acts", "sgd")):
            if field in turn.meta:
                return name
    return "dailydialog"
