"""Features of other trained heads: what they know of a turn, and nothing of what comes after it."""

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.models.auxiliary_features import AuxiliaryFeatures, AuxiliaryModels

FINE, BAD = "Great, thank you so much!", "No, that is wrong, you are useless."
CHAT = dialogue(
    [
        ("user", "Do you like jazz?"),
        ("assistant", "Yes, and the blues."),
        ("user", FINE),
        ("assistant", "Which band do you like?"),
        ("user", BAD),
        ("assistant", "The train leaves at nine."),
    ],
    "chat",
)


def test_moods_are_those_of_the_answers_so_far_the_last_and_the_mean() -> None:
    (found,) = AuxiliaryModels.shipped(["moods"]).read([CHAT])
    to_bot = [value for answer, to, value in found.sentiments if to == "assistant"]
    assert [answer for answer, to, _ in found.sentiments if to == "assistant"] == [2, 4]
    assert to_bot[0] > 0 > to_bot[1]
    wanted = [[0, 0], [to_bot[0], to_bot[0]], [to_bot[1], sum(to_bot) / 2]]
    assert found.moods([1, 3, 5]) == pytest.approx(np.array(wanted), abs=1e-6)


def test_a_reply_that_fits_is_told_from_one_that_does_not() -> None:
    (found,) = AuxiliaryModels.shipped(["fit"]).read([CHAT])
    first, _, last = found.fit([1, 3, 5])[:, 0]
    assert first > last
    assert AuxiliaryFeatures(CHAT).fit([1]).tolist() == [[0.5]]  # nobody was asked


def test_only_what_is_needed_is_loaded_and_recorded() -> None:
    assert AuxiliaryModels.shipped(["reply", "place"]).fields() == {}
    assert list(AuxiliaryModels.shipped(["sizes", "fit"]).fields()) == ["acts", "coherence"]


@pytest.mark.parametrize(
    "chat",
    [
        Dialogue("nothing", ()),
        Dialogue("blank", (Turn("user", ""), Turn("assistant", " "))),
        Dialogue("alone", (Turn("assistant", "Hi."), Turn("assistant", "Anybody?"))),
    ],
)
def test_dialogues_in_which_nobody_answers(chat: Dialogue) -> None:
    (found,) = AuxiliaryModels.shipped(["fit", "moods", "acts"]).read([chat])
    turns = range(len(chat.turns))
    assert np.isfinite(found.fit(turns)).all()
    assert not found.moods(turns).any()
