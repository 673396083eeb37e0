"""The recipe `segment-act`: what it learns from, how it weighs, and that both of its forms work."""

import dataclasses
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.acts import ACTS, acts
from dialeval.dialogues.segments import segments_of
from dialeval.models.artefact import load
from dialeval.models.segment_acts import SegmentActs
from dialeval.training import Provenance, TrainingSettings, train
from dialeval.training import segment_recipes as segment_act
from dialeval.training.segment_recipes import ANNOTATED_WEIGHT, choose, recipe

TOYS = Path(__file__).parent
PROVENANCE = Provenance("mit", "a test")


def annotated(name: str, *segments: tuple[str, str]) -> Dialogue:
    turns = [
        Turn("AB"[number % 2], text, {"segments": [{"text": text, "act": act}]})
        for number, (text, act) in enumerate(segments)
    ]
    return dialogue(turns, name)


def switchboard(name: str, *lines: tuple[str, str]) -> Dialogue:
    return dialogue(
        [Turn("AB"[number % 2], text, {"tag": tag}) for number, (text, tag) in enumerate(lines)], name
    )


def examples() -> list[Dialogue]:
    """The examples of the tagset as annotated dialogues, one of each act in a dialogue."""
    rows = zip(*([(one.text, act.name) for one in act.examples] for act in acts()), strict=True)
    return [annotated(f"d{number}", *row) for number, row in enumerate(rows)]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_act, "MOST_MAPPED", {"inform": 6})
    monkeypatch.setattr(segment_act, "MOST_OF_OTHERS", 4)
    monkeypatch.setattr(segment_act, "MOST_ANNOTATED", 5)


def material() -> list[Dialogue]:
    calls = [
        switchboard(
            f"c{n}", (f"I saw {n} geese fly by.", "sd"), (f"Do you like {n} geese?", "qy"), ("Hm yeah", "%")
        )
        for n in range(20)
    ]
    ours = [annotated(f"o{n}", (f"I count {n} geese", "inform"), ("Bye", "goodbye")) for n in range(9)]
    return [*calls, *ours, dialogue([("A", "Nobody has labelled this.")], "plain")]


@pytest.mark.usefixtures("few")
def test_common_acts_are_sampled_for_each_corpus() -> None:
    found = Counter((len(segments) == 2, act) for segments, _, act, _ in choose(material()))
    ours, theirs = True, False
    assert found == {
        (ours, "inform"): 5,
        (ours, "goodbye"): 5,
        (theirs, "inform"): 6,
        (theirs, "question"): 4,
    }


@pytest.mark.usefixtures("few")
def test_the_sample_does_not_depend_on_the_order() -> None:
    one, other = material(), material()
    random.Random(2).shuffle(other)

    def picture(dialogues: list[Dialogue]) -> list[tuple[str, str, float]]:
        return sorted(
            (segments[place].text, act, round(weight, 9))
            for segments, place, act, weight in choose(dialogues)
        )

    assert picture(one) == picture(other)


def test_rare_acts_and_annotated_ones_weigh_more() -> None:
    calls = [switchboard("more", *((f"I have {n} cousins.", "sd") for n in range(60)))]
    weights: dict[tuple[bool, str], list[float]] = defaultdict(list)
    for segments, _, act, weight in choose([*material(), *calls]):
        weights[len(segments) == 2, act].append(weight)
    ours, theirs = True, False
    assert {key: len(some) for key, some in weights.items()} == {
        (ours, "inform"): 9,
        (ours, "goodbye"): 9,
        (theirs, "inform"): 80,
        (theirs, "question"): 20,
    }
    assert {*weights[ours, "inform"], *weights[ours, "goodbye"]} == {ANNOTATED_WEIGHT}
    mapped = weights[theirs, "inform"] + weights[theirs, "question"]
    assert sum(mapped) / len(mapped) == pytest.approx(1)
    assert weights[theirs, "question"][0] / weights[theirs, "inform"][0] == pytest.approx((80 / 20) ** 0.5)
    assert choose([]) == []


def test_what_is_learned_from_is_what_was_said() -> None:
    for segments, place, act, _ in choose(examples()):
        assert segments[place].act == act
    assert len(choose(examples())) == sum(len(act.examples) for act in acts())


def test_the_head_learns_what_it_is_shown(tmp_path: Path) -> None:
    pytest.importorskip("torch").set_num_threads(1)
    made = recipe()
    settings = dataclasses.replace(made.settings, epochs=8, batch=16)
    shown = examples()
    done = train(made, shown, tmp_path / "head", PROVENANCE, dev=shown[:2], settings=settings)
    assert load(tmp_path / "head").kind == "segment-acts.v1"
    classifier = SegmentActs.load(tmp_path / "head")
    assert classifier.sha == done.artefact.sha
    bare = [dialogue([(turn.speaker, turn.text) for turn in one.turns], one.id) for one in shown]
    found = [one.act for chat in classifier.label(bare, "punkt") for one in segments_of(chat)]
    wanted = [one.act for chat in shown for one in segments_of(chat)]
    assert sum(one == other for one, other in zip(found, wanted, strict=True)) / len(wanted) > 0.9


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    pytest.importorskip("torch").set_num_threads(1)
    pytest.importorskip("transformers")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOYS))
        import toy_training

        yield toy_training.make_encoder(tmp_path_factory.mktemp("tiny") / "roberta", "roberta")


def test_any_encoder_can_be_trained_as_a_whole(tiny: Path, tmp_path: Path) -> None:
    made = recipe(str(tiny))
    assert made.settings.learning_rate == 1e-5
    settings = TrainingSettings(batch=8, learning_rate=5e-3, epochs=3, max_length=40)
    shown = examples()
    train(made, shown, tmp_path / "pairs", PROVENANCE, dev=shown[:2], settings=settings)
    assert load(tmp_path / "pairs").kind == "pair-scorer.v1"
    classifier = SegmentActs.load(tmp_path / "pairs")
    chats = [dialogue([("A", "Hi, who is there?"), ("B", "Me."), ("B", "")]), dialogue([])]
    labelled = classifier.label(chats)
    found = [one.act for one in segments_of(labelled[0])]
    assert len(found) == 3
    assert set(found) <= set(ACTS)
    shares = classifier.shares([segments_of(chats[0])])
    assert shares.shape == (3, len(ACTS))
    assert shares.sum(axis=1) == pytest.approx(1, abs=1e-5)
    alone = classifier.shares([segments_of(chats[0])[:1]])
    assert shares[:1] == pytest.approx(alone, abs=1e-5), "the first segment has none before it either way"
