"""Trust from end to end: a run and its labels, traits of its dialogues, changed copies, repeated runs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from dialeval.dialogues import Dialogue, Turn, scored_turns
from dialeval.errors import UsageError
from dialeval.jobs.runs import Run, load_scores, study_input
from dialeval.metrics import score
from dialeval.scores import Scores, is_human
from dialeval.statistics.repeats import PassRate, pass_rates
from dialeval.studies.biases import Traits, changes, drift, repeated
from dialeval.studies.trust import predict_ratings, trust
from dialeval.studies.trust_findings import Trust
from dialeval.studies.units import Key, align, with_systems

MOST_STRESSED = 200
_FILLER = "I hope this helps. If there is anything else that I can do for you, please just let me know."


def trust_run(
    paths: Sequence[Path],
    maps: Iterable[str] = (),
    *,
    kind: str | None = None,
    against: Path | None = None,
    repeats: Sequence[str] = (),
    stress: Sequence[str] = (),
    most: int = MOST_STRESSED,
    intervals: Path | None = None,
    watch: Callable[[int], None] | None = None,
    **options: Any,
) -> tuple[Trust, Run | None]:
    """Estimate how far the scores of a run can be trusted, and keep the findings in its folder.

    Args:
        paths: Run folders and tables of scores or ratings.
        kind: A field of the dialogues' meta that names their kind.
        against: An older run or table of the same dialogues: drift.
        repeats: Sources that are runs of one judge.
        stress: Metrics to score changed copies with.
        most: Dialogues that are changed, at most.
        intervals: Where to write a predicted rating with its interval for every unlabelled unit.
        **options: Those of `dialeval.studies.trust.trust`.
    """
    inputs = study_input(paths, maps)
    run, scores = inputs.run, inputs.scores
    is_rated = any(is_human(name) for name in scores.sources) or options.get("gold", "human") != "human"
    if is_rated or not (against or repeats or stress):
        findings = trust(scores, traits=traits_of(run, kind) if run else None, **options)
        if intervals is not None:
            chosen = {name: value for name, value in options.items() if name != "epsilon"}
            predict_ratings(scores, **chosen).write(intervals)
    else:
        findings = Trust(notes=("no labels: only the stability of the scores was tested",))
    confidence = options.get("confidence", 0.95)
    all_changes = list(findings.changes)
    if against is not None:
        all_changes += drift(scores, load_scores([against]), confidence)
    if repeats:
        all_changes += repeated(scores, list(repeats), confidence)
    if stress:
        if run is None:
            raise UsageError("--stress changes dialogues: give a run folder that has them")
        all_changes += stressed(islice(run.dialogues(), most), stress, confidence, watch)
    findings = replace(findings, changes=tuple(all_changes))
    if run is not None:
        run.add_trust(findings)
    return findings, run


def traits_of(run: Run, kind: str | None = None) -> Traits:
    """Return traits that may bias a score: words, messages, place in the file, a kind."""
    traits: dict[str, dict[Key, float | str]] = {"words": {}, "messages": {}, "place in the file": {}}
    if kind:
        traits[kind] = {}
    for place, dialogue in enumerate(run.dialogues()):
        key = Key(dialogue.id, dialogue.system)
        traits["words"][key] = float(sum(len(turn.text.split()) for turn in dialogue.turns))
        traits["messages"][key] = float(len(dialogue.turns))
        traits["place in the file"][key] = float(place)
        for turn in scored_turns(dialogue):
            key = Key(dialogue.id, dialogue.system, turn)
            traits["words"][key] = float(len(dialogue.turns[turn].text.split()))
        if kind and kind in dialogue.meta:
            keys = (Key(dialogue.id, dialogue.system, turn) for turn in (None, *scored_turns(dialogue)))
            traits[kind] |= dict.fromkeys(keys, str(dialogue.meta[kind]))
    if kind and not traits[kind]:
        raise UsageError(f"no dialogue has a field {kind!r} in its meta")
    return {name: values for name, values in traits.items() if values}


# --- stress -------------------------------------------------------------------------------------------------


def _markdown(text: str) -> str:
    """Put the first words in bold, and each sentence after the first into a list."""
    first, *rest = text.replace("? ", "?\n").replace("! ", "!\n").replace(". ", ".\n").split("\n")
    words = first.split(" ")
    head = " ".join([f"**{' '.join(words[:3])}**", *words[3:]])
    return "\n".join([head, *(f"- {line}" for line in rest if line.strip())])


CHANGES: dict[str, Callable[[str], str]] = {
    "scored again": lambda text: text,
    "blanks": lambda text: "  " + text.replace(". ", ".  ") + " \n",
    "Markdown": _markdown,
    "a polite filler": lambda text: f"{text} {_FILLER}",
}
"""Changes of every reply that keep its content."""


def stressed(
    dialogues: Iterable[Dialogue],
    metrics: Sequence[str],
    confidence: float = 0.95,
    watch: Callable[[int], None] | None = None,
) -> Iterator[Any]:
    """Score dialogues, and copies that differ in form only; also in the opposite order of dialogues."""
    chats = list(dialogues)
    before = _scored(chats, metrics, watch)
    yield from changes(before, _scored(chats[::-1], metrics, watch), "opposite order", confidence)
    for name, change in CHANGES.items():
        copies = [_copied(chat, change) for chat in chats]
        yield from changes(before, _scored(copies, metrics, watch), name, confidence)


def _scored(chats: Sequence[Dialogue], metrics: Sequence[str], watch: Callable[[int], None] | None) -> Scores:
    scores = score(chats, list(metrics))
    if watch is not None:
        watch(len(chats))
    return scores


def _copied(chat: Dialogue, change: Callable[[str], str]) -> Dialogue:
    replies = set(scored_turns(chat))

    def changed(number: int, turn: Turn) -> Turn:
        return replace(turn, text=change(turn.text)) if number in replies and turn.text else turn

    return replace(chat, turns=tuple(changed(number, turn) for number, turn in enumerate(chat.turns)))


# --- repeated runs of tasks ---------------------------------------------------------------------------------


def repeated_runs(
    paths: Sequence[Path],
    maps: Iterable[str],
    ks: Sequence[int],
    *,
    source: str | None = None,
    dimension: str | None = None,
    passes: float | None = None,
    task: str | None = None,
    confidence: float = 0.95,
) -> dict[str, list[PassRate]]:
    """Estimate pass@k and pass^k of every system.

    Args:
        ks: Numbers of runs.
        source: Whose scores.
        dimension: Which of them.
        passes: A score from here on is a success.
        task: Meta field that names the task; by default the dialogue's id before its last `#`.
        confidence: Of the intervals, which are over tasks.
    """
    if not ks:
        raise UsageError("-k takes numbers of runs: -k 1,2,4")
    inputs = study_input(paths, maps)
    units = align(with_systems(inputs.scores), "dialogue")
    named = units.labels()
    columns = [
        column
        for column in named
        if (source in (column.source, named[column]) if source else not is_human(column.source))
        and dimension in (None, column.dimension)
    ]
    if len(columns) != 1:
        available = ", ".join(f"{c.source}/{c.dimension}" for c in named)
        raise UsageError(f"--source and --dimension must name one column; there are: {available}")
    values = units.columns[columns[0]]
    if passes is not None:
        values = np.where(np.isnan(values), np.nan, values >= passes)
    tasks = _tasks(inputs.run, task)
    ids = [key.dialogue_id for key in units.keys]
    names = np.array(
        [tasks.get(dialogue_id) or dialogue_id.rpartition("#")[0] or dialogue_id for dialogue_id in ids]
    )
    parts = units.by_system() or {"all": np.arange(len(units))}
    return {name: pass_rates(values[own], names[own], ks, confidence) for name, own in parts.items()}


def _tasks(run: Run | None, field: str | None) -> dict[str, str]:
    if field is None:
        return {}
    if run is None:
        raise UsageError("--task names a meta field of dialogues: give a run folder")
    tasks = {dialogue.id: str(dialogue.meta[field]) for dialogue in run.dialogues() if field in dialogue.meta}
    if not tasks:
        raise UsageError(f"no dialogue has a field {field!r} in its meta")
    return tasks
