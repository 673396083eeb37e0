"""The ways in which a row of a paper is computed from the data at hand.

A source is a metric with its dimension (`floweval/overall`) or `peer:NAME`, published scores of others.
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
from dialeval.scores.signature import better
from dialeval.statistics import Estimate, zscore
from dialeval.studies.units import Column, Level, align, human_columns, mean_over

Figure = tuple[Estimate, str]
_SAMPLE = 300  # dialogues of MultiWOZ whose systems are compared
_RESAMPLES = 2000


class PaperFigures:
    """Computes rows, and keeps the scores it has computed in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._contrasts: dict[str, ContrastResult] = {}
        self._tables: dict[str, Any] = {}

    def compute(self, fields: Mapping[str, Any]) -> Figure:
        """Compute a row by its `way`; its other fields are the way's own."""
        return WAYS[fields["way"]](self, fields)

    def correlation(self, fields: Mapping[str, Any]) -> Figure:
        """Correlate a source with people, or with `other`, on a public set; several sources are averaged."""
        sources = [fields["source"]] if isinstance(fields["source"], str) else list(fields["source"])
        if "recipe" in fields:
            sources = [source.format(model=self._trained(fields)) for source in sources]
        level, other_source = fields.get("level", "dialogue"), fields.get("other")
        all_sources = [*sources, *([other_source] if other_source else [])]
        columns, gold, clusters, signature = self._columns(fields, all_sources, level)
        data = columns[: len(sources)]
        predictor = data[0] if len(data) == 1 else np.mean([zscore(column) for column in data], axis=0)
        target = columns[-1] if other_source else gold
        correlations = statistics.bootstrap_correlations(
            [predictor], target, clusters, methods=[fields["method"]], resamples=_RESAMPLES
        )
        return correlations[fields["method"]][0], signature

    def _columns(
        self, fields: Mapping[str, Any], sources: list[str], level: Level
    ) -> tuple[list[Any], Any, Any, str]:
        chosen = public_set(fields["set"])
        golds = [candidate for candidate in chosen.golds if candidate.level == level]
        dimension = fields.get("dimension") or (golds[0].dimension if golds else chosen.golds[0].dimension)
        asked = [self._scores(fields["set"], source, fields.get("part")) for source in sources]
        units = align(Scores.concat([_ratings(fields), *asked]), level)
        gold = mean_over(units, human_columns(units, dimension))
        columns, marks = [], []
        for source, scores in zip(sources, asked, strict=True):
            own = scores.dimensions[0] if source.startswith("peer:") else source.rpartition("/")[2]
            columns.append(_turned(units.columns[Column(scores.sources[0], own)], scores, own))
            marks.append(str(scores.signatures[scores.sources[0]]))
        complete = ~np.isnan(gold) & ~np.isnan(np.vstack(columns)).any(axis=0)
        return (
            [column[complete] for column in columns],
            gold[complete],
            units.clusters[complete],
            " + ".join(marks),
        )

    def _trained(self, fields: Mapping[str, Any]) -> Path:
        """Return the folder of a model that is trained by a recipe, once."""
        from dialeval.jobs.training import train_to

        recipe, sources, share = fields["recipe"], fields["learned_from"], fields.get("share", 1.0)
        digest = hashlib.sha256(f"{recipe}|{sources}|{share}".encode()).hexdigest()[:12]
        folder = self.folder.parent / "models" / digest
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            train_to(recipe, sources, folder, share=share)
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
        table = Scores.concat(
            scores for _, scores in score_stream(list(dialogues), build_all([spec]), Summary(), None)
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        table.write(path)
        return table

    def rating(self, fields: Mapping[str, Any]) -> Figure:
        """Return the mean rating of a system's dialogues, or turns, in one dimension."""
        rows = public_set(fields["set"]).ratings().where(dimension=fields["dimension"])
        if "source" in fields:
            rows = rows.where(source=fields["source"], level=fields["level"])
        systems = {dialogue.id: dialogue.system for dialogue in public_set(fields["set"]).dialogues()}
        rated = [
            (row.value, row.dialogue_id)
            for row in rows
            if row.value is not None and fields.get("system") in (None, systems.get(row.dialogue_id))
        ]
        if not rated:
            raise DataError(f"nobody rated {fields['dimension']} of {fields.get('system')}")
        values, clusters = zip(*rated, strict=True)
        shares = fields.get("equals")
        numbers = np.array(values, float) if shares is None else np.array(values, float) == shares
        mean = statistics.bootstrap_means(numbers, np.array(clusters), resamples=_RESAMPLES)
        return mean, f"ratings of {fields['set']}"

    def turn_ratings(self, fields: Mapping[str, Any]) -> Figure:
        """Correlate the mean rating of a dialogue's turns with ratings of the dialogue."""
        rated = public_set(fields["set"]).ratings()
        of_turns, of_dialogues = dict[str, list[float]](), dict[str, list[float]]()
        for row in rated:
            if row.value is not None and row.turn is not None and row.source == fields["gold"]:
                of_turns.setdefault(row.dialogue_id, []).append(row.value)
            elif row.value is not None and row.turn is None and row.dimension == fields["dimension"]:
                of_dialogues.setdefault(row.dialogue_id, []).append(row.value)
        both = sorted(of_turns.keys() & of_dialogues.keys())
        pair = [[float(np.mean(ratings[name])) for name in both] for ratings in (of_turns, of_dialogues)]
        correlations = statistics.bootstrap_correlations(
            [pair[0]], pair[1], methods=[fields["method"]], resamples=_RESAMPLES
        )
        return correlations[fields["method"]][0], f"ratings of {fields['set']}"

    def act_share(self, fields: Mapping[str, Any]) -> Figure:
        """Return the share of an act among the labelled segments of a set."""
        acts = [
            segment.act
            for dialogue in public_set(fields["set"]).dialogues()
            for segment in segments_of(dialogue)
            if segment.act is not None
        ]
        if fields["act"] not in ACTS:
            raise UsageError(f"no act {fields['act']!r}")
        return statistics.share(acts.count(fields["act"]), len(acts)), f"acts of {fields['set']}"

    def recorded(self, fields: Mapping[str, Any]) -> Figure:
        """Return the dev figure that a model's artefact records."""
        model = artefact.load(artefact.resolve(fields["model"]))
        training = model.config.get("training", {})
        value = training.get("dev", {}).get("value")
        if value is None:
            raise DataError(f"{fields['model']} records no dev figure")
        return Estimate(
            float(value), int(training.get("rows", {}).get("dev", 0))
        ), f"{fields['model']} {model.sha[:12]}"

    def size(self, fields: Mapping[str, Any]) -> Figure:
        """Count the dialogues of a set, or the turns of a dialogue on average."""
        dialogues = list(public_set(fields["set"]).dialogues(fields.get("part", "all")))
        if fields.get("of", "dialogues") == "dialogues":
            return Estimate(float(len(dialogues)), len(dialogues)), fields["set"]
        replies = [sum(turn.speaker != "user" for turn in dialogue.turns) for dialogue in dialogues]
        return Estimate(float(np.mean(replies)), len(dialogues)), fields["set"]

    def systems(self, fields: Mapping[str, Any]) -> Figure:
        """Return DialogueScore of a system's replies, or their gap to the log's, on a sample of MultiWOZ."""
        spec = fields.get("metric", "dialoguescore:delexicalise=true")
        if "recipe" in fields:
            spec = spec.format(model=self._trained(fields))
        if spec not in self._contrasts:
            logged = sorted(
                portion("multiwoz", "test"),
                key=lambda dialogue: hashlib.sha256(dialogue.id.encode()).digest(),
            )[:_SAMPLE]
            folder = data_folder() / "multiwoz" / "predictions"
            paths = [path for path in sorted(folder.iterdir()) if path.name.partition(".")[0] in _SYSTEMS]
            self._contrasts[spec] = contrast_systems(logged, paths, [spec], resamples=_RESAMPLES)
        contrast = self._contrasts[spec]
        for row in contrast.rows:
            if (row["system"], row["dimension"]) == (fields["system"], fields["dimension"]):
                figure = row[fields.get("figure", "mean")]
                return Estimate(**figure), " + ".join(map(str, contrast.signatures.values()))
        raise DataError(f"no {fields['dimension']} of {fields['system']}")

    def task(self, fields: Mapping[str, Any]) -> Figure:
        """Return Inform, Success, BLEU or Combined of a system on MultiWOZ."""
        from dialeval.jobs.task_figures import task_table

        if "task" not in self._tables:
            self._tables["task"] = task_table("multiwoz")
        table = self._tables["task"]
        row = next((system for system in table.systems if system.system == fields["system"]), None)
        if row is None:
            raise DataError(f"no predictions of {fields['system']}")
        value = getattr(row, fields["figure"])
        estimate = value if isinstance(value, Estimate) else Estimate(value, row.n)
        return estimate, table.signature

    def wizards(self, fields: Mapping[str, Any]) -> Figure:
        """Return a figure of the study with scripted wizards and judges, which is left beside the page."""
        from dialeval.jobs.wizard_study import wizard_study

        if "wizards" not in self._tables:
            self._tables["wizards"] = wizard_study(self.folder.parent / "wizard-study", _RESAMPLES)
        ask = getattr(self._tables["wizards"], fields["figure"])
        return ask(*fields["of"]), "scripted wizards and judges on bundled dialogues"


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


def _ratings(fields: Mapping[str, Any]) -> Scores:
    """Return what people said, of one rater where the row names one."""
    rated = public_set(fields["set"]).ratings()
    return rated.where(source=fields["gold"]) if "gold" in fields else rated


def _turned(values: Any, scores: Scores, dimension: str) -> Any:
    """Turn the sign of a dimension of which less is better."""
    return -values if better(scores.signatures, scores.sources[0], dimension) == "lower" else values
