"""The ways in which a row of a paper is computed from the data at hand.

A source is a metric with its dimension (`floweval/overall`) or `peer:NAME`, somebody else's published scores.
Scores of a metric on a set are kept as a file and not computed twice. A row with a `recipe` is about a model
that is trained for it, from the sets it names, and kept beside the scores.
"""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dialeval import statistics
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.datasets import data_folder, public_set
from dialeval.dialogues.segments import segments_of
from dialeval.dialogues.splits import portion, selected, split_of
from dialeval.errors import DataError, UsageError
from dialeval.jobs.contrast import ContrastResult, contrast_systems
from dialeval.jobs.scoring import Summary, build_all, score_stream
from dialeval.models import artefact
from dialeval.scores import Scores
from dialeval.statistics import Estimate, zscore
from dialeval.studies.units import Column, Level, align, human_columns, mean_over

Figure = tuple[Estimate, str]
_SAMPLE = 300  # dialogues of MultiWOZ whose systems are compared


class PaperFigures:
    """Computes rows, and keeps the scores it has computed in a folder."""

    def __init__(self, folder: Path, sample: int = _SAMPLE, resamples: int = 2000) -> None:
        self.folder, self.sample, self.resamples = folder, sample, resamples
        self._contrasts: dict[str, ContrastResult] = {}
        self._tables: dict[str, Any] = {}

    def compute(self, how: Mapping[str, Any]) -> Figure:
        """Compute a row by its `way`; its other fields are the way's own."""
        return WAYS[how["way"]](self, how)

    def correlation(self, how: Mapping[str, Any]) -> Figure:
        """Correlate a source with people, or with `other`, on a public set; several sources are averaged."""
        sources = [how["source"]] if isinstance(how["source"], str) else list(how["source"])
        if "recipe" in how:
            sources = [one.format(model=self._trained(how["recipe"], how["learned_from"])) for one in sources]
        level, other = how.get("level", "dialogue"), how.get("other")
        every = [*sources, *([other] if other else [])]
        columns, gold, clusters, signature = self._columns(how, every, level)
        data = columns[: len(sources)]
        made = data[0] if len(data) == 1 else np.mean([zscore(one) for one in data], axis=0)
        target = columns[-1] if other else gold
        found = statistics.bootstrap_correlations(
            [made], target, clusters, methods=[how["method"]], resamples=self.resamples
        )
        return found[how["method"]][0], signature

    def _columns(
        self, how: Mapping[str, Any], sources: list[str], level: Level
    ) -> tuple[list[Any], Any, Any, str]:
        chosen = public_set(how["set"])
        golds = [one for one in chosen.golds if one.level == level]
        wanted = how.get("dimension") or (golds[0].dimension if golds else chosen.golds[0].dimension)
        asked = [self._scores(how["set"], source, how.get("part")) for source in sources]
        units = align(Scores.concat([_ratings(how), *asked]), level)
        gold = mean_over(units, human_columns(units, wanted))
        columns, marks = [], []
        for source, scores in zip(sources, asked, strict=True):
            own = scores.dimensions[0] if source.startswith("peer:") else source.rpartition("/")[2]
            columns.append(_turned(units.columns[Column(scores.sources[0], own)], scores, own))
            marks.append(str(scores.signatures[scores.sources[0]]))
        kept = ~np.isnan(gold) & ~np.isnan(np.vstack(columns)).any(axis=0)
        return [one[kept] for one in columns], gold[kept], units.clusters[kept], " + ".join(marks)

    def _trained(self, recipe: str, sources: list[str]) -> Path:
        """Return the folder of a model that is trained by a recipe, once."""
        from dialeval.jobs.training import train_to

        digest = hashlib.sha256(f"{recipe}|{sources}".encode()).hexdigest()[:12]
        folder = self.folder.parent / "models" / digest
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            train_to(recipe, sources, folder)
        return folder

    def _scores(self, name: str, source: str, part: str | None) -> Scores:
        chosen = public_set(name)
        if source.startswith("peer:"):
            peers = chosen.peer_scores().where(source=source.removeprefix("peer:"))
            if not len(peers):
                raise DataError(f"no scores of {source.removeprefix('peer:')} for {name}")
            return peers
        spec = source.rpartition("/")[0]
        digest = hashlib.sha256(f"{name}|{part}|{spec}".encode()).hexdigest()[:12]
        path = self.folder / f"{name}-{digest}.parquet"
        if path.is_file():
            return Scores.read(path)
        dialogues = selected(name, [part]) if part else portion(name, "test")
        if not part and not split_of(name).test:
            dialogues = chosen.dialogues()
        found = Scores.concat(
            scores for _, scores in score_stream(list(dialogues), build_all([spec]), Summary(), None)
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        found.write(path)
        return found

    def rating(self, how: Mapping[str, Any]) -> Figure:
        """Return the mean rating of a system's dialogues, or turns, in one dimension."""
        rows = public_set(how["set"]).ratings().where(dimension=how["dimension"])
        if "source" in how:
            rows = rows.where(source=how["source"], level=how["level"])
        systems = {one.id: one.system for one in public_set(how["set"]).dialogues()}
        known = [
            (row.value, row.dialogue_id)
            for row in rows
            if row.value is not None and how.get("system") in (None, systems.get(row.dialogue_id))
        ]
        if not known:
            raise DataError(f"nobody rated {how['dimension']} of {how.get('system')}")
        values, clusters = zip(*known, strict=True)
        shares = how.get("equals")
        numbers = np.array(values, float) if shares is None else np.array(values, float) == shares
        found = statistics.bootstrap_means(numbers, np.array(clusters), resamples=self.resamples)
        return found, f"ratings of {how['set']}"

    def turn_ratings(self, how: Mapping[str, Any]) -> Figure:
        """Correlate the mean rating of a dialogue's turns with ratings of the dialogue."""
        rated = public_set(how["set"]).ratings()
        turns, whole = dict[str, list[float]](), dict[str, list[float]]()
        for row in rated:
            if row.value is not None and row.turn is not None and row.source == how["gold"]:
                turns.setdefault(row.dialogue_id, []).append(row.value)
            elif row.value is not None and row.turn is None and row.dimension == how["dimension"]:
                whole.setdefault(row.dialogue_id, []).append(row.value)
        both = sorted(turns.keys() & whole.keys())
        pair = [[float(np.mean(some[name])) for name in both] for some in (turns, whole)]
        found = statistics.bootstrap_correlations(
            [pair[0]], pair[1], methods=[how["method"]], resamples=self.resamples
        )
        return found[how["method"]][0], f"ratings of {how['set']}"

    def act_share(self, how: Mapping[str, Any]) -> Figure:
        """Return the share of an act among the labelled segments of a set."""
        acts = [
            one.act
            for dialogue in public_set(how["set"]).dialogues()
            for one in segments_of(dialogue)
            if one.act is not None
        ]
        if how["act"] not in ACTS:
            raise UsageError(f"no act {how['act']!r}")
        return statistics.share(acts.count(how["act"]), len(acts)), f"acts of {how['set']}"

    def recorded(self, how: Mapping[str, Any]) -> Figure:
        """Return the dev figure that a model's artefact records."""
        made = artefact.load(artefact.resolve(how["model"]))
        training = made.config.get("training", {})
        value = training.get("dev", {}).get("value")
        if value is None:
            raise DataError(f"{how['model']} records no dev figure")
        return Estimate(
            float(value), int(training.get("rows", {}).get("dev", 0))
        ), f"{how['model']} {made.sha[:12]}"

    def size(self, how: Mapping[str, Any]) -> Figure:
        """Count the dialogues of a set, or the turns of a dialogue on average."""
        dialogues = list(public_set(how["set"]).dialogues(how.get("part", "all")))
        if how.get("of", "dialogues") == "dialogues":
            return Estimate(float(len(dialogues)), len(dialogues)), how["set"]
        replies = [sum(turn.speaker != "user" for turn in one.turns) for one in dialogues]
        return Estimate(float(np.mean(replies)), len(dialogues)), how["set"]

    def systems(self, how: Mapping[str, Any]) -> Figure:
        """Return DialogueScore of a system's replies, or their gap to the log's, on a sample of MultiWOZ."""
        spec = how.get("metric", "dialoguescore:delexicalise=true")
        if "recipe" in how:
            spec = spec.format(model=self._trained(how["recipe"], how["learned_from"]))
        if spec not in self._contrasts:
            logged = sorted(
                portion("multiwoz", "test"), key=lambda one: hashlib.sha256(one.id.encode()).digest()
            )[: self.sample]
            folder = data_folder() / "multiwoz" / "predictions"
            paths = [path for path in sorted(folder.iterdir()) if path.name.partition(".")[0] in _SYSTEMS]
            self._contrasts[spec] = contrast_systems(logged, paths, [spec], resamples=self.resamples)
        found = self._contrasts[spec]
        for row in found.rows:
            if (row["system"], row["dimension"]) == (how["system"], how["dimension"]):
                told = row[how.get("figure", "mean")]
                return Estimate(**told), " + ".join(map(str, found.signatures.values()))
        raise DataError(f"no {how['dimension']} of {how['system']}")

    def task(self, how: Mapping[str, Any]) -> Figure:
        """Return Inform, Success, BLEU or Combined of a system on MultiWOZ."""
        from dialeval.jobs.task_figures import task_table

        if "task" not in self._tables:
            self._tables["task"] = task_table("multiwoz")
        table = self._tables["task"]
        row = next((one for one in table.systems if one.system == how["system"]), None)
        if row is None:
            raise DataError(f"no predictions of {how['system']}")
        value = getattr(row, how["figure"])
        found = value if isinstance(value, Estimate) else Estimate(value, row.n)
        return found, table.signature

    def wizards(self, how: Mapping[str, Any]) -> Figure:
        """Return a figure of the study with scripted wizards and judges, which is left beside the page."""
        from dialeval.jobs.wizard_study import wizard_study

        if "wizards" not in self._tables:
            self._tables["wizards"] = wizard_study(self.folder.parent / "wizard-study", self.resamples)
        ask = getattr(self._tables["wizards"], how["figure"])
        return ask(*how["of"]), "scripted wizards and judges on bundled dialogues"


_SYSTEMS = ("pptod", "ubar")
WAYS: dict[str, Callable[[PaperFigures, Mapping[str, Any]], Figure]] = {
    "correlation": PaperFigures.correlation,
    "rating": PaperFigures.rating,
    "turn-ratings": PaperFigures.turn_ratings,
    "act-share": PaperFigures.act_share,
    "recorded": PaperFigures.recorded,
    "size": PaperFigures.size,
    "systems": PaperFigures.systems,
    "task": PaperFigures.task,
    "wizards": PaperFigures.wizards,
}


def _ratings(how: Mapping[str, Any]) -> Scores:
    """Return what people said, of one rater where the row names one."""
    rated = public_set(how["set"]).ratings()
    return rated.where(source=how["gold"]) if "gold" in how else rated


def _turned(values: Any, scores: Scores, dimension: str) -> Any:
    """Turn the sign of a dimension of which less is better."""
    from dialeval.scores.signature import better

    marks = {source: str(mark) for source, mark in scores.signatures.items()}
    return -values if better(marks, scores.sources[0], dimension) == "lower" else values
