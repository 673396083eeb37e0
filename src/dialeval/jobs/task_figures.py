"""The figures of task-oriented systems over a whole test set: Inform, Success, BLEU and Combined.

Inform and Success are means of rows that `dialeval score` writes; BLEU is a figure of the whole corpus and
Combined = (Inform + Success) / 2 + BLEU, so that both are computed here. All are over the dialogues that a
file holds, as published figures are, with the number of missing ones beside. The gold ceiling is what the
log's own replies reach with gold states: by these rules, even people do not reach 100.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialeval import __version__
from dialeval.dialogues import Dialogue, Turn, formats
from dialeval.dialogues.datasets.task_oriented import FIGURES, canonical_id, published_figures, system_files
from dialeval.dialogues.tasks import Task
from dialeval.dialogues.tasks.task import TaskReader
from dialeval.errors import UsageError
from dialeval.metrics import Rows, build, signature_of
from dialeval.metrics.multiwoz import INFORM, SUCCESS, MultiWoz
from dialeval.metrics.task_success import DialogueOutcome
from dialeval.statistics import Estimate, share

GOLD = "(gold)"
_ROUNDING = 0.15  # of figures with one decimal, added up


@dataclass(frozen=True)
class SystemFigures:
    """One system: its figures from 0 to 100, those of each domain, and what is odd about its file.

    `n` dialogues were judged, `n_unscored` were not, `n_missing` should have been there; `n_bleu` replies
    were compared with a reference. `published` holds other people's figures, where there are any.
    """

    system: str
    n: int
    n_unscored: int
    n_missing: int
    n_bleu: int
    inform: Estimate
    success: Estimate
    bleu: float | None
    combined: float | None
    domains: dict[str, dict[str, Any]]
    published: dict[str, Any]
    remarks: list[str]

    @property
    def published_sum(self) -> float | None:
        """Combined as it follows from the other published figures, where another one was published."""
        if not all(key in self.published for key in FIGURES):
            return None
        inform, success, bleu, combined = (float(self.published[key]) for key in FIGURES)
        total = (inform + success) / 2 + bleu
        return total if abs(total - combined) > _ROUNDING else None


@dataclass(frozen=True)
class TaskTable:
    """The figures of all systems, and how they were made."""

    systems: list[SystemFigures]
    signature: str
    bleu: str
    references: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries and lists, for JSON."""
        return {"version": "task-figures.v1", "dialeval": __version__, **dataclasses.asdict(self)}


def task_table(
    spec: str = "multiwoz", predictions: Sequence[str | Path] = (), watch: Callable[[int], None] | None = None
) -> TaskTable:
    """Compute the figures of files of predictions, beside the gold ceiling and published figures.

    Args:
        spec: The metric `multiwoz` in command-line notation, with its fields.
        predictions: Files to judge, `[name=]path`. For MultiWOZ they come above the ten systems at hand.
    """
    metric = build(spec)
    if not isinstance(metric, MultiWoz):
        raise UsageError(f"only multiwoz has figures of this kind, not {spec}")
    files = dict(_named(str(prediction)) for prediction in predictions)
    published: dict[str, dict[str, Any]] = {}
    if metric.schema == "multiwoz":
        published, at_hand = published_figures(), system_files()
        if both := sorted(files.keys() & at_hand.keys()):
            raise UsageError(f"there is a system called {both[0]!r} already: --predictions other=FILE")
        files |= {name: str(path) for name, path in at_hand.items()}
    task = metric.task()
    reader = TaskReader(task)
    rows = []
    if task.references is not None and task.states is not None:
        gold = dataclasses.replace(metric, states="gold", domains="states")
        rows.append(_figures(GOLD, gold, _gold_dialogues(task), reader, {}))
    for name, path in files.items():
        dialogues = list(formats.read(path))
        rows.append(_figures(name, metric, dialogues, reader, published.get(name, {})))
        if watch:
            watch(len(dialogues))
    first = [row for row in rows if row.system == GOLD]
    rest = sorted((row for row in rows if row.system != GOLD), key=_rank)
    references = task.schema.files.references
    return TaskTable([*first, *rest], str(signature_of(metric)), _bleu()[1], references)


def _named(text: str) -> tuple[str, str]:
    """Split `[name=]path`; a file without a name is called as its file.

    >>> _named("mine=out/run3.json"), _named("out/run3.json")
    (('mine', 'out/run3.json'), ('run3', 'out/run3.json'))
    """
    name, sign, path = text.partition("=")
    return (name, path) if sign else (Path(text).name.partition(".")[0], text)


def _rank(row: SystemFigures) -> tuple[bool, float]:
    figure = row.combined if row.combined is not None else row.success.value
    return figure is None, -(figure or 0.0)


def _gold_dialogues(task: Task) -> list[Dialogue]:
    """Make predictions of the log's own replies."""
    return [
        Dialogue(name, tuple(Turn("assistant", text) for text in (task.references or {})[name]))
        for name in sorted(task.expected & (task.references or {}).keys())
    ]


def _figures(
    name: str, metric: MultiWoz, dialogues: Sequence[Dialogue], reader: TaskReader, published: dict[str, Any]
) -> SystemFigures:
    judged = list(metric.judged(dialogues))
    scored = [outcome for outcome in judged if outcome.verdicts]
    inform, success = (
        share(sum(getattr(outcome, key) for outcome in scored), len(scored)).scaled(100)
        for key in (INFORM, SUCCESS)
    )
    bleu, n_bleu = _corpus_bleu(metric, dialogues, reader)
    parts = (inform.value, success.value, bleu)
    combined = None if None in parts else (parts[0] + parts[1]) / 2 + parts[2]  # type: ignore[operator]
    seen = {canonical_id(dialogue.id) for dialogue in dialogues}
    missing = len(reader.task.expected - seen)
    remarks = _remarks(metric, judged)
    counts = (len(scored), len(judged) - len(scored), missing, n_bleu)
    return SystemFigures(
        name, *counts, inform, success, bleu, combined, _by_domain(scored), published, remarks
    )


def _by_domain(scored: Iterable[DialogueOutcome]) -> dict[str, dict[str, Any]]:
    """Return Inform and Success of each domain over the dialogues whose goal has it."""
    verdicts = defaultdict(list)
    for outcome in scored:
        for domain, verdict in outcome.verdicts.items():
            verdicts[domain].append(verdict)
    return {
        domain: {
            "n": len(group),
            INFORM: 100 * sum(verdict.informed for verdict in group) / len(group),
            SUCCESS: 100 * sum(verdict.success for verdict in group) / len(group),
        }
        for domain, group in sorted(verdicts.items())
    }


def _remarks(metric: MultiWoz, judged: Iterable[DialogueOutcome]) -> list[str]:
    """Return notes on what is odd about a file, as `dialeval score` prints them."""
    tally, rows = metric.tally(), Rows(metric)
    judged = list(judged)
    for outcome in judged:
        rows.add(
            outcome.dialogue, None, INFORM, float(outcome.inform) if outcome.verdicts else None, outcome.note
        )
    tally.add([outcome.dialogue for outcome in judged], rows.scores())
    return tally.remarks()


def _bleu() -> tuple[Any, str]:
    """Return sacrebleu at its defaults (13a), and its signature for one reference."""
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(force=True)  # both sides are tokenised alike: no need to be told
    bleu.corpus_score(["a"], [["a"]])
    return bleu, str(bleu.get_signature())


def _corpus_bleu(
    metric: MultiWoz, dialogues: Sequence[Dialogue], reader: TaskReader
) -> tuple[float | None, int]:
    """Compare all replies that have a reference with it, both written in one way."""
    references = reader.task.references or {}
    hypotheses, targets = [], []
    for dialogue in dialogues:
        replies = [turn.text for turn in dialogue.turns if turn.speaker == (metric.speaker or "assistant")]
        for reply, reference in zip(replies, references.get(canonical_id(dialogue.id), ()), strict=False):
            hypotheses.append(reader.text(reply))
            targets.append(reader.text(reference))
    if not hypotheses:
        return None, 0
    return float(_bleu()[0].corpus_score(hypotheses, [targets]).score), len(hypotheses)
