"""The recipe `actbert`: a masked language model over segment acts, as in FlowEval's Appendix D."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.errors import UsageError
from dialeval.models.act_flows import flow_of, numbered
from dialeval.models.artefact import Artefact
from dialeval.models.card import Card
from dialeval.models.segment_acts import SegmentActs
from dialeval.models.tensors import Storage
from dialeval.models.training import Settings
from dialeval.models.training.act_network import ActNetwork, FlowExample, hide
from dialeval.models.training.loop import Trained

HIDDEN = 0.15  # share of a flow's acts that is hidden
TIMES = 6  # how often a flow is shown, each time with other acts hidden
_LONGEST = 250  # acts of a flow that are read at once
_LEAST = 3  # acts of a flow that can teach something
_AT_ONCE = 500  # dialogues labelled together


def recipe(encoder: str | None = None) -> "ActBertRecipe":
    """ActBERT: guesses hidden segment acts from the flow around them; its states describe flows."""
    if encoder is not None:
        raise UsageError("actbert reads acts, not text: it has no encoder to choose")
    return ActBertRecipe()


_SETTINGS = Settings(batch=64, learning_rate=5e-4, epochs=4, warmup=0.08, weight_decay=0.01, max_length=256)


@dataclass(frozen=True)
class ActBertRecipe:
    """RoBERTa's design: four layers, four heads, a width of 256, speakers as token types."""

    name: str = "actbert"
    about: str = "A masked language model over segment acts; its states describe how a dialogue flows."
    settings: Settings = _SETTINGS
    dev_figure: str = "accuracy"

    @property
    def examples(self) -> Callable[[Iterable[Dialogue]], Iterable[FlowExample]]:
        """Label segments that have no act, then hide some acts of each flow, several times over."""
        return _examples

    def network(
        self, examples: Sequence[FlowExample], settings: Settings, encoder: str | Path | None = None
    ) -> ActNetwork:
        """Make the network, untrained."""
        if encoder is not None:
            raise UsageError("actbert reads acts, not text: it has no encoder to choose")
        return ActNetwork(settings, max((len(one.asked) for one in examples), default=1))

    def export(
        self, network: ActNetwork, target: Path, card: Card, trained: Trained, storage: Storage
    ) -> Artefact:
        """Write an artefact that `ActBert` reads."""
        return network.export(target, card, trained, storage, self.name)


def _examples(dialogues: Iterable[Dialogue]) -> Iterator[FlowExample]:
    stream = iter(dialogues)
    while some := list(islice(stream, _AT_ONCE)):
        for dialogue in SegmentActs.load().label(some):
            flow = flow_of(dialogue)
            if len(flow.acts) >= _LEAST:
                seed = int.from_bytes(hashlib.blake2b(dialogue.id.encode(), digest_size=8).digest(), "little")
                chance = np.random.default_rng(seed)
                for _ in range(TIMES):
                    yield hide(numbered(flow), flow.speakers, HIDDEN, _LONGEST, chance)
