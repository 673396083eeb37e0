"""From fixed contexts to findings: systems answer, judges rate blindly, votes score, a study joins them."""

from pathlib import Path

import pytest
from annotation_server import make_study

from dialeval.annotation import Study
from dialeval.annotation import submission as act
from dialeval.annotation.export import scores_of, write
from dialeval.annotation.snapshot import snapshot
from dialeval.dialogues import Dialogue, formats
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.responding import respond_to
from dialeval.metrics import score
from dialeval.reports import write_report
from dialeval.scores import Scores
from dialeval.studies import study
from dialeval.systems import Conversation, build
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


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_the_kind_of_evaluation_goes_from_the_dialogues_to_the_report(tmp_path: Path, ending: str) -> None:
    """Bystanders judge conversations that were held with a system: no name of a dialogue tells that."""
    held = []
    for name in ("a", "b", "c"):
        talk = Conversation(Function("dull", lambda _: "Hm."))
        talk.say("Hello")
        held.append(talk.dialogue(name))
    for folder, scheme in (("one", "coherence"), ("two", "dialogue")):
        opened = Study(make_study(tmp_path / folder, scheme, held))
        assert (opened.schema.context, opened.schema.participation) == ("dynamic", "bystander")
        for rater in ("ann", "bob", "cem"):
            place = act.current(opened, rater)
            seat = act.look(opened, rater, place or 0)
            assert seat is not None
            first = opened.scheme.questions[0]
            act.answer(opened, rater, seat, {first.name: first.options[0].value}, "t", 0.0)
        write(snapshot(opened), tmp_path / f"{folder}.{ending}")
        opened.close()
    read = [Scores.read(tmp_path / f"{folder}.{ending}") for folder in ("one", "two")]
    found = study(read[0], resamples=20, permutations=20)
    assert (found.schema["context"], found.schema["participation"]) == ("dynamic", "bystander")
    write_report(found, read[0], held, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    kind = page.partition("Kind of evaluation")[2].partition("</table>")[0]
    assert [word for word in ("coherence", "human", "dynamic", "bystander", "turn") if word not in kind] == []
    both = Scores.concat(read)
    assert str(both.signatures["human:ann"]) == (
        "annotation.v1|scheme:coherence,dialogue|context:dynamic|participation:bystander"
    )


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
    assert found.schema == {
        "metric": "appropriateness",
        "evaluator": "human and automatic",
        "context": "static",
        "participation": "bystander",
        "level": "turn",
    }
    system = study(scores, level="system", combine=("voted=line:voted-appropriateness/votes",), resamples=100)
    means = {
        row["system"]: row["mean"]["value"] for row in system.systems if row["source"] == "weak-agreement"
    }
    assert means == pytest.approx({"dull": 1.0, "wizard-max-voted": 5.0, "wizard-random": 5.0})
