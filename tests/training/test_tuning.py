"""Tuning: figures are a study's, noise is paired, the middle of what is flat is taken, tests stay unseen."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from dialeval.dialogues import Dialogue, dialogue
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.jobs.demo import example_dialogues, example_ratings
from dialeval.metrics import registry
from dialeval.metrics.registry import Better, Rows, metric
from dialeval.scores import Score, Scores
from dialeval.statistics import Estimate
from dialeval.studies import study
from dialeval.training.trials import Trial, TuningSettings, flat_regions
from dialeval.training.tuning import parse_fields, tune, tuning_part

QUICK = TuningSettings(resamples=400)


def luck(name: str) -> float:
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32


@pytest.fixture(autouse=True)
def dial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A metric whose best `w` is known: exact from .2 to .4, ever more luck outside; and no public sets."""
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "no-data"))

    @metric("dial.v1")
    @dataclass(frozen=True)
    class Dial:
        """What people said, with noise that grows with the distance of `w` from .3."""

        w: float = 0.3
        k: int = 10
        mode: Literal["plain", "odd", "blind"] = "plain"
        parts: tuple[str, ...] = ("one",)
        dimensions: ClassVar[tuple[str, ...]] = ("overall", "part")
        better: ClassVar[Better] = "lower"

        def score(self, dialogues: Iterable[Dialogue]) -> Scores:
            rows = Rows(self)
            for one in dialogues:
                off = max(0.0, abs(self.w - 0.3) - 0.1001) * 8 + 2 * (self.mode == "odd" or self.k == 17)
                value = -one.meta["said"] + off * (luck(one.id) - 0.5) * 4
                unscored = self.mode == "blind" or (self.k > 50 and one.meta["said"] > 4)
                rows.add(one, None, "overall", None if unscored else value, "unscored" if unscored else None)
                rows.add(one, None, "part", luck(one.id[::-1]))
            return rows.scores()

    yield
    registry._REGISTERED.pop("dial.v1", None)


def chats(count: int = 30) -> list[Dialogue]:
    return [
        dialogue([("user", f"Hi {n}"), ("assistant", f"Hello {n}")], f"d{n}", meta={"said": 1 + n % 5})
        for n in range(count)
    ]


def rated(dialogues: Iterable[Dialogue]) -> Scores:
    return Scores.of(
        Score(one.id, None, None, "human:ann", "overall", float(one.meta["said"])) for one in dialogues
    )


def tuned(metric: str = "dial", count: int = 30, fixed: dict[str, str] | None = None, **tried: str) -> Any:
    fields = {name: tuple(values.split(",")) for name, values in tried.items()}
    return tune(metric, chats(count), rated(chats(count)), fields, fixed, settings=QUICK)


# --- figures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "method"), [("dialogue", "spearman"), ("turn", "pearson")])
def test_figures_are_those_of_a_study(level: Literal["turn", "dialogue"], method: str) -> None:
    ratings = example_ratings()
    settings = TuningSettings(method=method, resamples=300)
    found = tune(
        "repetition", example_dialogues(), ratings, {"n": ("1", "2")}, level=level, settings=settings
    )
    made = {
        one.spec: registry.build(one.spec).score(example_dialogues()).renamed(one.spec)
        for one in found.trials
    }
    if (
        level == "turn"
    ):  # compared are the turns that all combinations score: the study must be shown no others
        both = [{row[:2] for row in scores if row.value is not None} for scores in made.values()]
        common = set.intersection(*both)
        made = {
            name: Scores.of((row for row in scores if row[:2] in common), scores.signatures)
            for name, scores in made.items()
        }
    whole = study(
        Scores.concat([*made.values(), ratings]),
        level=level,
        method=method,
        resamples=300,
        permutations=2,
        dimension=found.gold["dimension"],
    )
    figures = {row.source: row.of(method) for row in whole.correlations}
    for one in found.trials:
        wanted = figures[one.spec]
        assert one.figure.n == wanted.n
        assert (one.figure.value, one.figure.low, one.figure.high) == pytest.approx(
            (wanted.value, wanted.low, wanted.high), abs=1e-6
        )
    assert found.gold == {"dimension": {"dialogue": "overall", "turn": "quality"}[level]} | {
        "level": level,
        "raters": 3,
    }


# --- the choice ---------------------------------------------------------------------------------------------


def test_the_middle_of_the_flat_region_is_taken_and_measured() -> None:
    found = tuned(w="0.9,0.2,0.1,0.25,0.4,0.0")  # not in order
    (region,) = found.regions
    assert region.tried == (0.0, 0.1, 0.2, 0.25, 0.4, 0.9)
    assert (region.flat, region.chosen, region.note) == ((0.2, 0.25, 0.4), 0.3, None)
    assert found.chosen.spec == "dial:w=0.3"
    assert found.trials[-1] == found.chosen  # nobody had tried it
    assert found.chosen.figure.value == pytest.approx(-1)  # lower is better, shown as it is
    assert found.chosen.signature.startswith("dial.v1|w:0.3|k:10|mode:plain|")
    assert len(found.trials) == 7
    worst = next(one for one in found.trials if one.fields["w"] == 0.9)
    assert not worst.flat
    assert worst.below.value > worst.below.low > 0


def test_whole_numbers_have_a_whole_middle_and_all_flat_is_said() -> None:
    found = tuned(k="10,25,40")
    (region,) = found.regions
    assert region.flat == (10, 25, 40)
    assert "everything tried is flat" in region.note
    assert found.chosen.fields == {"k": 25}
    assert tuned(k="10,21").chosen.fields == {"k": 16}


def test_a_middle_that_turns_out_bad_is_not_taken() -> None:
    found = tuned(k="10,24")
    assert (found.regions[0].chosen, found.chosen.fields) == (17, {"k": 10})
    assert not found.trials[-1].flat
    assert "the best is taken" in found.notes[0]


def test_words_that_tie_give_the_first_listed_and_noise_is_seen() -> None:
    assert tuned(mode="plain,odd").chosen.fields == {"mode": "plain"}
    assert tuned(mode="odd,plain").chosen.fields == {"mode": "plain"}
    found = tuned(parts="two+one,one")
    assert (found.chosen.spec, found.regions[0].flat) == ("dial:parts=two+one", (("two", "one"), ("one",)))
    assert found.regions[0].note == "ties: the one listed first"


def test_several_fields_and_fixed_ones() -> None:
    found = tuned("dial:k=20", fixed={"parts": "two+three"}, w="0.2,0.4,1", mode="odd,plain")
    assert found.chosen.spec == "dial:k=20,parts=two+three,w=0.3,mode=plain"
    assert found.settings["fixed"] == {"k": "20", "parts": "two+three"}
    assert [region.chosen for region in found.regions] == [0.3, "plain"]
    assert len(found.trials) == 7
    assert {one.signature for one in found.trials} == {
        str(registry.signature_of(registry.build(one.spec))) for one in found.trials
    }


def test_region_at_the_edge_says_so() -> None:
    (region,) = tuned(w="0.2,0.3,0.9").regions
    assert (region.flat, region.chosen) == ((0.2, 0.3), 0.25)
    assert region.note == "reaches the lowest value tried"


def trial(below: float, flat: bool, **fields: Any) -> Trial:
    return Trial(fields, str(fields), "", Estimate(0.5 - below, 9), Estimate(below, 9), 0, flat)


def test_a_gap_ends_the_region() -> None:
    places = {1: (0.1, True), 2: (0.3, False), 4: (0.01, True), 8: (0.0, True), 16: (0.02, True)}
    (region,), best = flat_regions([trial(*found, k=k) for k, found in places.items()])
    assert (region.flat, region.chosen, best.fields) == ((4, 8, 16), 10, {"k": 8})


def test_numbers_vary_with_the_other_fields_as_in_the_best() -> None:
    flat = {(1, 1): 0.0, (2, 1): 0.01, (1, 2): 0.02, (3, 1): None, (2, 2): None, (3, 2): 0.03}
    trials = [trial(0.5 if gap is None else gap, gap is not None, a=a, b=b) for (a, b), gap in flat.items()]
    (first, second), best = flat_regions(trials)
    assert (first.flat, second.flat, best.fields) == ((1, 2), (1, 2), {"a": 1, "b": 1})


def test_the_same_seed_gives_the_same_record() -> None:
    first, second = (json.dumps(tuned(w="0,0.3,0.6").to_dict()) for _ in range(2))
    assert first == second
    record = json.loads(first)
    assert (record["version"], record["n_dialogues"], record["n_dropped"]) == ("tuning.v1", 30, 0)
    assert set(record["trials"][0]) >= {"spec", "signature", "figure", "below", "flat"}


# --- what is compared ---------------------------------------------------------------------------------------


def test_only_what_all_combinations_score_is_compared() -> None:
    found = tuned(k="10,60", w="0.3,0.9")
    assert {one.figure.n for one in found.trials} == {24}  # those rated 5 are unscored with k=60
    assert [one.n_unscored for one in found.trials][:4] == [0, 0, 6, 6]
    assert "6 rated dialogues are not compared" in found.notes[0]
    blind = tuned(mode="plain,blind")  # a combination that scores nothing has no say
    assert (blind.n_units, blind.chosen.fields) == (30, {"mode": "plain"})
    assert blind.trials[1].figure.value is None


def test_another_dimension_of_the_metric() -> None:
    found = tune("dial", chats(), rated(chats()), {"w": ("0.1", "0.3")}, of="part", settings=QUICK)
    assert found.dimension == "part"
    assert abs(found.chosen.figure.value or 0) < 0.9


@pytest.mark.parametrize(
    ("metric", "tried", "options", "said"),
    [
        ("dial", {"speed": "1,2"}, {}, "dial has no field 'speed'"),
        ("dial", {"w": "0.1,fast"}, {}, "dial:w=fast: expected a number"),
        ("dial", {"w": "0.1,nan"}, {}, "expected a finite number"),
        ("dial", {"w": "0.1,0.10"}, {}, "are the same"),
        ("dial", {"w": "0.1"}, {}, "1 combinations: there must be 2"),
        ("dial", {"w": ",".join(map(str, range(501)))}, {}, "501 combinations"),
        ("dial", {}, {}, "nothing to try"),
        ("dial:w=0.1", {"w": "0.1,0.2"}, {}, "w is both fixed and tried"),
        ("dial", {"w": "0.1,0.2"}, {"of": "beauty"}, "has no dimension 'beauty'; it has: overall, part"),
        ("dial", {"w": "0.1,0.2"}, {"level": "turn"}, "no rating called None at turn level"),
        ("dial", {"w": "0.1,0.2"}, {"dimension": "wit"}, "no rating called 'wit'.*there are: overall"),
        ("dial", {"w": "0.1,0.2"}, {"settings": TuningSettings(method="rho")}, "rho"),
        ("nosuch", {"w": "0.1,0.2"}, {}, "no metric called 'nosuch'"),
        ("dial", {"mode": "blind,blind"}, {}, "are the same"),
    ],
)
def test_bad_calls_are_refused(
    metric: str, tried: dict[str, str], options: dict[str, Any], said: str
) -> None:
    fields = {name: tuple(values.split(",")) for name, values in tried.items()}
    with pytest.raises(UsageError, match=said):
        tune(metric, chats(), rated(chats()), fields, **options)


def test_too_little_data_is_refused() -> None:
    with pytest.raises(DataError, match="4 dialogues are rated and scored"):
        tuned(count=4, w="0.1,0.2")
    with pytest.raises(DataError, match=r"none of the dialogues is rated.*ids"):
        tune("dial", chats(), rated([]), {"w": ("0.1", "0.2")})
    alone = [dialogue([("user", f"Hi {n}")], f"d{n}", meta={"said": n}) for n in range(9)]
    with pytest.raises(DataError, match="0 dialogues are rated and scored"):
        tune("length", alone, rated(alone), {"speaker": ("none", "assistant")})
    same = Scores.of(Score(one.id, None, None, "human:ann", "overall", 3.0) for one in chats())
    with pytest.raises(DataError, match=r"no trial has a correlation.*constant"):
        tune("dial", chats(), same, {"w": ("0.1", "0.2")})
    turns = Scores.of(Score(one.id, 1, None, "human:ann", "quality", luck(one.id)) for one in chats())
    with pytest.raises(UsageError, match="has no 'overall' of turns"):
        tune("dial", chats(), turns, {"w": ("0.1", "0.2")})


@pytest.mark.parametrize("texts", [["w"], ["w="], ["=1"], ["w=1,,2"], ["w=1", "w=2"]])
def test_fields_that_cannot_be_read(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="--try"):
        parse_fields(texts, "--try")


# --- public sets --------------------------------------------------------------------------------------------


def test_test_sets_and_unrated_sets_are_refused() -> None:
    with pytest.raises(UsageError, match=r"fed is a test set.*controllable"):
        tuning_part("fed")
    with pytest.raises(UsageError, match="has no human ratings"):
        tuning_part("dailydialog")
    with pytest.raises(DialevalError, match="was not found"):
        tuning_part("controllable")


def test_what_a_test_set_holds_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text of our own in the format of Controllable Dialogue: its test part has one of the chats."""
    folder = tmp_path / "data" / "controllable_dialogue"
    folder.mkdir(parents=True)
    said = ["My aunt has bought a lighthouse on the coast.", "How lovely, does she keep the lamp lit?"]
    segments = [
        {"index": f"baseline_model_1_{n}_0", "fs_text": text, "annotation": "inform"}
        for n, text in enumerate(said)
    ]
    for name, content in (
        ("controllable_dialogue.json", segments),
        ("controllable_dialogue_split.json", {"valid": []}),
        ("dialog_id_to_persona.json", {}),
        ("dialog_id_to_score.json", {}),
    ):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "data"))
    known = dialogue([("user", said[0]), ("assistant", said[1])], "known", meta={"said": 2})
    found = tune("dial", [*chats(), known], rated([*chats(), known]), {"w": ("0.1", "0.3")}, settings=QUICK)
    assert (found.n_dropped, found.n_dialogues) == (1, 30)


@pytest.mark.soak
def test_the_tuning_part_of_controllable(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIALEVAL_DATA", str(data_folder))
    dialogues, ratings, level, dimension = tuning_part("controllable")
    assert (len(dialogues), level, dimension) == (28, "dialogue", "overall")
    found = tune("repetition", dialogues, ratings, {"n": ("2", "3")}, level=level, settings=QUICK)
    assert found.n_dialogues + found.n_dropped == 28
    assert found.gold["raters"] == 1
