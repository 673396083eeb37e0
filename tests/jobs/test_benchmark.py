"""Peers' correlations on the public sets at hand, to three decimals, through the whole of `benchmark`."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dialeval.dialogues import dialogue
from dialeval.errors import UsageError
from dialeval.jobs.benchmark import Benchmark, benchmark, seen_sets
from dialeval.metrics import build
from dialeval.metrics.training_data import training_data
from dialeval.models.heads import Head
from dialeval.scores import Score, Scores, Signature
from dialeval.studies import study
from dialeval.training import Provenance, TrainingSettings, VectorExample, train, vector_recipe
from dialeval.training.blending import RATED

FIGURES = [
    ("controllable", None, 125, "floweval_v3", (0.306, 0.294, 0.223)),
    ("controllable", None, 125, "bertscore", (0.246, 0.205, 0.152)),
    ("fed", None, 60, "dynaeval_empathetic", (0.462, 0.496, 0.347)),
    ("fed", None, 60, "floweval_v3", (0.405, 0.372, 0.257)),
    ("dstc9", None, 1100, "flow_flipped", (0.166, 0.156, 0.113)),
    ("dstc9", None, 1100, "floweval_v3", (0.091, 0.113, 0.082)),
    ("dstc9", None, 1100, "judge_gpt4_overall_mean5", (0.242, 0.233, 0.173)),
    ("dstc9", "system", 11, "judge_gpt4_overall_mean5", (0.970, 0.991, 0.964)),
    ("dstc9", "system", 11, "flow_flipped", (0.971, 0.973, 0.891)),
]


@pytest.mark.parametrize(("name", "level"), dict.fromkeys((name, level) for name, level, *_ in FIGURES))
def test_peers_give_the_known_figures(data_folder: Path, name: str, level: str | None) -> None:
    wanted = {source: (n, figures) for one, at, n, source, figures in FIGURES if (one, at) == (name, level)}
    sources = (*wanted, "turns")
    part = "test#0-9" if name == "controllable" else None  # the official test part, as its figures are for
    found = benchmark(
        name, ["turns"], peers=True, level=level, part=part, sources=sources, resamples=100, permutations=100
    )
    rows = {row.source: row for row in found.study.correlations}
    for source, (n, figures) in wanted.items():
        assert rows[source].n == n
        measured = [rows[source].of(method).value for method in ("pearson", "spearman", "kendall")]
        assert measured == pytest.approx(figures, abs=5.5e-4), source
    assert found.seen == {"turns": "none"}


def test_benchmark_writes_a_run_with_everything_joined(data_folder: Path, tmp_path: Path) -> None:
    found = benchmark(
        "fed", ["length"], peers=True, level="turn", out=tmp_path / "run", resamples=100, permutations=100
    )
    assert found.study.level == "turn"
    gold = found.study.gold
    assert gold is not None
    assert (gold.dimension, gold.raters, gold.n, gold.n_unrated) == (
        "overall",
        5,
        180,
        1156,
    )  # of other turns
    assert (tmp_path / "run" / "joined.parquet").is_file()
    assert (tmp_path / "run" / "study.json").is_file()


def test_published_figures_stand_beside(data_folder: Path) -> None:
    found = benchmark("conture", ["length"], resamples=100, permutations=100)
    assert {row["source"]: row["pearson"] for row in found.published}["Regression (sentiment)"] == 0.34


def test_unrated_sets_are_refused() -> None:
    with pytest.raises(UsageError, match="nobody rated"):
        benchmark("sgd")


def test_mean_turn_rating_against_each_dialogue_dimension(data_folder: Path) -> None:
    """Table 5 of the paper, from the raw file by scipy: overall is highest."""
    found = benchmark(
        "conture",
        ["turns"],
        level="dialogue",
        turn_ratings=True,
        by="dimension",
        resamples=50,
        permutations=50,
    ).study
    chats = json.loads((data_folder / "conture" / "data.json").read_text(encoding="utf-8"))
    turns = [np.mean([turn["overall impression"] for turn in chat["turns"]]) for chat in chats]
    measured = {}
    for subset in found.subsets:
        name = "human (overall)" if subset.name == "overall" else subset.name
        given = [[r[name] for r in chat["dialog_ratings"] if r[name] != "N/A"] for chat in chats]
        kept = [(x, np.mean(ratings)) for x, ratings in zip(turns, given, strict=True) if ratings]
        (row,) = [one for one in subset.correlations if one.source == "turn-ratings"]
        assert row.n == len(kept)
        wanted = stats.pearsonr(*zip(*kept, strict=True)).statistic
        assert row.pearson.value == pytest.approx(wanted, abs=1e-9)
        measured[subset.name] = (row.pearson.value, row.spearman.value)
    assert len(measured) == 11
    assert measured["overall"] == (max(p for p, _ in measured.values()), max(s for _, s in measured.values()))
    assert measured["overall"] == pytest.approx((0.585, 0.567), abs=5.5e-4)
    assert found.gold is not None
    assert (found.gold.raters, found.gold.dimension) == (3, "overall")  # not the raters of turns


def test_turn_ratings_need_dialogues_that_were_rated_both_ways(data_folder: Path) -> None:
    with pytest.raises(UsageError, match="of turns, these ratings are the gold"):
        benchmark("conture", ["turns"], turn_ratings=True)
    for name in ("fed", "dstc9"):  # FED rates turns of other dialogues, DSTC9 none
        with pytest.raises(UsageError, match="both of its turns and of the whole"):
            benchmark(name, ["turns"], level="dialogue", turn_ratings=True)


def test_by_dimension_takes_those_rated_at_this_level(data_folder: Path) -> None:
    parts = benchmark("fed", ["length"], by="dimension", resamples=50, permutations=50).study.subsets
    names = [part.name for part in parts]
    assert len(names) == 11
    assert "depth" in names
    assert "interesting" not in names  # FED asks that of turns only


def test_a_set_that_was_left_out_of_training_was_not_seen() -> None:
    made = build("dialoguescore")
    assert seen_sets(made, "uss") == "multiwoz, sgd; without the dialogues of uss"
    assert seen_sets(made, "sgd") == "multiwoz, sgd; of sgd another part than the test portion"
    assert seen_sets(made, "sgd", "train") == "multiwoz, sgd; HAS SEEN sgd"
    assert seen_sets(made, "fed") == "multiwoz, sgd"
    assert seen_sets(build("turn-quality"), "conture").endswith("without the dialogues of conture")
    assert seen_sets(build("quality"), "fed").endswith("; HAS SEEN fed")
    assert seen_sets(build("length"), "fed") == "none"


def test_shipped_models_say_what_they_were_trained_on() -> None:
    """The cards of what ships are the one place that says it; these are the sets they name."""
    found = {
        name: [one.names for one in training_data(build(name))]
        for name in ("coherence", "dialoguescore", "turn-quality", "user-reaction")
    }
    chats = ["blended-skill-talk", "dailydialog", "empathetic", "topicalchat"]
    assert found == {
        "coherence": [chats, ["dbdc3"]],
        "dialoguescore": [["multiwoz", "sgd"]],
        "turn-quality": [["convai2-wild", "dstc9"], ["dbdc3"]],
        "user-reaction": [[]],
    }
    student = training_data(build("student:model=dialeval-consensus-student"))
    assert {"controllable", "sgd", "swda"} < set(student[0].names)  # its teacher's
    every = {name for one in training_data(build("quality")) for name in one.names}
    free = {"blended-skill-talk", "topicalchat", "fault-pairs", "diasafety", "multiwoz", "sgd"}
    assert {*RATED, *free} - {"tau-retail"} == every  # the results of tau-retail are non-commercial


def ridge_model(folder: Path, sets: tuple[str, ...] | None, filtered: tuple[str, ...] = ()) -> str:
    """Write a scorer of turns that was trained on some public sets, as far as its record says."""
    head, chance = Head("quality", "regression"), np.random.default_rng(0)
    rows = [VectorExample(chance.normal(size=3), {"quality": float(number)}) for number in range(20)]
    recipe = vector_recipe(
        "turn-quality", (head,), lambda _: rows, "pearson", TrainingSettings(epochs=0), hidden=(), ridge=True,
        fields={"features": ["lengths"], "encoder": {"name": "dialeval-encoder-small"}},
    )  # fmt: skip
    chats = [dialogue([("user", "Hi")], f"d{number}") for number in range(30)]
    train(recipe, chats, folder, Provenance("mit", "make", sets=sets, filtered=filtered))
    return f"turn-quality:model={folder}"


def test_a_model_of_ones_own_is_judged_by_its_own_record(tmp_path: Path) -> None:
    mine = build(ridge_model(tmp_path / "mine", ("fed/text", "sgd/train"), ("conture", "uss")))
    assert seen_sets(mine, "fed") == "fed, sgd; HAS SEEN fed"  # not what the shipped model has seen
    assert seen_sets(mine, "dstc9") == "fed, sgd"
    assert seen_sets(mine, "uss") == "fed, sgd; without the dialogues of uss"
    assert seen_sets(mine, "sgd") == "fed, sgd; of sgd another part than the test portion"
    assert seen_sets(build(ridge_model(tmp_path / "own-logs", ())), "fed") == "none"
    assert "HAS SEEN fed" in seen_sets(build(f"quality:turn_quality={tmp_path / 'mine'}"), "fed")


def test_a_model_without_a_record_says_so(tmp_path: Path) -> None:
    from dialeval.models import artefact
    from dialeval.models.card import Card

    artefact.save(tmp_path / "bare", "dialogue-scorer.v1", {}, {}, Card("x", "y", licence="mit", command="z"))
    bare = build(f"turn-quality:model={tmp_path / 'bare'}")
    assert seen_sets(bare, "fed") == "none; a model does not record its data"


def test_agreement_with_the_authors_scores_is_told_in_their_direction() -> None:
    values = [0.1, 0.4, 0.2, 0.9, 0.5]
    made = {
        "mine": (values, "dynaeval.v1"),
        "dynaeval_daily": ([2 * value for value in values], "peer.v1"),
        "flow-score": ([1 - value for value in values], "flow-score.v1|better:lower"),
        "flow_flipped": (values, "peer.v1"),
        "human:ann": ([3.0, 1.0, 2.0, 5.0, 4.0], "ratings.v1"),
    }
    rows = [
        Score(f"d{number}", None, None, source, "overall", value)
        for source, (some, _) in made.items()
        for number, value in enumerate(some)
    ]
    scores = Scores.of(rows, {source: Signature.parse(mark) for source, (_, mark) in made.items()})
    found = Benchmark(study(scores, level="dialogue", resamples=20), scores, [], {}).agreement()
    pairs = [("mine", "dynaeval_daily"), ("flow-score", "flow_flipped")]
    assert [(ours, peer) for ours, peer, _ in found] == pairs
    assert [round(one.value or 0, 6) for *_, both in found for one in both] == [1.0] * 4
