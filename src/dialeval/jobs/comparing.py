"""Versions of a bot: read, score, pair, compare, choose replies to read; and the gate for releases."""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from dialeval.dialogues import Dialogue, formats
from dialeval.errors import UsageError
from dialeval.jobs.runs import Run, is_run
from dialeval.jobs.scoring import Summary, build_all, score_stream
from dialeval.metrics import DEFAULT_METRICS, metric_names
from dialeval.scores import FAULT_SOURCES, SCHEMA, Scores
from dialeval.studies import Comparison, check, rereading
from dialeval.studies import compare as compare_scores

Watch = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Version:
    """A version: its name, its scores, and its dialogues if there are any."""

    name: str
    scores: Scores
    dialogues: tuple[Dialogue, ...] = ()


def compare(
    *versions: Any,
    names: Sequence[str] = (),
    metrics: str | Sequence[str] = (),
    source: str | None = None,
    dimension: str | None = None,
    level: Literal["turn", "dialogue"] = "dialogue",
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
    watch: Watch | None = None,
) -> Comparison:
    """Compare versions of a bot with the first of them: better, worse or not told apart.

    Args:
        *versions: Dialogues (whatever `dialeval.read` takes: a file, messages, a data frame), run folders, or
            scores (a `Scores` or its file). One alone is cut into its systems.
        names: What to call them; by default by their files.
        metrics: What to score dialogues with; by default `quality`, and the faults of replies that are known.
            One alone needs no list.
        source: Compare only this source.
        dimension: Compare only this dimension.
        level: What an item is.
        alpha: Significance level, Holm-corrected.
        resamples: Draws of bootstraps and tests.
        seed: Of the draws.
        watch: Called with the number of dialogues after each chunk.

    Returns:
        A `Comparison`: `print` it, look at it in a notebook, `save` it, or draw it with
        `dialeval.reports.write_comparison`.
    """
    read = _versions(versions, names, (metrics,) if isinstance(metrics, str) else metrics, watch)
    partners, pairings = _partners(read)
    options: dict[str, Any] = {"source": source, "dimension": dimension, "level": level}
    comparison = compare_scores(
        {version.name: version.scores for version in read},
        **options,
        alpha=alpha,
        partners=partners,
        resamples=resamples,
        seed=seed,
    )
    scored = [
        rereading.ScoredVersion(
            version.name, version.scores, version.dialogues, partners.get(version.name, {})
        )
        for version in read
    ]
    all_read = all(version.dialogues for version in read)
    scale, turns = rereading.turns_to_read(scored) if all_read else (None, ())
    named = tuple(
        replace(version, partners=pairings.get(version.name, "")) for version in comparison.versions
    )
    return replace(comparison, versions=named, turns=turns, scale=scale)


def default_metrics() -> list[str]:
    """Return the metrics that versions are compared by by default."""
    return [*DEFAULT_METRICS, *(name for name in FAULT_SOURCES if name in metric_names())]


def read_scores(path: str | Path) -> Scores:
    """Read a table, or everything a run folder knows: its own scores and the ratings joined to it."""
    return Run(path).scores() if Path(path).is_dir() else Scores.read(path)


def _versions(
    inputs: Sequence[Any], names: Sequence[str], metrics: Sequence[str], watch: Watch | None
) -> list[Version]:
    if names and len(names) != len(inputs):
        raise UsageError(f"{len(inputs)} versions and {len(names)} names")
    specs, read = build_all(tuple(metrics) or default_metrics()), list[Version]()
    for place, item in enumerate(inputs):
        name = (names[place] if names else "") or _name(item, place, inputs)
        scores, dialogues = _open(item)
        if scores is None:
            stream = score_stream(iter(dialogues), specs, Summary(), watch)
            scores = Scores.concat([part for _, part in stream])
        read.append(Version(name, scores, dialogues))
    if len(read) == 1:
        read = list(_by_system(read[0]))
    twice = [name for name, count in Counter(version.name for version in read).items() if count > 1]
    if twice:
        raise UsageError(
            f"two versions are called {twice[0]!r}: name them, as in old={twice[0]} (in Python: names=)"
        )
    if len(read) < 2:
        raise UsageError("nothing to compare: give two files, or one whose dialogues name two systems")
    return read


def _open(item: Any) -> tuple[Scores | None, tuple[Dialogue, ...]]:
    """Open a version: its scores if there are any, and its dialogues."""
    if isinstance(item, Scores):
        return item, ()
    if isinstance(item, str | Path):
        if is_run(item):
            return Run(item).scores(), tuple(Run(item).dialogues())
        if is_table(item):
            return Scores.read(item), ()
    return None, tuple(formats.read(item))


def is_table(path: str | Path) -> bool:
    """Return whether a file is a table of scores in our own columns."""
    if not Path(path).is_file():
        return False
    if Path(path).suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        return set(SCHEMA.names) <= set(pq.read_schema(path).names)
    if Path(path).suffix.lower() not in (".csv", ".jsonl"):
        return False
    with Path(path).open("rb") as file:
        line = file.readline(65_536).decode("utf-8", "replace")
    if Path(path).suffix.lower() == ".csv":
        return {"dialogue_id", "source", "value"} <= set(line.strip().split(","))
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"dialogue_id", "source", "value"} <= record.keys()


def _name(item: Any, place: int, inputs: Sequence[Any]) -> str:
    paths = [Path(entry) for entry in inputs if isinstance(entry, str | Path)]
    if not isinstance(item, str | Path):
        return ("old", "new")[place] if len(inputs) == 2 else f"version {place + 1}"
    alone = sum(path.stem == Path(item).stem for path in paths) == 1
    return Path(item).stem if alone else str(item)


def _by_system(version: Version) -> Iterator[Version]:
    """Cut one input into its systems, in the order in which they come."""
    systems = version.scores.table["system"].drop_null().unique().to_pylist()
    for name in systems if len(systems) > 1 else ():
        own = tuple(dialogue for dialogue in version.dialogues if dialogue.system == name)
        yield Version(name, version.scores.where(system=name), own)


def _partners(versions: Sequence[Version]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Find the partners of dialogues in the first version: by ids, or else by first user turns.

    Returns:
        For each new version the id of the first version's dialogue that one of its own belongs to, and how
        many were found by what.
    """
    first, *rest = versions
    ids, opened = _ids(first), {words: name for name, words in _openings(first.dialogues).items()}
    partners, pairings = dict[str, dict[str, str]](), dict[str, str]()
    for version in rest:
        own = _ids(version)
        shared, enough = len(ids & own), min(len(ids), len(own)) / 2
        matches = {
            name: opened[words] for name, words in _openings(version.dialogues).items() if words in opened
        }
        if shared and shared >= enough:
            pairings[version.name] = f"{shared} by id"
        elif matches and len(matches) >= enough:
            partners[version.name] = matches
            pairings[version.name] = f"{len(matches)} by first user turn"
        else:
            pairings[version.name] = "none: another test, which needs more dialogues"
    return partners, pairings


def _ids(version: Version) -> set[str]:
    return set(version.scores.table["dialogue_id"].unique().to_pylist())


def _openings(dialogues: Iterable[Dialogue]) -> dict[str, str]:
    """Name dialogues by the first user turn; repeated texts get different names."""
    seen, openings = Counter[str](), dict[str, str]()
    for dialogue in dialogues:
        text = next((turn.text for turn in dialogue.turns if turn.speaker == "user"), "")
        words = " ".join(text.casefold().split())
        if words:
            seen[words] += 1
            openings[dialogue.id] = f"{words} ({seen[words]})"
    return openings


# --- the gate for releases: `dialeval check`, and the same as an assertion for pytest -----------------------


def check_runs(new: str | Path, against: str | Path, **options: Any) -> Comparison:
    """Compare two run folders or tables of scores; options are those of `dialeval.studies.compare`."""
    return check(read_scores(new), read_scores(against), **options)


def assert_no_drop(
    new: str | Path, against: str | Path, *, fail_on_unscored: bool = False, **options: Any
) -> Comparison:
    """Fail a test if the new run is significantly worse than the old one.

    A significant rise of the share of unscored rows is a `UserWarning`, or a failure on request.

        def test_the_bot_did_not_get_worse():
            dialeval.assert_no_drop("runs/new", against="runs/released", source="repetition")

    Args:
        new: A run folder or a table of scores.
        against: The run to compare with.
        fail_on_unscored: Whether a significant rise of the share of unscored rows fails as well.
        **options: `source`, `dimension`, `level` (turn or dialogue), `alpha`, `resamples`, `seed`.

    Raises:
        AssertionError: Naming each source that dropped, by how much, and the p-value.
    """
    verdict = check_runs(new, against, **options)
    if not passes(verdict, fail_on_unscored=fail_on_unscored):
        raise AssertionError("\n".join(describe(verdict)))
    for line in describe_unscored(verdict):
        warnings.warn(line, stacklevel=2)
    return verdict


def passes(verdict: Comparison, *, fail_on_unscored: bool = False) -> bool:
    """Return whether nothing dropped and, on request, no share of unscored rows rose significantly."""
    return verdict.passed and not (fail_on_unscored and verdict.more_unscored)


def describe(verdict: Comparison) -> list[str]:
    """Return a line for each column, and one for each significant rise of unscored rows.

    The p-values are Holm-corrected over the columns.
    """
    return [
        f"{'DROP' if column.verdict == 'worse' else 'ok':4} {column.label}: {_figure(column.old.value)} → "
        f"{_figure(column.new.value)}, difference {_figure(column.difference.value)}, "
        f"p={_figure(column.p_holm)} ({column.pairing}, n={column.counts}, {verdict.level} level)"
        for column in verdict.columns
    ] + describe_unscored(verdict)


def describe_unscored(verdict: Comparison) -> list[str]:
    """Return a line for each column whose share of unscored rows rose significantly."""
    return [
        f"WARN {column.label}: unscored rows {column.old.value:.1%} → {column.new.value:.1%}, "
        f"p={_figure(column.p_holm)} ({column.pairing}, n={column.counts} rows)"
        for column in verdict.unscored
        if column.verdict == "worse"
    ]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
