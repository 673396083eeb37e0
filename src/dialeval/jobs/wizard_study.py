"""A wizard study with scripted people, from end to end: it stands in where a study's data are not public.

Four wizards mark what they would say, for 26 contexts of five bundled dialogues (`annotate --scheme wizard`);
systems answer the contexts (`respond`), and two repeat the wizards; four judges rate all replies blindly
(`annotate --scheme appropriateness`); votes score them. Wizards choose from the replies that the selecting
systems choose from.

Nobody was asked. A scripted person finds a text the better, the nearer it is to what was said in the context
(cosine of the shipped encoder), each with moods of their own; at some contexts no wizard finds anything.
Figures show that the chain works, not how people judge.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dialeval import files
from dialeval.annotation import AnnotationProject, create, read_scheme
from dialeval.annotation.export import scores_of, votes_of
from dialeval.annotation.interchange import load_answers
from dialeval.annotation.project import snapshot
from dialeval.dialogues import Dialogue, formats
from dialeval.dialogues.contexts import conversation_of, place_of
from dialeval.dialogues.votes import read_candidates, write_votes
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.reporting import write_report
from dialeval.jobs.responding import respond_to
from dialeval.metrics import score
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.scores import Scores, is_human
from dialeval.statistics import Estimate, bootstrap_means
from dialeval.studies import Study, study
from dialeval.studies.combination import Replies
from dialeval.systems import System, build
from dialeval.systems.external import Function

WIZARDS, JUDGES = ("ann", "bob", "cem", "dan"), ("eva", "fay", "gil", "hal")
LINE = "voted=line:voted-appropriateness/votes"
_TALKS = ("chat-01-good", "chat-02-good", "chat-03-good", "chat-04-good", "chat-07-good")
_STRICT = {"ann": 0.22, "bob": 0.28, "cem": 0.34, "dan": 0.42}  # the least nearness that a wizard accepts
_MOOD = 0.15
_HOPELESS = 0.1  # share of contexts at which nothing fits


@dataclass(frozen=True)
class ScriptedPeople:
    """Wizards and judges who know what was said at each dialogue and turn."""

    texts: Mapping[tuple[str, int], str]

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder.load(DEFAULT)

    def near(self, place: tuple[str, int], texts: Sequence[str]) -> list[float]:
        """Return how near texts are to what was said, from -1 to 1."""
        vectors = self._encoder.vectors([self.texts[place], *texts])
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return [float(cosine) for cosine in np.round(unit[1:] @ unit[0], 4)]

    def choose(self, wizard: str, place: tuple[str, int], candidates: Sequence[str]) -> list[str]:
        """Return the candidates that a wizard marks; none where nothing fits."""
        if _chance("hopeless", *place) < _HOPELESS:
            return []
        near = zip(candidates, self.near(place, candidates), strict=True)
        return [
            text
            for text, nearness in near
            if nearness + _MOOD * _mood(wizard, *place, text) >= _STRICT[wizard]
        ]

    def rate(self, judge: str, place: tuple[str, int], text: str) -> int:
        """Return a judge's rating of a reply, from 1 to 5."""
        felt = 2.2 + 2.8 * self.near(place, [text])[0] + 0.9 * _mood(judge, *place, text)
        return int(np.clip(np.rint(felt), 1, 5))


def _chance(*words: object) -> float:
    """Return a number from 0 to 1 that is always the same for the same words."""
    digest = hashlib.sha256("|".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def _mood(*words: object) -> float:
    return 2 * _chance(*words) - 1


def study_material(folder: Path) -> tuple[list[Dialogue], ScriptedPeople]:
    """Write `contexts.jsonl`, all dialogues (`chats.jsonl`) and the pool of candidates (`pool.jsonl`)."""
    dialogues = list(example_dialogues())
    asked = [dialogue for dialogue in dialogues if dialogue.id in _TALKS]
    formats.write(asked, folder / "contexts.jsonl")
    formats.write(dialogues, folder / "chats.jsonl")
    formats.write(
        [dialogue for dialogue in dialogues if dialogue.system == "good-bot"], folder / "pool.jsonl"
    )
    texts = {
        (dialogue.id, number): turn.text for dialogue in asked for number, turn in enumerate(dialogue.turns)
    }
    return asked, ScriptedPeople(texts)


def answers_of(project: AnnotationProject, people: ScriptedPeople) -> Iterator[dict[str, Any]]:
    """Yield what scripted people answer in a project of wizards or judges, as `annotate --answers` reads."""
    question = project.scheme.questions[0]
    for number, item in enumerate(project.items):
        dialogue, turn = project.dialogue(item.place[0]), item.place[1] or 0
        place, reply = place_of(dialogue, turn), dialogue.turns[turn].text
        for name, (role, _) in project.people().items():
            if role != "rater":
                continue
            if project.scheme.marks is not None:
                chosen = people.choose(name, place, project.candidates)
            else:
                chosen = [str(people.rate(name, place, reply))]
            labels = {question.name: dict.fromkeys(chosen, "true")}
            yield {"user_id": name, "instance_id": f"item-{number}", "label_annotations": labels}


def _answered(project: AnnotationProject, people: ScriptedPeople, path: Path) -> None:
    lines = [json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers_of(project, people)]
    files.write_text(path, "".join(lines))
    load_answers(project, path)


def paper_systems(folder: Path) -> list[System]:
    """Return five systems, good and poor, and the paper's two wizard models."""
    chats, pool, votes = (folder / name for name in ("chats.jsonl", "pool.jsonl", "votes.jsonl"))
    specs = {
        "wizard-max-voted": f"wizard-max-voted:votes={votes}",
        "wizard-random": f"wizard-random:votes={votes}",
        "selecting": f"retrieval:corpus={chats},candidates={pool}",
        "selecting-last-turn": f"retrieval:corpus={chats},candidates={pool},window=1",
        "selecting-elsewhere": f"retrieval:candidates={pool}",
        "retrieval": f"retrieval:corpus={pool}",
    }
    dull = Function("dull", lambda _: "Tell me more!")
    return [*(build(spec, name=name) for name, spec in specs.items()), dull]


@dataclass(frozen=True)
class WizardStudy:
    """The findings of a study of replies and of one of systems, and the scores of both."""

    replies: Study
    systems: Study
    scores: Scores

    def correlation(self, source: str, level: str) -> Estimate:
        """Return Pearson's r of a source with the ratings, over replies or systems."""
        findings = self.systems if level == "system" else self.replies
        return next(row.pearson for row in findings.correlations if row.source == source)

    def line(self, figure: str) -> Estimate:
        """Return the intercept, slope, p of the slope, variance explained or n of the fitted line."""
        line = self.replies.lines[0]
        if figure in ("intercept", "slope"):
            return line.intercept if figure == "intercept" else line.slope
        value = {"p": line.slope.p, "r_squared": line.r_squared, "n": float(line.n)}[figure]
        return Estimate(value, line.n)

    def mean(self, system: str, source: str, dimension: str) -> Estimate:
        """Return the mean of a system's replies."""
        key = (system, source, dimension)
        return next(r.mean for r in self.systems.systems if (r.system, r.source, r.dimension) == key)

    def by_votes(self, votes: int, dimension: str) -> Estimate:
        """Return what a dimension of the measures is, on average, for replies with so many votes."""
        cast = {(row.dialogue_id, row.system): row.value for row in self.scores.where(dimension="votes")}
        values = [
            row.value
            for row in self.scores.where(dimension=dimension, source=lambda name: not is_human(name))
            if row.value is not None and cast[row.dialogue_id, row.system] == votes
        ]
        return Estimate(float(np.mean(values)), len(values))

    def gap(self, better: str, worse: str) -> Estimate:
        """Return how much higher one system is rated than another, over the contexts both answered."""
        rated: dict[tuple[str, str | None], list[float]] = {}
        for row in self.scores.where(source=is_human):
            rated.setdefault((row.dialogue_id, row.system), []).append(row.value or 0.0)
        names = [name for name, system in rated if system == better and (name, worse) in rated]
        gaps = [np.mean(rated[name, better]) - np.mean(rated[name, worse]) for name in names]
        return bootstrap_means(np.array(gaps), np.array([conversation_of(name) for name in names]))


def wizard_study(folder: str | Path, resamples: int = 2000) -> WizardStudy:
    """Run the study and leave all of it in a folder: contexts, votes, replies, ratings, `report.html`."""
    with files.replacing_folder(folder) as fresh:
        asked, people = study_material(fresh)
        pool = read_candidates(fresh / "pool.jsonl")
        project = create(fresh / "wizards", read_scheme("wizard"), asked, WIZARDS, candidates=pool)
        with closing(project) as wizards:
            _answered(wizards, people, fresh / "wizards.jsonl")
            write_votes(votes_of(snapshot(wizards)), fresh / "votes.jsonl")
        replies: list[Dialogue] = []
        for system in paper_systems(fresh):
            respond_to(asked, system, fresh / f"{system.name}.jsonl")
            replies += formats.read(fresh / f"{system.name}.jsonl")
        with closing(create(fresh / "judges", read_scheme("appropriateness"), replies, JUDGES)) as judges:
            _answered(judges, people, fresh / "judges.jsonl")
            ratings = scores_of(snapshot(judges))
        ratings.write(fresh / "ratings.csv")
        votes = f"votes={fresh / 'votes.jsonl'}"
        scored = score(replies, [f"weak-agreement:{votes}", f"voted-appropriateness:{votes}"])
        scores = Scores.concat([scored, ratings])
        texts: Replies = {
            (reply.id, n, reply.system): turn.text for reply in replies for n, turn in enumerate(reply.turns)
        }
        fixed: dict[str, Any] = {"combine": (LINE,), "replies": texts, "resamples": resamples}
        result = WizardStudy(
            study(scores, level="turn", **fixed), study(scores, level="system", **fixed), scores
        )
        write_report(result.replies, scores, replies, fresh / "report.html", illustrative=True)
    return result
