"""From fixed contexts to findings: systems answer, judges rate blindly, votes score, a study joins them."""

from pathlib import Path

import pytest
from annotation_server import answer_all, make_study

from dialeval.annotation import AnnotationProject
from dialeval.annotation.assignment import Assignment
from dialeval.annotation.export import scores_of, write
from dialeval.annotation.project import snapshot
from dialeval.dialogues import Dialogue, formats
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.reporting import write_report
from dialeval.jobs.responding import respond_to
from dialeval.metrics import score
from dialeval.scores import Scores
from dialeval.scores.signature import EvaluationSchema
from dialeval.studies import study
from dialeval.systems import Conversation, build
from dialeval.systems.external import Function

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
    opened = AnnotationProject(
        make_study(folder, "appropriateness", dialogues, raters=["ann", "bob", "cem", "dan"])
    )

    def answers(seat: Assignment) -> dict[str, int]:
        systems = {opened.names[number][1] for number, *_ in opened.items[seat.item].places}
        return {"appropriateness": max(1, max(RATES[name or ""] for name in systems) - seat.item % 2)}

    for rater in ("ann", "bob", "cem", "dan"):
        answer_all(opened, rater, answers)
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
        opened = AnnotationProject(make_study(tmp_path / folder, scheme, held))
        assert (opened.schema.context, opened.schema.participation) == ("dynamic", "bystander")
        first = opened.scheme.questions[0]
        for rater in ("ann", "bob", "cem"):
            answer_all(opened, rater, {first.name: first.options[0].value}, 1)
        write(snapshot(opened), tmp_path / f"{folder}.{ending}")
        opened.close()
    read = [Scores.read(tmp_path / f"{folder}.{ending}") for folder in ("one", "two")]
    found = study(read[0], resamples=20, permutations=20)
    assert found.schema is not None
    assert (found.schema.context, found.schema.participation) == ("dynamic", "bystander")
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
    assert found.gold is not None
    assert found.gold.n == found.n_units == 72
    rows = {row.label: row for row in found.correlations}
    assert rows["voted"].n == rows["weak-agreement"].n == 72
    assert (rows["voted"].pearson.value or 0) > (rows["weak-agreement"].pearson.value or 0) > 0.8
    assert found.schema == EvaluationSchema(
        "appropriateness", "human and automatic", "static", "bystander", "turn"
    )
    system = study(scores, level="system", combine=("voted=line:voted-appropriateness/votes",), resamples=100)
    means = {row.system: row.mean.value for row in system.systems if row.source == "weak-agreement"}
    assert means == pytest.approx({"dull": 1.0, "wizard-max-voted": 5.0, "wizard-random": 5.0})
