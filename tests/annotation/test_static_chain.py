"""From fixed contexts to findings: systems answer, judges rate blindly, votes score, a study joins them."""

from pathlib import Path

import pytest
from annotation_server import make_study

from dialeval.annotation import Study
from dialeval.annotation import submission as act
from dialeval.annotation.export import scores_of
from dialeval.annotation.snapshot import snapshot
from dialeval.dialogues import Dialogue, formats
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.responding import respond_to
from dialeval.metrics import score
from dialeval.scores import Scores
from dialeval.studies import study
from dialeval.systems import build
from dialeval.systems.function import Function

RATES = {"wizard-max-voted": 5, "wizard-random": 4, "dull": 1}


def replies(folder: Path) -> dict[str, list[Dialogue]]:
    """Three systems at the first turns of some examples."""
    contexts = [one for one in example_dialogues() if one.turns[0].speaker == "user"][:24]
    openings = [Dialogue(one.id, one.turns[:2]) for one in contexts]
    made = {}
    for system in (
        build("wizard-max-voted:votes=examples"),
        build("wizard-random:votes=examples"),
        Function("dull", lambda _: "Hm."),
    ):
        respond_to(openings, system, folder / f"{system.name}.jsonl")
        made[system.name] = list(formats.read(folder / f"{system.name}.jsonl"))
    return made


def judged(folder: Path, dialogues: list[Dialogue]) -> Scores:
    opened = Study(make_study(folder, "appropriateness", dialogues, raters=["ann", "bob", "cem", "dan"]))
    for rater in ("ann", "bob", "cem", "dan"):
        while (place := act.current(opened, rater)) is not None:
            seat = act.look(opened, rater, place)
            assert seat is not None
            systems = {opened.names[number][1] for number, *_ in opened.items[seat.item].places}
            best = max(RATES[name or ""] for name in systems)
            act.answer(
                opened, rater, seat, {"appropriateness": max(1, best - seat.item % 2)}, f"t{place}", 0.0
            )
    found = scores_of(snapshot(opened))
    opened.close()
    return found


def test_replies_judgements_and_votes_meet(tmp_path: Path) -> None:
    by_system = replies(tmp_path)
    every = [one for some in by_system.values() for one in some]
    assert len({one.id for one in every}) == 24, "all systems answer the same contexts"
    ratings = judged(tmp_path / "study", every)
    assert {row.dialogue_id for row in ratings} == {one.id for one in every}
    specs = ["weak-agreement:votes=examples", "voted-appropriateness:votes=examples"]
    scores = Scores.concat([*(score(some, specs) for some in by_system.values()), ratings])
    found = study(
        scores,
        level="turn",
        combine=("voted=line:voted-appropriateness/votes",),
        resamples=200,
        permutations=200,
    )
    assert (found.gold or {})["n"] == found.n_units == 72
    rows = {row["label"]: row for row in found.correlations}
    assert rows["voted"]["n"] == rows["weak-agreement"]["n"] == 72
    assert rows["voted"]["pearson"]["value"] > rows["weak-agreement"]["pearson"]["value"] > 0.8
    assert found.schema["context"] == "static"
    assert found.schema["participation"] == "bystander"
    system = study(scores, level="system", combine=("voted=line:voted-appropriateness/votes",), resamples=100)
    means = {
        row["system"]: row["mean"]["value"] for row in system.systems if row["source"] == "weak-agreement"
    }
    assert means == pytest.approx({"dull": 1.0, "wizard-max-voted": 5.0, "wizard-random": 5.0})
