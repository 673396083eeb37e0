"""The flow of a dialogue in numbers: counted by hand, and of dialogues that have none."""

from itertools import pairwise

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segments import segments_of
from dialeval.jobs.demo import example_dialogues
from dialeval.models.auxiliary_features import FLOW, flow_features
from dialeval.models.segment_acts import SegmentActs


def by_hand(chat: Dialogue, turn: int) -> dict[str, list[float]]:
    said = [one for one in segments_of(chat) if one.turn <= turn]
    first = [one for one in said if one.speaker == said[0].speaker]
    others = [one for one in said if one.speaker != said[0].speaker]
    shares = [
        sum(one.act == act for one in some) / max(1, len(some))
        for some in (said, first, others)
        for act in ACTS
    ]
    follows = [(one.act, other.act) for one, other in pairwise(said)]
    pairs = [follows.count((one, other)) / max(1, len(follows)) for one in ACTS for other in ACTS]
    words: dict[int, int] = {}
    for one in said:
        words[one.turn] = words.get(one.turn, 0) + len(one.text.split())
    many, turns = np.log1p(len(said)), np.log1p(len(words))
    lengths = np.log1p(list(words.values()))
    sizes = [many, turns, np.log1p(sum(words.values())), many**2, turns**2, len(said) / len(words)]
    sizes += [lengths.mean(), lengths.std(), np.log1p([len(one.text.split()) for one in said]).mean()]
    return dict(zip(FLOW, (shares, pairs, sizes), strict=True))


def test_what_is_counted_up_to_each_turn_is_what_a_hand_would_count() -> None:
    for chat in SegmentActs.load().label(example_dialogues()[::7]):
        turns = list(range(len(chat.turns)))
        found = flow_features(chat, turns)
        for turn in turns:
            for name, values in by_hand(chat, turn).items():
                assert found[name][turn] == pytest.approx(values, abs=1e-6)


@pytest.mark.parametrize(
    "chat",
    [
        Dialogue("nothing", ()),
        dialogue([("user", "  "), ("assistant", "")], "blank"),
        Dialogue("aside", (Turn("system", "Be kind."), Turn("tool", "{}"))),
        dialogue([("user", "Nobody said what this does.")], "no acts"),
    ],
)
def test_a_dialogue_without_acts_is_all_zeros(chat: Dialogue) -> None:
    found = flow_features(chat, range(len(chat.turns)))
    assert [found[name].shape for name in FLOW] == [(len(chat.turns), size) for size in (33, 121, 9)]
    assert not any(found[name].any() for name in FLOW)
